"""Admission to the quotas: what a group is charged, when, and when its charge is returned.

Rules:
  R1  a group is charged when nothing else keeps it from the queue, with all groups of its bundle
      that have not started;
  R2  it is charged its ``min_resources``; without them, the requests of its members at that time;
  R3  the charge is returned when no member is pending, on a node or terminating. It is returned,
      too, if a group of the bundle is incomplete and none of them has a node;
  R4  a group that is being restarted keeps its charge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gangsched._core._counters import MemberState
from gangsched._core._entity import QueuedEntity
from gangsched._core._registry import PodGroupInfo
from gangsched.framework.state.pods import ON_NODES, Pods
from gangsched.membership import Membership
from gangsched.model import GroupKey, Pod, Resources
from gangsched.resources import NOTHING

__all__ = ["admit", "charge_listed", "charge_running", "give_back", "that_fit"]

_COUNTED = (*ON_NODES, MemberState.UNSCHEDULED)


def admit(pods: Pods, info: PodGroupInfo) -> str:
    """Charge a group that may queue; return why it must wait, or an empty string.

    Runtime complexity: O(1) for a group that is charged; else O(members of its bundle).
    """
    ledger = pods.quotas
    if not ledger.is_used or ledger.is_charged(info.key):
        return ""
    return ledger.charge(_claims(pods, info))


def charge_running(pods: Pods, info: PodGroupInfo) -> None:
    """Charge a group that has members on nodes and was not admitted here. O(members)."""
    ledger = pods.quotas
    if _on_nodes(info) and ledger.covers(info.key) and not ledger.is_charged(info.key):
        ledger.force(info.key, _needed(pods, info))


def give_back(pods: Pods, info: PodGroupInfo) -> bool:
    """Return the charge of a group that has ended or cannot start; return whether it had one.

    Runtime complexity: O(1) without quotas, else O(groups of its bundle).
    """
    ledger = pods.quotas
    if not ledger.is_used:
        return False
    if not info.unscheduled:
        ledger.stop_waiting(info.key)
    if pods.restarts.is_held(info.key) or pods.restarts.is_short(info.key):
        return False
    if not info.unscheduled and not _on_nodes(info):
        return ledger.release(info.key)
    parties = _parties(pods, info)
    if any(_on_nodes(each) for each in parties) or all(each.is_complete for each in parties):
        return False
    released = [ledger.release(each.key) for each in parties]
    return any(released)


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
        if entity is not None and not pods.quotas.exceeded(_claims(pods, info)):
            yield entity


def charge_listed(pods: Pods, listed: Iterable[tuple[Pod, Membership | None]]) -> None:
    """Charge the groups of a listing that have pods on nodes, before any other is admitted.

    Pending members count, too: a gang may be partly bound when its scheduler is replaced, and was
    charged as a whole.

    Runtime complexity: O(pods), if there are quotas.
    """
    ledger = pods.quotas
    if not ledger.is_used:
        return
    running: set[GroupKey] = set()
    totals: dict[GroupKey, Resources] = {}
    for pod, claim in listed:
        if claim is None or pod.is_finished or pod.scheduling_gates:
            continue
        totals[claim.group] = totals.get(claim.group, NOTHING) + pod.requests
        if pod.node_name is not None:
            running.add(claim.group)
    for key, total in totals.items():
        if key in running and not ledger.is_charged(key):
            info = pods.registry.get(key)
            ledger.force(key, (NOTHING if info is None else info.min_resources) or total)


def _parties(pods: Pods, info: PodGroupInfo) -> list[PodGroupInfo]:
    """Return the group, and the groups of its bundle that have not started."""
    if info.bundle is None:
        return [info]
    known = (pods.registry.get(key) for key in info.bundle.keys if key != info.key)
    return [info, *(each for each in known if each is not None and not each.was_scheduled)]


def _claims(pods: Pods, info: PodGroupInfo) -> list[tuple[GroupKey, Resources]]:
    """Return what a group and those that start with it are charged. O(members)."""
    return [(each.key, _needed(pods, each)) for each in _parties(pods, info)]


def _on_nodes(info: PodGroupInfo) -> bool:
    return info.scheduled > 0 or info.members.count(MemberState.TERMINATING) > 0


def _needed(pods: Pods, info: PodGroupInfo) -> Resources:
    if info.min_resources:
        return info.min_resources
    total = NOTHING
    for member in pods.of_group(info):
        if member.state in _COUNTED:
            total += member.requests
    return total
