"""The reports of binds: a pod is confirmed on its node, or gives it back.

Rules:
  R1  a report of an attempt that is over changes nothing;
  R2  the pod is read before and after a report: it may have changed while the bind was under way.
"""

from __future__ import annotations

from gangsched._core import _quorum
from gangsched._core._counters import MemberState
from gangsched.errors import ClusterStateError
from gangsched.events import (
    BindFailed,
    Bound,
    GroupPartlyBound,
)
from gangsched.framework.events import move_entity
from gangsched.framework.events.reconcile_pod import pod_changed
from gangsched.framework.events.wanted_state import is_being_bound
from gangsched.framework.lifecycle import assume, group_attempt, group_life, notices
from gangsched.framework.lifecycle.entity_outcomes import Failed
from gangsched.framework.lifecycle.transition import apply_verdict, transition
from gangsched.framework.queueing import requeue
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pods import Member
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings
from gangsched.outcomes import EvictGroup

__all__ = ["bind_failed", "bound"]


def bound(state: State, event: Bound, *, now: float) -> None:
    """Read a pod whose bind was reported as performed."""
    member, pod = state.pods.members.get(event.uid), state.settings.cluster.pod(event.uid)
    awaited = member is not None and is_being_bound(member) and member.attempt == event.attempt
    if awaited and pod is not None and pod.node_name is None:
        raise ClusterStateError(pod.key, "was bound, and the cluster state does not show it")
    pod_changed(state, event.uid, now=now)


def bind_failed(state: State, event: BindFailed, *, now: float) -> None:
    """Take a pod whose bind failed off its node; it is tried again after a backoff."""
    pod_changed(state, event.uid, now=now)
    member = state.pods.members.get(event.uid)
    if (
        member is None
        or not is_being_bound(member)
        or member.attempt != event.attempt
        or member.node is None
    ):
        return
    node, evicted = member.node, event.uid in state.pods.evicted
    has_started = group_attempt.is_started(member.entity)
    # it was never bound, so there is nothing to evict
    state.pods.evicted.discard(event.uid)
    assert member.cycle is not None
    member.cycle.bind_failures = member.bind_failures + 1
    member.cycle.can_evict = state.settings.can_evict
    verdict = assume.give_back(
        state, member, cause="bind_failed", to=MemberState.UNSCHEDULED, now=now
    )
    notices.tell_unschedulable(state.call, member, f"binding rejected: {event.reason}")
    group_attempt.forget_start(member.group)
    # a release resets the failures, but a pod whose bind fails again had no success
    member.entity.failures = max(member.entity.failures, member.bind_failures)
    member.bind_failures += 1
    if evicted and member.group is not None:
        # its group was rejected when it was evicted, and backs off since
        move_entity.move(state, member.entity, now=now)
    elif isinstance(verdict, EvictGroup) and not evicted:
        apply_verdict(state, verdict, now=now)
    else:
        transition(state, member.entity, Failed(), now=now)
        _tell_partly_bound(state.settings, state.call, member, event.reason)
    group_attempt.note_bound(state.call, member.group)
    if member.group is not None:
        group_life.note(state.pods, state.call, member.group)
    requeue.gain(state, (node,), now=now)
    info = member.group
    if has_started and info is not None and not group_attempt.is_started(member.entity):
        move_entity.move_siblings(state, info.bundle, info.key, now=now)
    pod_changed(state, event.uid, now=now)


def _tell_partly_bound(settings: Settings, call: CurrentCall, member: Member, reason: str) -> None:
    """Post that a group does not run although members of it hold nodes."""
    info = member.group
    if info is None or not info.scheduled or not _quorum.lacks_members(info):
        return
    if not settings.can_evict:
        reason += "; the other members stay on their nodes, since the host evicts no pods"
    assert info.min_available is not None
    notice = GroupPartlyBound(info.key, info.scheduled, info.min_available, member.pod.uid, reason)
    call.out.append(notice)
