"""Make, keep and move the reservation, and let exempt gangs run meanwhile.

Theory of operation. A gang that failed for lack of capacity may get the reservation. ``look_ahead``
plans when and where it can start; the capacity that it needs there is held. A gang that is not
exempt sees the nodes without it, so it cannot delay the start.

Three kinds of gangs are exempt and see all free capacity: the gang itself, those of a higher
priority, and those that end before the expected start. A nominated gang is exempt on its nominated
nodes: each reservation is planned beside its pods or after them. An exempt gang may use reserved
capacity only in a cycle of its own (``lend`` and ``conclude``). If pods of it are bound on a
reserved node, they are returning pods of that node from then on: they will have left in time.

Before each cycle ``look`` reviews the reservation, and each call begins and ends with ``expire``.
Events that may change the expected start make it stale; then the start is estimated anew. It is
given up if the gang no longer needs it, or if draining has reached its time limit. Pods that leave
when they were expected to change nothing.

A blocked demand stays blocked while the others see too little capacity. An exempt gang in it would
starve, so ``next_gang`` names one that goes before the first active gang: the gang itself if it may
fit, unless one of a higher priority fits, or the first exempt one that fits.

Rules:
  R1  the expected start moves to a later instant only for an event: a wrong run time, a changed
      node, the gang itself, or a gang that outranks it. Admitting a pod never moves it;
  R2  an exempt gang that fits with all capacity is tried in queue order, as an active one;
  R3  a pod that was refused a node because of the plan is tried again when the reservation moves or
      ends, and when pods come to nodes or leave them;
  R4  nodes that were drained until the time limit are given up, and none is drained until an
      event.
"""

from __future__ import annotations

import math

from gangsched.core.admission import accounts
from gangsched.core.nodes.hold import Hold
from gangsched.core.queue.demand import Demand
from gangsched.core.records.gang import GangRecord, QueuePlace
from gangsched.core.reservation import candidates, run_times
from gangsched.core.reservation.candidates import Candidate
from gangsched.core.reservation.look_ahead import StartEstimate, look_ahead
from gangsched.core.reservation.reserved_plan import ReservedPlan
from gangsched.core.state import State
from gangsched.core.state.reserved import ActiveReservation
from gangsched.events import Bind, Nominated, PodWaiting
from gangsched.model import PodUID
from gangsched.options.backfill import Reservation

__all__ = [
    "conclude",
    "expire",
    "lend",
    "look",
    "may_use_reserved",
    "next_deadline",
    "next_gang",
    "shown",
]


def look(state: State) -> None:
    """Review the reservation before a cycle. O(1) if nothing has changed."""
    state.reservation.is_cut = False
    _review(state)


def expire(state: State) -> bool:
    """Review a reservation whose deadline has passed or whose gang has gone. O(1) if neither.

    Returns:
        Whether it was reviewed.
    """
    mine = state.reservation
    current = mine.current
    is_due = current is not None and (
        state.records.now >= current.deadline
        or (mine.is_stale and not candidates.may_ask(state, current.gang))
    )
    if is_due:
        _review(state)
    return is_due


def next_deadline(state: State) -> float | None:
    """Return when the reservation is reviewed at the latest; None without one."""
    current = state.reservation.current
    return None if current is None else current.deadline


def shown(state: State) -> Reservation | None:
    """Return the reservation for reading; None if there is none. O(its nodes)."""
    current = state.reservation.current
    if current is None:
        return None
    group, pod = current.gang.group, None
    if group is None:
        pod = current.gang.pod.key
    starts_at = current.starts_at if current.starts_at < math.inf else None
    nodes = tuple([state.table.names[slot] for slot in current.reserved])
    key = None if group is None else group.key
    return Reservation(key, current.since, starts_at, nodes, pod)


# In a cycle -------------------------------------------------------------------------------------


def lend(state: State, gang: GangRecord) -> list[Hold]:
    """Show a gang what it may use of the reserved capacity in its cycle; return what that is."""
    current = state.reservation.current
    if current is None:
        return []
    holds = current.holds
    if run_times.is_exempt(state, current, gang):
        state.records.guard = None
    else:
        nomination = state.nominations.known.get(gang)
        slots = () if nomination is None else nomination.slots
        # an estimate leaves nominated pods on their nodes, or awaits that they have come and gone
        holds = [hold for hold in holds if hold.slot in slots]
    for hold in holds:
        state.records.lend(hold)
    return holds


