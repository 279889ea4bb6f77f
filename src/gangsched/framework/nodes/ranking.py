"""Ranking: classes of nodes in order of a rank, and classes of equal rank by their first node.

Where no two nodes are alike there are as many classes as nodes, and a decision uses a few of those
with the best rank. So classes are put into one *level* for each rank. A level is sorted when it is
first read, and the others need not be. To add a class to a level that was never read is O(1).

Most classes that leave a level are among the first, because their nodes have taken pods. So an
entry of a level stays where it is when its class leaves, and is passed over. Entries are dropped
when most of them are such. The rankings of one owner share the dict that tells entries apart.

A gang of unlike members makes a ranking of all nodes for each kind of member, and reads a few
classes of each. So an entry is no object: a level has two lists. Nodes are mostly ranked in order
of arrival, and then there is nothing to sort.

Invariants (``_check`` checks them):
  I1  ``_ranks`` has the rank of each level, ascending, and no level is empty;
  I2  each class of ``firsts`` has one entry with its first node, which is in one level; ``count``
      is the number of these in a level. A class keeps its rank for as long as a ranking;
  I3  the first nodes in a level that is sorted are ascending, each of them once;
  I4  a level that was read is sorted, and no class is before ``start``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, final

from gangsched.errors import InternalError
from gangsched.framework.nodes import in_order
from gangsched.framework.nodes.node_class import NodeClass

__all__ = ["Level", "Ranking"]

_SPARE: Final = 64


@final
class Level:
    """The classes of one rank.

    Attributes:
        at: The first node of each entry.
        line: The class of each entry; it has left if its first node is another one now.
        is_sorted: Whether the entries are in order.
        is_read: Whether there was a reader.
        start: The number of entries that are passed over.
        count: The number of classes.
    """

    __slots__ = ("at", "count", "is_read", "is_sorted", "line", "start")

    def __init__(self) -> None:
        self.at: list[int] = []
        self.line: list[NodeClass] = []
        self.is_sorted: bool = True
        self.is_read: bool = False
        self.start: int = 0
        self.count: int = 0

    def add(self, first: int, given: NodeClass) -> None:
        """Add an entry. O(1) before the level is read; then O(log n), and a move in memory."""
        at, line = self.at, self.line
        if not self.is_read or not at or first > at[-1]:
            if at and first <= at[-1]:
                self.is_sorted = False
            at.append(first)
            line.append(given)
            return
        place = bisect_left(at, first)
        if at[place] == first:
            # a node is the first of one class, so the entry is of a class that has left or will
            line[place] = given
        elif 0 < place <= self.start:
            place -= 1
            at[place], line[place] = first, given
        else:
            at.insert(place, first)
            line.insert(place, given)
        self.start = min(self.start, place)

    def tidy(self, firsts: Mapping[NodeClass, int]) -> None:
        """Drop the entries of classes that have left. O(entries)."""
        self._keep(self._found(firsts))

    def first(self, firsts: Mapping[NodeClass, int]) -> NodeClass:
        """Return the class with the first node. O(1) amortised; see ``entries``."""
        self._read(firsts)
        return self.line[self.start]

    def entries(self, firsts: Mapping[NodeClass, int]) -> Iterator[tuple[int, NodeClass]]:
        """Iterate over the entries in order, with those of classes that have left.

        Runtime complexity: O(1) for each. The first time O(n log n), if nodes were not added in
        order.
        """
        self._read(firsts)
        start = self.start
        return zip(islice(self.at, start, None), islice(self.line, start, None), strict=True)

    def _found(self, firsts: Mapping[NodeClass, int]) -> dict[int, NodeClass]:
        """Return the classes by first node. One that left and came back may have two entries."""
        entries = zip(self.at, self.line, strict=True)
        return {first: given for first, given in entries if firsts.get(given) == first}

    def _keep(self, found: Mapping[int, NodeClass]) -> None:
        self.at, self.line, self.start = list(found), list(found.values()), 0

    def _read(self, firsts: Mapping[NodeClass, int]) -> None:
        if not self.is_read:
            if not self.is_sorted or len(self.at) != self.count:
                self._keep(dict(sorted(self._found(firsts).items())))
            self.is_sorted = self.is_read = True
        # those that have left are passed over once, and not by each reader again
        at, line, n = self.at, self.line, self.start
        while firsts.get(line[n]) != at[n]:
            n += 1
        self.start = n


@final
class Ranking:
    """Classes of nodes by rank, then by their first node.

    Args:
        ranked: The rank of each class, its first node, and the class.
        firsts: The first node of each class. The owner keeps it, and changes it before ``move``.
    """

    __slots__ = ("_firsts", "_levels", "_ranks")

    def __init__(
        self, ranked: Iterable[tuple[Any, int, NodeClass]], firsts: Mapping[NodeClass, int]
    ) -> None:
        self._levels: dict[Any, Level] = {}
        self._firsts = firsts
        levels = self._levels
        for rank, first, given in ranked:
            level = levels.get(rank)
            if level is None:
                level = levels[rank] = Level()
            at = level.at
            if at and first <= at[-1]:
                level.is_sorted = False
            at.append(first)
            level.line.append(given)
            level.count += 1
        self._ranks: in_order.Items = in_order.made(levels)

    def __iter__(self) -> Iterator[tuple[Any, NodeClass]]:
        """Iterate over the classes, the smallest rank first: (rank, class)."""
        return self.since(0)

    def first(self) -> NodeClass | None:
        """Return the class with the smallest rank and the first node; None if there is none."""
        return self._levels[self._ranks[0]].first(self._firsts) if self._ranks else None

    def position(self, rank: Any) -> int:
        """Return how many levels have a smaller rank. O(log levels)."""
        return in_order.first_at_least(self._ranks, rank)

    def since(self, position: int) -> Iterator[tuple[Any, NodeClass]]:
        """Iterate over the classes of this level and of all that follow: (rank, class)."""
        return self._of(in_order.between(self._ranks, position))

    def before(self, position: int) -> Iterator[tuple[Any, NodeClass]]:
        """Iterate over the levels before this one, from the last to the first: (rank, class)."""
        return self._of(self._ranks[place] for place in range(position - 1, -1, -1))

    def _of(self, ranks: Iterable[Any]) -> Iterator[tuple[Any, NodeClass]]:
        # one generator for all, since each member of a gang takes a step of it
        firsts = self._firsts
        for rank in ranks:
            for first, given in self._levels[rank].entries(firsts):
                if firsts.get(given) == first:
                    yield rank, given

    def move(self, rank: Any, before: int, first: int, given: NodeClass) -> None:
        """Note that a class has another first node, as ``firsts`` says already.

        Runtime complexity: see ``Level.add``; O(1) amortised for a class that leaves.

        Args:
            rank: Its rank.
            before: Its first node until now; negative if it was not there.
            first: Its first node from now on; negative if it leaves.
            given: The class.
        """
        level = self._levels.get(rank)
        if level is None:
            level = self._levels[rank] = Level()
            self._ranks = in_order.add(self._ranks, rank)
        if first >= 0:
            level.count += before < 0
            level.add(first, given)
        elif level.count > 1:
            level.count -= 1
        else:
            del self._levels[rank]
            in_order.remove(self._ranks, rank)
            return
        if len(level.line) > 2 * level.count + _SPARE:
            level.tidy(self._firsts)

    def _check(self) -> None:
        if list(self._ranks) != sorted(self._levels):
            raise InternalError(f"the ranks {list(self._ranks)} are not those of the levels")
        there: dict[NodeClass, int] = {}
        for rank, level in self._levels.items():
            at = level.at
            if level.is_sorted and any(at[n] <= at[n - 1] for n in range(1, len(at))):
                raise InternalError(f"the nodes of rank {rank} are not in order")
            if level.is_read and len(list(self._of((rank,)))) != level.count:
                raise InternalError(f"the nodes of rank {rank} are passed over")
            found = level._found(self._firsts)
            if len(found) != level.count or not found or (level.is_read and not level.is_sorted):
                raise InternalError(f"the nodes of rank {rank} are miscounted")
            there |= {given: first for first, given in found.items()}
        counted = sum(level.count for level in self._levels.values())
        if there != self._firsts or len(there) != counted:
            raise InternalError("a class of nodes has not one rank")
