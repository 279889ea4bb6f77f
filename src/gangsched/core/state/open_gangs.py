"""Gangs that may get the reservation, in the order in which they are considered.

Rules:
  R1  the order is that of priority, then of how often nodes were drained for a gang until the time
      limit, then of age; of one age, regular pods go first, as in the queue;
  R2  a gang that has changed takes its new place at the next walk, at the cost of one insertion;
  R3  a gang that has no members any more comes first: it is to be removed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final, final

from sortedcontainers import SortedList

from gangsched.core.records.gang import GangRecord

__all__ = ["OpenGangs"]

_Rank = tuple[int, int, float, bool, int]


@final
class OpenGangs:
    """A set of gangs that is walked through in order.

    Args:
        drain_timeouts: How often nodes were drained for a gang until the time limit.
    """

    __slots__ = ("_drain_timeouts", "_moved", "_order", "_ranked", "_ranks")

    def __init__(self, drain_timeouts: Mapping[GangRecord, int]) -> None:
        self._drain_timeouts: Final = drain_timeouts
        self._ranks: Final[dict[GangRecord, _Rank | None]] = {}
        self._ranked: Final[dict[_Rank, GangRecord]] = {}
        self._order: Final[Any] = SortedList()  # ranks
        self._moved: Final[dict[GangRecord, None]] = {}

    def __contains__(self, gang: GangRecord) -> bool:
        return gang in self._ranks

    def __len__(self) -> int:
        return len(self._ranks)

    def add(self, gang: GangRecord) -> None:
        """Add a gang that may be there already. O(1)."""
        if gang not in self._ranks:
            self._ranks[gang] = None
            self._moved[gang] = None

    def discard(self, gang: GangRecord) -> None:
        """Remove a gang that may not be there. O(log gangs)."""
        rank = self._ranks.pop(gang, None)
        self._moved.pop(gang, None)
        if rank is not None:
            del self._ranked[rank]
            self._order.remove(rank)

    def note_change(self, gang: GangRecord) -> None:
        """Note that the place of a gang may be another one now. O(1)."""
        if gang in self._ranks:
            self._moved[gang] = None

    def in_order(self) -> Iterator[GangRecord]:
        """Iterate in order; gangs may be removed meanwhile. O(log gangs) for each."""
        for gang in self._moved:
            before, rank = self._ranks[gang], self._rank(gang)
            if before != rank:
                if before is not None:
                    del self._ranked[before]
                    self._order.remove(before)
                self._ranks[gang] = rank
                self._ranked[rank] = gang
                self._order.add(rank)
        self._moved.clear()
        place = 0
        while place < len(self._order):
            next_: _Rank = self._order[place]
            yield self._ranked[next_]
            place = self._order.bisect_right(next_)

    def _rank(self, gang: GangRecord) -> _Rank:
        if not gang.members:
            return (-sys.maxsize, 0, 0.0, False, gang.seq)
        drains = self._drain_timeouts.get(gang, 0)
        return (-gang.priority, drains, gang.created_at, bool(gang.infos), gang.seq)

    def _check(self) -> None:
        """Raise AssertionError if the order is not that of the gangs."""
        ranked = {rank: gang for gang, rank in self._ranks.items() if rank is not None}
        assert self._ranked == ranked
        assert [*self._order] == sorted(ranked)
        for gang, rank in self._ranks.items():
            assert gang in self._moved or rank == self._rank(gang), gang.key
