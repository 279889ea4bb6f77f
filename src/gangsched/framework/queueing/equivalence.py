"""The equivalence class of an entity: what it asks for, in all that a placement depends on.

It also says which member is tried next, which pods are scheduled alone, and what a group still
needs.

Rules:
  R1  two entities of one class get the same answer from the same cluster, so one failure proves
      that all of them fail (KEP-5598);
  R2  an entity that is not known in detail is a class of its own, and may always fit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from attrs import evolve

from gangsched._core import _quorum
from gangsched._core._capacity import gap
from gangsched._core._counters import MemberState
from gangsched._core._entity import QueuedEntity
from gangsched._core._registry import PodGroupInfo
from gangsched.constraints.matchers import PodMatcher
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.queueing import bundles
from gangsched.framework.queueing.equivalence_class import EquivalenceClass, of_like_members
from gangsched.framework.runtime import extension_points, pod_readers
from gangsched.framework.runtime.pod_readers import Affecting
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pods import ON_NODES, Member, Pods
from gangsched.framework.state.role_count import RoleCount
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings
from gangsched.model import Pod, PreemptionPolicy, Resources
from gangsched.resources import NOTHING

__all__ = [
    "EquivalenceClass",
    "class_of",
    "falls_short",
    "needed_in_total",
    "goes_alone",
    "has_evicting_members",
    "joins_alike",
    "may_evict",
    "missing",
    "needed",
    "next_member",
    "presence",
    "role_counts",
    "preemption_reach",
    "reads_pods",
]


def class_of(
    settings: Settings, nodes: Nodes, pods: Pods, call: CurrentCall, entity: QueuedEntity
) -> Hashable:
    """Return an entity's equivalence class, or its number if no other is known to be like it.

    Runtime complexity: O(members log members), of all groups that start with it. For a group of
    like members O(1), and for one that has started O(kinds of members), without preemption and
    where no plugin reads pods on nodes.
    """
    party = bundles.pending(pods, entity)
    if not settings.profile.signed or any(_has_its_place(each.group) for each in party):
        return entity.seq
    reach = None if settings.preemption is None else preemption_reach(settings, pods, entity)
    parts = tuple(_class_alone(settings, nodes, pods, call, each, reach) for each in party)
    if len(parts) == 1:
        return parts[0]
    runs = tuple(run for part in parts for run in part.runs)
    floor = sum((part.floor for part in parts), start=NOTHING)
    affected = tuple(each for part in parts for each in part.affected)
    return EquivalenceClass(
        sum(part.needed for part in parts),
        runs,
        floor,
        parts=parts,
        reach=reach,
        affected=affected,
    )


def reads_pods(equivalence_class: Hashable) -> bool:
    """Return whether a plugin may read the pods on nodes for entities of a class. O(1)."""
    return not isinstance(equivalence_class, EquivalenceClass) or equivalence_class.watches_pods


def preemption_reach(settings: Settings, pods: Pods, entity: QueuedEntity) -> tuple[int, bool]:
    """Return the priority below which an entity may preempt, and whether it may evict pods.

    The lowest priority of a group of the bundle, or of a member below its group's, counts. Every
    group of a bundle must allow preemption. Members that wait on permit count, too: a gang gives
    their nodes back before it preempts, and nominates nodes for all. A group of which only elastic
    members are pending may not evict. Runtime complexity: O(members).
    """
    parties = bundles.pending(pods, entity)
    unbound = [_unbound(pods, party) for party in parties]
    priorities = (pod.priority for members in unbound for pod in members)
    lowest = min(party.priority for party in parties)
    evicts = all(map(_may_displace, parties, unbound))
    return min((lowest, *priorities)), evicts and has_evicting_members(settings, pods, entity)


def has_evicting_members(settings: Settings, pods: Pods, entity: QueuedEntity) -> bool:
    """Return whether a pending member may evict, as ``may_evict`` says. O(kinds of members)."""
    members = (pods.members[pod.uid] for pod in entity.firsts)
    return any(may_evict(settings, member.group, member.role) for member in members)


def may_evict(settings: Settings, info: PodGroupInfo | None, role: str | None) -> bool:
    """Return whether a member of a role may evict, by whether it is elastic. O(roles)."""
    preemption = settings.preemption
    if preemption is None or info is None or not info.was_scheduled:
        return preemption is not None
    return preemption.elastic_members or _quorum.brings_nearer(info, role)


def _unbound(pods: Pods, entity: QueuedEntity) -> list[Pod]:
    """Return the members that are pending or wait on permit. O(members)."""
    info = entity.group
    waiting = () if info is None or not info.waiting else pods.waiting.of(info.key)
    return [*entity.pending, *(pods.members[entry.uid].pod for entry in waiting)]


def _may_displace(entity: QueuedEntity, unbound: Iterable[Pod]) -> bool:
    spec = None if entity.group is None else entity.group.spec
    if spec is not None and spec.preemption_policy is not None:
        return spec.preemption_policy is not PreemptionPolicy.NEVER
    return all(pod.preemption_policy is not PreemptionPolicy.NEVER for pod in unbound)


def _has_its_place(info: PodGroupInfo | None) -> bool:
    """Return whether pending members must join the topology value of running members. O(1).

    Another group runs within another value, so such a group is a class of its own.
    """
    topology = None if info is None or info.spec is None else info.spec.topology
    return info is not None and topology is not None and topology.required and info.scheduled > 0


def _class_alone(
    settings: Settings,
    nodes: Nodes,
    pods: Pods,
    call: CurrentCall,
    entity: QueuedEntity,
    reach: tuple[int, bool] | None,
) -> EquivalenceClass:
    whole, *lacking = role_counts(settings, call, entity)
    more, asked = whole.count, {each.role for each in lacking}
    info = entity.group
    # plugins answer for a group, so they are not asked again about one that needs several members
    one_by_one = info is not None and more == 1 and goes_alone(settings, call, info)
    floor = _floor(settings, pods, call, info)
    spec = None if info is None else info.spec
    topology = None if spec is None else spec.topology
    if not (lacking or floor or topology or reach or nodes.watches_pods):
        firsts = entity.firsts
        if len(firsts) == 1:
            pod_class = pods.members[firsts[0].uid].pod_class
            return of_like_members(pod_class, more, 1 if one_by_one else len(entity))
    if one_by_one and not nodes.watches_pods:
        members = _first_of_each_class(pods, entity, asked)
    else:
        members = sorted([pods.members[pod.uid] for pod in entity.pending], key=_arrival)
    affected = _affected(nodes, members) if nodes.watches_pods else ()
    if not lacking:
        counts = tuple([(each, len(list(run))) for each, run in groupby(members, key=_class_of)])
        return EquivalenceClass(
            more, counts, floor, topology=topology, reach=reach, affected=affected
        )
    found = [
        (each, len(list(run)), role)
        for (each, role), run in groupby(
            members, key=lambda m: (m.pod_class, _role_among(asked, m))
        )
    ]
    counts = tuple((each, count) for each, count, _role in found)
    names = tuple(role for *_, role in found)
    return EquivalenceClass(
        more,
        counts,
        floor,
        tuple([evolve(each, group=None) for each in lacking]),
        names,
        topology,
        reach=reach,
        affected=affected,
    )


def _role_among(asked: Collection[str | None], member: Member) -> str:
    """Return the role of a member if the group lacks members of it, else an empty string."""
    return member.role if member.role is not None and member.role in asked else ""


def _first_of_each_class(
    pods: Pods, entity: QueuedEntity, asked: Collection[str | None]
) -> list[Member]:
    """Return one of the members that are alike, the first to arrive. O(kinds of members).

    Where each member is placed alone, one that fails proves that those like it fail, and how many
    there are does not matter. So a late member that is like one that waits changes no class.
    """
    firsts: dict[tuple[PodClass, str], Member] = {}
    for pod in entity.firsts:
        member = pods.members[pod.uid]
        firsts.setdefault((member.pod_class, _role_among(asked, member)), member)
    return list(firsts.values())


def joins_alike(settings: Settings, nodes: Nodes, call: CurrentCall, member: Member) -> bool:
    """Return whether the class of a parked entity stays what it is with one more member.

    True only for a member that is placed alone and is like a member that waits already. O(classes
    of members).
    """
    entity, pod = member.entity, member.pod
    parked = entity.equivalence_class
    if member.group is None or not isinstance(parked, EquivalenceClass):
        return False
    if parked.role_counts or parked.parts or parked.floor or nodes.watches_pods or parked.affected:
        return False
    if not goes_alone(settings, call, member.group):
        return False
    if parked.reach is not None and (
        pod.priority < parked.reach[0]
        or pod.preemption_policy is PreemptionPolicy.NEVER
        or (may_evict(settings, member.group, member.role) and not parked.reach[1])
    ):
        return False
    return any(pod_class is member.pod_class for pod_class, _count in parked.runs)


def _affected(nodes: Nodes, members: Sequence[Member]) -> tuple[str, ...]:
    """Return which carried terms are about each of the members, and which siblings select it.

    The terms of the siblings are among them. O(members), as like members share their text.
    """
    terms = pod_readers.affected_among(nodes, members)
    selected = pod_readers.selected_among(members)
    if not any(terms) and not any(selected):
        return ()
    texts: dict[Hashable, str] = {}
    found: list[str] = []
    for member, each, siblings in zip(members, terms, selected, strict=True):
        key = (member.pod.namespace, each, siblings)
        text = texts.get(key)
        if text is None:
            text = texts[key] = _text(member.pod.namespace, each, siblings)
        found.append(text)
    return tuple(found)


def _text(namespace: str, terms: Iterable[Affecting], siblings: Iterable[PodMatcher]) -> str:
    """Return what distinguishes a member from others of its pod class; empty if nothing does."""
    found = [f"{term!r}" for term in terms] + [f"selected: {one!r}" for one in siblings]
    # such a matcher is about the pods of one namespace, and not about like pods of another
    selective = any(
        isinstance(one, PodMatcher) and one.namespace_selector is not None
        for one in (*terms, *siblings)
    )
    return "; ".join([namespace] * selective + sorted(found))


def needed(settings: Settings, call: CurrentCall, entity: QueuedEntity) -> int:
    """Return how many of an entity's pending members must be placed for the try to succeed."""
    number = (
        None
        if entity.group is None
        else extension_points.members_needed(settings, call, entity.group)
    )
    return 1 if number is None else max(number, 1)


