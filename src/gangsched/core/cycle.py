"""One scheduling cycle: place, then commit, or say what failed and block what would fail too.

A cycle is about a list of members: all that are pending (unit ``group``), or one (unit ``pod``). It
places them in a trial, asks Reserve and Permit about those that got nodes, and releases them, lets
them wait, or gives everything back.

Rules:
  R1  nothing is assumed before the placement has as many members as the gang needs;
  R2  if a plugin raises, the state from before the cycle is restored;
  R3  reasons are computed after a failure, never for a placement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from gangsched._core._counters import MemberState
from gangsched._plugin_calls import name_of
from gangsched.core import accounts, attempt, notices
from gangsched.core.demand import Demand
from gangsched.core.domains import EVERYWHERE
from gangsched.core.placement import late
from gangsched.core.placement.proof import Proof, member_that_fits_nowhere, sentence
from gangsched.core.placement.proof import proof as find_proof
from gangsched.core.placement.shortage import shortage
from gangsched.core.placement.task import Task, holding_by_leaf
from gangsched.core.placing import by_group, enough, missing, place_alone, place_gang, pre_filter
from gangsched.core.points import Waits
from gangsched.core.preemption import make_room, nominations
from gangsched.core.records import Gang, PodRecord, QueuePlace
from gangsched.core.reservation import backfill as reserving
from gangsched.core.settle import demand_of, lacking, lacks_reason, settle_all, split, unit_is_whole
from gangsched.core.state import State
from gangsched.core.views import NodeViews
from gangsched.cycle_state import CycleState
from gangsched.errors import GangschedError
from gangsched.explain import Diagnosis, Shortage, UnschedulableMember
from gangsched.outcomes import EvictGroup, HoldGroup, RejectGroup, Unschedulable

__all__ = ["run"]

_UNSCHEDULED: Final = MemberState.UNSCHEDULED


def run(state: State) -> bool:
    """Run one scheduling cycle; return False if no gang was to be tried."""
    while True:
        settle_all(state)
        gang = state.queue.head()
        if gang is None:
            gang = reserving.next_gang(state)
            if gang is None:
                return False
            if accounts.denial(state, gang) is not None:
                state.touch(gang)
                continue
            state.queue.put(gang, QueuePlace.NOWHERE, gang.demand)
            state.records.step += 1
            _try(state, gang)
            return True
        if _make_others_give_way(state, gang):
            continue
        if accounts.denial(state, gang) is not None:
            state.touch(gang)  # another one has taken what was left of its quota
            continue
        demand = gang.demand
        state.queue.pop()
        if demand.blocked_at and not gang.began and not lacks_reason(gang):
            # one like it has failed since it became active
            state.queue.put(gang, QueuePlace.PARKED, demand)
            state.reserving.note_parked(gang)
            continue
        state.records.step += 1
        _try(state, gang, _failed_alike(state, gang, demand))
        return True


def _failed_alike(state: State, gang: Gang, demand: Demand) -> Gang | None:
    """Return a gang that asks for the same and found no node; None if *gang* has to be tried."""
    if not demand.blocked_at or gang.began:
        return None
    if not unit_is_whole(state, gang) and split(state, gang)[1]:
        return None
    parked = chain.from_iterable(demand.parked.by_account())
    return next((each for each in parked if _diagnosis(each) is not None), None)


def _diagnosis(gang: Gang) -> Diagnosis | None:
    return None if gang.refused is None else gang.refused.diagnosis


def _fail_alike(
    state: State,
    gang: Gang,
    demand: Demand,
    alone: Sequence[PodRecord],
    together: Sequence[PodRecord],
    failed: Gang,
) -> None:
    """Let a gang fail as one that asks for the same did.

    Its pods are told, as those of each gang that failed: an autoscaler adds nodes for them.
    """
    found, blocked_at = _diagnosis(failed), demand.blocked_at
    assert found is not None
    if together:
        record = next((r for r in together if _is_like(r, failed)), together[0])
        _fail_whole(state, gang, demand, record, str(found), found)
    else:
        _fail_rest(state, gang, alone, {}, found)
    demand.blocked_at = blocked_at  # nothing was tried


def _is_like(record: PodRecord, failed: Gang) -> bool:
    """Return whether a pod is of the class of the one for which a gang found no node."""
    assert failed.refused is not None
    other = failed.pending.get(failed.refused.uid)
    return other is not None and other.pod_class is record.pod_class


def _note_reason(gang: Gang) -> None:
    """Note that the members that were not tried themselves wait for the gang."""
    for record in gang.pending.values():
        record.reason = record.reason or gang.reason


def _make_others_give_way(state: State, gang: Gang) -> bool:
    """Reject gangs that keep waiting only until another's cycle; return whether there were any."""
    others: list[Gang] = []
    if state.giving_way:
        gangs = state.records.gangs.values()
        others = [other for other in gangs if other.giving_way and other is not gang]
        state.giving_way = sum(bool(other.giving_way) for other in gangs) - len(others)
    for other in others:
        attempt.reject(state, other, other.giving_way, backs_off=False)
        other.is_whole = True
    return bool(others)