def conclude(state: State, gang: GangRecord, lent: list[Hold], before: int) -> None:
    """Withhold what was lent, and note pods that were bound meanwhile.

    Args:
        state: The state.
        gang: The gang that was tried.
        lent: What it was lent.
        before: The number of effects before its cycle.
    """
    current, mine = state.reservation.current, state.reservation
    if current is None:
        return
    is_other = bool(lent) and gang is not current.gang
    for effect in state.call.out[before:]:
        if isinstance(effect, Bind):
            record = state.records.pods[effect.uid]
            end = run_times.end_of(state, record.pod, state.records.now)
            if end < math.inf:
                current.ends[effect.uid] = end
            entry = current.reserved.get(record.slot)
            if is_other and entry is not None:
                entry.returning[record] = None
                mine.is_stale |= end > current.starts_at
            elif is_other and end > current.starts_at and current.guard is not None:
                # a pod of a higher priority may break the plan from any node
                mine.is_stale |= current.guard.concerns(record)
        elif isinstance(effect, PodWaiting | Nominated) and is_other:
            mine.is_stale = True  # it is unknown until when such a pod holds its node
    for hold in lent:
        state.records.keep(hold)
    state.records.guard = current.guard


def may_use_reserved(state: State, gang: GangRecord) -> bool:
    """Return whether a gang may use what is reserved for another one. O(members)."""
    current = state.reservation.current
    return current is not None and run_times.is_exempt(state, current, gang)


def next_gang(state: State, head: GangRecord | None) -> GangRecord | None:
    """Return the gang that is tried though its demand is blocked for others; None without one.

    Runtime complexity: O(gangs that wait and fit).

    Args:
        state: The state.
        head: The first active gang, before which it goes; None if none is active.
    """
    mine = state.reservation
    current = mine.current
    if current is None:
        return None
    lent = [hold for hold in current.holds if hold.needs and not hold.is_lent]
    if not lent and not (current.guard is not None and current.guard.has_refused):
        return None
    for hold in lent:
        state.records.lend(hold)
    try:
        first, own = _first_exempt(state, current), current.gang
        is_outranked = first is not None and first.priority > own.priority
        is_first = not is_outranked and _goes_before(state, own, head)
        if is_first and _may_fit(state, own) and not _is_over_quota(state, own):
            return own
        return first if first is not None and _goes_before(state, first, head) else None
    finally:
        for hold in lent:
            state.records.keep(hold)
        mine.withhold(state.records)


def _goes_before(state: State, gang: GangRecord, head: GangRecord | None) -> bool:
    return head is None or state.queue.order_of(gang) < state.queue.order_of(head)


def _may_fit(state: State, gang: GangRecord) -> bool:
    return gang.place is QueuePlace.PARKED and _promises(state, gang.demand)


def _promises(state: State, demand: Demand) -> bool:
    """Return whether a gang of a demand may fit. O(nodes that changed)."""
    if demand in state.reservation.failed:
        return False
    return state.queue.could_fit(demand) or state.queue.preempts(demand, None)


def _is_over_quota(state: State, gang: GangRecord) -> bool:
    """Return whether a quota denies a gang, which would stay parked, and be returned again."""
    return state.records.quotas.is_used and accounts.denial(state, gang) is not None


def _first_exempt(state: State, current: ActiveReservation) -> GangRecord | None:
    best: GangRecord | None = None
    order_of, order = state.queue.order_of, None
    priority, latest = current.gang.priority, run_times.latest(state, current)
    for demand in state.queue.blocked():
        if not demand.parked or not _promises(state, demand):
            continue
        for gangs in demand.parked.by_account():
            for gang in gangs:
                if order is not None and order < order_of(gang):
                    break
                own, longest = gang.span or run_times.span(state, gang)
                if longest > latest and own <= priority and gang is not current.gang:
                    continue
                is_exempt = run_times.is_exempt(state, current, gang)
                if is_exempt and not _is_over_quota(state, gang):
                    best, order = gang, order_of(gang)
                    break
    return best


