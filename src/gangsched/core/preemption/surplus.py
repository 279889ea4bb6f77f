"""What a running group or family can give up: members beyond its minima, and surplus copies.

A copy is one of a role, or a child of a group of groups.

Rules:
  R1  all minima are met without what is given up, that of the root included;
  R2  a copy is given up as a whole, or keeps its own minima. Copies go before those of lower
      numbers, and children before those of lower keys; one that is below its minima goes first,
      and keeps all its members until then;
  R3  nothing is given up in part that is evicted whole: a copy, a role of pods, a group, or all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple, final

from gangsched.core.records.gang import Gang, PodRecord, by_seq
from gangsched.core.records.trial import Lifted
from gangsched.primitives.counters import MemberState
from gangsched.primitives.gang_tree import SubGroup
from gangsched.primitives.standing import least_needed, of_leaves, standing

__all__ = ["Surplus", "SurplusCopy", "surplus"]

_BOUND: Final = (MemberState.BINDING, MemberState.ASSIGNED)


class SurplusCopy(NamedTuple):
    """A copy that what it is part of does not need.

    Attributes:
        key: Its key in the tree of the gang.
        members: Its members, without those that can be given up by themselves.
    """

    key: str
    members: list[PodRecord]


class Surplus(NamedTuple):
    """What a tree can give up.

    Attributes:
        members: Members that can go by themselves, the last to arrive first.
        copies: The copies that can go as a whole, in the order in which they go: those within
            others come before them.
    """

    members: list[PodRecord]
    copies: list[SurplusCopy]

    @property
    def pods(self) -> list[PodRecord]:
        """All its members, in the order in which they go."""
        return [*self.members, *(record for copy in self.copies for record in copy.members)]


def surplus(
    gang: Gang, tree: SubGroup, gone: Collection[Lifted] = (), slot: int | None = None
) -> Surplus:
    """Return what a gang can give up of a group that has started, or of a family. O(members).

    Args:
        gang: The gang.
        tree: The tree of the group or the family; part of that of the gang.
        gone: Members that it gives up already.
        slot: The node that each member, and a member of each copy, is on; None for any.
    """
    if tree.evicted_whole:
        return Surplus([], [])
    leaves = {leaf.key for leaf in tree.leaves}
    records = [record for record in gang.members.values() if record.leaf in leaves]
    bound = [r for r in sorted(records, key=by_seq) if r.state in _BOUND and r not in gone]
    stands = standing(tree, of_leaves(Counter([record.leaf for record in bound])))
    if not stands.is_met:
        return Surplus([], [])
    there = [record for record in reversed(bound) if slot is None or record.slot == slot]
    spare = {key: -more for key, more in stands.lacking.items()}
    if not tree.children:
        return Surplus(_beyond_minima(tree, there, spare), [])
    waiting = {record.leaf for record in records if record.state is MemberState.WAITING}
    parts = _Parts(tree, spare, waiting, slot)
    fixed = parts.fixed
    members = _beyond_minima(tree, [r for r in there if r.leaf not in fixed], spare)
    if not tree.has_copies:
        return Surplus(members, [])
    gone = {*gone, *members}
    return Surplus(members, parts.copies([r for r in bound if r not in gone]))


def _beyond_minima(
    tree: SubGroup, records: Iterable[PodRecord], spare: dict[str, int]
) -> list[PodRecord]:
    """Return the first members that can go, given how many each sub group can spare.

    A sub group without a minimum limits nothing.
    """
    limits = {leaf.key: [sub.key for sub in above if sub.least] for leaf, above in tree.paths()}
    found: list[PodRecord] = []
    for record in records:
        own = limits[record.leaf]
        if all(spare[key] > 0 for key in own):
            for key in own:
                spare[key] -= 1
            found.append(record)
    return found


@final
class _Parts:
    """The roles and copies of a tree that stands.

    Args:
        tree: The tree.
        spare: How many members each sub group can spare; negative for what it lacks.
        waiting: The leaves of members that wait on permit.
        slot: The node that a member of each copy is on; None for any.
    """

    def __init__(
        self,
        tree: SubGroup,
        spare: dict[str, int],
        waiting: Collection[str],
        slot: int | None,
    ) -> None:
        self._tree = tree
        self._spare = spare
        self._waiting = waiting
        self._slot = slot
        self._broken = {copy.key for copy in tree.copies() if least_needed(copy, self._lacks) > 0}
        self._by_leaf: dict[str, list[PodRecord]] = {}

    def _lacks(self, sub: SubGroup) -> int:
        return -self._spare.get(sub.key, 0)

    @property
    def fixed(self) -> set[str]:
        """The leaves of which no member goes by itself."""
        return {leaf.key for leaf, above in self._tree.paths() if not all(map(self._gives, above))}

    def _gives(self, sub: SubGroup) -> bool:
        """Return whether a part of a sub group may go."""
        return not sub.evicted_whole and sub.key not in self._broken

    def copies(self, bound: Iterable[PodRecord]) -> list[SurplusCopy]:
        """Return the copies that go, given the members that do not go by themselves."""
        self._by_leaf = {}
        for record in bound:
            self._by_leaf.setdefault(record.leaf, []).append(record)
        return list(self._below((self._tree,)))

    def _below(self, above: tuple[SubGroup, ...]) -> Iterator[SurplusCopy]:
        """Yield the copies that go below the last of *above*, which is the path to it."""
        tree = above[-1]
        for child in reversed(tree.children):
            if self._gives(child):
                yield from self._below((*above, child))
        copies = [copy for copy in reversed(tree.children) if copy.is_copy and self._members(copy)]
        broken = [copy for copy in copies if copy.key in self._broken]
        stands = [copy for copy in copies if copy.key not in self._broken]
        more = len(stands) - tree.wanted
        for copy in [*broken, *stands]:
            if (more > 0 or copy.key in self._broken) and self._may_go(copy, above):
                more -= copy.key not in self._broken
                yield SurplusCopy(copy.key, self._take(copy, above))

    def _members(self, copy: SubGroup) -> list[PodRecord]:
        """Return the members that are left of a copy, the last to arrive first."""
        found = [record for leaf in copy.leaves for record in self._by_leaf.get(leaf.key, ())]
        return sorted(found, key=by_seq, reverse=True)

    def _may_go(self, copy: SubGroup, above: Iterable[SubGroup]) -> bool:
        """Return whether a copy is on the node, and what is above it can spare its members."""
        members = self._members(copy)
        if self._slot is not None and all(record.slot != self._slot for record in members):
            return False
        # what waits on permit would be left of it
        if any(leaf.key in self._waiting for leaf in copy.leaves):
            return False
        return all(not sub.least or self._spare[sub.key] >= len(members) for sub in above)

    def _take(self, copy: SubGroup, above: Iterable[SubGroup]) -> list[PodRecord]:
        members = self._members(copy)
        for sub in above:
            self._spare[sub.key] -= len(members)
        for leaf in copy.leaves:
            self._by_leaf.pop(leaf.key, None)
        return members
