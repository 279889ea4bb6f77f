"""Where a queued entity goes after an outcome: the one decision point of the lifecycle.

Theory of operation
-------------------

An entity is a regular pod or a pod group. It is in one place: active, backoff, unschedulable (in
the queue of its equivalence class, or *not admitted*), or out of the queue because it has no
pending pod. A scheduling cycle, an event, a permit timeout and a preemption all end in one
*outcome* about one entity; ``transition`` is the only function that turns an outcome into a place.
An attempt ends in it, too: with ``release.perform``, or in a rejection.

Every outcome comes to the same questions, in this order:

1.  Has the entity a pending pod? If not, it leaves the queue.
2.  Does PreEnqueue admit it? If not, it waits for an event about itself, without backoff: it was
    never tried, so it is not penalised. A group that waits on permit is rejected first.
3.  Has it just failed? Then it goes to the queue of its equivalence class, behind a backoff. The
    class is blocked from the failure on, if the failure proves that no entity of the class fits.
4.  Otherwise it is active.

A rejection of an attempt (``Rejected``) gives back every node at once. The order of its steps
matters:

-   The nodes are given back before the group's failure is recorded, because ``unreserve`` of a
    plugin reads the group while the attempt is still under way.
-   The equivalence class is blocked before the entity leaves the lead of its class: otherwise the
    next entity of the class would be promoted, and would fail.
-   The entity is out of the queue while ``failures`` and ``last_failure_at`` change, because the
    sort key is frozen while it is queued.
-   Other entities are requeued before the group is asked about again, and after the failure is
    recorded: capacity that the group itself has given back must not requeue it.

Rules:
  R1  only ``transition`` moves an entity between places after an outcome;
  R2  a plugin that raises here does not stop the transition. Its error is deferred to the end of
      the call, because half of a transition would break the invariants of the state;
  R3  effects are in the order in which they happened.
"""

from __future__ import annotations

import math
from typing import Final, assert_never

from gangsched._core._counters import MemberState
from gangsched._core._entity import REFUSED_BY_PLUGIN, Place, QueuedEntity
from gangsched._core._queue import SchedulingQueue
from gangsched._core._registry import PodGroupInfo
from gangsched.events import GroupRejected, PodNotAdmitted
from gangsched.framework.lifecycle import (
    assume,
    group_attempt,
    notices,
    permit_recheck,
    release,
)
from gangsched.framework.lifecycle.entity_outcomes import (
    Changed,
    CycleEnded,
    Failed,
    KeepsWaiting,
    Outcome,
    PermitGranted,
    Prepared,
    Rejected,
)
from gangsched.framework.queueing import bundles, equivalence, requeue
from gangsched.framework.state.attempts import Attempts
from gangsched.framework.state.pods import Member, Pods
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings
from gangsched.model import NodeName, Pod
from gangsched.options.scheduling_unit import SchedulingUnit
from gangsched.outcomes import EvictGroup, HoldGroup, RejectGroup, Unschedulable

__all__ = ["apply_verdict", "give_way", "readmit", "send_for", "still_fails", "transition"]

_ACTIVE: Final = Place.ACTIVE  # asked for with every entity


def transition(state: State, entity: QueuedEntity, outcome: Outcome, *, now: float) -> None:
    """Put an entity where an outcome says it belongs.

    Runtime complexity: O(log n), plus O(k log n) for k members that give a node back, plus the
    requeueing of others that the capacity may help.
    """
    match outcome:
        case PermitGranted(parties):  # first, since it ends most cycles
            for prepared in parties:
                _released(state, prepared, now=now)
        case Changed():
            if entity.group is None:
                _pod_changed(state, entity, now=now)
            else:
                _group_changed(state, entity, entity.group, now=now)
        case CycleEnded():
            _cycle_ended(state, entity, now=now)
        case Failed():
            entity.forget_refusal_by_plugin()
            _failed(state, entity, now=now)
        case KeepsWaiting():
            _keeps_waiting(state, entity, now=now)
        case Rejected():
            _rejected(state, entity, outcome, now=now)
        case _:
            assert_never(outcome)


