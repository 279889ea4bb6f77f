"""What the pending members of a gang ask for: which may start together, and which alone.

A member goes alone once its group lacks no member; those of groups that lack some start together.
From that follows the demand, which is equal for gangs that fail alike.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeAlias

from gangsched.core.attempt.placing import wanted_in_all
from gangsched.core.attempt.reach import reach_of
from gangsched.core.evaluation.pod_class import PodClass
from gangsched.core.placement.pinned import holding_by_leaf, pinned_to
from gangsched.core.queue.demand import Demand, Minimum
from gangsched.core.records.gang import Gang, PodRecord
from gangsched.core.state import State
from gangsched.model import GroupKey
from gangsched.options.scheduling_unit import SchedulingUnit
from gangsched.primitives.gang_tree import SubGroup
from gangsched.primitives.group_info import PodGroupInfo
from gangsched.primitives.standing import least_needed
from gangsched.resources import NOTHING

__all__ = [
    "bundle_problem",
    "demand_of",
    "lacking",
    "rests",
    "split",
    "unit_is_whole",
    "waits_for",
]


def demand_of(state: State, gang: Gang) -> Demand:
    """Return what a gang asks for; equal for gangs that fail alike. O(pending members)."""
    tree, lacks = gang.tree, _lacks(state, gang)
    alone, together = _split(state, gang, lacks)
    reach = reach_of(state, gang, together or alone)
    # where running members keep the others is the gang's own, and part of what it asks for
    pinned = [pinned_to(gang, each, state.table) for each in tree.constrained]
    where = [None if domains is None else tuple(domains) for domains in pinned]
    own = (gang.seq, tree.shape, *where)
    sees_others = _sees_others(state, gang)
    own_later = own if pinned or sees_others else ()
    if not together:
        key, minima = _later(alone, own_later)
        return state.queue.demand(key, lambda: (minima,), reach)
    needed = _lacking(state, gang, lacks)
    counts = _counts(tree, together, needed)
    numbers = tuple(
        [
            tuple(sorted([(c.number, n) for c, n in counts.get(leaf.key, {}).items()]))
            for leaf in tree.leaves
        ]
    )
    # an attempt that has begun is not refused for its total
    in_all = NOTHING if gang.waiting else wanted_in_all(state, gang)
    is_own = sees_others or any(domains is not None for domains in pinned)
    key = (tree.shape, numbers, tuple(needed.values()), in_all or None, own if is_own else ())

    def gang_minima() -> tuple[Minimum, ...]:
        return tuple(_minima(tree, counts, needed))

    if not alone:
        return state.queue.demand(key, lambda: (gang_minima(),), reach, in_all)
    later_key, later = _later(alone, own_later)
    return state.queue.demand((key, later_key), lambda: (gang_minima(), later), reach)


def _sees_others(state: State, gang: Gang) -> bool:
    """Return whether a gang sees other nodes than others that ask for the same.

    A nominated gang does, and so does one that the plan of a reservation keeps off some. A filter
    may refuse others that look like it.
    """
    return (
        gang in state.nominations.known
        or state.reservation.concerns(gang)
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


_Lacks: TypeAlias = Mapping[GroupKey, Mapping[str, int]]
"""How many more members each role of each group needs, by the gang policy."""


def _lacks(state: State, gang: Gang) -> _Lacks:
    return {key: state.points.roles_needed(info) for key, info in gang.infos.items()}


def split(state: State, gang: Gang) -> tuple[list[PodRecord], list[PodRecord]]:
    """Return the pending members that may start by themselves, and those that may together.

    A member goes alone once its group lacks no member. Of a bundle, some groups may have started
    and others not; those are left out while they cannot start together.
    """
    return _split(state, gang, _lacks(state, gang))


def _split(state: State, gang: Gang, lacks: _Lacks) -> tuple[list[PodRecord], list[PodRecord]]:
    alone_groups = [key for key, roles in lacks.items() if max(roles.values(), default=0) <= 0]
    pending = gang.in_order()
    if len(alone_groups) == len(lacks):
        return pending, []
    if not gang.is_bundle:
        return [], pending
    if len(lacks) > 1:
        resting = {key for key, info in gang.infos.items() if rests(state, info)}
        pending = [r for r in pending if r.info is None or r.info.key not in resting]
    alone = [r for r in pending if r.info is None or r.info.key in alone_groups]
    if bundle_problem(state, gang) is not None:
        return alone, []
    return alone, [r for r in pending if r.info is not None and r.info.key not in alone_groups]


def _later(records: Iterable[PodRecord], own: Hashable) -> tuple[Hashable, tuple[Minimum, ...]]:
    """Return what members that go alone ask for: any one of them is placed by itself."""
    classes: dict[PodClass, int] = {}
    for record in records:
        assert record.pod_class is not None
        classes[record.pod_class] = 1
    names = tuple(sorted(pod_class.number for pod_class in classes))
    minimum = Minimum(tuple(classes.items()), 1)
    return ("later", names, own), (minimum,)


def lacking(state: State, gang: Gang) -> dict[str, int]:
    """Return how many more members each sub group needs for its minimum, by its key. O(tree).

    The gang policy decides which members count. So a sub group that stands for a group or a role is
    asked of it; any other is counted from the members that hold nodes.
    """
    return _lacking(state, gang, _lacks(state, gang))


def _lacking(state: State, gang: Gang, lacks: _Lacks) -> dict[str, int]:
    tree, found = gang.tree, dict[str, int]()
    if not lacks:
        return {"": 1}
    if not tree.children:
        (roles,) = lacks.values()
        return {tree.key: max(roles.get("", 0), 0)}
    holding: dict[str, int] | None = None
    for each in tree.sub_groups():
        info = gang.infos.get(GroupKey(each.key))
        if info is not None:
            rest = len(lacks) > 1 and rests(state, info)
            needed: Mapping[str, int] = {} if rest else lacks[info.key]
            found[each.key] = max(needed.get("", 0), 0)
            for leaf in each.children:
                found[leaf.key] = max(needed.get(leaf.role or "-", 0), 0)
        elif each.key not in found:
            holding = holding_by_leaf(gang) if holding is None else holding
            held = sum(holding.get(leaf.key, 0) for leaf in each.leaves)
            found[each.key] = max(each.least - held, 0)
    return found


def _minima(
    tree: SubGroup, counts: dict[str, dict[PodClass, int]], needed: dict[str, int]
) -> Iterable[Minimum]:
    """Yield minima that hold whatever children are chosen."""
    parts: dict[PodClass, int] = {}
    for leaf in tree.leaves:
        for pod_class, number in counts.get(leaf.key, {}).items():
            parts[pod_class] = parts.get(pod_class, 0) + number
    number = least_needed(tree, lambda sub: needed.get(sub.key, 0))
    if number > 0 and parts:
        within = tree.within
        level = within.level if within is not None and within.required else None
        yield Minimum(tuple(parts.items()), number, level)
    if not tree.is_optional:
        for child in tree.children:
            yield from _minima(child, counts, needed)


def unit_is_whole(state: State, gang: Gang) -> bool:
    """Return whether the members of a gang are placed in one cycle."""
    if (
        state.settings.unit is SchedulingUnit.GROUP
        or gang.is_whole
        or gang.held_at == state.events
        or gang.is_bundle
    ):
        return True
    return bool(gang.tree.constrained)


# Bundles ---------------------------------------------------------------------------------------


def rests(state: State, info: PodGroupInfo) -> bool:
    """Return whether a group has started, and has too few pending members for another quorum."""
    if not info.was_scheduled:
        return False
    return state.points.roles_needed(info).get("", 0) > info.unscheduled + info.waiting


def bundle_problem(state: State, gang: Gang) -> tuple[PodGroupInfo, str] | None:
    """Return why the groups of a bundle cannot start together yet; None if they can."""
    if not gang.is_bundle:
        return None
    info = gang.infos[min(gang.infos)]  # a restored scheduler met them in another order
    if not gang.agrees:
        return info, _disagreement(state, gang)
    for tree in gang.tree.children:
        other = gang.infos.get(GroupKey(tree.key))
        if other is None or not (other.was_scheduled or other.is_complete):
            has_some = other is not None and other.unscheduled
            lacks = "it is incomplete" if has_some else "it has no pending members"
            return info, waits_for(tree.key, lacks)
    return None


def waits_for(group: str, reason: str) -> str:
    """Return why a bundle waits for a group of it; ``why`` leaves the group out of its own."""
    return f"waiting for pod group {group} of its bundle: {reason}"


def _disagreement(state: State, gang: Gang) -> str:
    names = sorted({n for i in gang.infos.values() if i.spec for n in (i.key, *i.spec.bundle)})
    for name in names:
        spec = state.records.registry.spec(name)
        if spec is None:
            return waits_for(name, "it does not exist")
        if sorted({name, *spec.bundle}) != names:
            return f"pod group {name} names another bundle"
    return "the minimum of a group of its bundle is unknown"
