"""One decision: the scheduling cycle of one pod, or of one gang.

Theory of operation
-------------------

A cycle takes the head of the active queue and runs the extension points in kube-scheduler's order:
PreFilter, Filter, PreScore, Score, Reserve, Permit. It ends in one outcome. A pod that finds a node
is assumed on it; then permit is granted for it and for the siblings that wait, or it waits too. A
pod that finds none is put aside, and PostFilter decides whether its gang goes on with the next
member. A gang that is decided as a whole takes the same points in ``group_cycle``.

Two checks come before any node is looked at. A gang that waits outside of its topology value is
rejected, and so is a gang if the cluster as a whole lacks its ``min_resources``. After the cycle,
``preempt`` looks for victims if the entity failed for lack of capacity and preemption is on.

Rules:
  R1  the extension points run in the documented order. The binding cycle begins only when permit
      is granted, for the pod and every sibling that waits;
  R2  if a plugin raises, the state from before the cycle is restored;
  R3  the check of the quorum and the release are one step over one state.
"""

from __future__ import annotations

from gangsched._core._counters import MemberState
from gangsched._core._entity import QueuedEntity
from gangsched._core._registry import PodGroupInfo
from gangsched.cycle_state import CycleState
from gangsched.errors import GangschedError
from gangsched.explain import Diagnosis, UnschedulableMember
from gangsched.framework.backfill import reservation
from gangsched.framework.cycle import group_cycle
from gangsched.framework.lifecycle import assume, group_attempt, notices, permit_recheck, release
from gangsched.framework.lifecycle.entity_outcomes import (
    CycleEnded,
    KeepsWaiting,
    Outcome,
    PermitGranted,
    Rejected,
)
from gangsched.framework.lifecycle.transition import (
    apply_verdict,
    readmit,
    still_fails,
    transition,
)
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.placement import choose_node, nominator, topology
from gangsched.framework.preemption import preempt
from gangsched.framework.queueing import equivalence, quotas, requeue
from gangsched.framework.runtime import extension_points, filter_and_score, pod_readers
from gangsched.framework.runtime.extension_points import Waits
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.nomination import Nomination
from gangsched.framework.state.pods import Member, Pods
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings
from gangsched.model import NodeName
from gangsched.options.scheduling_unit import SchedulingUnit
from gangsched.outcomes import EvictGroup, HoldGroup, RejectGroup, Unschedulable
from gangsched.resources import NOTHING

__all__ = ["run"]


def run(state: State, *, now: float) -> bool:
    """Run one scheduling cycle; return False if there was no entity to try."""
    while (entity := _next_entity(state, now=now)) is not None:
        reserved = state.reservations.backfill.reservation
        if reserved is not None:
            with reservation.turn(state, reserved, entity, now=now):
                _run_cycle(state, entity, now=now)
            return True
        # only one that was refused before may be left out
        if not (entity.refused_at >= 0 and still_fails(state, entity, now=now)):
            _run_cycle(state, entity, now=now)
            return True
    return False


def _run_cycle(state: State, entity: QueuedEntity, *, now: float) -> None:
    nomination: Nomination | None = None
    member: Member | None = None
    if state.reservations.nominations:
        nomination = nominator.leave_out(state.nodes, state.reservations, entity)
        member = nominator.next_member(state.pods, state.reservations, entity)
    member = member or equivalence.next_member(state.settings, state.pods, state.call, entity)
    state.attempts.tick()
    info = entity.group
    is_alone = info is None or equivalence.goes_alone(state.settings, state.call, info)
    gang = None if is_alone else info
    begun = gang is not None and group_attempt.begin(gang, now=now)
    before = requeue.begin_try(state.attempts, entity)
    try:
        outcome = _decide(state, member, gang, nomination, now=now)
    except GangschedError:
        if nomination is not None:
            nominator.withhold_again(state.nodes, nomination)
        requeue.undo_try(state.attempts, entity, before)
        state.call.refused.clear()
        if gang is not None and begun:
            group_attempt.abandon(gang)
        raise
    transition(state, entity, outcome, now=now)
    if nomination is not None or state.settings.preemption is not None:
        preempt.conclude(state, entity, nomination, now=now)