def apply_verdict(
    state: State,
    verdict: EvictGroup | HoldGroup | RejectGroup,
    *,
    now: float,
    freed: tuple[NodeName, ...] = (),
) -> None:
    """Reject, and if the verdict says so evict, the group that a verdict names.

    If a group is evicted, the groups of its bundle that have started are evicted too: they run
    together or not at all. Nothing happens if the group has no members. O(groups of its bundle),
    plus that of ``transition``.
    """
    entity = state.pods.entities.get(verdict.group)
    if entity is None:
        return
    evict = isinstance(verdict, EvictGroup)
    transition(state, entity, Rejected(verdict.reason, freed=freed, evict=evict), now=now)
    if evict:
        for other in bundles.started(state.pods, entity):
            transition(state, other, Rejected(verdict.reason, evict=True), now=now)


def give_way(state: State, member: Member, reason: str, *, now: float) -> NodeName:
    """Take a regular pod that waits on permit off its node for a preemptor; return the node."""
    node = member.node
    assert node is not None
    verdict = assume.give_back(state, member, cause="rejected", to=MemberState.UNSCHEDULED, now=now)
    assume.report_rejected(state.call, member, node, reason)
    transition(state, member.entity, Failed(), now=now)
    if verdict is not None:
        apply_verdict(state, verdict, now=now)
    return node


def readmit(state: State, entity: QueuedEntity, *, now: float) -> bool:
    """Return whether the next entity may still be tried; if not, it waits for an event.

    Only a group that starts with others is asked about: what the others have done since it was
    queued is no event about itself. O(groups of its bundle).
    """
    if not bundles.is_shared(state.pods, entity):
        return True
    denied = bundles.pre_enqueue(
        state.settings, state.pods, state.call, entity.pod, entity.group, now
    )
    if isinstance(denied, Unschedulable):
        _not_admitted(state, entity, denied, now=now)
        return False
    return True


def still_fails(state: State, entity: QueuedEntity, *, now: float) -> bool:
    """Return whether the next entity cannot fit by now; then it is parked again without a cycle.

    Its last attempt failed because nodes refused a member (``refused_at``). An event opened the
    queue of its class, and others have taken the capacity since. A cycle would find no node, as the
    one before did. No backoff begins and nothing is posted, as if the event had not helped. An
    entity that holds nodes or has reserved capacity is always tried. So is every entity with
    backfill, whose reservations follow from what fails. So is every pod with the unit ``pod``,
    whose attempts are those of kube-scheduler. O(pod classes) as a rule.
    """
    asked, info = entity.equivalence_class, entity.group
    if asked is None or state.settings.unit is SchedulingUnit.POD:
        return False  # no event has requeued it
    if state.reservations.backfill.policy is not None:
        return False
    last = entity.unschedulable_member
    if last is not None and last.diagnosis is None:
        return False  # a plugin refused it, and what it said may hold no more
    if entity.is_under_way or entity.seq in state.reservations.nominations:
        return False
    if info is not None and info.key in state.attempts.waiting_since:
        return False
    if requeue.may_fit(state, asked, now=now):
        return False
    nodes, pods, call = state.nodes, state.pods, state.call
    if equivalence.class_of(state.settings, nodes, pods, call, entity) != asked:
        return False  # it has changed since it was parked
    state.queue.park(entity, equivalence_class=asked, step=state.attempts.tick(), now=now)
    return True


def send_for(queue: SchedulingQueue, entity: QueuedEntity, *, now: float) -> None:
    """Let an entity be tried at once, though it waits for its backoff or for an event. O(log n).

    For a fork that is asked why the entity does not run: see ``what_if.anew``.
    """
    # First: entities in backoff are sorted by its end. It leaves its equivalence class, too, so
    # that ``still_fails`` does not leave it out.
    queue.remove(entity, now=now)
    entity.backoff_until = now
    queue.activate(entity, now=now)


