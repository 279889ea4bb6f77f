"""Preemption: evict pods of lower priority so that a pod or gang fits, and nominate its nodes.

A failed attempt blocks the demand of its gang. If the gang may preempt, it looks for victims then,
and a plan is carried out in this order:

1. Nominations of lower priorities that the plan takes are removed.
2. The preemptor's capacity is held.
3. The victims are evicted.
4. The gang leaves the queue until the pods that terminate on its nominated nodes are gone, or the
   nomination lapses.

The capacity has to be held before any eviction, since an eviction may free capacity at once.

Rules:
  R1  a gang preempts only after an attempt in which no node took a pod that it needs. It does not
      if it is incomplete, was refused for another reason, or awaits victims already;
  R2  no pod is evicted without a plan on which all pods fit that the gang needs to start;
  R3  a pod is never evicted for a pod of the same or a lower priority, so a victim cannot preempt
      its preemptor;
  R4  a plan that lapsed at the instant at which it was made is not made again before an event;
  R5  nothing is evicted for a part of a copy of a role that has not started: all members that it
      needs preempt together;
  R6  if the search for victims is cut short, a notice says so, before that of the plan.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve

from gangsched.core.admission import accounts
from gangsched.core.admission.lacking import lacking
from gangsched.core.admission.reclaim import AccountTrial, owners_of, queue_of
from gangsched.core.attempt.pending_members import split
from gangsched.core.attempt.reach import helps, may_evict, may_preempt
from gangsched.core.evaluation.pod_class import PodClass
from gangsched.core.moves import attempt_steps
from gangsched.core.moves.lost_nodes import reject_some
from gangsched.core.moves.rejection import apply_verdict, reject
from gangsched.core.nodes.hold import Hold
from gangsched.core.placement.pinned import holding_by_leaf
from gangsched.core.preemption import nominations, victim_search
from gangsched.core.preemption.eviction_units import EvictionUnit, eviction_units
from gangsched.core.preemption.preemptor import Preemptor
from gangsched.core.preemption.steps import Steps
from gangsched.core.preemption.victim_plan import VictimPlan
from gangsched.core.queue.demand import Demand, Minimum, Reach
from gangsched.core.records.gang import GangRecord, PodRecord, QueuePlace, by_seq
from gangsched.core.state import State
from gangsched.core.state.nominated import NominatedPod, Nomination
from gangsched.errors import GangschedError
from gangsched.events import Evict, Nominated, VictimSearchExhausted
from gangsched.primitives.counters import MemberState
from gangsched.primitives.gang_tree import SubGroup
from gangsched.primitives.standing import by_key, least_needed, unmet
from gangsched.resources import NOTHING, Resources

__all__ = ["conclude", "may_reclaim", "preempts", "reclaim", "retry"]


def preempts(state: State, demand: Demand, slots: list[int] | None) -> bool:
    """Return whether a gang of a demand may preempt; see ``Queue.preempts``."""
    if slots is None:
        return may_preempt(state, demand.reach)
    return helps(state, demand, slots)


def conclude(state: State, gang: GangRecord) -> None:
    """Make room for a gang after its attempt, if the attempt failed and it may preempt."""
    demand: Demand | None = gang.demand
    if demand is None or demand.blocked_at != state.records.step:
        return
    reach = demand.reach
    if reach is None or gang.no_plan_at == state.mark or gang in state.nominations.known:
        return
    if not gang.pending or gang.place is QueuePlace.BACKOFF or not may_preempt(state, reach):
        return
    if _is_early(state, gang):
        return
    if gang.waiting:
        if not split(state, gang)[1]:
            return  # its minimum only waits on permit
        # the gang preempts as a whole, so it counts on what its waiting members hold
        member = gang.refused
        reason = "preempts as a whole" if member is None else member.reason
        state.queue.unblock(demand)
        reject(state, gang, reason, backs_off=False)
        gang.is_whole = True
        return
    try:
        _preempt(state, gang, demand, reach)
    except GangschedError as error:
        state.call.errors.append(error)


def reclaim(state: State, gang: GangRecord) -> bool:
    """Take back what others borrow for a gang that its accounts do not take; return whether.

    It is tried once for each change of what is charged.
    """
    demand: Demand | None = gang.demand
    if demand is None or not may_reclaim(state, gang, demand):
        return False
    assert demand.reach is not None
    for owner in owners_of(gang):
        state.records.quotas.note_tried(owner, demand.key)
    try:
        return _preempt(state, gang, demand, demand.reach)
    except GangschedError as error:
        state.call.errors.append(error)
        return False


def may_reclaim(state: State, gang: GangRecord, demand: Demand) -> bool:
    """Return whether a gang that its accounts do not take may look for victims now."""
    reach = demand.reach
    if reach is None or reach.queue is None or not reach.evicts or gang.waiting:
        return False
    quotas = state.records.quotas
    if gang in state.nominations.known:
        return False
    if all(quotas.was_tried(owner, demand.key) for owner in owners_of(gang)):
        return False
    if gang.no_plan_at == state.mark or not may_preempt(state, reach, _asked(state, gang)):
        return False
    return not _is_early(state, gang)


def _asked(state: State, gang: GangRecord) -> Resources:
    """Return what a gang that waits for its accounts asks of its queue; nothing if it is unlike."""
    asked = [state.records.quotas.asked(owner) for owner in owners_of(gang)]
    return asked[0] if len(asked) == 1 else NOTHING


def _is_early(state: State, gang: GangRecord) -> bool:
    """Return whether a gang has not waited long enough; note when it has. See ``delay``."""
    policy, now = state.settings.preemption, state.records.now
    assert policy is not None
    until = (now if gang.lacks_since is None else gang.lacks_since) + policy.delay
    if until > now:
        state.retry_at = min(state.retry_at, until)
    return until > now


def retry(state: State) -> None:
    """Let the gangs try again that could not preempt before this instant. O(blocked demands)."""
    state.retry_at = math.inf
    for demand in state.queue.blocked():
        if demand.reach is not None and demand.reach.evicts:
            state.queue.unblock(demand)
    for gang in state.records.quotas.waiters.firsts():
        state.touch(gang)
    state.records.quotas.forget_tried()


def _preempt(state: State, gang: GangRecord, demand: Demand, reach: Reach) -> bool:
    steps = _steps(state)
    units = eviction_units(state, reach, gang)
    if not reach.evicts:
        units = [unit for unit in units if unit.nomination is not None]
    for preemptor in _preemptors(state, gang, demand, steps):
        trial = _accounts(state, reach, preemptor)
        plan = victim_search.find(state, preemptor, units, trial)
        if steps.is_exhausted:
            _tell_exhausted(state, gang, steps, is_found=plan is not None)
        if plan is not None:
            _carry_out(state, gang, preemptor, plan, reach.below)
            for owner, amounts in () if trial is None else trial.targets:
                state.records.quotas.keep(owner, amounts)
            # the next gang of this demand may preempt too
            state.queue.unblock(demand)
            return True
    return False


def _accounts(state: State, reach: Reach, preemptor: Preemptor) -> AccountTrial | None:
    """Return the accounts as the search for victims sees them; None if it need not see them."""
    if reach.queue is None:
        return None
    is_whole = preemptor.needed is not None and not preemptor.is_copy
    targets = accounts.targets(state, preemptor.gang, preemptor.members, is_whole=is_whole)
    return AccountTrial(state, reach, targets)


def _steps(state: State) -> Steps:
    policy = state.settings.preemption
    assert policy is not None
    total = state.settings.search_budget
    return Steps(total, min(total, policy.search_budget))


def _preemptors(
    state: State, gang: GangRecord, demand: Demand, steps: Steps
) -> Iterator[Preemptor]:
    """Yield the gang, or what goes without it and lacks capacity, in order of arrival.

    That is a member, or a copy that starts as a whole. Of those that ask for the same only the
    first: what helps none helps the others as little.
    """
    alone, together = split(state, gang)
    needed = lacking(state, gang) if together or gang.tree.has_parts else {}
    if together:
        yield Preemptor(state, gang, together, needed, demand.alternatives[0], steps)
        return
    members = [record for record in alone if may_evict(state, record)] or alone
    known: set[Any] = set()
    for copy, records in _starting(gang, members, needed):
        classes = Counter(_classes(records))
        alike = (None if copy is None else copy.shape, frozenset(classes.items()))
        if alike in known and not any(pod_class.late for pod_class in classes):
            continue
        known.add(alike)
        if copy is None:
            minimum = Minimum(tuple(classes.items()), 1)
            yield Preemptor(state, gang, records, None, (minimum,), steps)
            continue
        own = {sub.key: needed[sub.key] for sub in copy.sub_groups()}
        level = copy.within.level if copy.within is not None and copy.within.required else None
        lacks = least_needed(copy, by_key(needed))
        minimum = Minimum(tuple(classes.items()), lacks, level)
        yield Preemptor(state, gang, records, own, (minimum,), steps, copy)


def _starting(
    gang: GangRecord, members: Sequence[PodRecord], needed: Mapping[str, int]
) -> Iterable[tuple[SubGroup | None, list[PodRecord]]]:
    """Return the members that start together, with their copy; None for one that starts alone."""
    if not gang.tree.has_parts:
        return [(None, [record]) for record in members]
    parts = unmet(gang.tree, by_key(needed), holding_by_leaf(gang))
    copies = {leaf.key: part for part in parts for leaf in part.leaves}
    found: dict[object, tuple[SubGroup | None, list[PodRecord]]] = {}
    for record in members:
        copy = copies.get(record.leaf)
        key = record if copy is None else copy.key
        found.setdefault(key, (copy, []))[1].append(record)
    return found.values()


def _classes(records: Iterable[PodRecord]) -> Iterator[PodClass]:
    for record in records:
        assert record.pod_class is not None
        yield record.pod_class


def _tell_exhausted(state: State, gang: GangRecord, steps: Steps, *, is_found: bool) -> None:
    """Post that the search for victims was cut short, and note it if it found none."""
    failed, group = gang.refused, gang.group
    uid = gang.pod.uid if failed is None else failed.uid
    key = None if group is None else group.key
    state.call.out.append(VictimSearchExhausted(key, uid, steps.taken, is_found))
    if failed is not None and not is_found:
        gang.refused = evolve(failed, victim_steps=steps.taken)


# A plan is carried out --------------------------------------------------------------------------


def _carry_out(
    state: State, gang: GangRecord, preemptor: Preemptor, plan: VictimPlan, priority: int
) -> None:
    """Nominate nodes, evict the victims and announce both; see the module for the order."""
    group, out = gang.group, state.call.out
    name = f"pod {gang.pod.key}" if group is None else f"pod group {group.key}"
    reason = f"preempted by {name}"
    for unit in plan.units:
        if unit.nomination is not None:
            nominations.lapse(state, unit.nomination, reason)
    _note_taken(state, gang, plan)
    nomination = _nominate(state, gang, preemptor, plan, priority)
    before = len(out)
    marked = [r for r in state.records.terminating.values() if r.is_evicted]
    for unit in plan.units:
        _evict(state, unit, _reason(state, gang, unit.gang, name))
    for record in plan.members:
        attempt_steps.evict(state, record, _reason(state, gang, record.gang, name))
    victims = [effect.uid for effect in out[before:] if isinstance(effect, Evict)]
    # those whose bind is under way are evicted when it has ended
    later = [
        record
        for record in state.records.terminating.values()
        if record.is_evicted and record not in marked and record.uid not in victims
    ]
    victims += [record.uid for record in sorted(later, key=by_seq)]
    names = state.table.names
    places = tuple([(record.uid, names[slot]) for record, slot in plan.places])
    notice = Nominated(nomination.group, priority, places, tuple(victims), nomination.deadline)
    out.insert(before, notice)
    nomination.awaited = _awaited(state, nomination, plan, victims)
    state.touch(gang)


def _note_taken(state: State, gang: GangRecord, plan: VictimPlan) -> None:
    """Note that a gang takes from others, and who of another queue loses; see ``Takers``."""
    queue = queue_of(state, gang)
    if queue is None:
        return  # each takes from lower priorities only, so there is an end
    units = [unit.gang for unit in plan.units if unit.nomination is None]
    losers = [each for each in (*units, *(record.gang for record in plan.members)) if each]
    state.takers.note_plan(gang, [each for each in losers if queue_of(state, each) != queue])


def _reason(state: State, gang: GangRecord, victim: GangRecord | None, name: str) -> str:
    """Return why a victim is evicted: by priority, or because its queue has borrowed."""
    queue = queue_of(state, gang)
    if victim is None or not queue or queue_of(state, victim) == queue:
        return f"preempted by {name}"
    return f"reclaimed by {name} of queue {queue}"


def _nominate(
    state: State, gang: GangRecord, preemptor: Preemptor, plan: VictimPlan, priority: int
) -> Nomination:
    policy = state.settings.preemption
    assert policy is not None
    pods: dict[Any, NominatedPod] = {}
    for record, slot in plan.places:
        assert record.pod_class is not None
        hold = Hold(slot, record.needs, gang.name, state.records.tenancy.asks(record))
        state.records.hold(hold)
        pods[record.uid] = NominatedPod(record, record.pod_class, hold)
    group = gang.group
    nomination = Nomination(
        gang,
        None if group is None else group.key,
        priority,
        pods,
        preemptor.required(plan.places),
        tuple(
            {
                **{spec.key: spec for info in gang.infos.values() for spec in info.above},
                **{key: info.spec for key, info in gang.infos.items()},
            }.items()
        ),
        state.records.now + policy.grace,
        state.mark,
    )
    state.nominations.add(nomination)
    return nomination


def _evict(state: State, unit: EvictionUnit, reason: str) -> None:
    gang = unit.gang
    if gang is None or unit.nomination is not None:
        return
    if gang.infos:
        reject(state, gang, reason, evicts=True)
        return
    for record in list(gang.members.values()):
        if record.state is MemberState.WAITING:
            for verdict in reject_some(state, [(record, reason)], "rejected"):
                apply_verdict(state, verdict)
        else:
            attempt_steps.evict(state, record, reason)


def _awaited(
    state: State, nomination: Nomination, plan: VictimPlan, victims: list[Any]
) -> list[PodRecord]:
    """Return the pods that must leave before the gang is tried."""
    records, overdue = state.records, state.nominations.overdue
    found: dict[PodRecord, None] = {}
    for slot in nomination.slots:
        for record in records.holders(slot):
            if record.uid in records.terminating and record.uid not in overdue:
                found[record] = None
    if plan.awaited is not None:
        # its victims may be in its way, or hold what it needs in total, on any node; tried before
        # they are gone, it would fail and preempt again, with the same plan and no end
        elsewhere = [records.pods[uid] for uid in victims if records.pods[uid].slot >= 0]
        found |= dict.fromkeys([*elsewhere, *plan.awaited])
    return list(found)
