"""``PodUnschedulable``: which pending pods are told why they are not placed, and when.

An autoscaler adds nodes for the pods that it sees as unschedulable. So it has to see every pending
member of a gang that failed, and not only the member that found no node.

Rules:
  R1  a pod that was tried itself is told after each try, with its own reason;
  R2  the other pending members of its gang get the reason of the gang. They are told only if it is
      another than they were told last: a gang that keeps failing for one reason is told once;
  R3  late members that stand behind one like them, which was tried, get its reason. They are told
      only if it differs in more than numbers of nodes. Each node that takes one of them changes
      these numbers for all others;
  R4  the members of an incomplete gang get a reason without counts. So a member that arrives is
      told, and the members before it are not told again. O(1) for each member that arrives.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from operator import attrgetter
from typing import Final

from gangsched._core._entity import QueuedEntity
from gangsched._core._registry import PodGroupInfo
from gangsched.events import GroupIncomplete, PodNotAdmitted, PodUnschedulable
from gangsched.framework.queueing import bundles, equivalence
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pods import Member, Pods
from gangsched.framework.state.settings import Settings
from gangsched.model import GroupKey, PodUID

__all__ = [
    "incomplete",
    "over_quota",
    "post_not_admitted",
    "tell_gang",
    "tell_like_members",
    "tell_others",
    "tell_unadmitted",
    "tell_unschedulable",
    "untried",
]

_arrival = attrgetter("seq")

_COUNT: Final = re.compile(r"(^0/|: |, )\d+(?= )")
"""The numbers of nodes in a reason such as ``0/5 nodes are available: 5 Insufficient cpu.``"""


def tell_unschedulable(call: CurrentCall, member: Member, reason: str) -> None:
    """Post why a pod that was tried is not placed. O(1)."""
    member.reason = member.told = reason
    member.entity.note_told(member.pod.uid, None)
    call.out.append(PodUnschedulable(member.pod.uid, reason))


def tell_like_members(pods: Pods, call: CurrentCall, member: Member, reason: str) -> None:
    """Tell late members the reason of one like them; see R3.

    Runtime complexity: O(n log n) for the n members that may have been told anything else since
    this was last called for one like them.
    """
    entity, uid, common = member.entity, member.pod.uid, _without_counts(reason)
    others = (pods.members[pod.uid] for pod in entity.told_otherwise(uid, common))
    tell_others(call, [other for other in others if other is not member], reason)
    entity.note_told(uid, common)


def tell_others(call: CurrentCall, members: Iterable[Member], reason: str) -> None:
    """Tell late members a reason, if it differs by more than its counts; see R3. O(members)."""
    common = _without_counts(reason)
    same: dict[str, bool] = {reason: True}
    for member in members:
        told = member.told
        is_same = same.get(told)
        if is_same is None:
            is_same = same[told] = _without_counts(told) == common
        if not is_same:
            tell_unschedulable(call, member, reason)


def _without_counts(reason: str) -> str:
    return _COUNT.sub(r"\1", reason)


def incomplete(key: GroupKey) -> str:
    """Return what the members of an incomplete group are told."""
    return f"pod group {key} is incomplete"


def over_quota(key: GroupKey) -> str:
    """Return what the members of a group are told that waits for a quota; it has no amounts."""
    return f"pod group {key} waits for its quota"


def untried(pods: Pods, entity: QueuedEntity) -> set[PodUID]:
    """Return the pending members of a gang and its bundle that were not tried. O(members)."""
    failed = None if entity.unschedulable_member is None else entity.unschedulable_member.uid
    parties = bundles.pending(pods, entity)
    ready = {uid for party in parties for uid, is_ready in party.records() if is_ready}
    return ready - {failed}


def tell_gang(
    pods: Pods,
    call: CurrentCall,
    entity: QueuedEntity,
    reason: str,
    untried: Container[PodUID],
    *,
    is_over: bool = True,
) -> None:
    """Tell the pending members of a gang that failed, and of the groups that start with it.

    A member that was tried and found no node keeps the reason that it was told.
    Runtime complexity: O(members log members).

    Args:
        pods: The known pods and groups.
        call: What the current call gathers.
        entity: The gang.
        reason: Why it failed.
        untried: The members that were not tried when it failed; they get *reason*.
        is_over: Whether its attempt was rejected. If members still wait on permit, only members
            that were told of no failure before are told: the rejection has another reason.
    """
    for party in bundles.pending(pods, entity):
        members = _in_order(pods, party)
        if not is_over:
            told = ("",) if party.group is None else ("", incomplete(party.group.key))
            members = [member for member in members if member.told in told]
        for member in members:
            if member.pod.uid in untried:
                member.reason = reason
        _tell_changed(call, members)


def post_not_admitted(
    settings: Settings,
    pods: Pods,
    call: CurrentCall,
    entity: QueuedEntity,
    info: PodGroupInfo,
    denial: str,
    *,
    was_gated: bool,
) -> None:
    """Post why a group is not admitted to the queue, and tell its pending members.

    Args:
        settings: What the caller set.
        pods: The known pods and groups.
        call: What the current call gathers.
        entity: The queued entity of the group.
        info: The group.
        denial: The reason that PreEnqueue gave.
        was_gated: Whether it was not admitted before.
    """
    present, absent = equivalence.presence(settings, call, info)
    held = bundles.held_back(pods, info)
    if held and denial == held:
        call.out.append(PodNotAdmitted(entity.pod.uid, held))
        reason = bundles.restarting(pods, info) or over_quota(info.key)
    elif info.bundle is not None and present >= (info.min_available or 0) and not absent:
        # its own members are complete: another group of its bundle is not
        call.out.append(PodNotAdmitted(entity.pod.uid, denial))
        reason = f"pod group {info.key} waits for another group of its bundle"
    else:
        call.out.append(GroupIncomplete(info.key, present, info.min_available, absent))
        reason = incomplete(info.key)
    tell_unadmitted(pods, call, entity, reason, was_gated=was_gated)


def tell_unadmitted(
    pods: Pods, call: CurrentCall, entity: QueuedEntity, reason: str, *, was_gated: bool
) -> None:
    """Tell the pending members of a group that is not admitted to the queue.

    Args:
        pods: The known pods and groups.
        call: What the current call gathers.
        entity: The group.
        reason: Why; without counts, since these change with each member.
        was_gated: Whether it was not admitted before. Then only the newest member may be new.
    """
    newest = entity.newest
    if newest is None:
        return
    if was_gated and pods.members[entity.pod.uid].told == reason:
        members = [pods.members[newest.uid]]
    else:
        members = _in_order(pods, entity)
    for member in members:
        member.reason = reason
    _tell_changed(call, members)


def _in_order(pods: Pods, entity: QueuedEntity) -> list[Member]:
    """Return the pending members in the order of arrival; a restored entity may store another."""
    return sorted((pods.members[pod.uid] for pod in entity.pending), key=_arrival)


def _tell_changed(call: CurrentCall, members: Iterable[Member]) -> None:
    for member in members:
        if member.reason and member.told != member.reason:
            tell_unschedulable(call, member, member.reason)