def _decide(
    state: State,
    member: Member,
    gang: PodGroupInfo | None,
    nomination: Nomination | None,
    *,
    now: float,
) -> Outcome:
    """Return the outcome of one cycle: of a pod, or of a whole gang.

    Args:
        state: The scheduler's state.
        member: The next member.
        gang: Its group; None if the member is scheduled like a regular pod.
        nomination: The capacity that is reserved for its entity; None for none.
        now: The current instant.
    """
    info = member.group
    if gang is None:
        return _schedule(
            state,
            member,
            CycleState(info, state.nodes.infos, state.settings.cluster, state.nodes.counts),
            now=now,
        )
    if gang.key in state.attempts.waiting_since:
        astray = permit_recheck.astray(state.nodes, state.pods, gang)
        if astray is not None:
            return astray
        return _schedule(
            state,
            member,
            CycleState(info, state.nodes.infos, state.settings.cluster, state.nodes.counts),
            now=now,
        )
    short = _lacks_capacity(state, member, gang)
    if short is not None:
        return short
    if _goes_whole(state.settings, gang, nomination):
        return group_cycle.schedule(state, member.entity, gang, now=now)
    return _schedule(
        state,
        member,
        CycleState(info, state.nodes.infos, state.settings.cluster, state.nodes.counts),
        now=now,
    )


def _goes_whole(settings: Settings, gang: PodGroupInfo, nomination: Nomination | None) -> bool:
    """Return whether all members of a gang are decided in one cycle."""
    bundled = gang.bundle is not None
    whole = settings.unit is SchedulingUnit.GROUP or topology.asked(gang) or bundled
    return whole or nomination is not None


def _next_entity(state: State, *, now: float) -> QueuedEntity | None:
    """Return the head of the queue, after the rejections that had to wait for it.

    A group that gives way is rejected when another entity is next, not earlier: until then an
    event may complete it.
    """
    giving_way = state.attempts.giving_way
    while True:
        entity = state.queue.head()
        if entity is None:
            if state.queue.hasten(now=now):
                continue
            return None
        own = None if entity.group is None else entity.group.key
        others = [key for key in giving_way if key != own] if giving_way else ()
        for key in others:
            apply_verdict(state, RejectGroup(key, giving_way[key]), now=now)
        # another group of a bundle may have lost its released members since this one was queued
        if not others and readmit(state, entity, now=now):
            return entity


def _lacks_capacity(state: State, member: Member, info: PodGroupInfo) -> Rejected | None:
    """Return a rejection if the cluster as a whole lacks what the group requests."""
    missing = equivalence.missing(state, info)
    if missing is NOTHING or not missing:
        return None
    reason = f"resource gap: {missing}"
    member.entity.unschedulable_member = None
    member.entity.mark_tried(member.pod.uid)
    member.entity.failed_step = state.attempts.step
    notices.tell_unschedulable(state.call, member, reason)
    return Rejected(reason, lacks_capacity=True)


def _schedule(state: State, member: Member, cycle: CycleState, *, now: float) -> Outcome:
    if state.pods.quotas.is_used:
        exceeded = quotas.exceeded_by(state.pods, member)
        if exceeded:
            return _fail(state, member, cycle, exceeded, now=now)
    every = state.settings.profile.pre_filter
    asked = extension_points.concerned(state.settings, member, "pre_filter", every)
    if asked:
        refusal = extension_points.pre_filter_refusal(
            state.settings, state.nodes, cycle, member.pod, now, asked
        )
        if refusal is not None:
            return _fail(state, member, cycle, refusal, now=now)
    pod_class, judge, outcome = filter_and_score.evaluate_nodes(
        state.settings, state.nodes, cycle, member, now
    )
    domain = (
        None if member.group is None else topology.joined(state.nodes, state.pods, member.group)
    )
    node: NodeName | None = None
    if state.reservations.nominations:
        node = nominator.node_for(state.nodes, state.reservations, member, pod_class, judge, domain)
    found = choose_node.choose(state.settings, state.nodes, cycle, member, pod_class, domain, node)
    if isinstance(found, Diagnosis):
        return _fail(state, member, cycle, found, now=now)
    if isinstance(outcome, Unschedulable):
        return _fail(state, member, cycle, outcome.reason, now=now)
    return _place(state, member, cycle, found, now=now)


def _place(
    state: State, member: Member, cycle: CycleState, node: NodeName, *, now: float
) -> Outcome:
    """Assume a pod on a node, and ask Reserve and Permit."""
    info = member.group
    before = None if info is None else info.attempt_started_at
    assume.assume(state.nodes, state.pods, member, cycle, node)
    if info is not None and before is not None and info.key not in state.attempts.waiting_since:
        group_attempt.restart_clock(info, now)
    try:
        outcome = _reserve_and_permit(state.settings, state.pods, state.call, member, now=now)
    except GangschedError:
        extension_points.unreserve(state.settings, state.call, member, "refused", now)
        assume.unassume(state.nodes, state.pods, member)
        if info is not None:
            group_attempt.restart_clock(info, before)
        raise
    if isinstance(outcome, PermitGranted):
        return outcome
    if not isinstance(outcome, Unschedulable):
        timeout: float | None = None
        if not outcome and info is not None:
            # it waits for its siblings only, as long as the last of them
            timeout = max(each.deadline for each in state.pods.waiting.of(info.key)) - now
        assume.wait(state, member, outcome, now=now, timeout=timeout)
        return CycleEnded()
    verdict = assume.give_back(state, member, cause="refused", to=MemberState.UNSCHEDULED, now=now)
    member.entity.mark_ready(member.pod.uid)
    return _fail(state, member, cycle, outcome.reason, now=now, verdict=verdict)


