"""Eviction units: the pods and nominations that preemption may take together.

Rules:
  R1  a pod may be evicted if its priority is lower than the preemptor's, it holds a node, and it
      is not terminating already;
  R2  a gang is evicted as a whole, with the other groups of its bundle, or it gives up elastic
      members: those beyond its minima. It never goes on with fewer members than its minima;
  R3  a nomination of a lower priority is a unit too; taking its capacity evicts no pod.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TypeAlias, final

from attrs import define, evolve

from gangsched._core._counters import MemberState
from gangsched._core._registry import PodGroupInfo
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.nodes_view import Holder
from gangsched.framework.placement import nominator
from gangsched.framework.state.nomination import Nomination
from gangsched.framework.state.pods import ON_NODES, Member, Pods
from gangsched.framework.state.reservations import Reservations
from gangsched.model import NodeName, PodUID

__all__ = [
    "EvictionUnit",
    "IsCandidate",
    "elastic_members",
    "elastic_nodes",
    "terminating",
    "terminating_on",
    "units",
]

_BOUND = (MemberState.BINDING, MemberState.ASSIGNED)

IsCandidate: TypeAlias = Callable[[int], bool]
"""Returns whether evictions on the node with this index may help the preemptor."""


@final
@define(eq=False)
class EvictionUnit:
    """Pods or a nomination that are evicted or removed together.

    Attributes:
        priority: Its priority; of a bundle, the highest.
        gangs: 1 if it ends a running gang, a bundle with one, or a regular pod; else 0.
        pods: The number of pods that are evicted.
        created_at: When it was created.
        seq: Its number in the order of arrival.
        groups: The groups that are evicted, or the one that gives up elastic members; empty for
            a regular pod.
        is_elastic: Whether only elastic members are evicted.
        member: The regular pod.
        nomination: The nomination.
    """

    priority: int
    gangs: int
    pods: int
    created_at: float
    seq: int
    groups: tuple[PodGroupInfo, ...] = ()
    is_elastic: bool = False
    member: Member | None = None
    nomination: Nomination | None = None
    _holders: list[Holder] | None = None

    @property
    def size(self) -> int:
        """The number of pods that free capacity at most, with members that wait on permit."""
        return (
            self.pods if self.is_elastic or self.member else sum(g.scheduled for g in self.groups)
        )

    def members(self, nodes: Nodes, pods: Pods) -> list[Member]:
        """Return the pods that are evicted. O(members)."""
        if self.member is not None:
            return [self.member]
        if self.is_elastic:
            return elastic_members(nodes, pods, self.groups[0])
        return [m for info in self.groups for m in pods.of_group(info) if m.state in ON_NODES]

    def holders(self, nodes: Nodes, pods: Pods, is_candidate: IsCandidate) -> list[Holder]:
        """Return the capacity that it frees where that may help the preemptor. O(members).

        The result is computed once. Capacity on other nodes is freed too if the unit is taken,
        but no plan counts on it.
        """
        if self._holders is None:
            found: Iterable[Holder]
            if self.nomination is not None:
                found = _nominated(nodes, self.nomination)
            else:
                found = _holders(nodes, self.members(nodes, pods))
            self._holders = [holder for holder in found if is_candidate(holder[1])]
        return self._holders

    def on_node(
        self, nodes: Nodes, pods: Pods, index: int, gone: Collection[PodUID]
    ) -> EvictionUnit:
        """Return a unit with the elastic members that this unit's gang can give up on one node.

        Runtime complexity: O(members).

        Args:
            nodes: The nodes.
            pods: The known pods and groups.
            index: The node.
            gone: Members that the gang gives up already.
        """
        members = elastic_members(nodes, pods, self.groups[0], gone, on=index)
        made = evolve(self, pods=len(members))
        made._holders = _holders(nodes, members)
        return made


def units(
    pods: Pods, reservations: Reservations, below: int, besides: Collection[PodGroupInfo]
) -> list[EvictionUnit]:
    """Return the units of a priority lower than *below*, except those of the groups *besides*.

    Runtime complexity: O(groups) and O(pods).
    """
    found: list[EvictionUnit] = []
    apart = {info.uid for info in besides}
    seen = apart.copy()
    for info in pods.registry:
        if info.uid in seen:
            continue
        scheduled = info.members.scheduled
        if not scheduled:
            continue
        if info.bundle is None:
            _add_group(pods, info, scheduled, below, found)
            continue
        groups = _together(pods, info)
        seen.update(each.uid for each in groups)
        if apart.isdisjoint(each.uid for each in groups):
            found += _of_groups(pods, groups, below)
    for member in pods.members.values():
        if member.group is None and member.state in ON_NODES:
            pod = member.pod
            priority = pod.priority
            if priority < below:
                found.append(
                    EvictionUnit(priority, 1, 1, pod.created_at, member.seq, (), False, member)
                )
    for made in reservations.nominations.values():
        if made.priority < below:
            entity = made.entity
            unit = EvictionUnit(made.priority, 0, 0, entity.created_at, entity.seq, nomination=made)
            found.append(unit)
    return found


def _together(pods: Pods, info: PodGroupInfo) -> list[PodGroupInfo]:
    """Return the groups that are evicted with a group: those of its bundle that hold nodes."""
    found = [info]
    for key in () if info.bundle is None else info.bundle.keys:
        other = pods.registry.get(key)
        if other is None or other is info or not other.scheduled:
            continue
        if other.bundle is info.bundle:
            found.append(other)
    return found


def _add_group(
    pods: Pods, info: PodGroupInfo, scheduled: int, below: int, found: list[EvictionUnit]
) -> None:
    """Add the units of a group that no other is evicted with, as ``_of_groups`` has them.

    Nearly all groups are such, and a search lists all of them.
    """
    priority = info.priority
    for _minimum, claimed in info.claims.values():
        if claimed > priority:
            priority = _highest(pods, (info,), priority)
            break
    if priority >= below:
        return
    bound, started = scheduled - info.members.waiting, info.was_scheduled
    more = bound - (info.min_available or 0)
    created_at, uid, groups = info.created_at, info.uid, (info,)
    if more > 0 and _is_elastic(info):
        found.append(EvictionUnit(priority, 0, more, created_at, uid, groups, is_elastic=True))
    found.append(EvictionUnit(priority, int(started), bound, created_at, uid, groups))


def _highest(pods: Pods, groups: Sequence[PodGroupInfo], priority: int) -> int:
    """Return the highest priority of groups and of their members on nodes. O(members).

    The priority of a running member may be higher than that of its group, which has changed since.
    """
    members = (member for info in groups for member in pods.of_group(info))
    return max(priority, *(each.pod.priority for each in members if each.state in ON_NODES))


def _of_groups(pods: Pods, groups: Sequence[PodGroupInfo], below: int) -> list[EvictionUnit]:
    first = groups[0]
    priority = max(info.priority for info in groups)
    created_at = max(info.created_at for info in groups)
    claims = [claimed for info in groups for _minimum, claimed in info.claims.values()]
    if claims and max(claims) > priority:
        priority = _highest(pods, groups, priority)
    if priority >= below:
        return []
    found: list[EvictionUnit] = []
    pods_bound = started = 0
    for info in groups:
        bound = info.scheduled - info.waiting
        pods_bound += bound
        started |= info.was_scheduled
        more = bound - (info.min_available or 0)
        if more > 0 and _is_elastic(info):
            found.append(
                EvictionUnit(
                    priority, 0, more, info.created_at, info.uid, groups=(info,), is_elastic=True
                )
            )
    whole = EvictionUnit(priority, started, pods_bound, created_at, first.uid, groups=tuple(groups))
    found.append(whole)
    return found


# Elastic members ------------------------------------------------------------------------------


@final
class _Elastic:
    """Counts how many members a gang may still give up, in total and by role."""

    def __init__(self, info: PodGroupInfo, bound: Collection[Member]) -> None:
        self.left: int = len(bound) - (info.min_available or 0)
        self.of_role: dict[str, int] = {
            role: sum(m.role == role for m in bound) - least for role, least in info.roles.items()
        }

    def give_up(self, member: Member) -> bool:
        """Count a member as given up; return False if its gang needs it. O(1)."""
        role = member.role
        if self.left <= 0 or (role in self.of_role and self.of_role[role] <= 0):
            return False
        self.left -= 1
        if role is not None and role in self.of_role:
            self.of_role[role] -= 1
        return True


def elastic_members(
    nodes: Nodes,
    pods: Pods,
    info: PodGroupInfo,
    gone: Collection[PodUID] = (),
    *,
    on: int | None = None,
) -> list[Member]:
    """Return the members that a started gang can give up, the last to arrive first. O(members).

    Args:
        nodes: The nodes.
        pods: The known pods and groups.
        info: The group.
        gone: Members that it gives up already.
        on: The index of the node that they are on; None for any.
    """
    bound = [m for m in pods.of_group(info) if m.state in _BOUND and m.pod.uid not in gone]
    elastic = _Elastic(info, bound)
    if not _is_elastic(info) or any(spare < 0 for spare in elastic.of_role.values()):
        return []
    name = None if on is None else nodes.by_index[on].node.name
    chosen = (m for m in reversed(bound) if name is None or _node_of(m) == name)
    return [member for member in chosen if elastic.give_up(member)]


def elastic_nodes(nodes: Nodes, pods: Pods, info: PodGroupInfo) -> list[int]:
    """Return the nodes of a gang's bound members, by index, each once. O(members)."""
    names = (_node_of(member) for member in pods.of_group(info) if member.state in _BOUND)
    infos = (nodes.infos.get(name) for name in dict.fromkeys(names) if name is not None)
    return [found.index for found in infos if found is not None]


