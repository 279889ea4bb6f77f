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

from gangsched.core.records.gang import GangRecord, PodRecord, by_seq
from gangsched.core.records.trial import Lifted
from gangsched.primitives.counters import MemberState
from gangsched.primitives.gang_tree import SubGroup
from gangsched.primitives.standing import least_needed, of_leaves, standing

__all__ = ["Extra", "surplus"]

_BOUND: Final = (MemberState.BINDING, MemberState.ASSIGNED)


class Extra(NamedTuple):
    """What can go by itself.

    Attributes:
        members: A member; or those of a copy, without what of it can go by itself.
        copy: The key of the copy in the tree of the gang; None for a member.
        around: The keys of the copies that it is within, the outermost first.
    """

    members: list[PodRecord]
    copy: str | None
    around: tuple[str, ...]


def surplus(
    gang: GangRecord, tree: SubGroup, gone: Collection[Lifted] = (), slot: int | None = None
) -> list[Extra]:
    """Return what a gang can give up of a group that has started, or of a family. O(members).

    Args:
        gang: The gang.
        tree: The tree of the group or the family; part of that of the gang.
        gone: Members that it gives up already.
        slot: The node that each member, and a member of each copy, is on; None for any.

    Returns:
        In the order in which it goes: members, the last to arrive first, then copies, those within
        others before them.
    """
    if tree.evicted_whole:
        return []
    leaves = {leaf.key for leaf in tree.leaves}
    records = [record for record in gang.members.values() if record.leaf in leaves]
    bound = [r for r in sorted(records, key=by_seq) if r.state in _BOUND and r not in gone]
    stands = standing(tree, of_leaves(Counter([record.leaf for record in bound])))
    if not stands.is_met:
        return []
    waiting = {record.leaf for record in records if record.state is MemberState.WAITING}
    parts = _Parts(tree, {key: -more for key, more in stands.lacking.items()}, waiting, slot)
    members = parts.members(reversed(bound))
    going = {extra.members[0] for extra in members}
    return [*members, *parts.copies([r for r in bound if r not in going])]


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
        self, tree: SubGroup, spare: dict[str, int], waiting: Collection[str], slot: int | None
    ) -> None:
        self._tree = tree
        self._spare = spare
        self._waiting = waiting
        self._slot = slot
        copies = tree.copies()
        self._broken = {each.key for each in copies if least_needed(each, self._lacks) > 0}
        self._by_leaf: dict[str, list[PodRecord]] = {}

    def _lacks(self, sub: SubGroup) -> int:
        return -self._spare.get(sub.key, 0)

    def _gives(self, sub: SubGroup) -> bool:
        """Return whether a part of a sub group may go."""
        return not sub.evicted_whole and sub.key not in self._broken

    def _take(self, above: Iterable[SubGroup], number: int) -> bool:
        """Take members from what is above them, if all of it can spare them; return whether."""
        # a sub group without a minimum limits nothing
        own = [sub.key for sub in above if sub.least]
        can = all(self._spare[key] >= number for key in own)
        for key in own if can else ():
            self._spare[key] -= number
        return can

    def members(self, records: Iterable[PodRecord]) -> list[Extra]:
        """Return the first members that go by themselves."""
        paths = {leaf.key: above for leaf, above in self._tree.paths()}
        whole = {key for key, above in paths.items() if not all(map(self._gives, above))}
        return [
            Extra([record], None, _copies(paths[record.leaf]))
            for record in records
            if self._slot in (None, record.slot)
            and record.leaf not in whole
            and self._take(paths[record.leaf], 1)
        ]

    def copies(self, bound: Iterable[PodRecord]) -> Iterator[Extra]:
        """Return the copies that go, given the members that do not go by themselves."""
        for record in bound:
            self._by_leaf.setdefault(record.leaf, []).append(record)
        return self._below((self._tree,))

    def _below(self, above: tuple[SubGroup, ...]) -> Iterator[Extra]:
        """Yield the copies that go below the last of *above*, which is the path to it."""
        tree = above[-1]
        for child in reversed(tree.children):
            if self._gives(child):
                yield from self._below((*above, child))
        copies = [each for each in reversed(tree.children) if each.is_copy and self._of(each)]
        broken = [copy for copy in copies if copy.key in self._broken]
        stands = [copy for copy in copies if copy.key not in self._broken]
        more = len(stands) - tree.wanted
        for copy in [*broken, *stands]:
            members, is_broken = self._of(copy), copy.key in self._broken
            may_go = (more > 0 or is_broken) and self._may_go(copy, members)
            if may_go and self._take(above, len(members)):
                more -= not is_broken
                for leaf in copy.leaves:
                    self._by_leaf.pop(leaf.key, None)
                yield Extra(members, copy.key, _copies(above))

    def _of(self, copy: SubGroup) -> list[PodRecord]:
        """Return the members that are left of a copy, the last to arrive first."""
        found = [record for leaf in copy.leaves for record in self._by_leaf.get(leaf.key, ())]
        return sorted(found, key=by_seq, reverse=True)

    def _may_go(self, copy: SubGroup, members: Iterable[PodRecord]) -> bool:
        """Return whether a copy is on the node, and nothing of it waits, which would be left."""
        is_here = self._slot is None or any(record.slot == self._slot for record in members)
        return is_here and not copy.is_in(self._waiting)


def _copies(above: Iterable[SubGroup]) -> tuple[str, ...]:
    return tuple([sub.key for sub in above if sub.is_copy])