def _reserve_and_permit(
    settings: Settings, pods: Pods, call: CurrentCall, member: Member, *, now: float
) -> PermitGranted | Unschedulable | Waits:
    """Return the release, a refusal, or the plugins that let the pod wait.

    Without any such plugin, the pod waits for siblings that a plugin lets wait.
    """
    outcome = extension_points.reserve(settings, member, now)
    if isinstance(outcome, Unschedulable):
        return outcome
    waits = extension_points.permit(settings, member, now)
    if waits:
        return waits
    together, kept = [member], list[Member]()
    if member.group is not None:
        siblings, kept = permit_recheck.ask_siblings(settings, pods, call, member, now=now)
        together = [*siblings, member]
    if kept and not release.is_quorum_without(settings, call, together, kept):
        return ()
    granted = release.prepare(settings, call, together, now=now, kept=kept)
    return granted or Unschedulable(member.reason)


def _fail(
    state: State,
    member: Member,
    cycle: CycleState,
    found: Diagnosis | str,
    *,
    now: float,
    verdict: RejectGroup | EvictGroup | None = None,
) -> Outcome:
    """End the cycle of a pod without a node.

    Args:
        state: The scheduler's state.
        member: The pod.
        cycle: Its cycle state.
        found: Why. A diagnosis if only an event can help, so that equivalent pods fail too.
        now: The current instant.
        verdict: The verdict of ``unreserve`` on its group; None for PostFilter to be asked.
    """
    entity, info, uid = member.entity, member.group, member.pod.uid
    reason, diagnosis = str(found), found if isinstance(found, Diagnosis) else None
    entity.mark_tried(uid)
    if info is not None and info.is_binding:  # it has started, and was not whole yet
        cycle.bind_failures, cycle.can_evict = member.bind_failures, state.settings.can_evict
    try:
        answer = verdict or extension_points.post_filter(
            state.settings, cycle, member.pod, reason, now
        )
    except GangschedError:
        entity.mark_ready(uid)
        raise
    entity.unschedulable_member = UnschedulableMember(uid, member.pod.key, reason, diagnosis)
    if (
        diagnosis is not None
        and not diagnosis.refusal
        and info is not None
        and state.settings.profile.signed
        and entity.seq not in state.reservations.nominations
        and equivalence.goes_alone(state.settings, state.call, info)
    ):
        _mark_like_members(state.nodes, state.pods, state.call, member, reason)
    if diagnosis is None:
        entity.note_refusal_by_plugin()
    else:
        entity.failed_step = state.attempts.step
    notices.tell_unschedulable(state.call, member, reason)
    if not isinstance(answer, RejectGroup | HoldGroup | EvictGroup):
        return CycleEnded()
    if info is None or answer.group != info.key:
        apply_verdict(state, answer, now=now)
        return CycleEnded()
    if isinstance(answer, EvictGroup):
        return Rejected(answer.reason, evict=True)
    if isinstance(answer, HoldGroup) and answer.group in state.attempts.waiting_since:
        state.attempts.giving_way[answer.group] = answer.reason
        return KeepsWaiting()
    too_few = equivalence.falls_short(state.settings, state.call, entity)
    awaits_event = diagnosis is not None and bool(diagnosis.refusal)
    return Rejected(
        answer.reason,
        lacks_capacity=too_few and not awaits_event,
        awaits_event=too_few and awaits_event,
    )


def _mark_like_members(
    nodes: Nodes, pods: Pods, call: CurrentCall, member: Member, reason: str
) -> None:
    """Mark the members that no node takes either as tried. O(1) without carried terms.

    Late members are tried one by one. Those of one class that the same carried terms are about get
    the same answer from every node, so one that failed stands for all of them. Otherwise each late
    member that arrives would cost a cycle for each one that waits. With carried terms, all pending
    members are looked at.
    """
    entity, pod_class = member.entity, member.pod_class
    if not nodes.counts.has_terms and nodes.guard is None:
        entity.mark_like_tried(member.pod.uid)
        notices.tell_like_members(pods, call, member, reason)
        return
    terms = pod_readers.affected(nodes, member.pod)
    members = [pods.members[pod.uid] for pod in entity.pending]
    alike = [
        each
        for each in members
        if each.pod_class is pod_class
        and each is not member
        and pod_readers.affected(nodes, each.pod) == terms
    ]
    for like in alike:
        entity.mark_tried(like.pod.uid)
    notices.tell_others(call, alike, reason)