# One function for each outcome ----------------------------------------------------------------


def _pod_changed(state: State, entity: QueuedEntity, *, now: float) -> None:
    """Put a regular pod where it belongs: it has no attempt, and starts with no other entity."""
    state.reservations.backfill.note_event(entity)
    if not len(entity):
        _leave_queue(state.queue, state.attempts, entity, now=now)
        return
    requeue.note_entity_event(state.attempts, entity)
    denied = bundles.pre_enqueue(state.settings, state.pods, state.call, entity.pod, None, now)
    if isinstance(denied, Unschedulable):
        _not_admitted(state, entity, denied, now=now)
    else:
        _make_active(state.queue, entity, now=now)


def _group_changed(state: State, entity: QueuedEntity, info: PodGroupInfo, *, now: float) -> None:
    state.reservations.backfill.note_event(entity)
    group_attempt.note_progress(state.pods, state.call, info, now=now)
    pod = _speaker(state.pods, entity, info)
    if pod is None:
        _leave_queue(state.queue, state.attempts, entity, now=now)
        return
    requeue.note_entity_event(state.attempts, entity)
    rejected, denied = _admission(state, entity, info, pod, now=now)
    if rejected is not None:
        _rejected(state, entity, rejected, now=now)
    elif denied is not None:
        _not_admitted(state, entity, denied, now=now)
    elif (
        info.waiting
        and (
            granted := permit_recheck.recheck(
                state.settings,
                state.pods,
                state.call,
                [state.pods.members[entry.uid] for entry in state.pods.waiting.of(info.key)],
                now=now,
            )
        )
        is not None
    ):
        transition(state, entity, granted, now=now)
    elif not len(entity):
        state.queue.remove(entity, now=now)
    else:
        _make_active(state.queue, entity, now=now)


def _leave_queue(
    queue: SchedulingQueue, attempts: Attempts, entity: QueuedEntity, *, now: float
) -> None:
    """Take an entity without a pending pod out of the queue, with what its tries have proven."""
    requeue.forget(attempts, entity)
    queue.remove(entity, now=now)


def _make_active(queue: SchedulingQueue, entity: QueuedEntity, *, now: float) -> None:
    active = entity.place is _ACTIVE
    if not active or not entity.ready_count:
        # the last member that was still to be tried in this round may just have left
        entity.refill()
    if not active or not queue.has_current_key(entity):
        queue.activate(entity, now=now)


def _cycle_ended(state: State, entity: QueuedEntity, *, now: float) -> None:
    if entity.ready_count:
        return
    info = entity.group
    if not len(entity):
        state.queue.remove(entity, now=now)
    elif info is not None and info.key in state.attempts.waiting_since:
        _keeps_waiting(state, entity, now=now)
    elif info is None or equivalence.goes_alone(state.settings, state.call, info):
        _failed(state, entity, now=now)
    else:
        reason = state.pods.members[entity.pod.uid].reason
        _rejected(state, entity, Rejected(reason), now=now)


def _failed(state: State, entity: QueuedEntity, *, now: float) -> None:
    """Put an entity into backoff after a failed try, or after a pod of it gave its node back.

    Without a member that found no node, nothing is known about the cluster, so the entity is
    tried again after its backoff.
    """
    _note_cut_short(state.attempts, entity)
    if entity.place is not _ACTIVE:
        # in backoff its place is by the deadline and the step of the failure, which change below
        state.queue.remove(entity, now=now)
    entity.refused_at = _refusal(state.attempts, entity)
    _back_off(state.settings, entity, now=now)
    entity.refill()
    entity.reason = state.pods.members[entity.pod.uid].reason
    if entity.group is not None:
        # after a member has given its node back, too few may be left for a quorum
        denied = bundles.pre_enqueue(
            state.settings, state.pods, state.call, entity.pod, entity.group, now
        )
        if isinstance(denied, Unschedulable):
            _not_admitted(state, entity, denied, now=now)
            return
    equivalence_class = equivalence.class_of(
        state.settings, state.nodes, state.pods, state.call, entity
    )
    step = requeue.conclude(state, entity, equivalence_class, now=now)
    state.reservations.backfill.note_rejected(
        entity, equivalence_class, step, state.nodes, lacks_capacity=False
    )
    if entity.refused_at == REFUSED_BY_PLUGIN:
        state.queue.withdraw(equivalence_class)
    state.queue.park(entity, equivalence_class=equivalence_class, step=step, now=now)