def _is_elastic(info: PodGroupInfo) -> bool:
    """Return whether a gang has started, has a known minimum, and has its minimum of each role."""
    if info.spec is not None and info.spec.evicted_whole:
        return False
    if not info.was_scheduled or info.min_available is None:
        return False
    return all(info.role(role).scheduled >= least for role, least in info.roles.items())


# Terminating pods -----------------------------------------------------------------------------


def terminating(nodes: Nodes, pods: Pods, reservations: Reservations) -> list[Holder]:
    """Return the pods that terminate and are not overdue. O(groups) and O(pods)."""
    members = [
        pods.members[uid]
        for info in pods.registry
        if info.members.count(MemberState.TERMINATING)
        for uid in info.members
    ]
    ending = MemberState.TERMINATING  # most pods run, so this is asked of each first
    members += [m for m in pods.members.values() if m.state is ending and m.group is None]
    return _holders(nodes, (m for m in members if _is_terminating(pods, reservations, m)))


def terminating_on(
    nodes: Nodes, pods: Pods, reservations: Reservations, names: Iterable[NodeName]
) -> list[PodUID]:
    """Return the pods on some nodes that terminate and are not overdue. O(pods on them)."""
    infos = (nodes.infos[name] for name in names)
    members = (pods.members.get(uid) for info in infos for uid in info.holders)
    return [m.pod.uid for m in members if m is not None and _is_terminating(pods, reservations, m)]


def _is_terminating(pods: Pods, reservations: Reservations, member: Member) -> bool:
    uid = member.pod.uid
    if member.state is not MemberState.TERMINATING or uid in reservations.overdue:
        return False
    return nominator.holds_capacity(pods, uid)


# Holders --------------------------------------------------------------------------------------


def _nominated(nodes: Nodes, nomination: Nomination) -> Iterator[Holder]:
    for uid, each in nomination.pods.items():
        index = nodes.infos[each.node].index  # a pod whose node is gone is not nominated any more
        yield Holder(uid, index, each.reserved.requests, each.reserved)


def _holders(nodes: Nodes, members: Iterable[Member]) -> list[Holder]:
    """Return what each member holds, if its node shows it. O(members)."""
    infos, found = nodes.infos, list[Holder]()
    for member in members:
        pod = member.pod
        name = member.node
        if name is None:
            name = pod.node_name
        info = None if name is None else infos.get(name)
        if info is not None and pod.uid in info.holders:
            found.append(Holder(pod.uid, info.index, member.requests))
    return found


def _node_of(member: Member) -> NodeName | None:
    return member.node if member.node is not None else member.pod.node_name
