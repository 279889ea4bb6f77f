"""How a group stands against its minima: met, to be met yet, or lacking members.

Theory of operation. Minima form a tree (``_gang_tree``): a sub group needs a number of the members
below it, and a number of its children that stand well themselves. Each sub group counts its members
by itself, in three numbers: those that hold a node, those that may still get one, and those that
have succeeded.

Members that have succeeded have done their part. They count if the others are too few: a recreated
member need not wait for members that are done. If the others suffice, they are a new gang, and the
succeeded members do not count. Members that have failed never count. So a gang of which all members
failed needs a whole quorum again.

Rules:
  R1  only this module compares members with minima. Which members hold a node, in the sense of the
      question, is up to whoever asks: those that wait on permit, are bound, or would be left;
  R2  functions take a tree and counts, and depend on nothing else;
  R3  to *lack* is a number of members: the least that have to get nodes until all minima are met.
      It is negative for a sub group that has more than its minimum;
  R4  a group is *complete* if it can meet its minima with the members that may still get a node;
      those of a child that cannot meet its own do not help, since it will not start.

Source: KEP-34 for succeeded members; CompositePodGroup (KEP-6012) for k of n.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from gangsched.primitives.gang_tree import OTHERS, SubGroup

__all__ = [
    "Counts",
    "CountsOf",
    "Row",
    "Standing",
    "alone",
    "by_key",
    "by_role",
    "can_be_met",
    "counted",
    "is_quorum",
    "least_needed",
    "of_leaves",
    "of_roles",
    "standing",
    "unmet",
]


class Counts(NamedTuple):
    """The members of a sub group, those of its children included."""

    held: int = 0
    pending: int = 0
    done: int = 0


CountsOf: TypeAlias = Callable[[SubGroup], Counts]
"""Returns the counts of a sub group. Those of a parent are at least the sum of its children's."""


class Row(NamedTuple):
    """What a sub group needs itself, how many count for it, and how many exist of these.

    Attributes:
        least: Its minimum, in members; or how many of its children it wants.
        held: How many hold nodes; or how many children meet their minima.
        present: How many exist; or how many children can meet their minima.
        is_of_children: Whether it counts children.
    """

    least: int
    held: int
    present: int
    is_of_children: bool = False

    @property
    def is_unmet(self) -> bool:
        """Whether too few hold nodes for its own minimum."""
        return self.held < self.least

    @property
    def is_short(self) -> bool:
        """Whether what exists is too little for its own minimum."""
        return self.present < self.least


class Standing(NamedTuple):
    """How a tree stands.

    Attributes:
        rows: What its sub groups need by key, parents first. One that wants some of its children
            has a row for their number; what is below it says nothing of the whole.
        lacking: How many members each lacks for its own minimum; negative beyond it.
        needed: How many members it lacks, children included; 0 or less if all minima are met.
        is_complete: Whether the members that exist can meet all minima.
    """

    rows: Mapping[str, Row]
    lacking: Mapping[str, int]
    needed: int
    is_complete: bool

    @property
    def is_met(self) -> bool:
        """Whether the members that hold nodes meet all minima."""
        return self.needed <= 0


def standing(tree: SubGroup, counts: CountsOf) -> Standing:
    """Return how a tree stands. O(sub groups), O(c log c) for c children with k of n."""
    if not tree.children:
        return alone(counted(tree.least, *counts(tree)), tree.key)
    found = _Walk(counts)
    is_complete = found.able(tree, shows=True) is not None
    return Standing(found.rows, found.lacking, least_needed(tree, found.lacks), is_complete)


def counted(least: int, held: int, pending: int, done: int) -> Row:
    """Count members for one minimum: those that have succeeded if the others are too few. O(1)."""
    if held + pending < least:
        held += done
    return Row(least, held, held + pending)


def alone(only: Row, key: str = "") -> Standing:
    """Return how a tree stands that is a leaf: what most questions are about. O(1)."""
    lacks = only.least - only.held
    return Standing({key: only}, {key: lacks}, lacks, only.least <= only.present)


def least_needed(tree: SubGroup, lacks: Callable[[SubGroup], int]) -> int:
    """Return how many members a tree lacks: what its root does, or those below it. O(sub groups).

    Args:
        tree: The root.
        lacks: Returns how many members a sub group lacks for its own minimum.
    """
    if not tree.children:
        return lacks(tree)
    below = [max(least_needed(child, lacks), 0) for child in tree.children]
    if tree.is_optional:
        below = sorted(below)[: tree.wanted]
    # a child that does not exist lacks a member at least
    return max(lacks(tree), sum(below) + tree.wanted - len(below))


