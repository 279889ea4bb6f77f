"""Pods that lose the node they were assumed on, for another reason than the end of their attempt.

An event takes them off (``lose``). Later the settlement tells plugins, and carries out what these
say about groups (``judge``): a fact asks no policy.

Rules:
  R1  plugins are told of each node that is given back, after all that the call has read;
  R2  a group is rejected once a call, whatever the number of its pods that lose nodes;
  R3  a regular pod that loses its node backs off, since no group fails for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gangsched.core.moves import attempt_steps
from gangsched.core.moves.rejection import Verdict, apply_verdict, count
from gangsched.core.records.gang import GangRecord, LostNode, PodRecord
from gangsched.core.state import State
from gangsched.events import GroupPartlyBound, PodRejected
from gangsched.model import GroupKey
from gangsched.outcomes import EvictGroup, RejectGroup
from gangsched.primitives import quorum
from gangsched.primitives.counters import MemberState

__all__ = ["judge", "lose", "reject_some"]

_UNSCHEDULED: Final = MemberState.UNSCHEDULED


def lose(state: State, record: PodRecord, why: str, cause: str, to: MemberState) -> None:
    """Take an assumed pod off its node after an event."""
    node = record.node
    assert node is not None
    info, call = record.info, state.call
    is_tried = record.state is MemberState.WAITING or (
        info is not None and info.attempt_started_at is not None
    )
    call.lost.append(LostNode(record, record.cycle, node, cause, why, is_tried, record.is_evicted))
    attempt_steps.take_off(state, record, to)
    record.reason = why
    if cause != "bind_failed":
        call.out.append(PodRejected(record.uid, node, why))
    state.touch(record.gang)


def judge(state: State) -> None:
    """Tell plugins of the pods that lost nodes, and carry out their verdicts."""
    lost, state.call.lost = state.call.lost, []
    verdicts: dict[GroupKey, Verdict] = {}
    for each in lost:
        record, gang = each.record, each.record.gang
        verdict = state.points.unreserve(
            record, each.cycle, each.node, each.cause, state.records.now
        )
        if each.was_evicted:
            continue
        if each.cause == "bind_failed" and not isinstance(verdict, EvictGroup):
            gang.refused = None  # no plugin refused it: only time ends this backoff
            count(state, gang, f"binding rejected: {each.why}", backs_off=True)
            _tell_partly_bound(state, record, each.why)
        elif verdict is not None:
            # no attempt depends on a member that was released before
            if each.is_tried or isinstance(verdict, EvictGroup):
                verdicts.setdefault(verdict.group, verdict)
        elif record.info is None and record.state is _UNSCHEDULED:
            count(state, gang, each.why, backs_off=True)
    for final in verdicts.values():
        apply_verdict(state, final)


def _tell_partly_bound(state: State, record: PodRecord, reason: str) -> None:
    """Post that a group does not run although members of it hold nodes."""
    info = record.info
    if info is None or not info.scheduled or not quorum.lacks_members(info):
        return
    if not state.settings.can_evict:
        reason += "; the other members stay on their nodes, since the host evicts no pods"
    assert info.min_available is not None
    state.call.out.append(
        GroupPartlyBound(info.key, info.scheduled, info.min_available, record.uid, reason)
    )


def reject_some(state: State, due: Iterable[tuple[PodRecord, str]], cause: str) -> list[Verdict]:
    """Take waiting pods off their nodes, each for a reason; return what becomes of their groups.

    A gang that is not rejected as a whole fails once, whatever the number of its pods.
    """
    verdicts: dict[GroupKey, Verdict] = {}
    failed: dict[str, tuple[GangRecord, str]] = {}
    for record, reason in due:
        node, info, gang = record.node, record.info, record.gang
        assert node is not None
        verdict: Verdict | None = attempt_steps.give_back(state, record, _UNSCHEDULED, cause)
        record.reason = reason
        state.call.out.append(PodRejected(record.uid, node, reason))
        if verdict is None and info is not None:
            needed = state.points.members_needed(info)
            if needed is not None and needed > 0:
                verdict = RejectGroup(info.key, reason)
        if verdict is not None:
            verdicts.setdefault(verdict.group, verdict)
        else:
            failed.setdefault(gang.key, (gang, reason))
        state.touch(gang)
    for gang, reason in failed.values():
        if verdicts.keys().isdisjoint(gang.infos):
            count(state, gang, reason, backs_off=True)
    return list(verdicts.values())
