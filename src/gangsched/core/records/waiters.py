"""Who waits for a quota: those that ask their accounts for the same are in one line.

If the first of a line does not fit, none of it does. So when something is given back, a line is
asked about once, and not each owner in it.

Invariant (``check``): an owner is in exactly one line, with the sort key that its gang had.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator
from typing import Any, TypeAlias, final

from sortedcontainers import SortedList

from gangsched.core.records.gang import GangRecord
from gangsched.errors import InternalError

__all__ = ["Line", "Waiter", "Waiters"]


Waiter: TypeAlias = tuple[tuple[Any, ...], str, GangRecord]
"""The sort key of an owner that waits, the owner, and its gang."""
Line: TypeAlias = tuple[Hashable, str, Iterator[Waiter]]
"""What its owners ask for, the account of their gangs, and who they are, the first one first."""


@final
class Waiters:
    """The lines."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, Any] = {}
        self._place: dict[str, tuple[Hashable, Waiter]] = {}

    def put(self, owner: str, gang: GangRecord, alike: Hashable) -> None:
        """Put an owner in the line of those that ask for the same. O(log owners)."""
        waiter: Waiter = ((*gang.sort_key, owner), owner, gang)
        if self._place.get(owner) == (alike, waiter):
            return
        self.discard(owner)
        line: Any = self._lines.get(alike)
        if line is None:
            line = self._lines[alike] = SortedList()
        line.add(waiter)
        self._place[owner] = alike, waiter

    def discard(self, owner: str) -> None:
        """Take an owner out of its line, if it is in one. O(log owners)."""
        place = self._place.pop(owner, None)
        if place is not None:
            line = self._lines[place[0]]
            line.remove(place[1])
            if not line:
                del self._lines[place[0]]

    def alike(self, owner: str) -> Hashable:
        """Return what an owner asks for; the owner itself if it is in no line. O(1)."""
        place = self._place.get(owner)
        return owner if place is None else place[0]

    def lines(self, is_left_out: Callable[[Hashable], bool] = lambda _alike: False) -> list[Line]:
        """Return the lines but some; no owner may come or go while they are read. O(lines)."""
        return [
            (alike, line[0][2].account, iter(line))
            for alike, line in self._lines.items()
            if not is_left_out(alike)
        ]

    def check(self, owners: Collection[str]) -> None:
        """Check the invariant. O(owners)."""
        if self._place.keys() != set(owners):
            raise InternalError(f"{set(owners) ^ self._place.keys()} are in no line, or wait not")
        if sum(map(len, self._lines.values())) != len(self._place):
            raise InternalError("an owner is in two lines")