def _keeps_waiting(state: State, entity: QueuedEntity, *, now: float) -> None:
    """Park a group that waits on permit and cannot be completed now; it keeps its nodes.

    If no member is known to fit nowhere, any event may help the group, so it is parked alone.
    """
    if entity.unschedulable_member is not None:
        reason = str(entity.unschedulable_member)
        untried = notices.untried(state.pods, entity)
        notices.tell_gang(state.pods, state.call, entity, reason, untried, is_over=False)
    entity.refill()
    if entity.failed_step < 0:
        state.queue.park(entity, equivalence_class=entity.seq, step=state.attempts.step, now=now)
        return
    equivalence_class = equivalence.class_of(
        state.settings, state.nodes, state.pods, state.call, entity
    )
    step = entity.failed_step
    if entity.event_step > entity.round_step:
        step = -1 if requeue.may_fit(state, equivalence_class, now=now) else state.attempts.step
    state.queue.park(entity, equivalence_class=equivalence_class, step=step, now=now)


def _rejected(state: State, entity: QueuedEntity, outcome: Rejected, *, now: float) -> None:
    """End an attempt without a release. See the theory of operation for the order of the steps."""
    info = entity.group
    assert info is not None
    if outcome.evict:
        for member in state.pods.of_group(info):
            assume.evict(state.pods, state.call, member, outcome.reason)
        info.was_scheduled = info.is_binding = False
        state.pods.restarts.stop(info.key)
    else:
        # A plugin may reject a group that is not being tried. The number of an attempt that has
        # ended must not be reported again.
        group_attempt.begin(info, now=now)
    since = state.attempts.waiting_since.get(info.key)
    if not (outcome.lacks_capacity or outcome.awaits_event):
        _note_cut_short(state.attempts, entity)
    freed = [*outcome.freed, *assume.give_back_all(state, info, outcome.reason, now=now)]
    group_attempt.fail(info, now=now)
    if outcome.evict:
        entity.forget_refusal_by_plugin()
    refused_at = _refusal(state.attempts, entity)
    equivalence_class = equivalence.class_of(
        state.settings, state.nodes, state.pods, state.call, entity
    )
    step = requeue.conclude(state, entity, equivalence_class, now=now)
    if step >= 0:
        state.queue.note_failure(equivalence_class, step=step)
    state.reservations.backfill.note_rejected(
        entity, equivalence_class, step, state.nodes, lacks_capacity=outcome.lacks_capacity
    )
    state.queue.remove(entity, now=now)
    # in backoff its place is by the step of the failure before
    entity.refused_at = refused_at
    if entity.refused_at == REFUSED_BY_PLUGIN:
        state.queue.withdraw(equivalence_class)
    _back_off(state.settings, entity, now=now)
    entity.reason = info.failure = outcome.reason
    info.failures = entity.failures
    info.backoff_until = entity.backoff_until
    state.call.out.append(
        GroupRejected(info.key, info.attempts, outcome.reason, entity.backoff_until)
    )
    untried = notices.untried(state.pods, entity)
    if since is not None:
        disproved = equivalence_class if step >= 0 else None
        requeue.gain(state, freed, now=now, since=since, disproved=disproved)
    if not len(entity):
        return
    entity.refill()
    denied = bundles.pre_enqueue(state.settings, state.pods, state.call, entity.pod, info, now)
    if isinstance(denied, Unschedulable):
        _not_admitted(state, entity, denied, now=now)
    else:
        notices.tell_gang(state.pods, state.call, entity, outcome.reason, untried)
        state.queue.park(entity, equivalence_class=equivalence_class, step=step, now=now)


