"""The attempt of a pod group, and whether the group has started.

An attempt begins with the first scheduling cycle of a member and ends when permit is granted or
when the attempt is rejected. Its permit timeout runs from the first member that holds a node. The
only callers of ``succeed`` and ``fail`` are ``transition`` and ``release``.

Invariants:
  I1  ``attempt_started_at`` is None exactly while no attempt is under way;
  I2  ``was_scheduled`` holds only while a member holds a node. Once none does, the group needs a
      quorum again: succeeded members count for it if the others are too few (see ``_quorum``),
      failed ones never. A restart from a listing gives the same answer then.
"""

from __future__ import annotations

import math

from gangsched._core import _quorum
from gangsched._core._counters import MemberState
from gangsched._core._entity import QueuedEntity
from gangsched._core._registry import PodGroupInfo
from gangsched.events import GroupBound, GroupScheduled
from gangsched.framework.lifecycle import group_life
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pods import Member, Pods

__all__ = [
    "abandon",
    "begin",
    "fail",
    "forget_start",
    "has_started",
    "note_bound",
    "note_progress",
    "is_started",
    "restart_clock",
    "succeed",
]

_STARTED = (MemberState.ASSIGNED, MemberState.SUCCEEDED, MemberState.FAILED)


def begin(info: PodGroupInfo, *, now: float) -> bool:
    """Begin an attempt unless one is under way; return whether one began. O(1)."""
    if info.attempt_started_at is not None:
        return False
    info.attempts += 1
    info.attempt_started_at = now
    return True


def restart_clock(info: PodGroupInfo, started_at: float | None) -> None:
    """Let the time of the current attempt run from an instant. O(1)."""
    info.attempt_started_at = started_at


def abandon(info: PodGroupInfo) -> None:
    """Undo ``begin``: the attempt does not count, because its cycle was broken off. O(1)."""
    info.attempts -= 1
    info.attempt_started_at = None


def succeed(call: CurrentCall, info: PodGroupInfo, *, now: float) -> None:
    """End an attempt whose members are released, and post ``GroupScheduled``. O(1)."""
    info.was_scheduled = info.is_binding = True
    if info.members.collected and _holds_its_minimum(info):
        info.members.forget_collected()  # they belong to what ran before, not to this start
    info.last_failure_at = info.attempt_started_at = None
    info.failures = 0
    info.backoff_until = -math.inf
    info.failure = ""
    since = now if info.complete_at is None else info.complete_at
    call.out.append(GroupScheduled(info.key, info.attempts, info.scheduled, now - since))


def _holds_its_minimum(info: PodGroupInfo) -> bool:
    """Return whether enough members hold a node, without those that have succeeded. O(roles)."""
    roles = info.roles.items()
    return info.scheduled >= (info.min_available or 0) and all(
        info.role(role).scheduled >= least for role, least in roles
    )


def fail(info: PodGroupInfo, *, now: float | None) -> None:
    """End an attempt without a release. O(1).

    Args:
        info: The pod group.
        now: The instant of the failure; None if the group was found incomplete, which is no
            failure.
    """
    info.attempt_started_at = None
    if now is not None:
        info.last_failure_at = now


def is_started(entity: QueuedEntity) -> bool:
    """Return whether an entity depends on no other: a regular pod, or a released group."""
    return entity.group is None or entity.group.was_scheduled


def note_progress(pods: Pods, call: CurrentCall, info: PodGroupInfo, *, now: float) -> None:
    """Record when a group became complete, has started, and is bound. O(1) amortised."""
    if info.complete_at is None and info.is_complete:
        info.complete_at = now
    forget_start(info)
    if not info.was_scheduled and has_started(pods, info):
        info.was_scheduled = True
    note_bound(call, info)
    group_life.note(pods, call, info)


def forget_start(info: PodGroupInfo | None) -> None:
    """Reset ``was_scheduled`` once no member holds a node. O(1)."""
    if info is not None and not info.scheduled:
        info.was_scheduled = info.is_binding = False


def note_bound(call: CurrentCall, info: PodGroupInfo | None) -> None:
    """Post ``GroupBound`` once no bind of a released group is under way and a quorum is bound.

    Runtime complexity: O(1) for a group that waits for no bind; else O(roles).
    """
    if info is None or not info.is_binding or info.assumed or not info.assigned:
        return
    if not _quorum.lacks_members(info):
        info.is_binding = False
        call.out.append(GroupBound(info.key, info.attempts, info.assigned))


def has_started(pods: Pods, info: PodGroupInfo) -> bool:
    """Return whether a quorum of members runs or ran. O(1) while too few could have.

    After a restart from a listing no release is remembered, so the start is inferred. A pod that
    finished without ever having had a node has started nothing. Nor has a pod that is evicted or
    being deleted: a kubelet reports ``Failed`` for it before it is gone.
    """
    minimum = info.min_available
    if minimum is None or not info.scheduled or info.members.started < minimum:
        return False
    started = [m for m in pods.of_group(info) if _counts_as_started(pods, m)]
    return len(started) >= minimum and all(
        sum(m.role == role for m in started) >= least for role, least in info.roles.items()
    )


def _counts_as_started(pods: Pods, member: Member) -> bool:
    pod = member.pod
    leaves = pod.deleted_at is not None or pod.uid in pods.evicted
    return member.state in _STARTED and pod.node_name is not None and not leaves
