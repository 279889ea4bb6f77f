"""Make, keep and move the reservation, and let exempt entities run meanwhile.

Theory of operation
    A gang that failed for lack of capacity may get the reservation. ``start_estimate`` plans when
    and where it can start; the capacity that it needs there goes into the ledger of the nodes.
    An entity that is not exempt then sees the nodes without the reserved capacity, so it cannot
    delay the gang.

    Three kinds of entities are exempt and see all free capacity: the gang itself, entities of a
    higher priority, and entities that end before the expected start. The last must take no volume
    that the gang needs. A nominated entity is exempt on its nominated nodes: each reservation is
    planned beside its pods or after them, and its victims must not have ended in vain. An exempt
    entity may use reserved capacity only in a cycle of its own (``turn``). If pods of it are bound
    on a reserved node, they become returning pods of that entry: they will have left in time.

    Constraints between pods cannot be withheld from nodes as capacity is. For an entity that is not
    exempt, ``ReservedPlan`` says on which nodes a pod would break the plan of the gang.

    Before each cycle ``look`` reviews the reservation, and each call begins with ``expire``. Events
    that may change the expected start make it stale; then the start is estimated anew. It is given
    up if the gang no longer needs it, or if draining has reached its time limit. Pods that leave
    when they were expected to change nothing.

    A blocked equivalence queue stays blocked while the shared view has too little capacity. An
    exempt entity in it would starve, so ``look`` also activates entities that fit with all
    capacity: the gang when nodes gain capacity, and one exempt entity when no other is active.

Rules:
  R1  an entity that is not exempt sees the nodes without the reserved capacity. Its pods are not
      placed where they break the plan. An exempt one sees all free capacity;
  R2  the expected start moves to a later instant only for an event: a wrong run time, a changed
      node, the gang itself, or a gang that outranks it. Admitting a pod never moves it;
  R3  an exempt entity that fits with all capacity is tried after every other active entity;
  R4  nodes that were drained until the time limit are given up, and none is drained until an
      event;
  R5  if a pod was refused a node because of the plan, it is requeued when the reservation is made,
      moved or dropped.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import takewhile

from gangsched._core._entity import Place, QueuedEntity
from gangsched._core._queue import SchedulingQueue
from gangsched.events import Bind, Nominated, PodWaiting
from gangsched.framework.backfill import reservation_candidates, run_times, start_estimate
from gangsched.framework.backfill.reservation_candidates import Candidate
from gangsched.framework.backfill.reserved_plan import ReservedPlan
from gangsched.framework.backfill.start_estimate import StartEstimate
from gangsched.framework.nodes import reserved_views
from gangsched.framework.nodes.reserved_capacity import ReservedCapacity
from gangsched.framework.queueing import equivalence, requeue
from gangsched.framework.state.backfill_state import ActiveReservation
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pods import Pods
from gangsched.framework.state.reservations import Reservations
from gangsched.framework.state.scheduler_state import State
from gangsched.model import NodeName, PodUID
from gangsched.options.backfill import Reservation

__all__ = ["expire", "look", "reservation", "turn"]


def look(state: State, *, now: float) -> None:
    """Review the reservation, and activate entities that it need not keep waiting.

    Called with backfill only.

    Runtime complexity: O(reserved nodes x plugins), plus the waiting entities. If the reservation
    is made or moved, see ``start_estimate.look_ahead``.
    """
    _settle(state, now)
    _wake(state, now)


def expire(state: State, found: ActiveReservation, *, now: float) -> None:
    """Review a reservation whose deadline has passed or whose gang has gone. O(1) if neither."""
    if now >= found.deadline or (
        state.reservations.backfill.is_stale
        and not reservation_candidates.may_ask(state, found.key)
    ):
        _settle(state, now)


def reservation(reservations: Reservations) -> Reservation | None:
    """Return the reservation for reading; None if there is none. O(its nodes)."""
    found = reservations.backfill.reservation
    if found is None:
        return None
    known = found.starts_at < math.inf
    starts_at = found.starts_at if known else None
    return Reservation(found.key, found.since, starts_at, tuple(found.capacity))


@contextmanager
def turn(
    state: State, found: ActiveReservation, entity: QueuedEntity, *, now: float
) -> Generator[None, None, None]:
    """Run an entity's scheduling cycle on the capacity that the reservation lets it use.

    Runtime complexity: O(reserved nodes x plugins) for an exempt entity.
    """
    before = len(state.call.out)
    found.guard.now = now
    entries = list(found.capacity.values())
    if not run_times.is_exempt(
        state.settings, state.pods, state.reservations, state.call, found, entity, now
    ):
        nomination = state.reservations.nominations.get(entity.seq)
        nominated = () if nomination is None else nomination.nodes
        # an estimate leaves nominated pods on their nodes, or awaits that they have come and gone
        entries = [entry for entry in entries if entry.node in nominated]
    if not entries:
        yield
        _note_started(state.pods, state.reservations, state.call, found, entity, before, now)
        return
    with reserved_views.exempt(state.nodes, entries):
        yield
        _note_started(
            state.pods, state.reservations, state.call, found, entity, before, now, is_exempt=True
        )


# The reservation ------------------------------------------------------------------------------


def _settle(state: State, now: float) -> None:
    """Keep, move, replace, give up or make the reservation."""
    mine = state.reservations.backfill
    found = mine.reservation
    above: Candidate | None = None
    if found is not None:
        if reservation_candidates.may_ask(state, found.key):
            above = _outranking(state, found, now)
            if above is None and _stays(state, found, now):
                return
        mine.reservation = None
        mine.has_no_candidate = False
        mine.failed.clear()
    if above is not None:
        _keep(state, *above, now)
    elif not mine.has_no_candidate or now >= mine.no_candidate_until:
        _choose(state, now)
    if found is not None and mine.reservation is None:
        _reserve(state, {}, now)


def _stays(state: State, found: ActiveReservation, now: float) -> bool:
    """Return whether the reservation stays with its gang; move it if it has to."""
    mine, nodes = state.reservations.backfill, state.nodes
    is_overdue = now >= found.deadline
    if is_overdue and found.starts_at == math.inf:
        mine.drain_timeouts[found.key] = mine.drain_timeouts.get(found.key, 0) + 1
        mine.candidates.note(found.key)
        mine.is_drain_paused = True
        return False
    due = [found.ends.pop(uid, math.inf) for uid in nodes.departed]
    nodes.departed.clear()
    must_move = is_overdue or mine.is_stale or mine.altered != nodes.altered
    if not must_move and all(end <= now for end in due):
        return True
    ends = run_times.ends(state, now)
    # a pod that left early can only help; draining has no known start, so it is no earlier
    drains = must_move and not mine.is_drain_paused
    estimate = start_estimate.look_ahead(state, found.entity, ends, now=now, drains=drains)
    if not must_move and (estimate is None or estimate.starts_at >= found.starts_at):
        return True
    if estimate is None:
        return False
    _keep(state, found.entity, estimate, ends, now, before=found)
    return True


def _choose(state: State, now: float) -> None:
    """Make a reservation for the first gang that qualifies for one and can get it, if any."""
    mine = state.reservations.backfill
    mine.has_no_candidate, mine.no_candidate_until = True, math.inf
    candidate = reservation_candidates.first(state, now)
    if candidate is not None:
        _keep(state, *candidate, now)


def _keep(
    state: State,
    entity: QueuedEntity,
    estimate: StartEstimate,
    ends: dict[PodUID, float],
    now: float,
    *,
    before: ActiveReservation | None = None,
) -> None:
    """Make a reservation, or move the one *before* of the same gang."""
    mine = state.reservations.backfill
    policy, group = mine.policy, entity.group
    assert policy is not None
    assert group is not None
    if estimate.starts_at < math.inf:
        deadline = max(estimate.starts_at + policy.overdue_after, math.nextafter(now, math.inf))
    elif before is not None and before.starts_at == math.inf:
        deadline = before.deadline
    else:
        deadline = max(now + policy.drain_for, math.nextafter(now, math.inf))
    since = now if before is None else before.since
    if before is None or estimate.starts_at > before.starts_at:
        mine.failed.clear()  # an entity that was not exempt may be exempt from a later start
    mine.reservation = ActiveReservation(
        entity,
        group.key,
        since,
        estimate.starts_at,
        deadline,
        ends,
        estimate.capacity,
        estimate.planned,
        estimate.drained,
    )
    mine.reservation.guard = ReservedPlan(
        state.settings, state.nodes, state.pods, state.call, mine.reservation, now
    )
    mine.altered = state.nodes.altered
    mine.is_stale = False
    mine.gained = True
    _reserve(state, estimate.capacity, now)


def _reserve(state: State, capacity: Mapping[NodeName, ReservedCapacity], now: float) -> None:
    """Reserve this capacity instead of any before, and requeue entities that gain by that."""
    found, before = state.reservations.backfill.reservation, state.nodes.guard
    freed = reserved_views.replace(state.nodes, capacity.values())
    state.nodes.guard = None if found is None else found.guard
    requeue.reopen(state, freed, now=now)
    if before is not None and before.has_refused:
        requeue.pods_changed(state, now=now)


def _outranking(state: State, found: ActiveReservation, now: float) -> Candidate | None:
    """Return a gang of a higher priority that can get the reservation; None if there is none.

    A gang that cannot get it outranks none: otherwise every recreation of it would be a try.
    Runtime complexity: O(gangs that qualify) if one of them may outrank, else O(1).
    """
    mine = state.reservations.backfill
    if not mine.is_contested and now < mine.no_candidate_until:
        return None
    mine.is_contested, mine.no_candidate_until = False, math.inf
    return reservation_candidates.first(state, now, above=found.entity.priority)


# Entities that run meanwhile ------------------------------------------------------------------


def _wake(state: State, now: float) -> None:
    """Activate the gang if nodes gained capacity, or else an exempt entity if none is active."""
    mine, queue = state.reservations.backfill, state.queue
    found, gained = mine.reservation, mine.gained
    mine.gained = False
    if found is None or not (gained or queue.head() is None):
        return
    entries = found.capacity.values()
    if not found.guard.has_refused and not reserved_views.withholds(state.nodes, entries):
        return
    with reserved_views.exempt(state.nodes, entries):
        if gained and _is_waiting(found.entity) and _may_fit(state, found.entity, now):
            _activate(state.queue, found.entity, now)
        elif queue.head() is None:
            entity = _first_exempt(state, found, now)
            if entity is not None:
                queue.activate(entity, now=now)


def _is_waiting(entity: QueuedEntity) -> bool:
    # an entity that is gated has no reservation
    return entity.place in (Place.BACKOFF, Place.UNSCHEDULABLE)


def _may_fit(state: State, entity: QueuedEntity, now: float) -> bool:
    equivalence_class = equivalence.class_of(
        state.settings, state.nodes, state.pods, state.call, entity
    )
    return equivalence_class not in state.reservations.backfill.failed and requeue.may_fit(
        state, equivalence_class, now=now
    )


def _activate(queue: SchedulingQueue, entity: QueuedEntity, now: float) -> None:
    """Activate the gang without waiting for its backoff."""
    group = entity.group
    assert group is not None
    # it is queued by the end of its backoff, so that must not change while it is queued
    queue.remove(entity, now=now)
    entity.backoff_until = group.backoff_until = -math.inf
    queue.activate(entity, now=now)


def _first_exempt(state: State, found: ActiveReservation, now: float) -> QueuedEntity | None:
    """Return the first exempt entity, in queue order, of the blocked queues that may fit."""
    best: QueuedEntity | None = None
    for line in state.queue.blocked_queues():
        if not len(line.queued) or line.equivalence_class in state.reservations.backfill.failed:
            continue
        # as a rule none of thousands may be exempt, and to know it costs less
        if not run_times.may_be_exempt(state.reservations, state.call, found, line, now):
            continue
        if not requeue.may_fit(state, line.equivalence_class, now=now):
            continue
        before = takewhile(partial(_precedes, best), line.queued)
        exempt = run_times.exempt(
            state.settings, state.pods, state.reservations, state.call, found, before, now
        )
        first = next(exempt, None)
        if first is None:
            line.runs.renew(line.queued)
        best = first or best
    return best


def _precedes(other: QueuedEntity | None, one: QueuedEntity) -> bool:
    """Return whether *one* sorts before *other*; True if *other* is None."""
    if other is None:
        return True
    assert one.sort_key is not None
    assert other.sort_key is not None
    return one.sort_key < other.sort_key


def _note_started(
    pods: Pods,
    reservations: Reservations,
    call: CurrentCall,
    found: ActiveReservation,
    entity: QueuedEntity,
    before: int,
    now: float,
    *,
    is_exempt: bool = False,
) -> None:
    """Record the pods that were bound in a cycle, with their expected ends.

    Args:
        pods: The known pods and groups.
        reservations: The nominations and the reservation.
        call: What the current call gathers.
        found: The reservation.
        entity: The entity that was tried.
        before: The number of effects before its cycle.
        now: The current instant.
        is_exempt: Whether it was exempt from the reservation.
    """
    mine = reservations.backfill
    is_other = is_exempt and entity is not found.entity
    for effect in call.out[before:]:
        if isinstance(effect, Bind):
            pod = pods.members[effect.uid].pod
            end = run_times.end_of(reservations, call, pod, now, now)
            if end < math.inf:
                found.ends[effect.uid] = end
            found.guard.note_started(pod, effect.node)
            entry = found.capacity.get(effect.node)
            if is_other and entry is not None and entry.returning is not None:
                entry.returning.add(effect.uid)
                mine.is_stale |= end > found.starts_at
            elif is_other and end > found.starts_at:
                # a pod of a higher priority may break the plan from any node
                mine.is_stale |= found.guard.concern(pod) is not None
        elif isinstance(effect, PodWaiting | Nominated) and is_other:
            # it is unknown until when such a pod holds its node
            mine.is_stale = True
