"""What state a pod should be in, by what the cluster state shows of it.

Rules:
  R1  nothing is changed here: the caller compares the answer with the state of the member.
"""

from __future__ import annotations

from typing import Final

from gangsched._core._counters import MemberState
from gangsched.errors import InvalidPodGroupError
from gangsched.framework.events.gates import gates
from gangsched.framework.events.prefetch import Seen
from gangsched.framework.state.pods import Member, Pods
from gangsched.framework.state.settings import Settings
from gangsched.membership import Membership
from gangsched.model import Pod, PodPhase

__all__ = ["conflict", "is_another", "is_being_bound", "wanted_state"]

# a look-up in an enum takes ten times as long, and pods are compared with every event
_REFUSED: Final = MemberState.REFUSED
_WAITING: Final = MemberState.WAITING
_HELD: Final = (MemberState.GATED, MemberState.REFUSED)
_HAS_SUCCEEDED: Final = PodPhase.SUCCEEDED
_HAS_FAILED: Final = PodPhase.FAILED


def wanted_state(
    settings: Settings, pods: Pods, seen: Seen, problem: InvalidPodGroupError | None
) -> MemberState:
    """Return the state of a pod that is not assumed, by what the cluster state shows of it."""
    pod, claim = seen.pod, seen.claim
    if problem is not None and pod.node_name is None:
        return _REFUSED  # also once it has finished: its claim never counts
    if pod.phase is _HAS_SUCCEEDED:
        # a kubelet may report success for a pod that it was told to stop
        has_run = pod.node_name is not None and pod.deleted_at is None
        return MemberState.SUCCEEDED if has_run else MemberState.ENDED
    if pod.phase is _HAS_FAILED:
        return MemberState.FAILED
    if pod.deleted_at is not None:
        return MemberState.TERMINATING
    if pod.node_name is not None:
        return MemberState.ASSIGNED
    reasons = gates(settings, pods, pod, None if claim is None else claim.group)
    return MemberState.GATED if reasons else MemberState.UNSCHEDULED


def conflict(pods: Pods, seen: Seen) -> InvalidPodGroupError | None:
    """Return why a pod cannot join the group that it claims; None if it can."""
    if seen.claim is None:
        return None
    member = pods.members.get(seen.pod.uid)
    admitted = member is not None and member.state is not _REFUSED
    if admitted and not _contradicts_spec(pods, seen.pod, seen.claim):
        return None
    return pods.registry.conflict(seen.pod, seen.claim)


def _contradicts_spec(pods: Pods, pod: Pod, claim: Membership) -> bool:
    if not pods.registry.is_strict:
        return False
    info = pods.registry.get(claim.group)
    stated = None if info is None or info.spec is None else info.spec.priority
    return stated is not None and stated != pod.priority


def is_another(member: Member, seen: Seen) -> bool:
    """Return whether a pod must be treated as another: its group, role or priority changed.

    A pod that has a node, is gated or refused is not scheduled now. A change of what plugins read
    of it, such as an in-place resize, only moves it to another equivalence class.
    """
    group = None if member.group is None else member.group.key
    return (
        group != (None if seen.claim is None else seen.claim.group)
        or member.pod.priority != seen.pod.priority
        or member.role != (None if seen.claim is None else seen.claim.role)
        or (
            member.pod_class.signature != seen.signature
            and seen.pod.node_name is None
            and member.state not in _HELD
        )
    )


def is_being_bound(member: Member) -> bool:
    """Return whether a member was released, and its bind is not reported yet."""
    return member.node is not None and member.state is not _WAITING
