"""Pieces: what can be put back by itself of what was taken, and in which order that is tried.

A piece is a member, a copy (of a role, or a child of a group of groups), or all of another unit.
The piece of a copy is what is left of it without the members, and the copies within it, that were
taken besides; they are pieces, too. So a copy can be put back before they are, and they cannot be
put back unless it was.

Rules:
  R1  copies come before what is within them, and a copy before those of higher numbers. Members
      come last, the first to arrive first;
  R2  units keep their order, except that those of one tree with copies come together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final, TypeAlias, final

from attrs import frozen

from gangsched.core.preemption.victim_plan import Taken
from gangsched.core.records.gang import GangRecord
from gangsched.core.records.trial import Lifted

__all__ = ["CopyKey", "Piece", "rounds"]

CopyKey: TypeAlias = tuple[GangRecord | None, str]
"""A copy: its gang, and its key in the tree there."""
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
    around: tuple[CopyKey, ...] = ()

    @property
    def depth(self) -> float:
        """Within how many copies it is; without end if nothing is within it."""
        return _NOTHING_WITHIN if self.copy is None else len(self.around)


def rounds(units: Iterable[Taken]) -> Iterator[list[Piece]]:
    """Yield the pieces of units; those of one list are not within each other. O(pods)."""
    together: dict[object, list[Taken]] = {}
    for taken in units:
        unit, tree = taken[0], taken[0].elastic
        key = (unit.gang, tree.key) if tree is not None and tree.has_parts else unit
        together.setdefault(key, []).append(taken)
    pieces: list[Piece] = []
    for some in together.values():
        found = [piece for taken in some for piece in _pieces(taken)]
        pieces += sorted(found, key=lambda piece: piece.depth)
    for _depth, alike in groupby(pieces, key=lambda piece: piece.depth):
        yield list(alike)


def _pieces(taken: Taken) -> Iterator[Piece]:
    unit, some, _evicted = taken
    if unit.elastic is None:
        yield Piece(taken)
    left = set(some)
    for extra in reversed(unit.extras):
        members = [record for record in extra.members if record in left]
        if members:
            copy = None if extra.copy is None else (unit.gang, extra.copy)
            around = tuple([(unit.gang, key) for key in extra.around])
            yield Piece((unit, list[Lifted](members), members), copy, around)
