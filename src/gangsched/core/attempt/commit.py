"""Commit a placement: members take their nodes, plugins are asked; they go, wait or are refused.

Rules:
  R1  permit is granted to enough members for each quorum together, or to none;
  R2  a member that goes alone and is refused gives its node back; the rest go on without it;
  R3  members that wait go with those for which they waited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from attrs import evolve

from gangsched.core.attempt.ends import Failure, Tried, ask_post_filter, fail
from gangsched.core.attempt.pending_members import halved
from gangsched.core.attempt.release import Prepared, is_quorum_without, prepare, release
from gangsched.core.attempt.reserve_and_permit import Answers
from gangsched.core.attempt.waiting_members import waiting_siblings
from gangsched.core.moves import attempt_steps, notices
from gangsched.core.moves.undo import Undo
from gangsched.core.placement.task import Task
from gangsched.core.points import Waits
from gangsched.core.records.gang import GangRecord, PodRecord
from gangsched.core.state import State
from gangsched.cycle_state import CycleState
from gangsched.explain import Diagnosis
from gangsched.outcomes import EvictGroup
from gangsched.primitives.counters import MemberState

__all__ = ["commit"]

_UNSCHEDULED: Final = MemberState.UNSCHEDULED


def commit(
    state: State,
    gang: GangRecord,
    task: Task,
    cycle_of: Callable[[PodRecord], CycleState],
    ready: Sequence[PodRecord],
    tried: Tried,
    undo: Undo,
) -> bool:
    """Assume what is placed, and ask Reserve, Permit, PreBind and Bind.

    Args:
        state: The state.
        gang: The gang.
        task: What is placed.
        cycle_of: Returns the cycle of a member.
        ready: The members that were tried, placed or not.
        tried: How they were tried.
        undo: Takes back what is assumed if a plugin raises.

    Returns:
        False if the gang was given up instead, for one of *ready* that is not placed.
    """
    members = [record for record, _slot in task.nodes]
    if tried is not Tried.ALONE and not gang.waiting:
        for info in gang.infos.values():
            if info.attempt_started_at is not None:
                info.attempt_started_at = state.records.now  # the time of the permit runs from here
    for record, slot in task.nodes:
        attempt_steps.assume(state, record, slot, cycle_of(record), is_taken=True)
        undo.members.append(record)
    # asked before any member is released, which would be evicted again
    if tried is Tried.ALONE and _gives_up(state, gang, ready, task.diagnosis, undo):
        return False
    answers = Answers(state, alone=tried is Tried.ALONE)
    refusal = answers.ask(members)
    if refusal is not None:
        _refuse(state, gang, members, *refusal, tried)
    else:
        halves = halved(state, gang, members, [*answers.refused])
        for record in halves:
            attempt_steps.give_back(state, record, _UNSCHEDULED, "refused")
        left_out = {*answers.refused, *halves}
        members = [record for record in members if record not in left_out]
        _let_go(state, gang, members, answers.waits, tried)
    for record, (reason, cycle) in answers.refused.items():
        if gang.backoff_until > state.records.now:
            notices.tell(state, record, reason)
        else:
            fail(state, gang, Failure(member=record, reason=reason, cycle=cycle), Tried.ALONE)
    return True


def _gives_up(
    state: State, gang: GangRecord, ready: Sequence[PodRecord], found: Diagnosis | None, undo: Undo
) -> bool:
    """Evict a gang if one of *ready* whose bind failed is not placed, and the others need it."""
    left = next((r for r in ready if r.state is _UNSCHEDULED and r.bind_failures), None)
    if left is None or found is None or not state.settings.can_evict:
        return False
    failure = Failure(member=left, reason=str(found), diagnosis=found)
    verdict = ask_post_filter(state, gang, failure)
    if not isinstance(verdict, EvictGroup):
        return False
    undo.take_back()
    fail(state, gang, evolve(failure, verdict=verdict), Tried.ALONE)
    return True


def _refuse(
    state: State,
    gang: GangRecord,
    members: Sequence[PodRecord],
    refused: PodRecord,
    reason: str,
    tried: Tried,
) -> None:
    """Give back what was assumed, because a plugin refused a member."""
    verdict: Any = None
    cycle = refused.cycle
    for record in reversed(members):
        if record.is_assumed:
            found = attempt_steps.give_back(state, record, _UNSCHEDULED, "refused")
            verdict = verdict or found
            record.reason = ""  # it had a node: it is told why its gang failed
    fail(state, gang, Failure(member=refused, reason=reason, cycle=cycle, verdict=verdict), tried)


def _let_go(
    state: State,
    gang: GangRecord,
    members: Sequence[PodRecord],
    waits: Mapping[int, Waits],
    tried: Tried,
) -> None:
    """Release members that no plugin lets wait, or let all wait if those are too few."""
    if not members:
        return
    kept = [record for record in members if record.seq in waits]
    kept += halved(state, gang, members, kept)
    going = [record for record in members if record not in kept]
    if going and tried is not Tried.ALONE:
        before, staying = waiting_siblings(state, gang, members)
        going, kept = [*before, *going], [*kept, *staying]
    prepared: Prepared | str | None = None
    if going and (not kept or is_quorum_without(state, going, kept)):
        prepared = prepare(state, going, kept)
    if isinstance(prepared, tuple):
        release(state, going, *prepared)
        _wait(state, [record for record in members if record in kept], waits)
    elif waits or prepared is None:
        _wait(state, members, waits)
    else:
        _refuse(state, gang, members, members[-1], prepared, tried)


def _wait(state: State, members: Sequence[PodRecord], waits: Mapping[int, Waits]) -> None:
    """Let members wait on permit until the first of their deadlines, or the last of the others."""
    if not members:
        return
    now, info = state.records.now, members[0].info
    timeouts = [seconds for each in waits.values() for _name, seconds in each]
    timeout = min(timeouts, default=0.0)
    if not timeouts and info is not None:
        timeout = max(entry.deadline for entry in state.records.waiting.of(info.key)) - now
    for record in members:
        attempt_steps.wait(state, record, waits.get(record.seq, ()), timeout)