def role_counts(
    settings: Settings, call: CurrentCall, entity: QueuedEntity
) -> tuple[RoleCount, ...]:
    """Return how many members of each role must be placed for the try to succeed. O(roles).

    Returns:
        First the number of members of any role, at least 1. Then one for each role that needs
        more, by name. These are part of the first number, and never more than it.
    """
    more, info = needed(settings, call, entity), entity.group
    key = None if info is None else info.key
    if info is None or not info.roles:
        return (RoleCount(key, None, more),)
    lacking = sorted(extension_points.roles_needed(settings, call, info).items())
    of_roles = [RoleCount(key, role, n) for role, n in lacking if role and n > 0]
    return (RoleCount(key, None, more), *of_roles)


def next_member(settings: Settings, pods: Pods, call: CurrentCall, entity: QueuedEntity) -> Member:
    """Return the member that an entity tries next. O(roles).

    That is the first to arrive. While every member that is still needed must have one of certain
    roles, it is the first of these: an elastic member must not take their capacity. In a group that
    has started, members are needed as long as it is below its minimum.
    """
    pod = entity.next_member
    assert pod is not None
    if entity.group is not None and entity.group.roles:
        info = entity.group
        whole, *lacking = role_counts(settings, call, entity)
        if whole.count <= sum(each.count for each in lacking):
            pod = entity.next_of(each.role for each in lacking if each.role is not None) or pod
        elif info.was_scheduled and not _quorum.brings_nearer(info, None):
            pod = entity.next_of(_quorum.lacking_roles(info)) or pod
    return pods.members[pod.uid]


