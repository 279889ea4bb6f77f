"""One scheduling cycle: whose turn it is, and which of its members are tried.

``decision`` places these members and commits, or lets the attempt fail.

Rules:
  R1  if a plugin raises, the state from before the cycle is restored (``Undo``);
  R2  a gang that is known to fail is not tried: it fails as one that asks for the same did.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

from gangsched.core.admission import accounts
from gangsched.core.admission.lacking import lacking
from gangsched.core.attempt import repair, spares
from gangsched.core.attempt.ends import Failure, Tried, fail
from gangsched.core.attempt.pending_members import split, unit_is_whole
from gangsched.core.attempt.placing import missing
from gangsched.core.decision import decide, fail_alone
from gangsched.core.moves import attempt_steps
from gangsched.core.moves.rejection import reject
from gangsched.core.moves.undo import Undo
from gangsched.core.placement.proof import why_not
from gangsched.core.preemption import make_room, nominations
from gangsched.core.queue.demand import Demand
from gangsched.core.records.gang import GangRecord, PodRecord, QueuePlace
from gangsched.core.reservation import backfill
from gangsched.core.settle import lacks_reason, settle_all
from gangsched.core.state import State
from gangsched.errors import GangschedError
from gangsched.explain import Diagnosis
from gangsched.primitives.counters import MemberState

__all__ = ["run"]

_UNSCHEDULED: Final = MemberState.UNSCHEDULED


def run(state: State) -> bool:
    """Run one scheduling cycle; return False if no gang was to be tried."""
    has_quotas = state.records.quotas.is_used
    while True:
        settle_all(state)
        gang = state.queue.head()
        exempt = backfill.next_gang(state, gang)
        if exempt is not None:
            gang = exempt
            if not state.has_classes(gang):
                state.touch(gang)
                continue
            state.queue.put(gang, QueuePlace.NOWHERE, gang.demand)
            state.records.step += 1
            _try(state, gang)
            return True
        if gang is None:
            return False
        if not state.has_classes(gang):
            state.touch(gang)  # constraints of others became known, or are gone
            continue
        if _make_others_give_way(state, gang):
            continue
        if has_quotas and accounts.denial(state, gang) is not None:
            state.touch(gang)  # another one has taken what was left of its quota
            if make_room.reclaim(state, gang):
                return True
            continue
        demand = gang.demand
        state.queue.pop()
        if not gang.began and not lacks_reason(gang) and _is_known_to_fail(state, gang, demand):
            state.queue.put(gang, QueuePlace.PARKED, demand)
            accounts.note_left(state, gang)
            state.reservation.note_parked(gang)
            continue
        state.records.step += 1
        _try(state, gang, _failed_alike(state, gang, demand))
        return True


def _is_known_to_fail(state: State, gang: GangRecord, demand: Demand) -> bool:
    """Return whether a gang need not be tried: what it failed for is true still, or again.

    One like it may have failed since it became active, or others have taken the capacity.
    """
    if demand.blocked_at:
        return True
    if _diagnosis(gang) is None or gang in state.nominations.known:
        return False
    if missing(state, gang):
        return False  # it fails for another reason now, and is told so
    if state.reservation.concerns(gang) or state.spares.of(gang) or state.queue.could_fit(demand):
        return False
    if backfill.may_use_reserved(state, gang):
        return False  # it sees more than the others
    if state.queue.preempts(demand, None):
        return False
    state.queue.block(demand, is_tried=False)
    return True


def _failed_alike(state: State, gang: GangRecord, demand: Demand) -> GangRecord | None:
    """Return a gang that asks for the same and found no node; None if *gang* has to be tried."""
    if not demand.blocked_at or gang.began:
        return None
    if not unit_is_whole(state, gang) and split(state, gang)[1]:
        return None
    parked = chain.from_iterable(demand.parked.by_account())
    return next((each for each in parked if _diagnosis(each) is not None), None)


def _diagnosis(gang: GangRecord) -> Diagnosis | None:
    return None if gang.refused is None else gang.refused.diagnosis


def _fail_alike(
    state: State,
    gang: GangRecord,
    alone: Sequence[PodRecord],
    together: Sequence[PodRecord],
    failed: GangRecord,
) -> None:
    """Let a gang fail as one that asks for the same did.

    Its pods are told, as those of each gang that failed: an autoscaler adds nodes for them.
    """
    demand, found = gang.demand, _diagnosis(failed)
    blocked_at = demand.blocked_at
    assert failed.refused is not None
    assert found is not None
    if together:
        record = next((r for r in together if _is_like(r, failed)), together[0])
        proof = failed.refused.proof
        reason = why_not(record, found, proof, state.records.holds)
        failure = Failure(member=record, reason=reason, diagnosis=found, proof=proof)
        fail(state, gang, failure, Tried.TOGETHER)
    else:
        fail_alone(state, gang, alone, {}, found, failed.refused.proof)
    demand.blocked_at = blocked_at  # nothing was tried


def _is_like(record: PodRecord, failed: GangRecord) -> bool:
    """Return whether a pod is of the class of the one for which a gang found no node."""
    assert failed.refused is not None
    other = failed.pending.get(failed.refused.uid)
    return other is not None and other.pod_class is record.pod_class


def _note_reason(gang: GangRecord) -> None:
    """Note that the members that were not tried themselves wait for the gang."""
    for record in gang.pending.values():
        record.reason = record.reason or gang.reason


def _make_others_give_way(state: State, gang: GangRecord) -> bool:
    """Reject gangs that keep waiting only until another's cycle; return whether there were any."""
    others: list[GangRecord] = []
    if state.giving_way:
        gangs = state.records.gangs.values()
        others = [other for other in gangs if other.giving_way and other is not gang]
        state.giving_way = sum(bool(other.giving_way) for other in gangs) - len(others)
    for other in others:
        reject(state, other, other.giving_way, backs_off=False)
        other.is_whole = True
    return bool(others)


