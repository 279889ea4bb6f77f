"""Admission to the quotas: what a group reserves, when it is returned, and which members may start.

Rules:
  R1  a group reserves when nothing else keeps it from the queue, with all groups of its bundle that
      have not started. Until a member holds a node, it reserves anew with each event about it;
  R2  it reserves what its minimum needs: its ``min_resources``, or what its largest members request
      if that is more. So any of its members may be the ones that start;
  R3  the members that hold nodes are counted as they are (``Pods.hold``). A member beyond the
      minimum is placed only if that fits the quotas, too, whenever it came;
  R4  what is reserved is returned when no member is pending or on a node. It is returned, too, if a
      group of the bundle is incomplete and none of them has a node;
  R5  a group that is being restarted keeps what it has reserved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import define, field

from gangsched._core._counters import MemberState
from gangsched._core._entity import QueuedEntity
from gangsched._core._registry import PodGroupInfo
from gangsched.framework.state.pods import ON_NODES, Member, Pods
from gangsched.membership import Membership
from gangsched.model import GroupKey, Pod, Resources
from gangsched.resources import NOTHING

__all__ = [
    "admit",
    "charge_listed",
    "charge_running",
    "exceeded_by",
    "give_back",
    "that_fit",
    "within",
]

_COUNTED = (*ON_NODES, MemberState.UNSCHEDULED)


def admit(pods: Pods, info: PodGroupInfo) -> str:
    """Reserve for a group that may queue; return why it must wait, or an empty string.

    A group that has started waits if none of its pending members fits the quotas.

    Runtime complexity: O(members of its bundle).
    """
    ledger = pods.quotas
    if not ledger.is_used or not ledger.covers(info.key):
        return ""
    if info.was_scheduled:
        problem = _exceeded_by_each(pods, info)
        if problem:
            ledger.wait(info.key, problem)
        else:
            ledger.stop_waiting(info.key)
        return problem
    if ledger.is_charged(info.key) and _on_nodes(pods, info):
        return ""
    return ledger.charge(_claims(pods, info))


def charge_running(pods: Pods, info: PodGroupInfo) -> None:
    """Reserve for a group that has members on nodes and was not admitted here. O(members)."""
    ledger = pods.quotas
    if ledger.covers(info.key) and not ledger.is_charged(info.key) and _on_nodes(pods, info):
        ledger.force(info.key, _reserved(pods, info))


def give_back(pods: Pods, info: PodGroupInfo) -> None:
    """Return what a group has reserved that has ended or cannot start.

    Runtime complexity: O(1) without quotas, else O(groups of its bundle).
    """
    ledger = pods.quotas
    if not ledger.is_used:
        return
    if not info.unscheduled:
        ledger.stop_waiting(info.key)
    if pods.restarts.is_held(info.key) or pods.restarts.is_short(info.key):
        return
    if not info.unscheduled and not _on_nodes(pods, info):
        ledger.release(info.key)
        return
    parties = _parties(pods, info)
    if any(_on_nodes(pods, each) for each in parties) or all(each.is_complete for each in parties):
        return
    for each in parties:
        ledger.release(each.key)


def that_fit(pods: Pods) -> Iterator[QueuedEntity]:
    """Yield the groups that wait for a quota and fit it now, in queue order.

    Each is asked when its turn comes, so what was charged meanwhile counts. A group that does not
    fit keeps no smaller one from its quota.

    Runtime complexity: O(n log n) for n groups that wait, and their members.
    """
    known = [pods.registry.get(key) for key in pods.quotas.waiting]
    found = [info for info in known if info is not None]
    found.sort(key=lambda info: (-info.priority, info.created_at, info.uid))
    for info in found:
        entity = pods.entities.get(info.key)
        if entity is None:
            continue
        if info.was_scheduled:
            problem = _exceeded_by_each(pods, info)
        else:
            problem = pods.quotas.exceeded(_claims(pods, info))
        if not problem:
            yield entity


def charge_listed(pods: Pods, listed: Iterable[tuple[Pod, Membership | None]]) -> None:
    """Reserve for the groups of a listing that have pods on nodes, before any other is admitted.

    Pending members count, too: a gang may be partly bound when its scheduler is replaced, and had
    reserved what its minimum needs.

    Runtime complexity: O(pods), if there are quotas.
    """
    ledger = pods.quotas
    if not ledger.is_used:
        return
    running: dict[GroupKey, None] = {}
    requests: dict[GroupKey, list[tuple[str | None, Resources]]] = {}
    minima: dict[GroupKey, int] = {}
    for pod, claim in listed:
        if claim is None or pod.is_finished or pod.scheduling_gates:
            continue
        requests.setdefault(claim.group, []).append((claim.role, pod.requests))
        if claim.min_available is not None:
            minima.setdefault(claim.group, claim.min_available)
        if pod.node_name is not None:
            running[claim.group] = None
    for key in running:
        if ledger.is_charged(key):
            continue
        info = pods.registry.get(key)
        spec = None if info is None else info.spec
        if spec is None:
            most = _most(requests[key], minima.get(key, 0), {})
        else:
            most = _most(requests[key], spec.min_available, spec.roles)
            most = _larger(spec.min_resources, most)
        ledger.force(key, most)


def exceeded_by(pods: Pods, member: Member) -> str:
    """Return why a pending member may not start, or an empty string. O(resources)."""
    if member.group is None:
        return ""
    return pods.quotas.exceeded_by({member.group.key: member.requests})


@define
class _Planned:
    """The members that are planned so far, against the quotas."""

    pods: Pods
    more: dict[GroupKey, Resources] = field(factory=dict[GroupKey, Resources])

    def add(self, member: Member, *, is_needed: bool) -> bool:
        """Plan a member if it fits the quotas, or is needed; return whether it is planned."""
        assert member.group is not None
        key = member.group.key
        before = self.more.get(key, NOTHING)
        self.more[key] = before + member.requests
        if is_needed or not self.pods.quotas.exceeded_by(self.more):
            return True
        self.more[key] = before
        return False


def within(pods: Pods, needed: Sequence[Member], elastic: Sequence[Member]) -> list[Member]:
    """Return the members of groups that may start together: the needed ones, and what else fits.

    Runtime complexity: O(members x quotas); O(1) without quotas.
    """
    if not pods.quotas.is_used:
        return [*needed, *elastic]
    planned = _Planned(pods)
    for member in needed:
        planned.add(member, is_needed=True)
    return [*needed, *(each for each in elastic if planned.add(each, is_needed=False))]


# Inside ---------------------------------------------------------------------------------------


def _parties(pods: Pods, info: PodGroupInfo) -> list[PodGroupInfo]:
    """Return the group, and the groups of its bundle that have not started."""
    if info.bundle is None:
        return [info]
    known = (pods.registry.get(key) for key in info.bundle.keys if key != info.key)
    others = (each for each in known if each is not None and each.bundle is info.bundle)
    return [info, *(each for each in others if not each.was_scheduled)]


def _claims(pods: Pods, info: PodGroupInfo) -> list[tuple[GroupKey, Resources]]:
    """Return what a group and those that start with it reserve. O(members)."""
    return [(each.key, _reserved(pods, each)) for each in _parties(pods, info)]


def _exceeded_by_each(pods: Pods, info: PodGroupInfo) -> str:
    """Return why none of the pending members may start; empty if one may. O(members)."""
    entity = pods.entities.get(info.key)
    problem, asked = "", set[int]()
    for pod in () if entity is None else entity.pending:
        member = pods.members[pod.uid]
        if id(member.requests) not in asked:
            asked.add(id(member.requests))
            found = exceeded_by(pods, member)
            if not found:
                return ""
            problem = problem or found
    return problem


def _on_nodes(pods: Pods, info: PodGroupInfo) -> bool:
    """Return whether a member holds a node. O(1), O(members) if some are terminating."""
    if info.scheduled > 0:
        return True
    return info.members.count(MemberState.TERMINATING) > 0 and any(
        each.pod.node_name is not None or each.node is not None
        for each in pods.of_group(info)
        if each.state is MemberState.TERMINATING
    )


def _reserved(pods: Pods, info: PodGroupInfo) -> Resources:
    """Return what a group reserves. O(members)."""
    requests = [
        (each.role, each.requests) for each in pods.of_group(info) if each.state in _COUNTED
    ]
    # an attempt places one member at least, also if enough have succeeded
    needed = max((info.min_available or 0) - info.succeeded, 1)
    return _larger(info.min_resources, _most(requests, needed, info.roles))


def _most(
    requests: Sequence[tuple[str | None, Resources]], needed: int, roles: Mapping[str, int]
) -> Resources:
    """Return the most that so many members may request, with so many of each role at least.

    Each resource is taken for itself, so it may be more than any members request together.
    """
    if len(requests) <= needed:
        return sum((each for _role, each in requests), NOTHING)
    found: dict[str, int] = {}
    for name in {name for _role, each in requests for name in each}:
        left = sorted(((each.get(name, 0), role) for role, each in requests), key=_amount)
        total, missing = 0, {**roles}
        others: list[int] = []
        for amount, role in reversed(left):
            if role is not None and missing.get(role, 0) > 0:
                missing[role] -= 1
                total += amount
            else:
                others.append(amount)
        of_roles = len(left) - len(others)
        found[name] = total + sum(others[: max(needed - of_roles, 0)])
    return Resources.from_milli(found)


def _amount(each: tuple[int, str | None]) -> int:
    return each[0]


def _larger(one: Resources, other: Resources) -> Resources:
    if not one or not other:
        return one or other
    return Resources.from_milli({n: max(one.get(n, 0), other.get(n, 0)) for n in {*one, *other}})
