"""A cycle about one member of a gang, or about a pod: it waits on permit for the others.

A round is one try of each pending member. A gang whose round has failed is tried as a whole next,
since member by member it may have been in its own way.
"""

from __future__ import annotations

from typing import Any, Final

from gangsched._core._counters import MemberState
from gangsched._plugin_calls import name_of
from gangsched.core import attempt, notices
from gangsched.core.demand import Demand
from gangsched.core.domains import EVERYWHERE
from gangsched.core.gang import Gang, PodRecord, QueuePlace, by_seq
from gangsched.core.gang_cycle import as_diagnosis, fail_in_total, undo
from gangsched.core.pending_members import demand_of, lacking
from gangsched.core.placement import late
from gangsched.core.placement.task import Task
from gangsched.core.placing import missing
from gangsched.core.state import State
from gangsched.cycle_state import CycleState
from gangsched.errors import GangschedError
from gangsched.explain import Diagnosis, UnschedulableMember
from gangsched.outcomes import EvictGroup, HoldGroup, RejectGroup, Unschedulable

__all__ = ["try_one"]

_UNSCHEDULED: Final = MemberState.UNSCHEDULED


def try_one(state: State, gang: Gang, demand: Demand) -> None:
    """Place the next member of a gang that is decided pod by pod."""
    record = _next_member(state, gang)
    if not gang.waiting and (lacks := missing(state, gang)):
        fail_in_total(state, gang, demand, record, lacks)
        return
    cycle = state.cycle(record)
    denied = state.points.pre_filter(cycle, record.pod, state.records.now)
    if denied is not None:
        _fail_one(state, gang, demand, record, cycle, str(denied), as_diagnosis(denied))
        return
    found: Diagnosis | None = None
    task = Task(gang, [record], state.records, lambda _record: cycle, {})
    leaf = next(leaf for leaf in gang.tree.leaves if leaf.key == record.leaf)
    state.table.begin()
    try:
        task.put(leaf, 1, EVERYWHERE)
        if not task.nodes:
            found = late.diagnosis(record, cycle, state.views)
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
            info.attempt_started_at = state.records.now  # the time of the permit runs from here
    before = dict(state.table.gains), state.pods_tried
    attempt.assume(state, record, task.nodes[0][1], cycle, is_taken=True)
    try:
        outcome = _permit_one(state, record)
    except GangschedError:
        undo(state, [record], before)
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
    denied = points.reserve(record, state.records.now)
    if denied is not None:
        return denied.reason
    waits = points.permit(record, state.records.now)
    if isinstance(waits, Unschedulable):
        return waits.reason
    if waits:
        attempt.wait(state, record, waits, min(seconds for _name, seconds in waits))
        return None
    siblings = [r for r in gang.waiting.values() if r.info is record.info and r is not record]
    siblings.sort(key=by_seq)
    _wide, each = state.settings.profile.group_wide["permit"]
    kept: list[PodRecord] = []
    for sibling in siblings if each else ():
        entry = state.records.waiting.get(sibling.uid)
        names = () if entry is None else entry.pending_plugins
        own = tuple(plugin for plugin in each if name_of(plugin) in names)
        answer = points.permit(sibling, state.records.now, own) if own else ()
        if isinstance(answer, Unschedulable):
            state.refused[sibling.uid] = answer.reason
        if answer:
            kept.append(sibling)
    together = [*[sibling for sibling in siblings if sibling not in kept], record]
    if kept and not attempt.is_quorum_without(state, together, kept):
        last = (
            max(e.deadline for e in state.records.waiting.of(record.info.key))
            if record.info
            else state.records.now
        )
        attempt.wait(state, record, (), last - state.records.now)
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
    gang.count_tried({record})
    answer = verdict or state.points.post_filter(cycle, record.pod, reason, state.records.now)
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
        notices.tell_gang(state, gang, verdict.reason)
        _park_waiting(state, gang)
        _wake_without(state, gang)
    elif verdict is not None:
        evicts = isinstance(verdict, EvictGroup)
        backs_off = diagnosis is None or evicts
        attempt.reject(state, gang, verdict.reason, evicts=evicts, backs_off=backs_off)
        gang.is_whole = diagnosis is not None and bool(gang.pending)
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
    may_fit = state.queue.could_fit(own) or state.queue.preempts(own, None)
    gang.is_whole = may_fit and not diagnosis.refusal  # PreFilter looks at no placement
    if not gang.is_whole:
        state.queue.put(gang, QueuePlace.NOWHERE, own)
        state.queue.block(own)


def _park_waiting(state: State, gang: Gang) -> None:
    """Park a gang whose members wait and that cannot be completed now; it keeps its nodes."""
    if state.gains.last >= gang.round:
        gang.round = state.records.step + 1  # a node may take more since the round began
        if gang.tried:
            gang.count_tried()
        return
    own = demand_of(state, gang)
    state.queue.put(gang, QueuePlace.NOWHERE, own)
    state.queue.block(own)


def _wake_without(state: State, gang: Gang) -> None:
    """Wake what may fit once a gang has given way, so that its turn comes. O(demands).

    What failed before the gang took its nodes has failed with them already.
    """
    since = state.gains.since(gang.began)
    state.table.begin()
    try:
        for record in gang.waiting.values():
            state.table.take(record.slot, record.needs, -1)
        for demand in state.queue.blocked():
            if demand is not gang.demand and demand.blocked_at > since and demand.could_fit():
                state.queue.unblock(demand)
    finally:
        state.table.rewind()
        state.table.end()


def _next_member(state: State, gang: Gang) -> PodRecord:
    """Return the next member: of a role that is lacking first; a new round begins if needed."""
    untried = gang.untried()
    if not untried:
        gang.round = state.records.step
        if gang.tried:
            gang.count_tried()
        untried = gang.in_order()
    if gang.tree.children:
        needed = lacking(state, gang)
        for record in untried:
            if needed.get(record.leaf, 0) > 0:
                return record
    return untried[0]
