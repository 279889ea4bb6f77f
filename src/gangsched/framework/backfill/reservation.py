"""Making a reservation, keeping it, and letting others run around it.

Rules:
  R1  who heeds the reservation sees the nodes without what is kept; the gang itself, who outranks
      it, and who will have ended when it starts, see all that is free;
  R2  a reservation moves to a later instant only for a fact: a run time that was wrong, a node
      that changed, the gang itself, or somebody who outranks it; never for who was let in;
  R3  readiness is a level here too: whoever need not heed the reservation, and may fit with all
      room free, is tried once everybody else has been;
  R4  nodes that are drained in vain are given back, and none is drained until a fact.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import takewhile

from gangsched._core._entity import Place, QueuedEntity
from gangsched.events import Bind, Nominated, PodWaiting
from gangsched.framework.backfill import candidates, run_times, start_estimate
from gangsched.framework.backfill.candidates import Help
from gangsched.framework.backfill.start_estimate import Outlook
from gangsched.framework.config.backfill import Reservation
from gangsched.framework.nodes.reserved_capacity import Need
from gangsched.framework.nodes.reserved_views import keep_for, keeps_some, lifted
from gangsched.framework.queueing import equivalence, requeue
from gangsched.framework.state.reservation_state import Promise
from gangsched.framework.state.scheduler_state import State
from gangsched.model import NodeName, PodUID

__all__ = ["expire", "look", "reservation", "turn"]


def look(state: State, *, now: float) -> None:
    """Bring the reservation up to date, and wake whom it need not concern.

    Runtime complexity: O(nodes that it needs x plugins), plus who waits; where a fact may have
    moved the reservation, or another is made, see ``_outlook.look_ahead``.
    """
    if state.reserving.policy is not None:
        _settle(state, now)
        _wake(state, now)


def expire(state: State, *, now: float) -> None:
    """Give a reservation up, or move it, that is overdue or whose gang has gone. O(1) if not."""
    promise = state.reserving.promise
    if promise is None:
        return
    if now >= promise.deadline or (
        state.reserving.is_stale and not candidates.may_ask(state, promise.key)
    ):
        _settle(state, now)


def reservation(state: State) -> Reservation | None:
    """Return the reservation, for reading. O(its nodes)."""
    promise = state.reserving.promise
    if promise is None:
        return None
    known = promise.starts_at < math.inf
    starts_at = promise.starts_at if known else None
    return Reservation(promise.key, promise.since, starts_at, tuple(state.nodes.needs))


@contextmanager
def turn(state: State, entity: QueuedEntity, *, now: float) -> Generator[None, None, None]:
    """Let an entity have its turn with the room that it may use.

    Runtime complexity: O(nodes that it needs x plugins) for who need not heed the reservation.
    """
    mine = state.reserving
    promise = mine.promise
    if promise is None:
        yield
        return
    before = len(state.out)
    if not run_times.is_free(state, promise, entity, now):
        yield
        _note_started(state, promise, entity, before, now)
        return
    with lifted(state.nodes):
        mine.is_free = True
        try:
            yield
        finally:
            mine.is_free = False
        _note_started(state, promise, entity, before, now, is_free=True)


# The reservation ------------------------------------------------------------------------------


def _settle(state: State, now: float) -> None:
    mine = state.reserving
    promise = mine.promise
    above: Help | None = None
    if promise is not None:
        if candidates.may_ask(state, promise.key):
            above = _outranking(state, promise, now)
            if above is None and _stays(state, promise, now):
                return
        mine.promise = None
        mine.is_settled = False
        mine.failed.clear()
    if above is not None:
        _keep(state, *above, now)
    elif not mine.is_settled or now >= mine.settled_until:
        _choose(state, now)
    if promise is not None and mine.promise is None:
        _let_in(state, {}, now)


def _stays(state: State, promise: Promise, now: float) -> bool:
    """Say whether a reservation stays with its gang; where it has to move, move it."""
    mine, nodes = state.reserving, state.nodes
    is_overdue = now >= promise.deadline
    if is_overdue and promise.starts_at == math.inf:
        mine.lapses[promise.key] = mine.lapses.get(promise.key, 0) + 1
        mine.is_weary = True
        return False
    due = [promise.ends.pop(uid, math.inf) for uid in nodes.departed]
    nodes.departed.clear()
    must_move = is_overdue or mine.is_stale or mine.altered != nodes.altered
    if not must_move and all(end <= now for end in due):
        return True
    ends = run_times.ends(state, now)
    # nodes are drained until nobody knows when, which is no sooner
    drains = must_move and not mine.is_weary
    found = start_estimate.look_ahead(state, promise.entity, ends, now=now, drains=drains)
    if not must_move and (found is None or found.starts_at >= promise.starts_at):
        return True
    if found is None:
        return False
    _keep(state, promise.entity, found, ends, now, before=promise)
    return True


def _choose(state: State, now: float) -> None:
    """Make a reservation for the first who asks and can be helped, if there is one."""
    mine = state.reserving
    mine.is_settled, mine.settled_until = True, math.inf
    found = candidates.first(state, now)
    if found is not None:
        _keep(state, *found, now)


def _keep(
    state: State,
    entity: QueuedEntity,
    found: Outlook,
    ends: dict[PodUID, float],
    now: float,
    *,
    before: Promise | None = None,
) -> None:
    """Make a reservation, or move one."""
    mine = state.reserving
    policy, group = mine.policy, entity.group
    assert policy is not None
    assert group is not None
    if found.starts_at < math.inf:
        deadline = max(found.starts_at + policy.overdue_after, math.nextafter(now, math.inf))
    elif before is not None and before.starts_at == math.inf:
        deadline = before.deadline
    else:
        deadline = max(now + policy.drain_for, math.nextafter(now, math.inf))
    since = now if before is None else before.since
    if before is None or found.starts_at > before.starts_at:
        mine.failed.clear()  # who had to heed it may not have to any more
    mine.promise = Promise(entity, group.key, since, found.starts_at, deadline, ends)
    mine.altered = state.nodes.altered
    mine.is_stale = False
    mine.gained = True
    _let_in(state, found.needs, now)


def _let_in(state: State, needs: Mapping[NodeName, Need], now: float) -> None:
    """Keep room for these needs alone, and wake whom that helps."""
    requeue.reopen(state, keep_for(state.nodes, needs), now=now)


def _outranking(state: State, promise: Promise, now: float) -> Help | None:
    """Return how a gang of a higher priority is helped, if any. O(who asks), if any may.

    One that asks in vain outranks nobody: or it would be tried again for each that is made anew.
    """
    mine = state.reserving
    if not mine.is_contested and now < mine.settled_until:
        return None
    mine.is_contested, mine.settled_until = False, math.inf
    return candidates.first(state, now, above=promise.entity.priority)


# Who runs meanwhile ---------------------------------------------------------------------------


def _wake(state: State, now: float) -> None:
    """Wake the gang when there is more room, and, when nobody is active, one who need not heed."""
    mine, queue = state.reserving, state.queue
    promise, gained = mine.promise, mine.gained
    mine.gained = False
    if promise is None or not (gained or queue.head() is None) or not keeps_some(state.nodes):
        return
    with lifted(state.nodes):
        if gained and _is_asleep(promise.entity) and _fits(state, promise.entity, now):
            _hasten(state, promise.entity, now)
        elif queue.head() is None:
            found = _first_who_may(state, promise, now)
            if found is not None:
                queue.activate(found, now=now)


def _is_asleep(entity: QueuedEntity) -> bool:
    # one that is gated has no reservation
    return entity.place in (Place.BACKOFF, Place.UNSCHEDULABLE)


def _fits(state: State, entity: QueuedEntity, now: float) -> bool:
    shape = equivalence.shape(state, entity)
    return shape not in state.reserving.failed and requeue.may_fit(state, shape, now=now)


def _hasten(state: State, entity: QueuedEntity, now: float) -> None:
    """Let the gang have its turn, however long it was to rest."""
    group = entity.group
    assert group is not None
    # what it rests until is what it is kept by
    state.queue.remove(entity, now=now)
    entity.backoff_until = group.backoff_until = -math.inf
    state.queue.activate(entity, now=now)


def _first_who_may(state: State, promise: Promise, now: float) -> QueuedEntity | None:
    """Return the first in order of those in blocked lines who need not heed and may fit."""
    best: QueuedEntity | None = None
    for line in state.queue.blocked_queues():
        if not len(line.queued) or line.equivalence_class in state.reserving.failed:
            continue
        if not requeue.may_fit(state, line.equivalence_class, now=now):
            continue
        before = takewhile(partial(_precedes, best), line.queued)
        best = next(run_times.free(state, promise, before, now), best)
    return best


def _precedes(other: QueuedEntity | None, one: QueuedEntity) -> bool:
    """Say whether one entity goes before another; before nobody everybody does."""
    if other is None:
        return True
    assert one.rank is not None
    assert other.rank is not None
    return one.rank < other.rank


def _note_started(
    state: State,
    promise: Promise,
    entity: QueuedEntity,
    before: int,
    now: float,
    *,
    is_free: bool = False,
) -> None:
    """Take note of who was let go in a turn, and of when they end."""
    mine = state.reserving
    for effect in state.out[before:]:
        if isinstance(effect, Bind):
            pod = state.members[effect.uid].pod
            end = run_times.end_of(state, pod, now, now)
            if end < math.inf:
                promise.ends[effect.uid] = end
            needed = state.nodes.needs.get(effect.node)
            if is_free and needed is not None and entity is not promise.entity:
                needed.returning.add(effect.uid)
                mine.is_stale |= end > promise.starts_at
        elif (
            isinstance(effect, PodWaiting | Nominated) and is_free and entity is not promise.entity
        ):
            mine.is_stale = True