def _try(state: State, gang: Gang, failed: Gang | None = None) -> None:
    """Try a gang, or let it fail as another one did."""
    demand: Demand = gang.demand
    alone, together = split(state, gang)
    infos = gang.infos.values()
    before = (gang.began, gang.round, [(i, i.attempts, i.attempt_started_at) for i in infos])
    if together:
        attempt.begin(state, gang)
    nomination = nominations.lend(state, gang)
    lent, effects = reserving.lend(state, gang), len(state.out)
    try:
        if failed is not None:
            _fail_alike(state, gang, demand, alone, together, failed)
        elif not together:
            _try_whole(state, gang, demand, alone, alone=True)
        elif unit_is_whole(state, gang):
            _try_whole(state, gang, demand, together, alone=False)
            left = [record for record in alone if record.state is _UNSCHEDULED]
            if left and gang.backoff_until <= state.now:
                _try_whole(state, gang, demand, left, alone=True)
        else:
            _try_one(state, gang, demand)
    except GangschedError:
        gang.began, gang.round, figures = before
        for info, attempts, started_at in figures:
            info.attempts, info.attempt_started_at = attempts, started_at
        if nomination is not None:
            nominations.withhold(state, nomination)
        reserving.conclude(state, gang, lent, len(state.out))
        state.queue.put(gang, QueuePlace.ACTIVE, demand)
        raise
    if nomination is not None:
        nominations.conclude(state, nomination)
    _note_failed(state, gang)
    _note_reason(gang)
    make_room.conclude(state, gang)
    reserving.conclude(state, gang, lent, effects)
    state.touch(gang)


def _note_failed(state: State, gang: Gang) -> None:
    """Note for backfill whether an attempt failed, and whether for lack of capacity."""
    demand: Demand | None = gang.demand
    if demand is not None and demand.blocked_at == state.records.step:
        state.reserving.note_failed(gang, demand, state.records.step)
    elif gang.place is QueuePlace.NOWHERE and gang.backoff_until > state.now:
        state.reserving.note_failed(gang, None, state.records.step)


# All pending members ----------------------------------------------------------------------------


def _try_whole(
    state: State, gang: Gang, demand: Demand, pods: Sequence[PodRecord], *, alone: bool
) -> None:
    """Place pending members: the minima together, or each by itself if they go alone."""
    if not alone and (lacks := missing(state, gang)):
        _fail_whole(state, gang, demand, pods[0], f"resource gap: {lacks}", None)
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
    if is_placed:
        _commit(state, gang, demand, task.nodes, cycle_of, alone=alone)
    if alone:
        _fail_rest(state, gang, pods, refused, found)
    elif not is_placed:
        if refused and not enough(gang, ready):
            record, reason = next(iter(refused.items()))
            _fail_whole(state, gang, demand, record, reason, None)
        else:
            member = task.failed or (ready or pods)[0]
            reason = _why(member, found, proof)
            _fail_whole(state, gang, demand, member, reason, found, proof=proof)


