"""Ranking: classes of nodes in order of a rank, and classes of equal rank by their first node.

Where no two nodes are alike there are as many classes as nodes, and a decision uses a few of those
with the best rank. So classes are put into one *level* for each rank. A level is sorted when it is
first read, and the others need not be. To add a class to a level that was never read is O(1).

Most classes that leave a level are among the first, because their nodes have taken pods. So a
ranking is not told that a class leaves: its entry stays where it is, and readers pass over it.
Entries are dropped when most of them are such, and a level when a reader finds no class in it. The
rankings of one owner share the dict that tells entries apart.

A gang of unlike members makes a ranking of all nodes for each kind of member, and reads a few
classes of each. So an entry is no object: a level has two lists. Nodes are mostly ranked in order
of arrival, and then there is nothing to sort.

Invariants (``_check`` checks them):
  I1  ``_ranks`` has the rank of each level, ascending. After ``tidy`` no reader has found any of
      the levels without a class;
  I2  each class of ``firsts`` has an entry with its first node, in one level. A class keeps its
      rank for as long as a ranking;
  I3  the first nodes in a level that is sorted are ascending, each of them once;
  I4  a level that was read is sorted, and no class is before ``start``;
  I5  there are at most ``_entries`` entries. After ``tidy`` they are at most twice as many as
      classes, and a few.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import compress, islice
from operator import eq
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
    """

    __slots__ = ("at", "is_read", "is_sorted", "line", "start")

    def __init__(self) -> None:
        self.at: list[int] = []
        self.line: list[NodeClass] = []
        self.is_sorted: bool = True
        self.is_read: bool = False
        self.start: int = 0

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

    def tidy(self, firsts: Mapping[NodeClass, int]) -> int:
        """Drop the entries of classes that have left; return how many are kept. O(entries)."""
        self._keep(self._found(firsts))
        return len(self.at)

    def read(self, firsts: Mapping[NodeClass, int]) -> bool:
        """Pass over the first entries, if their classes have left; return whether there is another.

        Runtime complexity: O(1) amortised. The first time O(n log n), if nodes were not added in
        order.
        """
        if not self.is_read:
            if not self.is_sorted:
                self._keep(dict(sorted(self._found(firsts).items())))
            self.is_sorted = self.is_read = True
        # those that have left are passed over once, and not by each reader again
        at, line, n, end = self.at, self.line, self.start, len(self.at)
        while n < end and firsts.get(line[n]) != at[n]:
            n += 1
        self.start = n
        return n < end

    def entries(self) -> Iterator[tuple[int, NodeClass]]:
        """Iterate over the entries that ``read`` has not passed over. O(1) for each."""
        start = self.start
        return zip(islice(self.at, start, None), islice(self.line, start, None), strict=True)

    def _found(self, firsts: Mapping[NodeClass, int]) -> dict[int, NodeClass]:
        """Return the classes by first node. One that left and came back may have two entries."""
        # without a loop in Python: where no two nodes are alike, each pod leaves an entry behind
        is_there = map(eq, map(firsts.get, self.line), self.at)
        return dict(compress(zip(self.at, self.line, strict=True), is_there))

    def _keep(self, found: Mapping[int, NodeClass]) -> None:
        self.at, self.line, self.start = list(found), list(found.values()), 0


@final
class Ranking:
    """Classes of nodes by rank, then by their first node.

    Args:
        ranked: The rank of each class, its first node, and the class.
        firsts: The first node of each class. The owner keeps it, and changes it before ``add``.
    """

    __slots__ = ("_empty", "_entries", "_firsts", "_levels", "_ranks")

    def __init__(
        self, ranked: Iterable[tuple[Any, int, NodeClass]], firsts: Mapping[NodeClass, int]
    ) -> None:
        self._levels: dict[Any, Level] = {}
        self._firsts = firsts
        self._entries = 0
        # the levels in which a reader found no class
        self._empty: dict[Any, None] = {}
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
            self._entries += 1
        self._ranks: in_order.Items = in_order.made(levels)

    def __iter__(self) -> Iterator[tuple[Any, NodeClass]]:
        """Iterate over the classes, the smallest rank first: (rank, class)."""
        return self.since(0)

    def first(self) -> NodeClass | None:
        """Return the class with the smallest rank and the first node; None if there is none."""
        firsts = self._firsts
        for rank in self._ranks:
            level = self._levels[rank]
            if level.read(firsts):
                return level.line[level.start]
            self._empty[rank] = None
        return None

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
            level = self._levels[rank]
            if not level.read(firsts):
                self._empty[rank] = None
                continue
            for first, given in level.entries():
                if firsts.get(given) == first:
                    yield rank, given

    def add(self, rank: Any, first: int, given: NodeClass) -> None:
        """Note a new class, or another first node of a class, as ``firsts`` says already.

        Runtime complexity: see ``Level.add``.

        Args:
            rank: Its rank.
            first: Its first node from now on.
            given: The class.
        """
        level = self._levels.get(rank)
        if level is None:
            level = self._levels[rank] = Level()
            self._ranks = in_order.add(self._ranks, rank)
        self._entries += 1
        at = level.at
        if not at or first > at[-1]:  # without a call: this is one of two cases, see ``Level.add``
            at.append(first)
            level.line.append(given)
        else:
            level.add(first, given)

    def tidy(self) -> None:
        """Drop what is passed over, if that is most of it. O(1) amortised for each class.

        To be called after ``firsts`` was changed. Nothing may iterate over a ranking meanwhile.
        """
        levels = self._levels
        if self._empty:
            for rank in self._empty:
                level = levels[rank]
                if level.start == len(level.at):
                    self._drop(rank)
            self._empty.clear()
        if self._entries > 2 * len(self._firsts) + _SPARE:
            self._entries = 0
            for rank, level in tuple(levels.items()):
                kept = level.tidy(self._firsts)
                self._entries += kept
                if not kept:
                    self._drop(rank)

    def _drop(self, rank: Any) -> None:
        del self._levels[rank]
        in_order.remove(self._ranks, rank)

    def _check(self) -> None:
        if list(self._ranks) != sorted(self._levels):
            raise InternalError(f"the ranks {list(self._ranks)} are not those of the levels")
        there: dict[NodeClass, int] = {}
        counted = entries = 0
        for rank, level in self._levels.items():
            at, entries = level.at, entries + len(level.at)
            must_be_sorted = level.is_sorted or level.is_read
            if must_be_sorted and any(at[n] <= at[n - 1] for n in range(1, len(at))):
                raise InternalError(f"the nodes of rank {rank} are not in order")
            found = level._found(self._firsts)
            passed = zip(level.line[: level.start], at[: level.start], strict=True)
            if any(self._firsts.get(given) == first for given, first in passed):
                raise InternalError(f"the nodes of rank {rank} are passed over")
            counted += len(found)
            there |= {given: first for first, given in found.items()}
        if there != self._firsts or len(there) != counted:
            raise InternalError("a class of nodes has not one rank")
        if entries > self._entries:
            raise InternalError(f"there are {entries} entries, more than {self._entries}")
        if not self._empty.keys() <= self._levels.keys():
            raise InternalError("a level that is not there is noted as empty")