def falls_short(settings: Settings, call: CurrentCall, entity: QueuedEntity) -> bool:
    """Return whether too few members are left to be tried for the try to succeed. O(roles)."""
    whole, *lacking = role_counts(settings, call, entity)
    return entity.ready_count < whole.count or any(
        entity.ready_of(each.role) < each.count for each in lacking if each.role is not None
    )


def presence(
    settings: Settings, call: CurrentCall, info: PodGroupInfo
) -> tuple[int, tuple[tuple[str, int, int], ...]]:
    """Return how many members count for the quorum, and which roles have too few. O(roles).

    Returns:
        The number of members; then role, minimum and number of each role with too few.
    """
    present, wanted = info.all, extension_points.roles_needed(settings, call, info)
    if "" in wanted and info.min_available is not None:
        present = info.min_available - wanted[""] + info.unscheduled
    absent: list[tuple[str, int, int]] = []
    for role, least in info.roles.items():
        some = least - wanted.get(role, 0) + info.role(role).unscheduled
        if some < least:
            absent.append((role, least, some))
    return present, tuple(absent)


def goes_alone(settings: Settings, call: CurrentCall, info: PodGroupInfo | None) -> bool:
    """Return whether pending members of a group are scheduled one by one, as regular pods."""
    if info is None:
        return True
    number = extension_points.members_needed(settings, call, info)
    return number is None or (number <= 0 and info.was_scheduled)


def missing(state: State, info: PodGroupInfo) -> Resources:
    """Return the resources that the cluster as a whole lacks for a group to be tried.

    Runtime complexity: O(1) for a group without requests of its own, else O(members).
    """
    wanted = needed_in_total(state.settings, state.pods, state.call, info)
    return NOTHING if wanted is NOTHING else gap(wanted, state.nodes.total())


def needed_in_total(
    settings: Settings, pods: Pods, call: CurrentCall, info: PodGroupInfo
) -> Resources:
    """Return what must be free in the cluster as a whole for a group to be tried.

    Runtime complexity: that of ``missing``.
    """
    entity, found = pods.entities.get(info.key), NOTHING
    for each in [] if entity is None else bundles.pending(pods, entity):
        wanted = _floor(settings, pods, call, each.group)
        if wanted is not NOTHING:
            found = wanted if found is NOTHING else found + wanted
    return found


def _floor(
    settings: Settings, pods: Pods, call: CurrentCall, info: PodGroupInfo | None
) -> Resources:
    """Return what must be free for a group: its own requests, less what its members hold."""
    if info is None or info.was_scheduled:
        return NOTHING
    floor = extension_points.group_requests(settings, call, info)
    counts_succeeded = info.succeeded > 0 and info.all < (info.min_available or 0)
    if floor and (info.scheduled or counts_succeeded):
        for member in pods.of_group(info):
            has_succeeded = counts_succeeded and member.state is MemberState.SUCCEEDED
            if has_succeeded or member.state in ON_NODES:
                floor -= member.pod.requests
    return floor


_arrival: Final[Callable[[Member], int]] = attrgetter("seq")
_class_of: Final[Callable[[Member], PodClass]] = attrgetter("pod_class")
