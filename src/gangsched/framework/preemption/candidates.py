"""Who may be displaced: units that give way as a whole.

Rules:
  R1  only who has a lower priority than the preemptor, holds room, and is not going already;
  R2  a gang gives way as a whole, with the groups of its bundle, or it gives up members that it
      has beyond its minima: it is never left below them;
  R3  room that is kept for somebody of lower priority is a unit too, and costs nobody his node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TypeAlias, final

from attrs import define

from gangsched._core._counters import MemberState
from gangsched._core._registry import PodGroupInfo
from gangsched.framework.nodes.nodes_view import Holder
from gangsched.framework.placement import nominator
from gangsched.framework.queueing import bundles
from gangsched.framework.state.nomination import Nomination
from gangsched.framework.state.scheduler_state import ON_NODES, Member, State
from gangsched.model import NodeName, PodUID, Resources

__all__ = ["EvictionUnit", "leaving", "on_their_way", "surplus", "units"]

_BOUND = (MemberState.BINDING, MemberState.ASSIGNED)
_Asked: TypeAlias = tuple[PodUID, Resources, NodeName | None]


@final
@define(eq=False)
class EvictionUnit:
    """What gives way together.

    Attributes:
        priority: Its priority; of a bundle, the highest.
        falls: How many gangs or regular pods that run are no more by it.
        pods: How many pods are evicted.
        created_at: When it was created.
        seq: Its number in the order of arrival.
        groups: The groups that fall, or the one that gives up members; none for a regular pod.
        is_surplus: Whether only members beyond the minima go.
        member: The regular pod.
        nomination: The room that is kept.
    """

    priority: int
    falls: int
    pods: int
    created_at: float
    seq: int
    groups: tuple[PodGroupInfo, ...] = ()
    is_surplus: bool = False
    member: Member | None = None
    nomination: Nomination | None = None
    _holders: list[Holder] | None = None

    @property
    def size(self) -> int:
        """How many pods give room back at most: those that wait for siblings too."""
        return (
            self.pods if self.is_surplus or self.member else sum(g.scheduled for g in self.groups)
        )

    def members(self, state: State) -> list[Member]:
        """Return the pods that go. O(members)."""
        if self.member is not None:
            return [self.member]
        if self.is_surplus:
            return surplus(state, self.groups[0])
        return [m for info in self.groups for m in state.of_group(info) if m.state in ON_NODES]

    def holders(self, state: State) -> list[Holder]:
        """Return what room they hold; remembered. O(members)."""
        if self._holders is None:
            asked: Iterable[_Asked]
            if self.nomination is not None:
                kept = self.nomination.kept.values()
                asked = ((each.stand_in.uid, each.stand_in.requests, each.node) for each in kept)
            else:
                asked = map(_asked, self.members(state))
            self._holders = list(_holders(state, asked))
        return self._holders


def units(state: State, below: int, besides: Collection[PodGroupInfo]) -> list[EvictionUnit]:
    """Return who may give way to somebody of a priority, the groups *besides* apart.

    Runtime complexity: O(groups) and O(pods).
    """
    found: list[EvictionUnit] = []
    apart = {info.uid for info in besides}
    seen = apart.copy()
    for info in state.registry:
        if info.uid in seen or not info.scheduled:
            continue
        groups = _together(state, info)
        seen.update(each.uid for each in groups)
        if apart.isdisjoint(each.uid for each in groups):
            found += _of_groups(state, groups, below)
    for member in state.members.values():
        if member.group is not None or member.state not in ON_NODES:
            continue
        pod = member.pod
        if pod.priority < below:
            found.append(
                EvictionUnit(pod.priority, 1, 1, pod.created_at, member.seq, member=member)
            )
    for kept in state.nominations.values():
        if kept.priority < below:
            entity = kept.entity
            unit = EvictionUnit(kept.priority, 0, 0, entity.created_at, entity.seq, nomination=kept)
            found.append(unit)
    return found


def _together(state: State, info: PodGroupInfo) -> list[PodGroupInfo]:
    """Return the groups that fall with a group: those of its bundle that hold nodes."""
    found = [info]
    bundle = bundles.keys(info.spec)
    for key in bundle:
        other = state.registry.get(key)
        if other is None or other is info or not other.scheduled:
            continue
        if bundles.keys(other.spec) == bundle:
            found.append(other)
    return found


def _of_groups(state: State, groups: list[PodGroupInfo], below: int) -> Iterator[EvictionUnit]:
    priority = max(info.priority for info in groups)
    if any(rank > priority for info in groups for _minimum, rank in info.claims.values()):
        # members that run may rank higher than their group has come to
        members = (member for info in groups for member in state.of_group(info))
        ranks = [member.pod.priority for member in members if member.state in ON_NODES]
        priority = max(priority, *ranks)
    created_at = max(info.created_at for info in groups)
    if priority >= below:
        return
    bound = sum(info.scheduled - info.waiting for info in groups)
    falls = int(any(info.was_scheduled for info in groups))
    for info in groups:
        more = info.scheduled - info.waiting - (info.min_available or 0)
        if more > 0 and _may_shrink(info):
            yield EvictionUnit(
                priority, 0, more, info.created_at, info.uid, groups=(info,), is_surplus=True
            )
    yield EvictionUnit(priority, falls, bound, created_at, groups[0].uid, groups=tuple(groups))


def surplus(state: State, info: PodGroupInfo) -> list[Member]:
    """Return the members that a started gang may give up, the last to come first. O(members)."""
    bound = [member for member in state.of_group(info) if member.state in _BOUND]
    minimum = info.min_available or 0
    left = len(bound)
    of_role = {role: sum(m.role == role for m in bound) for role in info.roles}
    if not _may_shrink(info) or any(of_role[r] < least for r, least in info.roles.items()):
        return []
    found: list[Member] = []
    for member in reversed(bound):
        if left <= minimum:
            break
        role = member.role
        if role is not None and role in of_role:
            if of_role[role] <= info.roles[role]:
                continue
            of_role[role] -= 1
        left -= 1
        found.append(member)
    return found


def _may_shrink(info: PodGroupInfo) -> bool:
    """Say whether a gang has started and has no fewer members of any role than it needs."""
    if not info.was_scheduled or info.min_available is None:
        return False
    return all(info.role(role).scheduled >= least for role, least in info.roles.items())


def leaving(state: State) -> list[Holder]:
    """Return who holds room and is going already, and is not overdue. O(groups) and O(pods)."""
    members = [
        state.members[uid]
        for info in state.registry
        if info.members.count(MemberState.TERMINATING)
        for uid in info.members
    ]
    members += [member for member in state.members.values() if member.group is None]
    return list(_holders(state, (_asked(m) for m in members if _is_leaving(state, m))))


def on_their_way(state: State, nodes: Iterable[NodeName]) -> list[PodUID]:
    """Return who of those on some nodes is going already, and is not overdue. O(pods on them)."""
    infos = (state.nodes.infos[name] for name in nodes)
    members = (state.members.get(uid) for info in infos for uid in info.holders)
    return [m.pod.uid for m in members if m is not None and _is_leaving(state, m)]


def _is_leaving(state: State, member: Member) -> bool:
    uid = member.pod.uid
    if member.state is not MemberState.TERMINATING or uid in state.overdue:
        return False
    return nominator.holds_room(state, uid)


def _asked(member: Member) -> _Asked:
    node = member.node if member.node is not None else member.pod.node_name
    return member.pod.uid, member.requests, node


def _holders(state: State, asked: Iterable[_Asked]) -> Iterator[Holder]:
    """Yield who holds the node that it is said to hold."""
    infos = state.nodes.infos
    for uid, requests, name in asked:
        info = None if name is None else infos.get(name)
        if info is not None and uid in info.holders:
            yield Holder(uid, info.index, requests)
