"""Ranking: classes of nodes in order of a rank, and classes of equal rank by their first node.

Where no two nodes are alike there are as many classes as nodes, and a decision uses a few of those
with the best rank. So classes are put into one *level* for each rank. A level is sorted when it is
first read, and the others need not be. To add a class to a level that was never read is O(1).

Most classes that leave a level are among the first, because their nodes have taken pods. So an
entry of a level stays where it is when its class leaves, and is passed over. Entries are dropped
when most of them are such. The rankings of one owner share the dict that tells entries apart.

Invariants (``_check`` checks them):
  I1  ``_ranks`` has the rank of each level, ascending, and no level is empty;
  I2  each class of ``firsts`` has one entry with its first node, which is in one level; ``count``
      is the number of these in a level. A class keeps its rank for as long as a ranking;
  I3  a level that was read has them in order of their first node, and none is before ``start``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, TypeAlias, final

from gangsched.errors import InternalError
from gangsched.framework.nodes import in_order
from gangsched.framework.nodes.node_class import NodeClass

__all__ = ["Level", "Ranking"]

_Entry: TypeAlias = tuple[int, int, NodeClass]
# the index of the first node, the number of the class, the class
_SPARE: Final = 64


@final
class Level:
    """The classes of one rank.

    Attributes:
        line: The entries, with those of classes that have left; in order after a first reader.
        is_read: Whether there was a reader.
        start: The number of entries that are passed over.
        count: The number of classes.
    """

    __slots__ = ("count", "is_read", "line", "start")

    def __init__(self) -> None:
        self.line: list[_Entry] = []
        self.is_read: bool = False
        self.start: int = 0
        self.count: int = 0

    def add(self, first: int, given: NodeClass) -> None:
        """Add an entry. O(1) before the level is read; then O(log n), and a move in memory."""
        line, entry = self.line, (first, given.number, given)
        if not self.is_read or not line or entry > line[-1]:
            line.append(entry)
            return
        place = bisect_left(line, entry)
        if line[place] != entry:
            if 0 < place <= self.start:
                place -= 1
                line[place] = entry
            else:
                line.insert(place, entry)
        self.start = min(self.start, place)

    def tidy(self, firsts: Mapping[NodeClass, int]) -> None:
        """Drop the entries of classes that have left. O(entries)."""
        found = [entry for entry in self.line if firsts.get(entry[2]) == entry[0]]
        # a class that left and came back before there was a reader has two
        self.line = found if self.is_read else list(dict.fromkeys(found))
        self.start = 0

    def first(self, firsts: Mapping[NodeClass, int]) -> NodeClass:
        """Return the class with the first node. O(1) amortised, and O(n log n) the first time."""
        line = self._read(firsts)
        return line[self.start][2]

    def entries(self, firsts: Mapping[NodeClass, int]) -> Iterator[_Entry]:
        """Iterate over the entries in order, with those of classes that have left.

        Runtime complexity: O(1) for each, and O(n log n) the first time.
        """
        line = self._read(firsts)
        return islice(line, self.start, None)

    def _read(self, firsts: Mapping[NodeClass, int]) -> list[_Entry]:
        if not self.is_read:
            if len(self.line) != self.count:
                self.tidy(firsts)
            self.line.sort()
            self.is_read = True
        # those that have left are passed over once, and not by each reader again
        line, n = self.line, self.start
        entry = line[n]
        while firsts.get(entry[2]) != entry[0]:
            n += 1
            entry = line[n]
        self.start = n
        return line


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
            level.line.append((first, given.number, given))
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
            for first, _number, given in self._levels[rank].entries(firsts):
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
            found = [entry for entry in level.line if self._firsts.get(entry[2]) == entry[0]]
            if level.is_read and found != sorted(found):
                raise InternalError(f"the nodes of rank {rank} are not in order")
            if level.is_read and len(list(self._of((rank,)))) != level.count:
                raise InternalError(f"the nodes of rank {rank} are passed over")
            found = list(dict.fromkeys(found))
            if len(found) != level.count or not found:
                raise InternalError(f"the nodes of rank {rank} are miscounted")
            there |= {given: first for first, _number, given in found}
        counted = sum(level.count for level in self._levels.values())
        if there != self._firsts or len(there) != counted:
            raise InternalError("a class of nodes has not one rank")
