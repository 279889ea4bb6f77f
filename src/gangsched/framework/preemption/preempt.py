"""Preemption: evict pods of lower priority so that a pod or gang fits, and nominate its nodes.

Theory of operation
    After an entity's scheduling cycle ``conclude`` deals with the nomination that it had, and
    decides whether it preempts. If its last attempt failed for lack of capacity, ``victim_search``
    looks for victims. A plan is carried out in this order:

    1. Nominations of lower priorities that the plan takes are removed.
    2. The preemptor's capacity is reserved.
    3. The victims are evicted.
    4. The entity leaves the queue until the pods that are terminating on its nominated nodes are
       gone, or the nomination lapses.
    5. Entities that lost a nomination, or gain by freed capacity, are requeued.

    The capacity has to be reserved before any eviction, since an eviction may free capacity at
    once and activate other entities.

Rules:
  R1  an entity preempts only after a scheduling cycle in which no node took a pod that it needs.
      It does not if it is incomplete, was refused for another reason, or awaits victims already;
  R2  no pod is evicted without a plan on which all pods fit that the entity needs to start;
  R3  a pod is never evicted for a pod of the same or a lower priority, so a victim cannot preempt
      its preemptor;
  R4  if the budget cuts the search for victims short, a notice says so, before that of the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter

from attrs import evolve

from gangsched._core._counters import MemberState
from gangsched._core._entity import Place, QueuedEntity
from gangsched._core._queue import SchedulingQueue
from gangsched.errors import GangschedError
from gangsched.events import Evict, Nominated, VictimSearchExhausted
from gangsched.framework.lifecycle import assume
from gangsched.framework.lifecycle.transition import apply_verdict, give_way
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.nodes.reserved_capacity import ReservedCapacity
from gangsched.framework.placement import budget_shares, nominator
from gangsched.framework.preemption import eviction_units, victim_search
from gangsched.framework.preemption.preemptor import GangPreemptor, SinglePod
from gangsched.framework.preemption.victim_budget import VictimBudget
from gangsched.framework.preemption.victim_plan import Preemptor, VictimPlan
from gangsched.framework.queueing import equivalence, requeue
from gangsched.framework.runtime import pod_readers
from gangsched.framework.runtime.pod_readers import NO_TERMS, Affecting
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.nomination import NominatedPod, Nomination
from gangsched.framework.state.pods import ASSUMED, Pods
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings
from gangsched.model import NodeName, PodUID
from gangsched.outcomes import EvictGroup, RejectGroup

__all__ = ["conclude"]


def conclude(
    state: State, entity: QueuedEntity, nomination: Nomination | None, *, now: float
) -> None:
    """Conclude an entity's scheduling cycle: use up its nomination, and preempt if it may.

    Args:
        state: The scheduler's state.
        entity: The entity.
        nomination: Its nomination, which is left out of the nodes; None if it has none.
        now: The current instant.
    """
    if nomination is not None and _conclude_nominated(state, nomination, now=now):
        return
    if state.settings.preemption is not None and _lacks_capacity(
        state.settings, state.queue, state.call, entity
    ):
        priority, evicts = equivalence.preemption_reach(state.settings, state.pods, entity)
        try:
            _preempt(state, entity, priority, evicts, now=now)
        except GangschedError as error:
            state.call.deferred.append(error)


def _conclude_nominated(state: State, nomination: Nomination, *, now: float) -> bool:
    """Conclude the cycle of a nominated entity; return False if it may preempt again."""
    members = [state.pods.members.get(uid) for uid in nomination.pods]
    if any(member is not None and member.state in ASSUMED for member in members):
        # capacity that its pods did not use is free for others
        nominator.lapse(state, nomination, "", now=now)
        return True
    if nomination.awaited:
        nominator.withhold_again(state.nodes, nomination)
        nominator.await_victims(state, nomination, now=now)
        return True
    # the nodes have changed since, or a plugin refuses the pods
    reason = "the nominated nodes are free, but it cannot start"
    nodes = nominator.remove(state, nomination, reason)
    # the entity itself has just failed with this capacity, so it is not requeued for it
    requeue.gain(state, nodes, now=now, since=-1, disproved=nomination.entity.equivalence_class)
    return False


def _lacks_capacity(
    settings: Settings, queue: SchedulingQueue, call: CurrentCall, entity: QueuedEntity
) -> bool:
    """Return whether the last attempt may have failed because no node took a pod."""
    if not len(entity) or entity.place is Place.ACTIVE or queue.is_gated(entity):
        return False
    unschedulable_member = entity.unschedulable_member
    if unschedulable_member is None:
        return True
    if unschedulable_member.diagnosis is not None:
        return not unschedulable_member.diagnosis.refusal
    # late members go one by one, and only the last of them is recorded
    return len(entity) > 1 and equivalence.goes_alone(settings, call, entity.group)


def _preempt(
    state: State, entity: QueuedEntity, priority: int, evicts: bool, *, now: float
) -> None:
    info = entity.group
    if not requeue.may_preempt_others(state.pods, state.reservations, priority, evicts):
        return
    if info is not None and info.key in state.attempts.waiting_since:
        # the gang preempts as a whole, so it counts on what its waiting members hold
        member = entity.unschedulable_member
        reason = "preempts as a whole" if member is None else member.reason
        apply_verdict(state, RejectGroup(info.key, reason), now=now)
        if not len(entity) or state.queue.is_gated(entity):
            return
    preemptors: Iterable[Preemptor]
    budget = _budget(state.settings, state.call)
    if info is None or equivalence.goes_alone(state.settings, state.call, info):
        preemptors = _single_pods(state.settings, state.nodes, state.pods, entity, now, budget)
    else:
        preemptors = (GangPreemptor(state, entity, info, now, budget),)
    try:
        for preemptor in preemptors:
            found = _plan(state, entity, preemptor, priority, evicts)
            if budget.is_exhausted:
                _tell_exhausted(state.call, entity, budget, is_found=found is not None)
            if found is not None:
                _carry_out(state, entity, preemptor, found, priority, now=now)
                return
    finally:
        state.call.steps += budget.looks
        state.attempts.search_steps += budget.looks


def _budget(settings: Settings, call: CurrentCall) -> VictimBudget:
    assert settings.preemption is not None
    total = budget_shares.for_victims(settings, call)
    return VictimBudget(total, min(total, settings.preemption.search_budget))


def _tell_exhausted(
    call: CurrentCall,
    entity: QueuedEntity,
    budget: VictimBudget,
    *,
    is_found: bool,
) -> None:
    """Post that the search for victims was cut short, and note it for ``why`` if it found none.

    It was for a gang, since a single pod is placed without a search.
    """
    failed = entity.unschedulable_member
    uid = entity.pod.uid if failed is None else failed.uid
    group = None if entity.group is None else entity.group.key
    call.out.append(VictimSearchExhausted(group, uid, budget.steps, is_found))
    if failed is not None and not is_found:
        entity.unschedulable_member = evolve(failed, victim_steps=budget.steps)


def _single_pods(
    settings: Settings,
    nodes: Nodes,
    pods: Pods,
    entity: QueuedEntity,
    now: float,
    budget: VictimBudget,
) -> Iterator[SinglePod]:
    """Yield the pending members that lack capacity, in order of arrival, one of those alike.

    Members of one class are alike if the same carried terms are about them. Each member goes alone,
    so a member that no eviction helps must not keep another from it. The member that was tried last
    is not enough to know: others may have failed for other reasons.
    """
    members = sorted((pods.members[pod.uid] for pod in entity.pending), key=attrgetter("seq"))
    if equivalence.has_evicting_members(settings, pods, entity):
        # beside a member that is needed, elastic ones do not evict either
        members = [m for m in members if equivalence.may_evict(settings, m.group, m.role)]
    known = set[tuple[PodClass, frozenset[Affecting]]]()
    for member in members:
        if settings.profile.signed:
            terms = pod_readers.affected(nodes, member.pod) if nodes.watches_pods else NO_TERMS
            if (member.pod_class, terms) in known:
                continue
            known.add((member.pod_class, terms))
        preemptor = SinglePod(settings, nodes, pods, member, now, budget)
        if len(members) == 1 or preemptor.lacks_capacity():
            yield preemptor


def _plan(
    state: State, entity: QueuedEntity, preemptor: Preemptor, priority: int, evicts: bool
) -> VictimPlan | None:
    units = eviction_units.units(state.pods, state.reservations, priority, preemptor.groups)
    if not evicts:
        units = [unit for unit in units if unit.nomination is not None]
    exhausted_searches = state.attempts.exhausted_searches
    try:
        return victim_search.find(state, preemptor, units, entity.failures)
    finally:
        # exhausted_searches counts scheduling attempts; a victim search is not one
        state.attempts.exhausted_searches = exhausted_searches


def _carry_out(
    state: State,
    entity: QueuedEntity,
    preemptor: Preemptor,
    found: VictimPlan,
    priority: int,
    *,
    now: float,
) -> None:
    """Nominate nodes, evict the victims and announce both; see the module for the order."""
    nomination = _nominate(state.settings, state.nodes, entity, preemptor, found, priority, now=now)
    preemptor_name = (
        f"pod {entity.pod.key}" if entity.group is None else f"pod group {entity.group.key}"
    )
    reason = f"preempted by {preemptor_name}"
    freed: list[NodeName] = []
    for unit in found.units:
        if unit.nomination is not None:
            freed += nominator.remove(state, unit.nomination, reason)
    nominator.add(state.nodes, state.reservations, nomination)
    before, evicted = len(state.call.out), set(state.pods.evicted)
    for unit in found.units:
        # the first takes the groups of its bundle along that have started, and each fails once
        for info in [g for g in unit.groups if g is unit.groups[0] or not g.was_scheduled]:
            apply_verdict(state, EvictGroup(info.key, reason), now=now)
        if unit.member is not None and unit.member.state is MemberState.WAITING:
            freed.append(give_way(state, unit.member, reason, now=now))
        elif unit.member is not None:
            assume.evict(state.pods, state.call, unit.member, reason)
    for member in found.members:
        assume.evict(state.pods, state.call, member, reason)
    victims = [effect.uid for effect in state.call.out[before:] if isinstance(effect, Evict)]
    # those whose bind is under way are evicted when it has ended
    later = (state.pods.members[uid] for uid in state.pods.evicted - evicted - {*victims})
    victims += [member.pod.uid for member in sorted(later, key=attrgetter("seq"))]
    notice = Nominated(
        nomination.group,
        priority,
        tuple((each.uid, each.node) for each in nomination.pods.values()),
        tuple(victims),
        nomination.deadline,
    )
    state.call.out.insert(before, notice)
    awaited = eviction_units.terminating_on(
        state.nodes, state.pods, state.reservations, nomination.nodes
    )
    if found.awaited is not None:
        # its victims may be in its way, or hold what it needs in total, on any node; tried before
        # they are gone, it would fail and preempt again, with the same plan and no end
        elsewhere = [uid for uid in victims if nominator.holds_capacity(state.pods, uid)]
        awaited += [uid for uid in (*elsewhere, *found.awaited) if uid not in awaited]
    nomination.awaited[:] = dict.fromkeys(awaited)
    nominator.await_victims(state, nomination, now=now)
    for unit in found.units:
        if unit.nomination is not None:
            nominator.readmit(state, unit.nomination, now=now)
    requeue.gain(state, freed, now=now)


def _nominate(
    settings: Settings,
    nodes: Nodes,
    entity: QueuedEntity,
    preemptor: Preemptor,
    found: VictimPlan,
    priority: int,
    *,
    now: float,
) -> Nomination:
    assert settings.preemption is not None
    pods: dict[PodUID, NominatedPod] = {}
    for member, index in found.places:
        node = nodes.by_index[index].node.name
        group = None if member.group is None else member.group.key
        uid = member.pod.uid
        reserved = ReservedCapacity(entity.seq, node, priority, member.requests)
        pods[uid] = NominatedPod(member.seq, uid, group, member.role, reserved)
    specs = tuple((info.key, info.spec) for info in preemptor.groups)
    deadline = now + settings.preemption.grace
    return Nomination(entity, priority, pods, preemptor.required, specs, [], deadline)