def _try(state: State, gang: GangRecord, failed: GangRecord | None = None) -> None:
    """Try a gang, or let it fail as another one did."""
    alone, together = split(state, gang)
    undo = Undo(state, gang)
    if together:
        attempt_steps.begin(state, gang)
    nomination = state.nominations.known.get(gang)
    if nomination is not None:
        nominations.lend(state, nomination)
    has_reservation, effects = state.reservation.current is not None, len(state.call.out)
    lent = backfill.lend(state, gang) if has_reservation else []
    shown = spares.show(state, gang) if state.spares.known else None
    try:
        if failed is not None:
            _fail_alike(state, gang, alone, together, failed)
        elif together and not unit_is_whole(state, gang):
            decide(state, gang, [_next_member(state, gang)], Tried.IN_TURN, undo)
        else:
            _try_both(state, gang, alone, together, undo)
    except GangschedError:
        undo.restore()
        if nomination is not None:
            nominations.withhold(state, nomination)
        if shown is not None:
            spares.withhold(state, gang, shown)
        backfill.conclude(state, gang, lent, len(state.call.out))
        raise
    if nomination is not None:
        nominations.conclude(state, nomination)
    if gang.pending:
        _note_reason(gang)
        if failed is None:
            _note_failed(state, gang)
            make_room.conclude(state, gang)
            repair.conclude(state, gang)
    if has_reservation:
        backfill.conclude(state, gang, lent, effects)
    if shown is not None:
        spares.withhold(state, gang, shown)
    accounts.note_left(state, gang)
    state.touch(gang)


def _try_both(
    state: State,
    gang: GangRecord,
    alone: Sequence[PodRecord],
    together: Sequence[PodRecord],
    undo: Undo,
) -> None:
    """Try the members that may start together, then those that go alone.

    These are first if they come back to copies that run: they can go nowhere else. So they are if a
    bind failed of one of them: if it fits nowhere, the gang may be evicted, and no member is bound
    by a call that evicts it.
    """
    parts = [(together, Tried.TOGETHER), (alone, Tried.ALONE)]
    if not (alone and together):
        decide(state, gang, *parts[not together], undo)
        return
    may_give_up = state.settings.can_evict
    may_fail = may_give_up and any(record.bind_failures for record in alone)
    if may_fail or not gang.is_bundle:
        parts.reverse()
    (first, tried), (second, tried_next) = parts
    decide(state, gang, first, tried, undo)
    is_released = any(record.state is not _UNSCHEDULED for record in first)
    if is_released and may_give_up and any(record.bind_failures for record in second):
        return  # the next cycle tries them
    # others, if the gang was evicted
    now = set(split(state, gang)[0 if tried_next is Tried.ALONE else 1])
    left = [record for record in second if record in now]
    if left and gang.backoff_until <= state.records.now:
        undo.save()
        decide(state, gang, left, tried_next, undo)


def _next_member(state: State, gang: GangRecord) -> PodRecord:
    """Return the next member: of a role that is lacking first; a new round begins if needed.

    A round is one try of each pending member. A gang whose round has failed is tried as a whole
    next, since member by member it may have been in its own way.
    """
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


def _note_failed(state: State, gang: GangRecord) -> None:
    """Note for backfill whether an attempt failed, and whether for lack of capacity."""
    demand: Demand | None = gang.demand
    if demand is not None and demand.blocked_at == state.records.step:
        state.reservation.note_failed(gang, demand, state.records.step)
    elif gang.place is QueuePlace.NOWHERE and gang.backoff_until > state.records.now:
        state.reservation.note_failed(gang, None, state.records.step)