def _why(member: PodRecord, found: Diagnosis | None, proof: Proof | None) -> str:
    """Return why a gang is not placed: a proof, or why nodes refuse a member."""
    within = proof.within if isinstance(proof, Shortage) else ""
    if within and "=" not in within:
        return f"no node that can take it has the label {within}"
    if found is not None and found.nodes and not found.reasons and not found.refusal:
        return str(proof or "each member fits, but no placement of all was found")
    if within or proof is None or found is None or member.pod_class is None:
        return str(proof or found)
    return sentence(proof, member.pod_class, found)


def _commit(
    state: State,
    gang: Gang,
    demand: Demand,
    nodes: Sequence[tuple[PodRecord, int]],
    cycle_of: Callable[[PodRecord], CycleState],
    *,
    alone: bool,
) -> None:
    """Assume what is placed, and ask Reserve, Permit, PreBind and Bind."""
    members = [record for record, _slot in nodes]
    for record, slot in nodes:
        attempt.assume(state, record, slot, cycle_of(record), is_taken=True)
    try:
        answer, waits = _reserve_and_permit(state, members, alone=alone)
        prepared: Any = answer
        ready = members
        if not isinstance(answer, tuple):
            kept = [record for record in members if record.seq in waits]
            ready = [record for record in members if record.seq not in waits]
            prepared = ""
            if ready and (not kept or attempt.is_quorum_without(state, ready, kept)):
                prepared = attempt.prepare(state, ready, kept)
    except GangschedError:
        _undo(state, members)
        raise
    if isinstance(answer, tuple):
        record, reason = answer
        _refuse_all(state, gang, demand, members, record, reason, alone=alone)
    elif not isinstance(prepared, str):
        attempt.release(state, ready, *prepared)
        _wait(state, [record for record in members if record not in ready], waits)
    elif waits:
        _wait(state, members, waits)
    else:
        _refuse_all(state, gang, demand, members, members[-1], prepared, alone=alone)


def _wait(state: State, members: Sequence[PodRecord], waits: Mapping[int, Waits]) -> None:
    """Let members wait on permit until the first of their deadlines."""
    timeouts = [seconds for each in waits.values() for _name, seconds in each]
    for record in members:
        attempt.wait(state, record, waits.get(record.seq, ()), min(timeouts))


def _reserve_and_permit(
    state: State, members: Sequence[PodRecord], *, alone: bool
) -> tuple[tuple[PodRecord, str] | None, dict[int, Waits]]:
    """Return a member that is refused with the reason, or which plugins let members wait."""
    profile, points, now = state.settings.profile, state.points, state.now
    waits: dict[int, Waits] = {}
    for some in by_group(members):
        for point in ("reserve", "permit"):
            wide, each = profile.group_wide[point], profile.per_member[point]
            asked: list[tuple[PodRecord, Sequence[Any]]] = []
            if wide:
                asked.append((some[0], wide))
            asked += [(record, each) for record in some if each]
            for record, plugins in asked:
                if point == "reserve":
                    denied = points.reserve(record, now, plugins)
                    if denied is not None:
                        return (record, denied.reason), {}
                    continue
                answer = points.permit(record, now, plugins)
                if isinstance(answer, Unschedulable):
                    return (record, answer.reason), {}
                for waiting in (some if plugins is wide else [record]) if answer else ():
                    waits[waiting.seq] = (*waits.get(waiting.seq, ()), *answer)
    if waits and len(by_group(members)) > 1:
        return (members[0], "the groups of a bundle do not wait on permit"), {}
    return None, waits


def _undo(state: State, members: Sequence[PodRecord]) -> None:
    """Take back an assumption that a plugin broke off: the attempts of the pods do not count."""
    for record in reversed(members):
        state.points.unreserve(record, "refused", state.now)
        state.records.move(record, _UNSCHEDULED)
        record.cycle = None
        record.attempt -= 1


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
        notices.tell(state, refused, reason)
        attempt.refuse(state, refused, reason)
        return
    refused.cycle = cycle
    _fail_whole(state, gang, demand, refused, reason, None, verdict=verdict)
    refused.cycle = None


