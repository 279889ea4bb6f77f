"""A cycle about many pending members: the minima together, or each by itself if they go alone.

Rules:
  R1  nothing is assumed before the placement has as many members as the gang needs;
  R2  if a plugin raises, the state from before the cycle is restored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias

from gangsched._core._counters import MemberState
from gangsched.core import attempt, notices
from gangsched.core.demand import Demand
from gangsched.core.gang import Gang, PodRecord, QueuePlace, by_group
from gangsched.core.hold import Hold
from gangsched.core.pending_members import demand_of, lacking
from gangsched.core.placement.late import accepted, withheld
from gangsched.core.placement.proof import Proof, member_that_fits_nowhere, sentence
from gangsched.core.placement.proof import proof as find_proof
from gangsched.core.placement.shortage import shortage
from gangsched.core.placement.task import Task
from gangsched.core.placing import enough, missing, place_alone, place_gang, pre_filter
from gangsched.core.points import Waits
from gangsched.core.preemption import nominations
from gangsched.core.state import State
from gangsched.core.trial import Trial
from gangsched.cycle_state import CycleState
from gangsched.errors import GangschedError
from gangsched.explain import Diagnosis, Shortage, UnschedulableMember
from gangsched.outcomes import EvictGroup, HoldGroup, Outcome, RejectGroup, Unschedulable, Verdict
from gangsched.resources import Resources

__all__ = [
    "as_diagnosis",
    "fail_in_total",
    "fail_rest",
    "fail_whole",
    "try_whole",
    "undo",
    "why_not",
]

_UNSCHEDULED: Final = MemberState.UNSCHEDULED
_Refused: TypeAlias = dict[PodRecord, tuple[str, CycleState]]
"""Members that go alone and are refused, each with the reason and its cycle."""


def try_whole(
    state: State, gang: Gang, demand: Demand, pods: Sequence[PodRecord], *, alone: bool
) -> None:
    """Place pending members: the minima together, or each by itself if they go alone."""
    if not alone and (lacks := missing(state, gang)):
        fail_in_total(state, gang, demand, pods[0], lacks)
        return
    cycles: dict[int, CycleState] = {}

    def cycle_of(record: PodRecord) -> CycleState:
        found = cycles.get(record.seq)
        if found is None:
            found = cycles[record.seq] = state.cycle(record)
        return found

    ready, refused = pre_filter(state, pods, cycle_of)
    needed = {} if alone else lacking(state, gang)
    task = Task(gang, ready, state.records, cycle_of, needed)
    found: Diagnosis | None = None
    proof: Proof | None = None
    state.table.begin()
    try:
        nominations.place(state, gang, task)
        if alone:
            is_placed = place_alone(state, gang, task)
        else:
            is_placed = bool(ready) and place_gang(state, gang, task)
        if not is_placed:
            state.table.rewind()
            state.records.clear_plan()
            if ready and not alone:
                left = max(state.settings.search_budget - task.steps, 0)
                proof = shortage(task) or find_proof(task, left)
                nowhere = member_that_fits_nowhere(task)
                if nowhere is not None:
                    task.failed = None
                    task.blame(nowhere)
            if ready:
                task.blame(ready[0])
        task.end()
        found = task.diagnosis
    except BaseException:
        state.table.rewind()
        raise
    finally:
        state.table.end()
        state.records.clear_plan()
    if is_placed and _commit(state, gang, demand, task, cycles, ready, alone=alone):
        return
    if alone:
        fail_rest(state, gang, pods, refused, found)
    elif not is_placed:
        if refused and not enough(gang, ready):
            record, why = next(iter(refused.items()))
            fail_whole(state, gang, demand, record, str(why), as_diagnosis(why))
        else:
            member = task.failed or (ready or pods)[0]
            reason = why_not(member, found, proof, state.records.holds)
            fail_whole(state, gang, demand, member, reason, found, proof=proof)


def why_not(
    member: PodRecord, found: Diagnosis | None, proof: Proof | None, holds: Collection[Hold]
) -> str:
    """Return why a gang is not placed: a proof, or why nodes refuse a member.

    If capacity is short, that is followed by what is held of it for others.
    """
    within = proof.within if isinstance(proof, Shortage) else ""
    pod_class = member.pod_class
    if found is not None and pod_class is not None and not pod_class.memo.refresh().total:
        return str(found)
    if within and "=" not in within:
        return f"no node that can take it has the label {within}"
    if found is not None and found.nodes and not found.reasons and not found.refusal:
        return str(proof or "each member fits, but no placement of all was found")
    reserved = withheld(pod_class, holds) if proof and holds and pod_class is not None else {}
    if within or proof is None or found is None or pod_class is None:
        return str(proof or found) + _reserved(reserved)
    return sentence(proof, pod_class, found) + _reserved(reserved)


def _reserved(owners: Mapping[int, str]) -> str:
    if not owners:
        return ""
    nodes = "1 node" if len(owners) == 1 else f"{len(owners)} nodes"
    return f"; free capacity of {nodes} is reserved for {', '.join(sorted(set(owners.values())))}"


def _commit(
    state: State,
    gang: Gang,
    demand: Demand,
    task: Task,
    cycles: Mapping[int, CycleState],
    ready: Sequence[PodRecord],
    *,
    alone: bool,
) -> bool:
    """Assume what is placed, and ask Reserve, Permit, PreBind and Bind.

    Returns:
        Whether the gang was given up instead, for one of *ready* that is not placed.
    """
    members = [record for record, _slot in task.nodes]
    kept: list[PodRecord] = []
    before = dict(state.table.gains), state.pods_tried
    for record, slot in task.nodes:
        cycle = cycles.get(record.seq) or state.cycle(record)
        attempt.assume(state, record, slot, cycle, is_taken=True)
    try:
        # asked before any member is released, which would be evicted again
        if alone and _gives_up(state, gang, members, before, ready, task.diagnosis):
            return True
        answer, waits, refused = _reserve_and_permit(state, members, alone=alone)
        prepared: Any = answer
        if refused:
            members = [record for record in members if record not in refused]
        going = members
        if not isinstance(answer, tuple):
            if waits:
                kept = [record for record in members if record.seq in waits]
                going = [record for record in members if record.seq not in waits]
            prepared = ""
            if going and (not kept or attempt.is_quorum_without(state, going, kept)):
                prepared = attempt.prepare(state, going, kept)
    except GangschedError:
        undo(state, members, before)
        raise
    if isinstance(answer, tuple):
        record, reason = answer
        _refuse_all(state, gang, demand, members, record, reason, alone=alone)
    elif not isinstance(prepared, str):
        attempt.release(state, going, *prepared)
        if kept:
            _wait(state, kept, waits)
    elif waits:
        _wait(state, members, waits)
    elif members:
        _refuse_all(state, gang, demand, members, members[-1], prepared, alone=alone)
    for record, (reason, cycle) in refused.items():
        if gang.backoff_until > state.records.now:
            notices.tell(state, record, reason)
        else:
            _refuse_alone(state, record, reason, cycle)
    return False


def _gives_up(
    state: State,
    gang: Gang,
    members: Sequence[PodRecord],
    before: tuple[dict[int, int], bool],
    ready: Sequence[PodRecord],
    found: Diagnosis | None,
) -> bool:
    """Evict a gang if one of *ready* whose bind failed is not placed, and the others need it."""
    left = next((r for r in ready if r.state is _UNSCHEDULED and r.bind_failures), None)
    if left is None or found is None or not state.settings.can_evict:
        return False
    verdict = _post_filter_alone(state, left, str(found), state.cycle(left))
    if not isinstance(verdict, EvictGroup):
        return False
    undo(state, members, before)
    gang.refused = UnschedulableMember(left.uid, left.pod.key, str(found), found)
    notices.tell(state, left, str(found))
    attempt.apply_verdict(state, verdict)
    return True


def _wait(state: State, members: Sequence[PodRecord], waits: Mapping[int, Waits]) -> None:
    """Let members wait on permit until the first of their deadlines."""
    timeouts = [seconds for each in waits.values() for _name, seconds in each]
    for record in members:
        attempt.wait(state, record, waits.get(record.seq, ()), min(timeouts))


def _reserve_and_permit(
    state: State, members: Sequence[PodRecord], *, alone: bool
) -> tuple[tuple[PodRecord, str] | None, dict[int, Waits], _Refused]:
    """Return a member that is refused with the reason, or which plugins let members wait.

    A member that goes alone and is refused gives its node back, and is returned with the others of
    that kind: the rest go on without it.
    """
    profile, points, now = state.settings.profile, state.points, state.records.now
    waits: dict[int, Waits] = {}
    refused: _Refused = {}
    reserved: set[PodRecord] = set()

    def goes_without(record: PodRecord, reason: str) -> None:
        assert record.cycle is not None
        refused[record] = (reason, record.cycle)
        attempt.give_back(state, record, _UNSCHEDULED, "refused")

    for some in by_group(members):
        wide, each = profile.group_wide["reserve"]
        asked = points.each_concerned("reserve wide", wide, some[:1])
        of_group = asked[0][1] if asked else ()
        asked += points.each_concerned("reserve each", each, some)
        for record, plugins in asked:
            if record in refused:
                continue
            has_notes = bool(reserved) and record not in reserved  # of its siblings
            denied = _refused_by_notes(state, record) if has_notes else None
            denied = denied or points.reserve(record, now, plugins)
            reserved.add(record)
            if denied is not None:
                if not alone or plugins is of_group:
                    return (record, denied.reason), {}, refused
                goes_without(record, denied.reason)
        left = [record for record in some if record not in refused]
        wide, each = profile.group_wide["permit"]
        asked = [(left[0], wide)] if wide and left else []
        asked += [(record, each) for record in left if each]
        for record, plugins in asked:
            answer = points.permit(record, now, plugins)
            if isinstance(answer, Unschedulable):
                if not alone or plugins is wide:
                    return (record, answer.reason), {}, refused
                waits.pop(record.seq, None)
                goes_without(record, answer.reason)
                continue
            for waiting in (left if plugins is wide else [record]) if answer else ():
                waits[waiting.seq] = (*waits.get(waiting.seq, ()), *answer)
        left = [record for record in some if record not in refused]
        if left and left[0] is not some[0] and of_group:  # the one that spoke for all is gone
            denied = points.reserve(left[0], now, of_group)
            if denied is not None:
                return (left[0], denied.reason), {}, refused
    if waits and len(by_group(members)) > 1:
        staying = next(record for record in members if record not in refused)
        return (staying, "the groups of a bundle do not wait on permit"), {}, refused
    return None, waits, refused


def _refused_by_notes(state: State, record: PodRecord) -> Unschedulable | None:
    """Return why a filter refuses a planned node after siblings were reserved; None if none does.

    Pod by pod, ``filter`` reads what ``reserve`` noted of the siblings before. Members of a gang
    are all planned first, so those plugins that have both methods are asked once more. One with
    ``add_pod`` was told of the planned siblings.
    """
    assert record.pod_class is not None
    assert record.cycle is not None
    own = [late for late in record.pod_class.late if late.filters and _notes(late.plugin)]
    if not own:
        return None
    with Trial(state.records) as trial:
        trial.lift([record])
        return accepted(own, record, record.cycle, state.views, record.slot)


def _notes(plugin: Any) -> bool:
    return callable(getattr(plugin, "reserve", None)) and not hasattr(plugin, "add_pod")


def undo(state: State, members: Sequence[PodRecord], before: tuple[dict[int, int], bool]) -> None:
    """Take back an assumption that a plugin broke off: the attempts of the pods do not count.

    Args:
        state: The state.
        members: The members that were assumed.
        before: Which nodes took more before, and whether members had tried nodes.
    """
    for record in reversed([each for each in members if each.is_assumed]):
        state.points.unreserve(record, "refused", state.records.now)
        state.records.move(record, _UNSCHEDULED)
        record.cycle = None
        record.attempt -= 1
    state.table.gains, state.pods_tried = before


def _refuse_all(
    state: State,
    gang: Gang,
    demand: Demand,
    members: Sequence[PodRecord],
    refused: PodRecord,
    reason: str,
    *,
    alone: bool,
) -> None:
    """Give back what was assumed, because a plugin refused a member."""
    verdict: Any = None
    cycle = refused.cycle
    for record in reversed(members):
        found = attempt.give_back(state, record, _UNSCHEDULED, "refused")
        verdict = verdict or found
        record.reason = ""  # it had a node: it is told why its gang failed
    if alone:
        assert cycle is not None
        _refuse_alone(state, refused, reason, cycle)
        return
    refused.cycle = cycle
    fail_whole(state, gang, demand, refused, reason, None, verdict=verdict)
    refused.cycle = None


def fail_whole(
    state: State,
    gang: Gang,
    demand: Demand,
    record: PodRecord,
    reason: str,
    diagnosis: Diagnosis | None,
    *,
    proof: Proof | None = None,
    verdict: Any = None,
) -> None:
    """End an attempt in which a gang found no nodes, or was refused by a plugin."""
    cycle = record.cycle or state.cycle(record)
    if any(info.is_binding for info in gang.infos.values()):
        cycle.bind_failures, cycle.can_evict = record.bind_failures, state.settings.can_evict
    answer = verdict or state.points.post_filter(cycle, record.pod, reason, state.records.now)
    record.round = gang.round
    gang.refused = UnschedulableMember(record.uid, record.pod.key, reason, diagnosis, proof)
    notices.tell(state, record, reason)
    lacks_capacity = diagnosis is not None
    gang.is_whole = False
    if lacks_capacity:
        state.queue.put(gang, QueuePlace.NOWHERE, demand)
        state.queue.block(demand)
    if isinstance(answer, RejectGroup | HoldGroup | EvictGroup):
        if answer.group in gang.infos:
            evicts = isinstance(answer, EvictGroup)
            why = answer.reason
            attempt.reject(state, gang, why, evicts=evicts, backs_off=not lacks_capacity)
            return
        attempt.apply_verdict(state, answer)
    attempt.reject(state, gang, reason, backs_off=not lacks_capacity)


def fail_in_total(
    state: State, gang: Gang, demand: Demand, record: PodRecord, lacks: Resources
) -> None:
    """End an attempt of a gang that requests more in total than is free: no member is to blame."""
    reason = f"resource gap: {lacks}"
    record.round, gang.refused, gang.is_whole = gang.round, None, False
    notices.tell(state, record, reason)
    state.queue.put(gang, QueuePlace.NOWHERE, demand)
    state.queue.block(demand)
    attempt.reject(state, gang, reason, backs_off=False)


def fail_rest(
    state: State,
    gang: Gang,
    pods: Sequence[PodRecord],
    refused: Mapping[PodRecord, Diagnosis | str],
    found: Diagnosis | None,
) -> None:
    """Tell the members of a gang that go alone why they found no node, and block their demand."""
    left = [r for r in pods if r.state is _UNSCHEDULED and r not in refused]
    if not left and refused and all(isinstance(why, Diagnosis) for why in refused.values()):
        # only an event can help, as where no node fits
        left, found = [*refused], as_diagnosis(next(iter(refused.values())))
        refused = dict[PodRecord, Diagnosis | str]()
    answer: Outcome | Verdict | None = None
    if left and found is not None and gang.backoff_until <= state.records.now:
        answer = _post_filter_alone(state, left[0], str(found), state.cycle(left[0]))
    first_refused = None
    if refused and not left:
        first_refused = next(r for r, why in refused.items() if isinstance(why, str))
    for record, why in refused.items():
        if record.state is _UNSCHEDULED and record is not first_refused:
            notices.tell(state, record, str(why))
    if answer is not None:
        first = left[0]
        reason = str(found)
        gang.refused = UnschedulableMember(first.uid, first.pod.key, reason, found)
        gang.queued_at = state.records.now
        gang.failures += 1
        gang.reason = reason
        for record in [each for each in left if each.told != reason] or [first]:
            notices.tell(state, record, reason)
        if isinstance(answer, RejectGroup | HoldGroup | EvictGroup):
            attempt.apply_verdict(state, answer, backs_off=isinstance(answer, EvictGroup))
        own = demand_of(state, gang)
        state.queue.put(gang, QueuePlace.NOWHERE, own)
        state.queue.block(own)
    elif first_refused is not None:
        why = str(refused[first_refused])
        _refuse_alone(state, first_refused, why, state.cycle(first_refused))


def as_diagnosis(why: Diagnosis | str) -> Diagnosis | None:
    """Return why PreFilter refused a pod, if only an event can help it; else None."""
    return why if isinstance(why, Diagnosis) else None


def _refuse_alone(state: State, record: PodRecord, reason: str, cycle: CycleState) -> None:
    """Let a gang back off because a plugin refused a member that goes alone."""
    answer = _post_filter_alone(state, record, reason, cycle)
    notices.tell(state, record, reason)
    if isinstance(answer, RejectGroup | HoldGroup | EvictGroup):
        attempt.apply_verdict(state, answer)
    if record.gang.backoff_until > state.records.now:  # the verdict was about its own group
        record.gang.refused = UnschedulableMember(record.uid, record.pod.key, reason, None)
    else:
        attempt.refuse(state, record, reason)


def _post_filter_alone(
    state: State, record: PodRecord, reason: str, cycle: CycleState
) -> Outcome | Verdict:
    """Return what follows from a member that goes alone and finds no node, or is refused."""
    if record.info is not None and record.info.is_binding:
        cycle.bind_failures, cycle.can_evict = record.bind_failures, state.settings.can_evict
    return state.points.post_filter(cycle, record.pod, reason, state.records.now)
