"""The end of waits on permit: a release, a rejection, or the deadline.

Rules:
  R1  a group of which members timed out is rejected once, however many of its waits end at once;
  R2  a member that is rejected gives its node back. Its group is rejected only if too few members
      are left for the quorum, or a plugin says so in ``unreserve``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from gangsched._core._counters import MemberState
from gangsched._core._entity import QueuedEntity
from gangsched._core._registry import PodGroupInfo
from gangsched._core._waiting import WaitingPod
from gangsched._seconds import format_duration
from gangsched.framework.lifecycle import assume, permit_recheck
from gangsched.framework.lifecycle.entity_outcomes import Failed
from gangsched.framework.lifecycle.transition import apply_verdict, transition
from gangsched.framework.queueing import requeue
from gangsched.framework.runtime import extension_points
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pods import Member, Pods
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings
from gangsched.model import GroupKey, NodeName
from gangsched.outcomes import EvictGroup, RejectGroup

__all__ = ["ask_again", "expire", "refused", "reject"]


def expire(state: State, *, now: float, begun_before: float = math.inf) -> None:
    """End the waits whose deadline has come. O(k log n) for k of them, plus what follows.

    Args:
        state: The scheduler's state.
        now: The current instant.
        begun_before: Only waits that began before this instant.
    """
    due = state.pods.waiting.expire(now=now, begun_before=begun_before)
    if not due:
        return  # nearly always, and asked with every call
    reasons = (
        f"timed out after waiting {format_duration(now - entry.since)}s on permit" for entry in due
    )
    reject(state, zip(due, reasons, strict=True), cause="timeout", now=now)


def ask_again(state: State, member: Member, *, now: float) -> None:
    """Ask the pending plugins about a waiting pod and its siblings again.

    Members that have permit are released, if they are enough for a quorum.
    """
    found = permit_recheck.recheck(
        state.settings,
        state.pods,
        state.call,
        permit_recheck.waiting_with(state.pods, member),
        now=now,
    )
    if found is not None:
        transition(state, member.entity, found, now=now)


def reject(
    state: State,
    ended: Iterable[tuple[WaitingPod, str]],
    *,
    now: float,
    cause: str = "refused",
) -> None:
    """Take waiting pods off their nodes, and reject or requeue what they belong to.

    All of them give their nodes back before any group is rejected, so that ``unreserve`` of one
    member cannot run in the middle of the rejection of another group.

    Args:
        state: The scheduler's state.
        ended: The waits, each with the reason.
        now: The current instant.
        cause: The cause that ``unreserve`` is told.
    """
    verdicts: dict[GroupKey, RejectGroup | EvictGroup] = {}
    freed: dict[GroupKey, list[NodeName]] = {}
    failed: dict[int, tuple[QueuedEntity, list[NodeName]]] = {}
    for waiting, reason in ended:
        member = state.pods.members[waiting.uid]
        verdict = assume.give_back(state, member, cause=cause, to=MemberState.UNSCHEDULED, now=now)
        assume.report_rejected(state.call, member, waiting.node, reason)
        verdict = verdict or _implied(state.settings, state.call, member.group, reason)
        if verdict is not None:
            verdicts.setdefault(verdict.group, verdict)
            freed.setdefault(verdict.group, []).append(waiting.node)
        else:
            assume.note_permit_ended(state.attempts, member.group)
            entity = member.entity
            failed.setdefault(entity.seq, (entity, []))[1].append(waiting.node)
    for entity, nodes in failed.values():
        if entity.group is not None and entity.group.key in verdicts:
            freed[entity.group.key] += nodes
            continue
        transition(state, entity, Failed(), now=now)
        requeue.gain(state, nodes, now=now)
    for key, verdict in verdicts.items():
        apply_verdict(state, verdict, now=now, freed=tuple(freed[key]))


def refused(pods: Pods, call: CurrentCall) -> list[tuple[WaitingPod, str]]:
    """Take out the waiting pods that a plugin refused when it was asked again, with the reason."""
    found = [(pods.waiting.get(uid), reason) for uid, reason in call.refused.items()]
    call.refused.clear()
    return [(entry, reason) for entry, reason in found if entry is not None]


def _implied(
    settings: Settings, call: CurrentCall, info: PodGroupInfo | None, reason: str
) -> RejectGroup | None:
    """Return the rejection of a gang that lost its quorum though no plugin says so."""
    if info is None:
        return None
    needed = extension_points.members_needed(settings, call, info)
    return None if needed is None or needed <= 0 else RejectGroup(info.key, reason)