# The reservation --------------------------------------------------------------------------------


def _review(state: State) -> None:
    """Keep, move, replace, give up or make the reservation."""
    mine = state.reservation
    current = mine.current
    above: Candidate | None = None
    if current is not None:
        if candidates.may_ask(state, current.gang):
            above = _outranking(state, current)
            if above is None and _stays(state, current):
                return
        if mine.current is current:
            _drop(state, current)
        mine.has_no_candidate = False
        mine.failed.clear()
    if above is not None:
        _keep(state, *above)
    elif not mine.has_no_candidate or state.records.now >= mine.no_candidate_until:
        mine.has_no_candidate, mine.no_candidate_until = True, math.inf
        candidate = candidates.first(state)
        if candidate is not None:
            _keep(state, *candidate)


def _stays(state: State, current: ActiveReservation) -> bool:
    """Return whether the reservation stays with its gang; move it if it has to."""
    mine, records, now = state.reservation, state.records, state.records.now
    is_overdue = now >= current.deadline
    if is_overdue and current.starts_at == math.inf:
        mine.drain_timeouts[current.gang] = mine.drain_timeouts.get(current.gang, 0) + 1
        mine.open.note_change(current.gang)
        mine.is_drain_paused, mine.gave_up_at = True, state.events
        return False
    due = [current.ends.pop(uid, math.inf) for uid in records.departed]
    records.departed.clear()
    must_move = is_overdue or mine.is_stale or mine.altered != records.altered
    if not must_move and all(end <= now for end in due):
        return True
    ends = run_times.ends(state)
    # a pod that left early can only help; draining has no known start, so it is no earlier
    drains = must_move and not mine.is_drain_paused
    estimate = look_ahead(state, current.gang, ends, drains=drains)
    if not must_move and (estimate is None or estimate.starts_at >= current.starts_at):
        return True
    if estimate is None:
        return False
    _drop(state, current)
    _keep(state, current.gang, estimate, ends, before=current)
    return True


def _outranking(state: State, current: ActiveReservation) -> Candidate | None:
    """Return a gang of a higher priority that can get the reservation; None if there is none.

    A gang that cannot get it outranks none: otherwise every recreation of it would be a try.
    """
    mine = state.reservation
    if not mine.is_contested and state.records.now < mine.no_candidate_until:
        return None
    mine.is_contested, mine.no_candidate_until = False, math.inf
    return candidates.first(state, above=current.gang.priority)


def _drop(state: State, current: ActiveReservation) -> None:
    for hold in current.holds:
        state.records.drop(hold)
    state.reservation.current = None
    state.records.guard = None
    if current.guard is not None and current.guard.has_refused:
        state.queue.wake_all()
    state.records.notes_departed = False
    state.records.departed.clear()


def _keep(
    state: State,
    gang: GangRecord,
    estimate: StartEstimate,
    ends: dict[PodUID, float],
    *,
    before: ActiveReservation | None = None,
) -> None:
    """Make a reservation, or move the one *before* of the same gang."""
    mine, policy, now = state.reservation, state.reservation.policy, state.records.now
    assert policy is not None
    if estimate.starts_at < math.inf:
        # a gang that backs off cannot start before that ends
        expected = max(estimate.starts_at, gang.backoff_until)
        deadline = max(expected + policy.overdue_after, math.nextafter(now, math.inf))
    elif before is not None and before.starts_at == math.inf:
        deadline = before.deadline
    else:
        deadline = max(now + policy.drain_for, math.nextafter(now, math.inf))
    since = now if before is None else before.since
    if before is None or estimate.starts_at > before.starts_at:
        mine.failed.clear()  # a gang that was not exempt may be exempt from a later start
    mine.current = ActiveReservation(
        gang,
        since,
        estimate.starts_at,
        deadline,
        ends,
        estimate.reserved,
        estimate.planned,
        estimate.drained,
    )
    mine.current.guard = state.records.guard = ReservedPlan(state, mine.current)
    for hold in mine.current.holds:
        state.records.hold(hold)
    mine.withhold(state.records)
    state.records.notes_departed = True
    mine.altered = state.records.altered
    mine.is_stale = False
