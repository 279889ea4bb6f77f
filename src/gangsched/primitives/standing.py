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
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from gangsched.primitives.gang_tree import SubGroup

__all__ = [
    "Counts",
    "CountsOf",
    "Row",
    "Standing",
    "alone",
    "counted",
    "is_quorum",
    "least_needed",
    "of_leaves",
    "of_roles",
    "standing",
    "tree_of_roles",
]


class Counts(NamedTuple):
    """The members of a sub group, those of its children included."""

    held: int = 0
    pending: int = 0
    done: int = 0


CountsOf: TypeAlias = Callable[[SubGroup], Counts]
"""Returns the counts of a sub group. Those of a parent are at least the sum of its children's."""


class Row(NamedTuple):
    """One sub group: its minimum, how many members count for it, and how many exist of these."""

    least: int
    held: int
    present: int

    @property
    def is_short(self) -> bool:
        """Whether the members that exist are too few for its own minimum."""
        return self.present < self.least


class Standing(NamedTuple):
    """How a tree stands.

    Attributes:
        rows: Its sub groups by key, parents first.
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
    rows: dict[str, Row] = {}
    is_complete = _able(tree, counts, rows) is not None
    lacking = {key: row.least - row.held for key, row in rows.items()}
    return Standing(rows, lacking, least_needed(tree, lambda sub: lacking[sub.key]), is_complete)


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
    return max(lacks(tree), sum(below))


def of_leaves(held: Mapping[str, int], pending: Mapping[str, int] | None = None) -> CountsOf:
    """Return counts that add up what is known of leaves, by key."""
    pending = {} if pending is None else pending

    def counts(sub: SubGroup) -> Counts:
        keys = [leaf.key for leaf in sub.leaves]
        return Counts(sum(held.get(k, 0) for k in keys), sum(pending.get(k, 0) for k in keys))

    return counts


def of_roles(held: Iterable[str | None]) -> CountsOf:
    """Return counts of members that hold nodes, given the role of each, for a ``tree_of_roles``."""
    numbers = Counter(held)
    total = numbers.total()
    return lambda sub: Counts(total if sub.role is None else numbers[sub.role])


def is_quorum(minimum: int, roles: Mapping[str, int], of: Iterable[str | None]) -> bool:
    """Return whether members, given the role of each, meet the minima of a group. O(members)."""
    return standing(tree_of_roles(minimum, roles), of_roles(of)).is_met


def tree_of_roles(minimum: int, roles: Mapping[str, int]) -> SubGroup:
    """Return the minima of one group: its own has the key ``""``, that of a role its name."""
    return _tree_of_roles(minimum, tuple(roles.items()))


@lru_cache
def _tree_of_roles(minimum: int, roles: tuple[tuple[str, int], ...]) -> SubGroup:
    return SubGroup("", minimum, tuple([SubGroup(name, n, role=name) for name, n in roles]))


def _able(tree: SubGroup, counts: CountsOf, rows: dict[str, Row]) -> int | None:
    """Return how many members may still get a node; None if they are too few. Fills *rows*."""
    held, pending, done = counts(tree)
    own = rows[tree.key] = counted(tree.least, held, pending, done)
    able, met = pending, 0
    for child in tree.children:
        may = _able(child, counts, rows)
        met += may is not None
        # an optional child that cannot start gets no more nodes
        able -= counts(child).pending if may is None else counts(child).pending - may
    if met < tree.wanted or own.held + able < tree.least:
        return None
    return able
