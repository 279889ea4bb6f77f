"""What the pending members of a gang ask for: which may start together, and which alone.

A member goes alone once its group lacks no member; those of groups that lack some start together.
From that follows the demand, which is equal for gangs that fail alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import TypeAlias

from gangsched.core.admission.accounts import kept_out
from gangsched.core.admission.lacking import Lacks, lacking, lacks_of, more_needed, rests
from gangsched.core.admission.restarts import denial, held_copies
from gangsched.core.attempt.placing import wanted_in_all
from gangsched.core.attempt.reach import reach_of
from gangsched.core.evaluation.pod_class import PodClass
from gangsched.core.placement.apart import owned_by
from gangsched.core.placement.pinned import holding_by_leaf, pinned_to
from gangsched.core.queue.demand import Demand, Minimum
from gangsched.core.records.gang import GangRecord, PodRecord
from gangsched.core.state import State
from gangsched.core.state.running_groups import is_within
from gangsched.model import GroupKey
from gangsched.options.scheduling_unit import SchedulingUnit
from gangsched.primitives.families import AWAITS_GROUPS, waits_for
from gangsched.primitives.gang_tree import SubGroup
from gangsched.primitives.group_info import PodGroupInfo
from gangsched.primitives.quorum import brings_nearer
from gangsched.primitives.standing import by_key, can_be_met, least_needed, unmet
from gangsched.resources import NOTHING

__all__ = [
    "bundle_problem",
    "copy_problem",
    "demand_of",
    "halved",
    "lacks_no_member",
    "split",
    "unit_is_whole",
]


def demand_of(state: State, gang: GangRecord) -> Demand:
    """Return what a gang asks for; equal for gangs that fail alike. O(pending members)."""
    demand = _demand_of(state, gang)
    demand.has_room = bool(state.spares.of(gang))
    return demand


def _demand_of(state: State, gang: GangRecord) -> Demand:
    tree, lacks = gang.tree, lacks_of(state, gang)
    alone, together = _split(state, gang, lacks)
    out = kept_out(state, gang, alone)
    if out:
        alone = [record for record in alone if record not in out]
    reach = reach_of(state, gang, together or alone)
    own, is_own = _own(state, gang)
    own_later = own if is_own or tree.constrained else ()
    needed = lacking(state, gang, lacks) if together or tree.has_parts else {}
    if not together:
        key, later = _later(gang, alone, needed, own_later)
        return state.queue.demand(key, lambda: later, reach)
    counts = _counts(tree, together, needed)
    numbers = _numbers(tree, counts)
    # an attempt that has begun is not refused for its total
    in_all = NOTHING if gang.waiting else wanted_in_all(state, gang)
    key = (tree.shape, numbers, tuple(needed.values()), in_all or None, own if is_own else ())

    def gang_minima() -> tuple[Minimum, ...]:
        return tuple(_minima(tree, counts, needed))

    if not alone:
        return state.queue.demand(key, lambda: (gang_minima(),), reach, in_all)
    later_key, later = _later(gang, alone, needed, own_later)
    return state.queue.demand((key, later_key), lambda: (gang_minima(), *later), reach)


def _own(state: State, gang: GangRecord) -> tuple[Hashable, bool]:
    """Return what tells a gang from others that ask for the same, and whether that matters.

    Where its running members keep the others is the gang's own, and part of what it asks for.
    """
    pinned = [pinned_to(gang, each, state.table) for each in gang.tree.constrained]
    where = [None if domains is None else tuple(domains) for domains in pinned]
    owned = owned_by(gang, state.table)
    keeps = bool(owned) or any(domains is not None for domains in pinned)
    # another policy may let others move for it
    policies = [info.spec.restart for info in gang.infos.values() if info.spec is not None]
    return (gang.seq, gang.tree.shape, *where, owned, *policies), keeps or _sees_others(state, gang)


def _sees_others(state: State, gang: GangRecord) -> bool:
    """Return whether a gang sees other nodes than others that ask for the same.

    A nominated gang does, and so does one that the plan of a reservation keeps off some, or that
    has room for members that it lost. A filter may refuse others that look like it.
    """
    return (
        gang in state.nominations.known
        or state.reservation.concerns(gang)
        or bool(state.spares.of(gang))
        or any(r.pod_class is not None and r.pod_class.tells_apart for r in gang.pending.values())
    )


def _counts(
    tree: SubGroup, together: Iterable[PodRecord], needed: Mapping[str, int]
) -> dict[str, dict[PodClass, int]]:
    """Return how many members of each class there are, by leaf."""
    counts: dict[str, dict[PodClass, int]] = {}
    for record in together:
        assert record.pod_class is not None
        mine = counts.setdefault(record.leaf, {})
        mine[record.pod_class] = mine.get(record.pod_class, 0) + 1
    if len(counts) == 1 and not tree.children:
        ((leaf, mine),) = counts.items()
        if len(mine) == 1:  # like members: how many there are beyond the minimum says nothing
            counts = {leaf: dict.fromkeys(mine, needed.get(leaf, 0))}
    return counts


def split(state: State, gang: GangRecord) -> tuple[list[PodRecord], list[PodRecord]]:
    """Return the pending members that may start by themselves, and those that may together.

    A member goes alone once its group lacks no member. Of a bundle, some groups may have started
    and others not; those are left out while they cannot start together.
    """
    return _split(state, gang, lacks_of(state, gang))


def _split(state: State, gang: GangRecord, lacks: Lacks) -> tuple[list[PodRecord], list[PodRecord]]:
    pending = gang.in_order()
    if gang.tree.has_parts or gang.tree.restarted:
        pending = _of_whole_copies(state, gang, pending, lacks)
    if gang.is_tree:
        return _split_family(state, gang, pending, lacks)
    alone_groups = [key for key, roles in lacks.items() if lacks_no_member(gang.infos[key], roles)]
    if len(alone_groups) == len(lacks):
        return pending, []
    if not gang.is_bundle:
        back = {record: None for record in pending if _comes_back(record, lacks)}
        return [*back], [record for record in pending if record not in back]
    return _split_bundle(state, gang, pending, alone_groups)


def _split_family(
    state: State, gang: GangRecord, pending: list[PodRecord], lacks: Lacks
) -> tuple[list[PodRecord], list[PodRecord]]:
    """Split the members of groups below one root, which are one tree.

    Members beyond the minimum of one group wait for the minimum of another.
    """
    needed = lacking(state, gang, lacks)
    if gang.problem:  # what runs goes on
        return [r for r in pending if r.info is not None and r.info.was_scheduled], []
    if least_needed(gang.tree, by_key(needed)) <= 0:
        return pending, []
    if not bundle_problem(state, gang):
        return [], pending
    # what runs gets back what it has lost, and no more
    back = [r for r in pending if r.info is not None and r.info.was_scheduled]
    return [r for r in back if r.info is not None and brings_nearer(r.info, r.role)], []


def _split_bundle(
    state: State, gang: GangRecord, pending: list[PodRecord], alone_groups: Collection[GroupKey]
) -> tuple[list[PodRecord], list[PodRecord]]:
    """Split the members of a bundle of which some groups lack members, and others may not."""
    if len(gang.infos) > 1:
        resting = {key for key, info in gang.infos.items() if rests(state, info)}
        pending = [r for r in pending if r.info is None or r.info.key not in resting]
    alone = [r for r in pending if r.info is None or r.info.key in alone_groups]
    if bundle_problem(state, gang):
        return alone, []
    return alone, [r for r in pending if r.info is not None and r.info.key not in alone_groups]


def lacks_no_member(info: PodGroupInfo, lacks: Mapping[str, int]) -> bool:
    """Return whether a group lacks no member; copies beyond those that it wants may lack some."""
    if info.has_parts:
        return least_needed(info.tree, by_key(lacks)) <= 0
    return max(lacks.values(), default=0) <= 0


def _of_whole_copies(
    state: State, gang: GangRecord, pending: Sequence[PodRecord], lacks: Lacks
) -> list[PodRecord]:
    """Leave out the members of copies that lack members which do not exist yet, or are held.

    If the gang waits for a copy that is being restarted alone, only those are left that replace
    lost members of copies that run. O(sub groups).
    """
    left_out, needed = _held_leaves(state, gang), lacking(state, gang, lacks)
    pending = [record for record in pending if record.leaf not in left_out]
    numbers = Counter([record.leaf for record in pending])
    if left_out and not can_be_met(gang.tree, by_key(needed), numbers):
        return [record for record in pending if _comes_back(record, lacks)]
    held = holding_by_leaf(gang)
    for copy in gang.tree.copies():
        if copy.is_of_copies and copy.is_in(held):
            continue  # it has started: only its copies are started as a whole
        if not can_be_met(copy, by_key(needed), numbers):
            left_out.update(leaf.key for leaf in copy.leaves)
    return [record for record in pending if record.leaf not in left_out]


def _comes_back(record: PodRecord, lacks: Lacks) -> bool:
    """Return whether a pod replaces a lost member of a part that runs, and so goes alone. O(1).

    Of a copy of a role only if it is repaired: else the minimum of the role goes first.
    """
    info = record.info
    if info is None or info.spec is None or record.role is None or "" in lacks[info.key]:
        return False
    if not (info.spec.is_repaired or info.spec.has_slices):
        return False
    return record.role not in lacks[info.key] and info.standing.lacking.get(record.role, 0) > 0


def _held_leaves(state: State, gang: GangRecord) -> set[str]:
    """Return the leaves of what is being restarted alone, or may be. O(groups x leaves) if any."""
    found = set[str]()
    for info in gang.infos.values():
        held = [*held_copies(state, info)]
        if gang.is_tree and denial(state, info):
            held.append("")
        for path in held:
            found.update(
                leaf
                for (group, role), leaf in gang.leaves.items()
                if group == info.key and is_within(role, path)
            )
    return found


def copy_problem(state: State, gang: GangRecord) -> str:
    """Return which copy is being restarted, or the first one that lacks members; or ``""``.

    Other members of the gang may run, or be tried.
    """
    for info in gang.infos.values():
        for reason in held_copies(state, info).values():
            return reason
    needed, pending = lacking(state, gang), Counter([r.leaf for r in gang.pending.values()])
    for copy in gang.tree.copies():
        if not any(pending[leaf.key] for leaf in copy.leaves):
            continue
        for leaf in copy.leaves:
            more = needed[leaf.key] - pending[leaf.key]
            if more > 0:
                what, least = (
                    gang.path_of(leaf) or ("member" if more == 1 else "members"),
                    leaf.least,
                )
                what += f" of pod group {leaf.group}" if gang.is_tree else ""
                return f"waiting for {more} more {what}: {least - more} of {least} exist"
    return ""


_Numbers: TypeAlias = tuple[tuple[tuple[int, int], ...], ...]


def _numbers(tree: SubGroup, counts: Mapping[str, Mapping[PodClass, int]]) -> _Numbers:
    """Return how many members of each class there are, for each leaf."""
    return tuple(
        [
            tuple(sorted([(c.number, n) for c, n in counts.get(leaf.key, {}).items()]))
            for leaf in tree.leaves
        ]
    )


def _later(
    gang: GangRecord, alone: Sequence[PodRecord], needed: Mapping[str, int], own: Hashable
) -> tuple[Hashable, tuple[tuple[Minimum, ...], ...]]:
    """Return what members that go alone ask for: any one of them by itself, or any whole copy."""
    parts: list[SubGroup] = []
    if gang.tree.has_parts:
        parts = list(unmet(gang.tree, by_key(needed), holding_by_leaf(gang)))
    whole = {leaf.key for part in parts for leaf in part.leaves}
    classes: dict[PodClass, int] = {}
    for record in alone:
        assert record.pod_class is not None
        if record.leaf not in whole:
            classes[record.pod_class] = 1
    found: dict[Hashable, tuple[Minimum, ...]] = {}
    if classes:
        names = tuple(sorted(pod_class.number for pod_class in classes))
        found[names] = (Minimum(tuple(classes.items()), 1),)
    for part in parts:
        keys = {leaf.key for leaf in part.leaves}
        counts = _counts(part, [record for record in alone if record.leaf in keys], needed)
        if counts:
            found[part.shape, _numbers(part, counts)] = tuple(_minima(part, counts, needed))
    return ("later", tuple(found), own), tuple(found.values())


def halved(
    state: State, gang: GangRecord, members: Sequence[PodRecord], lost: Sequence[PodRecord]
) -> list[PodRecord]:
    """Return the members that hold nodes and cannot go: their copy of a role would go by half.

    Args:
        state: The state.
        gang: The gang.
        members: The members that are to go.
        lost: Those that do not go; they hold nodes, too.
    """
    if not lost or not gang.tree.has_parts:
        return []
    needed = more_needed(state, gang, lacks_of(state, gang))
    gone = Counter([record.leaf for record in lost])
    found: set[str] = set()

    def lacks(sub: SubGroup) -> int:
        return needed[sub.key] + sum(gone[leaf.key] for leaf in sub.leaves)

    for copy in gang.tree.copies():
        keys = [leaf.key for leaf in copy.leaves]
        if any(gone[key] for key in keys) and least_needed(copy, lacks) > 0:
            found.update(keys)
    return [record for record in members if record.leaf in found and record not in lost]


def _minima(
    tree: SubGroup, counts: dict[str, dict[PodClass, int]], needed: Mapping[str, int]
) -> Iterable[Minimum]:
    """Yield minima that hold whatever children are chosen."""
    parts: dict[PodClass, int] = {}
    for leaf in tree.leaves:
        for pod_class, number in counts.get(leaf.key, {}).items():
            parts[pod_class] = parts.get(pod_class, 0) + number
    number = least_needed(tree, by_key(needed))
    if number > 0 and parts:
        within = tree.within
        level = within.level if within is not None and within.required else None
        yield Minimum(tuple(parts.items()), number, level)
    if not tree.is_optional:
        for child in tree.children:
            yield from _minima(child, counts, needed)


def unit_is_whole(state: State, gang: GangRecord) -> bool:
    """Return whether the members of a gang are placed in one cycle."""
    if (
        state.settings.unit is SchedulingUnit.GROUP
        or gang.is_whole
        or gang.held_at == state.events
        or gang.is_bundle
    ):
        return True
    return bool(gang.tree.constrained or gang.tree.restarted) or gang.tree.has_parts


# Bundles ---------------------------------------------------------------------------------------


def bundle_problem(state: State, gang: GangRecord) -> str:
    """Return why the groups of a gang cannot start together yet; ``""`` if they can."""
    if gang.problem or not gang.is_bundle:
        return gang.problem
    if gang.is_tree:
        return _family_problem(state, gang)
    for tree in gang.tree.children:
        other = gang.infos.get(GroupKey(tree.key))
        if other is None or not (other.was_scheduled or other.is_complete):
            has_some = other is not None and other.unscheduled
            lacks = "it is incomplete" if has_some else "it has no pending members"
            return waits_for(tree.key, lacks)
    return ""


def _family_problem(state: State, gang: GangRecord) -> str:
    """Return why the groups below a root cannot start together yet; ``""`` if they can."""
    needed, pending = lacking(state, gang), Counter([r.leaf for r in gang.pending.values()])

    def may_start(tree: SubGroup) -> bool:
        return can_be_met(tree, by_key(needed), pending)

    tree = gang.tree
    while not may_start(tree):  # the child that keeps its parent from starting is named
        able = [child for child in tree.children if may_start(child)]
        if tree.group is not None:
            return f"{AWAITS_GROUPS} {tree.group}: it is incomplete"
        if len(tree.children) < tree.wanted or tree.is_optional or not tree.children:
            some = f"{len(able)} of {tree.wanted}"
            return f"{AWAITS_GROUPS}s whose parent is {tree.key}: {some} can start"
        tree = next(child for child in tree.children if child not in able)
    return ""