def _fail_whole(
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
    gang.count_untried(frozenset(gang.pending.values()))
    answer = verdict or state.points.post_filter(cycle, record.pod, reason, state.now)
    record.round = gang.round
    gang.refused = UnschedulableMember(record.uid, record.pod.key, reason, diagnosis, proof)
    notices.tell(state, record, reason)
    lacks_capacity = diagnosis is not None or reason.startswith("resource gap")
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


def _fail_rest(
    state: State,
    gang: Gang,
    pods: Sequence[PodRecord],
    refused: Mapping[PodRecord, str],
    found: Diagnosis | None,
) -> None:
    """Tell the members of a gang that go alone why they found no node, and block their demand."""
    for record, reason in refused.items():
        if record.state is _UNSCHEDULED:
            notices.tell(state, record, reason)
    left = [r for r in pods if r.state is _UNSCHEDULED and r not in refused]
    if left and found is not None and gang.backoff_until <= state.now:
        first = left[0]
        reason = str(found)
        gang.refused = UnschedulableMember(first.uid, first.pod.key, reason, found)
        gang.queued_at = state.now
        gang.failures += 1
        gang.reason = reason
        _post_filter_alone(state, gang, first, reason)
        for record in left:
            if record is first or record.told != reason:
                notices.tell(state, record, reason)
        own = demand_of(state, gang)
        state.queue.put(gang, QueuePlace.NOWHERE, own)
        state.queue.block(own)
    elif refused and not left:
        record, reason = next(iter(refused.items()))
        attempt.refuse(state, record, reason)


def _post_filter_alone(state: State, gang: Gang, record: PodRecord, reason: str) -> None:
    """Ask what follows from a member that goes alone and finds no node."""
    cycle = state.cycle(record)
    if record.info is not None and record.info.is_binding:
        cycle.bind_failures, cycle.can_evict = record.bind_failures, state.settings.can_evict
    answer = state.points.post_filter(cycle, record.pod, reason, state.now)
    if isinstance(answer, RejectGroup | HoldGroup | EvictGroup):
        attempt.apply_verdict(state, answer, backs_off=isinstance(answer, EvictGroup))


# One member -------------------------------------------------------------------------------------


def _try_one(state: State, gang: Gang, demand: Demand) -> None:
    """Place the next member of a gang that is decided pod by pod."""
    record = _next_member(state, gang)
    if not gang.waiting and (lacks := missing(state, gang)):
        _fail_whole(state, gang, demand, record, f"resource gap: {lacks}", None)
        return
    cycle = state.cycle(record)
    denied = state.points.pre_filter(cycle, record.pod, state.now)
    if denied is not None:
        _fail_one(state, gang, demand, record, cycle, denied.reason, None)
        return
    found: Diagnosis | None = None
    task = Task(gang, [record], state.records, lambda _record: cycle, {})
    assert gang.tree is not None
    leaf = next(leaf for leaf in gang.tree.leaves if leaf.key == record.leaf)
    state.table.begin()
    try:
        task.put(leaf, 1, EVERYWHERE)
        if not task.nodes:
            found = late.diagnosis(record, cycle, NodeViews(state.records))
    except BaseException:
        state.table.rewind()
        raise
    finally:
        state.table.end()
        state.records.clear_plan()
    if found is not None:
        _fail_one(state, gang, demand, record, cycle, str(found), found)
        return
    for info in gang.infos.values():
        if not gang.waiting:
            info.attempt_started_at = state.now  # the time of the permit runs from here
    attempt.assume(state, record, task.nodes[0][1], cycle, is_taken=True)
    try:
        outcome = _permit_one(state, record)
    except GangschedError:
        _undo(state, [record])
        raise
    if isinstance(outcome, str):
        verdict = attempt.give_back(state, record, _UNSCHEDULED, "refused")
        _fail_one(state, gang, demand, record, cycle, outcome, None, verdict=verdict)


def _permit_one(state: State, record: PodRecord) -> str | None:
    """Ask Reserve and Permit of one member; release it with those that wait, or let it wait.

    Returns:
        Why it is refused; None if it is not.
    """
    points, gang = state.points, record.gang
    denied = points.reserve(record, state.now)
    if denied is not None:
        return denied.reason
    waits = points.permit(record, state.now)
    if isinstance(waits, Unschedulable):
        return waits.reason
    if waits:
        attempt.wait(state, record, waits, min(seconds for _name, seconds in waits))
        return None
    siblings = [r for r in gang.waiting.values() if r.info is record.info and r is not record]
    siblings.sort(key=lambda each: each.seq)
    each = state.settings.profile.per_member["permit"]
    kept: list[PodRecord] = []
    for sibling in siblings if each else ():
        entry = state.records.waiting.get(sibling.uid)
        names = () if entry is None else entry.pending_plugins
        own = tuple(plugin for plugin in each if name_of(plugin) in names)
        answer = points.permit(sibling, state.now, own) if own else ()
        if isinstance(answer, Unschedulable):
            state.refused[sibling.uid] = answer.reason
        if answer:
            kept.append(sibling)
    together = [*[sibling for sibling in siblings if sibling not in kept], record]
    if kept and not attempt.is_quorum_without(state, together, kept):
        last = (
            max(e.deadline for e in state.records.waiting.of(record.info.key))
            if record.info
            else state.now
        )
        attempt.wait(state, record, (), last - state.now)
        return None
    prepared = attempt.prepare(state, together, kept)
    if isinstance(prepared, str):
        return prepared
    attempt.release(state, together, *prepared)
    return None


def _fail_one(
    state: State,
    gang: Gang,
    demand: Demand,
    record: PodRecord,
    cycle: CycleState,
    reason: str,
    diagnosis: Diagnosis | None,
    *,
    verdict: Any = None,
) -> None:
    """End the cycle of a member that found no node; the others may still be tried."""
    if any(info.is_binding for info in gang.infos.values()):
        cycle.bind_failures, cycle.can_evict = record.bind_failures, state.settings.can_evict
    gang.count_untried({record})
    answer = verdict or state.points.post_filter(cycle, record.pod, reason, state.now)
    record.round = gang.round
    gang.refused = UnschedulableMember(record.uid, record.pod.key, reason, diagnosis)
    notices.tell(state, record, reason)
    verdict = answer if isinstance(answer, RejectGroup | HoldGroup | EvictGroup) else None
    if verdict is not None and verdict.group not in gang.infos:
        attempt.apply_verdict(state, verdict)
        verdict = None
    if isinstance(verdict, HoldGroup) and gang.waiting:
        gang.giving_way = verdict.reason
        state.giving_way += 1
        _park_waiting(state, gang)
    elif verdict is not None:
        evicts = isinstance(verdict, EvictGroup)
        backs_off = diagnosis is None or evicts
        attempt.reject(state, gang, verdict.reason, evicts=evicts, backs_off=backs_off)
        _try_whole_next(state, gang, diagnosis)
    elif gang.untried():
        return
    elif gang.waiting:
        _park_waiting(state, gang)
    else:
        attempt.reject(state, gang, reason, backs_off=diagnosis is None)
        _try_whole_next(state, gang, diagnosis)


def _try_whole_next(state: State, gang: Gang, diagnosis: Diagnosis | None) -> None:
    """Let the next attempt be about the whole gang, unless it is known to fail.

    Pod by pod it was in its own way, or others were: whether it fits as a whole is not known.
    """
    if diagnosis is None or not gang.pending:
        return
    own = demand_of(state, gang)
    gang.is_whole = own.could_fit() or state.queue.preempts(own, None)
    if not gang.is_whole:
        state.queue.put(gang, QueuePlace.NOWHERE, own)
        state.queue.block(own)


def _park_waiting(state: State, gang: Gang) -> None:
    """Park a gang whose members wait and that cannot be completed now; it keeps its nodes."""
    if state.gained_at >= gang.round:
        gang.round = state.records.step + 1  # a node may take more since the round began
        return
    own = demand_of(state, gang)
    state.queue.put(gang, QueuePlace.NOWHERE, own)
    state.queue.block(own)


def _next_member(state: State, gang: Gang) -> PodRecord:
    """Return the next member: of a role that is lacking first; a new round begins if needed."""
    untried = gang.untried()
    if not untried:
        gang.round = state.records.step
        untried = gang.in_order()
    assert gang.tree is not None
    if gang.tree.children:
        holding = holding_by_leaf(gang)
        lacking = {leaf.key for leaf in gang.tree.leaves if holding.get(leaf.key, 0) < leaf.least}
        for record in untried:
            if record.leaf in lacking:
                return record
    return untried[0]