def of_leaves(held: Mapping[str, int], pending: Mapping[str, int] | None = None) -> CountsOf:
    """Return counts that add up what is known of leaves, by key."""
    pending = {} if pending is None else pending

    def counts(sub: SubGroup) -> Counts:
        keys = [leaf.key for leaf in sub.leaves]
        return Counts(sum(held.get(k, 0) for k in keys), sum(pending.get(k, 0) for k in keys))

    return counts


def by_role(total: Counts, of: Callable[[str], Counts]) -> CountsOf:
    """Return the counts of a group, given those of each role. O(leaves) for a sub group.

    Members of a role that the tree does not state count in total only.
    """

    def counts(sub: SubGroup) -> Counts:
        if not sub.key:
            return total
        if not sub.children:
            return Counts() if sub.role is None else of(sub.role)
        return Counts(*map(sum, zip(*[counts(child) for child in sub.children], strict=True)))

    return counts


def of_roles(roles: Iterable[str | None]) -> CountsOf:
    """Return the counts of members of a group that hold nodes, given the role of each."""
    numbers = Counter(roles)
    return by_role(Counts(numbers.total()), lambda role: Counts(numbers[role]))


def is_quorum(tree: SubGroup, roles: Iterable[str | None]) -> bool:
    """Return whether members, given the role of each, meet the minima of a group. O(members)."""
    return standing(tree, of_roles(roles)).is_met


def by_key(lacking: Mapping[str, int]) -> Callable[[SubGroup], int]:
    """Return how many members a sub group lacks, given that by key; 0 if it is left out."""
    return lambda sub: lacking.get(sub.key, 0)


def can_be_met(
    tree: SubGroup, lacks: Callable[[SubGroup], int], pending: Mapping[str, int]
) -> bool:
    """Return whether a tree can meet its minima with members that may get nodes. O(sub groups).

    Args:
        tree: The root.
        lacks: Returns how many members a sub group lacks for its own minimum.
        pending: How many members of each leaf may get nodes, by key.
    """
    return _able(tree, lacks, pending) is not None


def _able(
    tree: SubGroup, lacks: Callable[[SubGroup], int], pending: Mapping[str, int]
) -> int | None:
    """Return how many members may get nodes; None if they are too few. See R4."""
    able, may_meet = 0 if tree.children else pending.get(tree.key, 0), 0
    for child in tree.children:
        may = _able(child, lacks, pending)
        may_meet += may is not None
        able += may or 0
    return None if may_meet < tree.wanted or lacks(tree) > able else able


def unmet(
    tree: SubGroup, lacks: Callable[[SubGroup], int], held: Container[str] = ()
) -> Iterator[SubGroup]:
    """Yield the sub groups below or at *tree* that lack members, but none below another one.

    One that stands well may have children that do not: those beyond the number that it wants.

    Args:
        tree: The root.
        lacks: Returns how many members a sub group lacks for its own minimum.
        held: The leaves with members on nodes, by key: what consists of copies is not started
            again, but each of these copies is.
    """
    if least_needed(tree, lacks) > 0 and not (tree.is_of_copies and tree.is_in(held)):
        yield tree
    else:
        for child in tree.children:
            yield from unmet(child, lacks, held)


class _Walk:
    """One walk of a tree; fills *rows* and *lacking*."""

    def __init__(self, counts: CountsOf) -> None:
        self._counts = counts
        self.rows: dict[str, Row] = {}
        self.lacking: dict[str, int] = {}

    def lacks(self, sub: SubGroup) -> int:
        """Return how many members a sub group lacks for its own minimum."""
        return self.lacking.get(sub.key, 0)

    def able(self, tree: SubGroup, *, shows: bool) -> int | None:
        """Return how many members may still get a node; None if they are too few."""
        held, pending, done = self._counts(tree)
        own = counted(tree.least, held, pending, done)
        if tree.key != OTHERS:
            self.lacking[tree.key] = own.least - own.held
        if shows and tree.key != OTHERS:
            self.rows[tree.key] = own
        able, may_meet, met, counts = pending, 0, 0, tree.wanted != len(tree.children)
        for child in tree.children:
            may = self.able(child, shows=shows and not tree.is_optional)
            may_meet += may is not None
            met += counts and least_needed(child, self.lacks) <= 0
            # an optional child that cannot start gets no more nodes
            able -= self._counts(child).pending - (may or 0)
        if shows and counts:
            self.rows[tree.key] = Row(tree.wanted, met, may_meet, is_of_children=True)
        if may_meet < tree.wanted:
            return None
        if own.held + able < tree.least:
            if shows:
                self.rows[tree.key] = own._replace(present=own.held + able)
            return None
        return able
