"""Pieces: what can be put back by itself of what was taken, and in which order that is tried.

A piece is a member, a copy of a role, or all of another unit. The piece of a copy is what is left
of it without the members, and the copies within it, that were taken besides; they are pieces, too.
So a copy can be put back before they are, and they cannot be put back unless it was.

Rules:
  R1  copies come before what is within them, and a copy before those of higher numbers. Members
      come last, the first to arrive first;
  R2  units keep their order, except that those of one group with copies come together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final, TypeAlias, final

from attrs import field, frozen

from gangsched.core.preemption.eviction_units import EvictionUnit
from gangsched.core.preemption.victim_plan import Taken
from gangsched.core.records.gang import PodRecord
from gangsched.core.records.trial import Lifted
from gangsched.model import GroupKey

__all__ = ["CopyKey", "Piece", "rounds"]

CopyKey: TypeAlias = tuple[GroupKey, str]
"""A copy of a role: the key of its group, and its path there."""
_NOTHING_WITHIN: Final = math.inf


@final
@frozen(eq=False)
class Piece:
    """What can be put back by itself.

    Attributes:
        taken: What was taken for it.
        copy: The copy that it is; None for another piece.
        around: The copies that it is within, the outermost first.
    """

    taken: Taken
    copy: CopyKey | None = None
    around: tuple[CopyKey, ...] = field(default=())

    @property
    def depth(self) -> float:
        """Within how many copies it is; without end if nothing is within it."""
        return _NOTHING_WITHIN if self.copy is None else len(self.around)


def rounds(units: Iterable[Taken]) -> Iterator[list[Piece]]:
    """Yield the pieces of units; those of one list are not within each other. O(pods)."""
    together: dict[object, list[Piece]] = {}
    for taken in units:
        unit = taken[0]
        group = unit.elastic if unit.elastic is not None and unit.elastic.has_copies else unit
        together.setdefault(group, []).extend(_pieces(taken))
    pieces: list[Piece] = []
    for some in together.values():
        pieces += sorted(some, key=lambda piece: piece.depth)
    for _depth, alike in groupby(pieces, key=lambda piece: piece.depth):
        yield list(alike)


def _pieces(taken: Taken) -> list[Piece]:
    unit, some, _evicted = taken
    if unit.elastic is None:
        return [Piece(taken)]
    left = dict.fromkeys([record for record in some if isinstance(record, PodRecord)])
    found: list[Piece] = []
    for copy in reversed(unit.copies):
        members = [record for record in copy.members if record in left]
        for record in members:
            del left[record]
        if members:
            key = (unit.elastic.key, copy.key)
            found.append(Piece(_part(unit, members), key, _around(unit, copy.key)))
    single = [Piece(_part(unit, [r]), around=_around(unit, r.role)) for r in reversed(left)]
    return found + single


def _part(unit: EvictionUnit, members: list[PodRecord]) -> Taken:
    return unit, list[Lifted](members), members


def _around(unit: EvictionUnit, path: str | None) -> tuple[CopyKey, ...]:
    """Return the copies that a path within a group leads through: ``decode/0/worker``."""
    assert unit.elastic is not None
    names = (path or "").split("/")[:-1] if unit.elastic.has_copies else []
    return tuple([(unit.elastic.key, "/".join(names[:end])) for end in range(2, len(names) + 1, 2)])
