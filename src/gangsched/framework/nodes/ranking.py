"""Ranking: classes of nodes in order of a rank, and classes of equal rank by their first node.

Where no two nodes are alike there are as many classes as nodes, and a decision uses a few of those
with the best rank. So classes are put into one *level* for each rank. A level is sorted when it is
first read, and the others need not be. To add a class to a level that was never read is O(1).

Invariants (``_check`` checks I1 and I3):
  I1  ``_ranks`` has the rank of each level, ascending, and no level is empty;
  I2  each class is in at most one level;
  I3  a level that was read has its entries in order of their first node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, TypeAlias, final

from gangsched.errors import InternalError
from gangsched.framework.nodes import in_order
from gangsched.framework.nodes.node_class import NodeClass

__all__ = ["Ranking"]

_Entry: TypeAlias = tuple[int, int, NodeClass]
# the index of the first node, the number of the class, the class


@final
class Ranking:
    """Classes of nodes by rank, then by their first node.

    Args:
        ranked: The rank of each class, its first node, and the class.
    """

    __slots__ = ("_levels", "_ranks", "_unread")

    def __init__(self, ranked: Iterable[tuple[Any, int, NodeClass]]) -> None:
        self._unread: dict[Any, dict[NodeClass, int]] = {}
        self._levels: dict[Any, in_order.Items] = {}
        unread = self._unread
        for rank, first, given in ranked:
            level = unread.get(rank)
            if level is None:
                level = unread[rank] = {}
            level[given] = first
        self._ranks: in_order.Items = in_order.made(unread)

    def __iter__(self) -> Iterator[tuple[Any, NodeClass]]:
        """Iterate over the classes, the smallest rank first: (rank, class)."""
        return self.since(0)

    def first(self) -> NodeClass | None:
        """Return the class with the smallest rank and the first node; None if there is none."""
        if not self._ranks:
            return None
        rank = self._ranks[0]
        level = self._levels.get(rank)
        if level is None:
            level = self._read(rank)
        entry: _Entry = level[0]
        return entry[2]

    def position(self, rank: Any) -> int:
        """Return how many levels have a smaller rank. O(log levels)."""
        return in_order.first_at_least(self._ranks, rank)

    def since(self, position: int) -> Iterator[tuple[Any, NodeClass]]:
        """Iterate over the classes of this level and of all that follow: (rank, class)."""
        return chain.from_iterable(
            self._of(rank) for rank in in_order.between(self._ranks, position)
        )

    def before(self, position: int) -> Iterator[tuple[Any, NodeClass]]:
        """Iterate over the levels before this one, from the last to the first: (rank, class)."""
        return chain.from_iterable(
            self._of(self._ranks[place]) for place in range(position - 1, -1, -1)
        )

    def _of(self, rank: Any) -> Iterator[tuple[Any, NodeClass]]:
        """Iterate over a level. O(log nodes) for each class, and O(n log n) the first time."""
        level = self._levels.get(rank)
        if level is None:
            level = self._read(rank)
        return ((rank, given) for _first, _number, given in level)

    def _read(self, rank: Any) -> in_order.Items:
        """Sort a level that was never read. O(n log n)."""
        unread = self._unread.pop(rank).items()
        entries: list[_Entry] = [(first, given.number, given) for given, first in unread]
        level = self._levels[rank] = in_order.made(entries)
        return level

    def move(self, rank: Any, before: int, first: int, given: NodeClass) -> None:
        """Note that a class has another first node; see ``add``.

        Args:
            rank: Its rank.
            before: Its first node until now; negative if it was not there.
            first: Its first node from now on; negative if it leaves.
            given: The class.
        """
        if before >= 0:
            level = self._levels.get(rank)
            if first >= 0 and type(level) is list and len(level) == 1:
                level[0] = (first, given.number, given)  # the order of one class cannot change
                return
            self.discard(rank, before, given)
        if first >= 0:
            self.add(rank, first, given)

    def add(self, rank: Any, first: int, given: NodeClass) -> None:
        """Add a class. O(log classes); O(1) if classes of its rank were never read."""
        unread = self._unread.get(rank)
        if unread is not None:
            unread[given] = first
            return
        level = self._levels.get(rank)
        if level is None:
            self._unread[rank] = {given: first}
            self._ranks = in_order.add(self._ranks, rank)
            return
        self._levels[rank] = in_order.add(level, (first, given.number, given))

    def discard(self, rank: Any, first: int, given: NodeClass) -> None:
        """Take a class out that is there with this rank and this first node; see ``add``."""
        unread = self._unread.get(rank)
        if unread is not None:
            del unread[given]
            if unread:
                return
            del self._unread[rank]
        else:
            level = self._levels[rank]
            in_order.remove(level, (first, given.number, given))
            if level:
                return
            del self._levels[rank]
        in_order.remove(self._ranks, rank)

    def _check(self) -> None:
        if list(self._ranks) != sorted([*self._unread, *self._levels]):
            raise InternalError(f"the ranks {list(self._ranks)} are not those of the levels")
        if not all([*self._unread.values(), *self._levels.values()]):
            raise InternalError("a level of nodes is empty")
        for rank, level in self._levels.items():
            if [entry[:2] for entry in level] != sorted(entry[:2] for entry in level):
                raise InternalError(f"the nodes of rank {rank} are not in order")