def _released(state: State, prepared: Prepared, *, now: float) -> None:
    """Release members of one entity to bind, and queue the remaining pending members."""
    last = prepared.members[-1]
    entity, info = last.entity, last.group
    since = None if info is None else state.attempts.waiting_since.get(info.key)
    freed = release.perform(state, prepared, now=now)
    _after_release(state, entity, now=now)
    if since is not None:
        requeue.gain(state, freed, now=now, since=since)


def _after_release(state: State, entity: QueuedEntity, *, now: float) -> None:
    entity.failures = 0
    entity.reason, entity.unschedulable_member = "", None
    if not len(entity):
        _leave_queue(state.queue, state.attempts, entity, now=now)
        return
    denied = bundles.pre_enqueue(
        state.settings, state.pods, state.call, entity.pod, entity.group, now
    )
    if isinstance(denied, Unschedulable):
        # the members that are left may be too few for the next quorum
        entity.refill()
        _not_admitted(state, entity, denied, now=now)
    elif entity.ready_count:
        # a release may change what the sort key of a group is made of
        state.queue.activate(entity, now=now)
    else:
        _failed(state, entity, now=now)


def _not_admitted(state: State, entity: QueuedEntity, denied: Unschedulable, *, now: float) -> None:
    """Keep an entity out of the active queue until an event about it, and post why."""
    was_gated = state.queue.is_gated(entity)
    state.queue.gate(entity, now=now)
    requeue.forget(state.attempts, entity)
    # the reason of the last attempt is kept: it counts again once the entity is admitted
    entity.denial = denied.reason
    info = entity.group
    if info is None:
        state.call.out.append(PodNotAdmitted(entity.pod.uid, denied.reason))
        return
    group_attempt.fail(info, now=None)
    notices.post_not_admitted(
        state.settings, state.pods, state.call, entity, info, denied.reason, was_gated=was_gated
    )


# What they share ------------------------------------------------------------------------------


def _speaker(pods: Pods, entity: QueuedEntity, info: PodGroupInfo) -> Pod | None:
    """Return the pod for PreEnqueue; None if no pod is pending or waiting on permit."""
    if len(entity):
        return entity.pod
    return pods.members[pods.waiting.of(info.key)[0].uid].pod if info.waiting else None


def _admission(
    state: State, entity: QueuedEntity, info: PodGroupInfo, pod: Pod, *, now: float
) -> tuple[Rejected | None, Unschedulable | None]:
    """Return why a group may not queue: a rejection of what it holds, or PreEnqueue's answer."""
    denied = bundles.pre_enqueue(state.settings, state.pods, state.call, pod, info, now)
    holds = info.key in state.attempts.waiting_since
    if isinstance(denied, Unschedulable):
        return (Rejected(denied.reason), None) if holds else (None, denied)
    if holds and bundles.is_shared(state.pods, entity):
        # its attempt began alone, and it starts with other groups now
        return Rejected("starts with others of its bundle"), None
    return permit_recheck.astray(state.nodes, state.pods, info) if holds else None, None


def _refusal(attempts: Attempts, entity: QueuedEntity) -> int:
    """Return whether nodes or a plugin refused a member in a try, as ``refused_at`` has it."""
    return attempts.step if entity.failed_step >= 0 else entity.failed_step


def _note_cut_short(attempts: Attempts, entity: QueuedEntity) -> None:
    """Note that a round ends before every member was tried: it proves nothing then."""
    if entity.place is _ACTIVE and entity.ready_count:
        requeue.note_entity_event(attempts, entity)


def _back_off(settings: Settings, entity: QueuedEntity, *, now: float) -> None:
    """Count a failure, and set the end of the backoff."""
    entity.failures += 1
    entity.queued_at = now
    until = now + settings.backoff.delay(entity.failures)
    # if the clock is too coarse for the delay, the next instant ends the backoff
    entity.backoff_until = max(until, math.nextafter(now, math.inf))
