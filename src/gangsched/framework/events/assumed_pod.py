"""What an event says of an assumed pod: it is on its node now, or it must leave it.

Rules:
  R1  a pod that the cluster state shows on the node that it was assumed on becomes assigned;
  R2  if a pod leaves its node while an attempt of its group depends on it, the verdict of the
      policy on the group is applied. After the release of the pod, no attempt depends on it.
"""

from __future__ import annotations

from typing import Final

from gangsched._core._counters import MemberState
from gangsched.events import PodScheduled
from gangsched.framework.lifecycle import assume
from gangsched.framework.lifecycle.entity_outcomes import Failed
from gangsched.framework.lifecycle.transition import apply_verdict, transition
from gangsched.framework.queueing import requeue
from gangsched.framework.runtime import extension_points
from gangsched.framework.state import label_readers
from gangsched.framework.state.pods import Member, Pods
from gangsched.framework.state.scheduler_state import State
from gangsched.outcomes import EvictGroup, RejectGroup

__all__ = ["confirm", "put_down"]

# a look-up in an enum takes ten times as long, and pods are compared with every event
_ASSIGNED: Final = MemberState.ASSIGNED
_UNSCHEDULED: Final = MemberState.UNSCHEDULED
_WAITING: Final = MemberState.WAITING


def confirm(state: State, member: Member, *, now: float) -> None:
    """Make an assumed pod assigned: the cluster state shows it on its node.

    A pod whose eviction is due stays terminating: it does not count for its group any more.
    """
    uid, node = member.pod.uid, member.node
    assert node is not None
    state.pods.waiting.remove(uid)
    state.nodes.confirm(uid)
    if uid not in state.pods.evicted:
        state.pods.put(member, _ASSIGNED)
    member.node = member.cycle = None
    label_readers.note(state.nodes, state.pod_classes, member)
    member.bind_failures = 0
    member.started_at = now
    assume.note_permit_ended(state.attempts, member.group)
    member.reason = member.told = ""
    state.call.out.append(PodScheduled(uid, node))
    extension_points.post_bind(state.settings, state.call, member, node, now)


def put_down(
    state: State,
    member: Member,
    reason: str,
    *,
    cause: str,
    now: float,
    to: MemberState = _UNSCHEDULED,
) -> None:
    """Take an assumed pod off its node after an event, and apply the verdict on its group."""
    node = member.node
    assert node is not None
    was_waiting = member.state is _WAITING
    verdict = assume.give_back(state, member, cause=cause, to=to, now=now)
    assume.report_rejected(state.call, member, node, reason)
    if not (was_waiting or _is_tried(state.pods, verdict)):
        verdict = None  # the member was released before: no attempt depends on it
    if member.pod.uid in state.pods.evicted:
        verdict = None  # its group was rejected when it was evicted
    if verdict is not None:
        apply_verdict(state, verdict, now=now)
    assume.note_permit_ended(state.attempts, member.group)
    if verdict is None and to is _UNSCHEDULED:
        transition(state, member.entity, Failed(), now=now)
    requeue.gain(state, (node,), now=now, ends_backoff=True)


def _is_tried(pods: Pods, verdict: RejectGroup | EvictGroup | None) -> bool:
    """Return whether a verdict is about more than a group between two attempts."""
    if not isinstance(verdict, RejectGroup):
        return verdict is not None
    info = pods.registry.get(verdict.group)
    return info is not None and info.attempt_started_at is not None
