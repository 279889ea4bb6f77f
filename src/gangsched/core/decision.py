"""One decision about a list of members: they are placed and take their nodes, or fail.

A lone pod is a list of one, as is a member that is tried in turn and waits on permit for others.

Rules:
  R1  nothing is assumed before the placement has as many members as the gang needs;
  R2  reasons are computed after a failure, never for a placement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from attrs import define, evolve

from gangsched.core.admission.accounts import kept_out
from gangsched.core.admission.lacking import lacking
from gangsched.core.attempt.commit import commit
from gangsched.core.attempt.ends import Failure, Tried, fail
from gangsched.core.attempt.placing import enough, missing, place_alone, place_gang, pre_filter
from gangsched.core.moves import notices
from gangsched.core.moves.undo import Undo
from gangsched.core.nodes.domains import EVERYWHERE
from gangsched.core.placement.copies import shortage_of_surplus
from gangsched.core.placement.proof import (
    Proof,
    given_up,
    is_barred,
    member_that_fits_nowhere,
    proof,
    why_not,
)
from gangsched.core.placement.shortage import shortage
from gangsched.core.placement.task import Task
from gangsched.core.preemption import nominations
from gangsched.core.records.gang import GangRecord, PodRecord
from gangsched.core.state import State
from gangsched.cycle_state import CycleState
from gangsched.explain import Diagnosis, SearchBudgetExhausted
from gangsched.primitives.counters import MemberState
from gangsched.primitives.standing import least_needed

__all__ = ["decide", "fail_alone"]

_UNSCHEDULED: Final = MemberState.UNSCHEDULED
_Refused: TypeAlias = Mapping[PodRecord, Diagnosis | str]
"""Members that PreFilter refuses, and why: a diagnosis if only an event can help."""


def decide(
    state: State, gang: GangRecord, pods: Sequence[PodRecord], tried: Tried, undo: Undo
) -> None:
    """Place pending members: the minima together, one in turn, or each by itself.

    Args:
        state: The state.
        gang: The gang.
        pods: The members.
        tried: How they are tried.
        undo: Takes back what is assumed if a plugin raises.
    """
    if tried is not Tried.ALONE and not gang.waiting and (lacks := missing(state, gang)):
        reason = f"resource gap: {lacks}"
        failure = Failure(member=pods[0], reason=reason, in_total=True)
        fail(state, gang, failure, Tried.TOGETHER)  # no member is to blame
        return
    cycles: dict[int, CycleState] = {}

    def cycle_of(record: PodRecord) -> CycleState:
        found = cycles.get(record.seq)
        if found is None:
            found = cycles[record.seq] = state.cycle(record)
        return found

    ready, refused = pre_filter(state, pods, cycle_of)
    # those that go alone start with the other members of their copies
    needed = lacking(state, gang) if tried is Tried.TOGETHER or gang.tree.has_parts else {}
    task = Task(gang, ready, state.records, cycle_of, needed)
    found = _Found()
    state.table.begin()
    try:
        if ready and _place(state, gang, task, tried):
            found.is_placed = True
        else:
            state.table.rewind()
            state.records.clear_plan()
            if ready:
                found.explain(state, task, ready, tried)
        task.end()
        found.blamed, found.diagnosis = task.failed, task.diagnosis
        if tried is Tried.ALONE and task.gave_up:
            found.proof = SearchBudgetExhausted(_lacking_in_copy(task), 0, task.steps)
    except BaseException:
        state.table.rewind()
        raise
    finally:
        state.table.end()
        state.records.clear_plan()
    if found.is_placed and not commit(state, gang, task, cycle_of, ready, tried, undo):
        return
    if tried is Tried.ALONE:
        fail_alone(state, gang, pods, refused, found.diagnosis, found.proof)
    elif not found.is_placed:
        failure = _failure(state, gang, pods, ready, refused, found)
        fail(state, gang, evolve(failure, cycle=cycle_of(failure.member)), tried)


def _place(state: State, gang: GangRecord, task: Task, tried: Tried) -> bool:
    """Place members in a trial; return whether enough are placed."""
    if tried is Tried.IN_TURN:
        ((leaf, _pool),) = task.pools.items()
        tree = next(each for each in gang.tree.leaves if each.key == leaf)
        return task.put(tree, 1, EVERYWHERE) > 0
    nominations.place(state, gang, task)
    if tried is Tried.ALONE:
        return place_alone(state, gang, task)
    return place_gang(state, gang, task)


@define(eq=False)
class _Found:
    """What came of a placement.

    Attributes:
        is_placed: Whether enough members are placed.
        blamed: A member that no node takes.
        diagnosis: Why no node takes the member to blame.
        proof: Why the minima are not met.
    """

    is_placed: bool = False
    blamed: PodRecord | None = None
    diagnosis: Diagnosis | None = None
    proof: Proof | None = None

    def explain(self, state: State, task: Task, ready: Sequence[PodRecord], tried: Tried) -> None:
        """Find the member to blame, and a proof; nothing is placed."""
        if tried is Tried.TOGETHER:
            left = max(state.settings.search_budget - task.steps, 0)
            needed = least_needed(task.gang.tree, task.lacking)
            self.proof = shortage(task) or proof(task, left) or given_up(task, needed)
            nowhere = member_that_fits_nowhere(task)
            if nowhere is not None or (task.gang.tree.has_parts and not _fits_somewhere(task)):
                task.failed = None
                able = (r for r in ready if r.pod_class is not None and r.pod_class.memo.total)
                task.blame(nowhere or next(able, ready[0]))
        task.blame(ready[0])


def _lacking_in_copy(task: Task) -> int:
    """Return how many members the first copy lacks of which none was placed."""
    left = {record.leaf for record in task.unplaced()}
    copies = (copy for copy in task.gang.tree.copies() if copy.is_in(left))
    return next((n for copy in copies if (n := least_needed(copy, task.lacking)) > 0), 0)


def _fits_somewhere(task: Task) -> bool:
    """Return whether some node takes the member that was blamed; others suffice without it."""
    pod_class = None if task.failed is None else task.failed.pod_class
    return pod_class is None or pod_class.memo.refresh().total > 0


def _failure(
    state: State,
    gang: GangRecord,
    pods: Sequence[PodRecord],
    ready: Sequence[PodRecord],
    refused: _Refused,
    found: _Found,
) -> Failure:
    """Return why members are not placed that start together, or in turn."""
    if refused and not (ready and enough(gang, ready)):
        record, why = next(iter(refused.items()))
        return Failure(member=record, reason=str(why), diagnosis=_as_diagnosis(why))
    member = found.blamed or (ready or pods)[0]
    reason = why_not(member, found.diagnosis, found.proof, state.records.holds)
    return Failure(member=member, reason=reason, diagnosis=found.diagnosis, proof=found.proof)


def fail_alone(
    state: State,
    gang: GangRecord,
    pods: Sequence[PodRecord],
    refused: _Refused,
    found: Diagnosis | None,
    proof: Proof | None = None,
) -> None:
    """Tell the members that go alone why they found no node, and block their demand.

    Args:
        state: The state.
        gang: The gang.
        pods: The members.
        refused: Those that PreFilter refuses.
        found: Why no node takes the first one of the others.
        proof: That the search for a place of their copy was given up; None if it was not.
    """
    left = [r for r in pods if r.state is _UNSCHEDULED and r not in refused]
    out = kept_out(state, gang, left)
    if out and len(out) == len(left) < len(pods):
        return  # others started; that these wait for a quota is found when the gang is settled
    left = [record for record in left if record not in out] or left
    if refused and not left:
        _fail_refused(state, gang, refused)
        return
    for record, why in refused.items():
        if record.state is _UNSCHEDULED:
            notices.tell(state, record, str(why))
    if left and found is not None:
        _fail_unplaced(state, gang, left, found, proof)


def _fail_refused(state: State, gang: GangRecord, refused: _Refused) -> None:
    """Tell the members why PreFilter refuses them, if it refuses all that are left."""
    diagnoses = [why for why in refused.values() if isinstance(why, Diagnosis)]
    if len(diagnoses) == len(refused):  # only an event can help, as where no node fits
        _fail_unplaced(state, gang, [*refused], diagnoses[0])
        return
    first = next(record for record, why in refused.items() if isinstance(why, str))
    for record, why in refused.items():
        if record.state is _UNSCHEDULED and record is not first:
            notices.tell(state, record, str(why))
    fail(state, gang, Failure(member=first, reason=str(refused[first])), Tried.ALONE)


def _fail_unplaced(
    state: State,
    gang: GangRecord,
    members: Sequence[PodRecord],
    found: Diagnosis,
    proof: Proof | None = None,
) -> None:
    """Tell members that they found no node, and block their demand."""
    if gang.backoff_until > state.records.now:
        return  # it has failed for another member meanwhile
    known: Proof | None = None
    # that one of them fits says nothing of its copy; if a filter refuses it everywhere, that does
    if not is_barred(found) and any(copy.is_in((members[0].leaf,)) for copy in gang.tree.copies()):
        needed = lacking(state, gang)
        task = Task(gang, members, state.records, state.cycle, needed)
        known = shortage_of_surplus(task) or proof
    reason = str(known or found)
    told = [record for record in members if record.told != reason]
    failure = Failure(member=members[0], reason=reason, diagnosis=found, proof=known, told=told)
    fail(state, gang, failure, Tried.ALONE)


def _as_diagnosis(why: Diagnosis | str) -> Diagnosis | None:
    return why if isinstance(why, Diagnosis) else None
