"""Ranking: classes of nodes in order of a rank, and classes of equal rank by their first node.

Where no two nodes are alike there are as many classes as nodes, and a decision uses a few of those
with the best rank. So classes are put into one *level* for each rank. A level is sorted when it is
first read, and the others need not be. To add a class to a level that was never read is O(1).

Most classes that leave a level are among the first, because their nodes have taken pods. So an
entry of a level that was read stays where it is when its class leaves, and is passed over. Entries
are dropped when most of them are such.

Invariants (``_check`` checks I1 and I3):
  I1  ``_ranks`` has the rank of each level, ascending, and no level is empty;
  I2  each class is in at most one level;
  I3  a level that was read has one entry for each class, in order of their first node, and none of
      them is before ``start``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
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
        firsts: The classes, each with its first node.
        line: The entries in order, with those of classes that have left; None before a reader.
        start: The number of entries that are passed over.
    """

    __slots__ = ("firsts", "line", "start")

    def __init__(self) -> None:
        self.firsts: dict[NodeClass, int] = {}
        self.line: list[_Entry] | None = None
        self.start: int = 0

    def add(self, first: int, given: NodeClass) -> None:
        """Add a class. O(1) before the level is read; then O(log n), and a move in memory."""
        self.firsts[given] = first
        line = self.line
        if line is None:
            return
        entry = (first, given.number, given)
        if not line or entry > line[-1]:
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

    def discard(self, given: NodeClass) -> None:
        """Take a class out. O(1) amortised."""
        firsts, line = self.firsts, self.line
        del firsts[given]
        if line is not None and len(line) > 2 * len(firsts) + _SPARE:
            self.line = [entry for entry in line if firsts.get(entry[2]) == entry[0]]
            self.start = 0

    def first(self) -> NodeClass:
        """Return the class with the first node. O(1) amortised, and O(n log n) the first time."""
        line, n, firsts = self._read(), self.start, self.firsts
        entry = line[n]
        while firsts.get(entry[2]) != entry[0]:
            n += 1
            entry = line[n]
        self.start = n
        return entry[2]

    def entries(self) -> Iterator[_Entry]:
        """Iterate over the entries in order, with those of classes that have left.

        Runtime complexity: O(1) for each, and O(n log n) the first time.
        """
        return islice(self._read(), self.start, None)

    def _read(self) -> list[_Entry]:
        line = self.line
        if line is None:
            line = [(first, given.number, given) for given, first in self.firsts.items()]
            line.sort()
            self.line, self.start = line, 0
        return line


@final
class Ranking:
    """Classes of nodes by rank, then by their first node.

    Args:
        ranked: The rank of each class, its first node, and the class.
    """

    __slots__ = ("_levels", "_ranks")

    def __init__(self, ranked: Iterable[tuple[Any, int, NodeClass]]) -> None:
        self._levels: dict[Any, Level] = {}
        levels = self._levels
        for rank, first, given in ranked:
            level = levels.get(rank)
            if level is None:
                level = levels[rank] = Level()
            level.firsts[given] = first
        self._ranks: in_order.Items = in_order.made(levels)

    def __iter__(self) -> Iterator[tuple[Any, NodeClass]]:
        """Iterate over the classes, the smallest rank first: (rank, class)."""
        return self.since(0)

    def first(self) -> NodeClass | None:
        """Return the class with the smallest rank and the first node; None if there is none."""
        return self._levels[self._ranks[0]].first() if self._ranks else None

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
        for rank in ranks:
            level = self._levels[rank]
            firsts = level.firsts
            for first, _number, given in level.entries():
                if firsts.get(given) == first:
                    yield rank, given

    def move(self, rank: Any, before: int, first: int, given: NodeClass) -> None:
        """Note that a class has another first node; see ``Level`` for the cost.

        Args:
            rank: Its rank.
            before: Its first node until now; negative if it was not there.
            first: Its first node from now on; negative if it leaves.
            given: The class.
        """
        level = self._levels.get(rank)
        if first >= 0:
            if level is None:
                level = self._levels[rank] = Level()
                self._ranks = in_order.add(self._ranks, rank)
            if level.line is None:
                level.firsts[given] = first
            else:
                level.add(first, given)
        elif before >= 0 and level is not None:
            level.discard(given)
            if not level.firsts:
                del self._levels[rank]
                in_order.remove(self._ranks, rank)

    def _check(self) -> None:
        if list(self._ranks) != sorted(self._levels):
            raise InternalError(f"the ranks {list(self._ranks)} are not those of the levels")
        if not all(level.firsts for level in self._levels.values()):
            raise InternalError("a level of nodes is empty")
        for rank, level in self._levels.items():
            if level.line is None:
                continue
            wanted = sorted(level.firsts.items(), key=lambda each: (each[1], each[0].number))
            found = [each[2] for each in level.entries() if level.firsts.get(each[2]) == each[0]]
            if found != [given for given, _first in wanted]:
                raise InternalError(f"the nodes of rank {rank} are not in order")
