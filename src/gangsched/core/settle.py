"""Where a gang belongs after something has changed: one table, asked once for each noted gang.

The first row that holds:

1.  it has no members: forgotten;
2.  no member is pending or waits on permit: ``NOWHERE``;
3.  PreEnqueue refuses a group of it, or it is being restarted: ``NOT_ADMITTED``, and rejected first
    if members wait;
4.  its waiting members are outside of their domain: rejected, and settled again;
5.  its waiting members may go: released, then as below;
6.  no member is pending: ``NOWHERE``;
7.  a gang with its demand is known to fail, or it has failed pod by pod and cannot fit as a whole,
    and its pods were told why they wait: ``PARKED``, unless it awaits victims or backs off;
8.  a quota is exceeded, and it need not look for victims: ``NOT_ADMITTED``;
9.  it awaits the end of victims: ``NOMINATED``;
10. its backoff is not over: ``BACKOFF``;
11. otherwise: ``ACTIVE``.

A gang that is known to fail is not asked about quotas. If it were, the members of others that only
wait on permit would let it forget why it failed, and gangs would try in turn for ever.

A fact never asks a policy; a settlement never reads an event.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from gangsched.core.admission import accounts, quota_wakes, reclaim, restarts
from gangsched.core.admission.lacking import rests
from gangsched.core.attempt import spares
from gangsched.core.attempt.pending_members import (
    bundle_problem,
    copy_problem,
    demand_of,
    lacks_no_member,
    split,
)
from gangsched.core.attempt.waiting_members import recheck
from gangsched.core.moves import attempt_steps, lost_nodes, notices, pod_ends
from gangsched.core.moves.rejection import apply_verdict, reject
from gangsched.core.nodes.domains import Domain
from gangsched.core.placement.apart import Apart
from gangsched.core.preemption import make_room, nominations
from gangsched.core.queue.demand import Demand
from gangsched.core.records.gang import GangRecord, PodRecord, QueuePlace
from gangsched.core.state import State
from gangsched.events import GroupRemoved
from gangsched.model import GroupKey
from gangsched.primitives.counters import MemberState
from gangsched.primitives.families import waits_for
from gangsched.primitives.gang_tree import HOST, SubGroup
from gangsched.primitives.group_info import PodGroupInfo

__all__ = ["cannot_fit", "lacks_reason", "settle_all"]

_ACTIVE: Final = QueuePlace.ACTIVE  # a look-up in an enum is slow
_NOWHERE: Final = QueuePlace.NOWHERE
_MANY: Final = 10_000
"""Rounds of one call: more than any sequence of settlements and wake-ups that ends needs."""


def settle_all(state: State) -> None:
    """Settle each noted gang, then wake what nodes may help, until nothing is noted."""
    records, table, nominated, call = state.records, state.table, state.nominations, state.call
    has_quotas = records.quotas.is_used
    for _round in range(_MANY):
        if nominated.known or nominated.overdue:
            nominations.review(state)
        if call.lost:
            lost_nodes.judge(state)
        if call.ended:
            pod_ends.tell(state)
        if call.refused:
            _reject_refused(state)
        if not call.touched:
            if has_quotas:
                quota_wakes.ask_waiting(state)
            if call.used:
                used, call.used = call.used, {}
                state.queue.used(used)
            elif has_quotas and (changed := records.quotas.take_changed()):
                state.queue.used(changed)
                quota_wakes.ask_reclaiming(state, changed)
        if call.touched:
            _settle_touched(state)
        elif table.gains or call.pods_changed or call.pods_tried:
            _wake(state)
        elif call.removed:
            _end_removed(state)  # what they have reserved may help others
        else:
            break


def _settle_touched(state: State) -> None:
    """Settle each noted gang, once what it is settled by is up to date."""
    records, has_quotas = state.records, state.records.quotas.is_used
    touched, state.call.touched = state.call.touched, {}
    if state.spares.known:
        spares.drop_lost(state)
    for gang in touched:
        if records.gangs.get(gang.key) is not gang:
            continue  # it was forgotten since it was noted
        before = gang.place
        gang.span = None
        state.reservation.open.note_change(gang)
        if gang.began or gang.tried:
            gang.count_tried()
        attempt_steps.note_progress(state, gang)
        restarts.judge(state, gang)
        if has_quotas:
            accounts.charge(state, gang)
        if state.spares.known or any(i.spec and i.spec.spares for i in gang.infos.values()):
            spares.review(state, gang)
        _settle(state, gang)
        if has_quotas and gang.place is not before and _has_left(before, gang.place):
            accounts.note_left(state, gang)


def _has_left(before: QueuePlace, place: QueuePlace) -> bool:
    """Return whether a gang uses no quota for which others have waited."""
    return before is _ACTIVE or (before is QueuePlace.NOT_ADMITTED and place is not _ACTIVE)


def _wake(state: State) -> None:
    """Wake what nodes may help that may take more, and pods that came to nodes or left them."""
    records, call = state.records, state.call
    gains, state.table.gains = state.table.gains, {}
    changed, tried = call.pods_changed, call.pods_tried
    call.pods_changed = call.pods_tried = False
    if gains:
        quota_wakes.ask_tried(state)
        since = min(gains.values())
        state.gains.note(records.step, since)
        for hold in records.holds:  # see ``Gains``
            hold.since = min(hold.since, since)
        if state.reservation.policy is not None:
            state.reservation.note_gains(gains, state.events)
    if state.reservation.current is not None:
        state.reservation.withhold(records)
    guard = records.guard
    if (changed or tried) and guard is not None and guard.has_refused:
        state.queue.wake_all()
    had_terms, state.had_terms = state.had_terms, records.counts.has_terms
    has_terms = had_terms or state.had_terms
    mark = None if changed else state.mark
    state.queue.wake(gains, pods=changed or tried, has_terms=has_terms, mark=mark)


def _end_removed(state: State) -> None:
    """Post which groups are gone that lost their last pod, and forget their restarts."""
    removed, state.call.removed = state.call.removed, {}
    for key in removed:
        restarts.forget(state, key)
        known = state.records.registry.get(key)
        if known is None or (known.spec is None and not known.members):
            state.records.quotas.release(key)
            state.records.quotas.forget(key)
            state.call.out.append(GroupRemoved(key))


def _settle(state: State, gang: GangRecord) -> None:
    """Put a gang where it belongs: rows 1 to 6 of the table of the module, then the others."""
    if not gang.members:  # 1
        _forget(state, gang)
        return
    _note_priority(state, gang)
    before = gang.denial if gang.place is QueuePlace.NOT_ADMITTED else ""
    if not gang.pending and not gang.waiting:  # 2
        gang.denial = gang.untold = ""
        gang.lacks_since = None
        state.queue.put(gang, _NOWHERE)
        return
    denied = _denied(state, gang)
    if denied is not None:  # 3
        if gang in state.nominations.known:
            nominations.refused(state, gang, denied[1])
        if state.records.quotas.is_used:
            accounts.stop_waiting(state, gang)
        if gang.waiting:  # it is noted again, and denied again
            reject(state, gang, denied[1])
        gang.untold = ""  # its pods are told this reason, once
        _not_admit(state, gang, denied, before)
        return
    gang.denial = ""
    if gang.untold:
        notices.tell_gang(state, gang, gang.untold)
        gang.untold = ""
    if gang.waiting:
        strayed = _strayed(state, gang)
        if strayed:  # 4
            reject(state, gang, strayed)
            return
        if gang is not state.call.asked:  # 5
            recheck(state, gang)
    if gang.pending:
        _place_pending(state, gang, before)
    else:  # 6
        state.queue.put(gang, _NOWHERE)


def _place_pending(state: State, gang: GangRecord, before: str) -> None:
    """Put a gang with pending members where it belongs: rows 7 to 11.

    Args:
        state: The state.
        gang: The gang.
        before: Why it was not admitted before; or ``""``.
    """
    queue, has_quotas = state.queue, state.records.quotas.is_used
    awaited = nominations.awaits(state, gang)
    in_backoff = state.records.now < gang.backoff_until
    demand: Demand | None = None
    if not awaited and not in_backoff:
        if not state.has_classes(gang):
            _classify(state, gang)
        demand = demand_of(state, gang)
    if demand is not None and _is_parked(state, gang, demand):  # 7
        if has_quotas:
            accounts.note_kept_out(state, gang, gang.pending.values())
        if gang.lacks_since is None:
            gang.lacks_since = state.records.now
        queue.put(gang, QueuePlace.PARKED, demand)
        state.reservation.note_parked(gang)
        return
    exceeded = accounts.denial(state, gang) if has_quotas else None
    if exceeded is not None and gang.lacks_since is None:
        gang.lacks_since = state.records.now
    if exceeded is not None and not _looks_for_victims(state, gang, demand, in_backoff):  # 8
        info, reason = exceeded
        nominations.refused(state, gang, reason)
        told = "" if info is None else f"pod group {info.key} waits for its quota"
        _not_admit(state, gang, (info, reason, told), before)
        accounts.line_up(state, gang)
    elif awaited:  # 9
        queue.put(gang, QueuePlace.NOMINATED)
        gang.denial = awaited
    elif in_backoff:  # 10
        queue.put(gang, QueuePlace.BACKOFF, gang.demand)
    else:  # 11
        queue.put(gang, _ACTIVE, demand)


def _looks_for_victims(
    state: State, gang: GangRecord, demand: Demand | None, in_backoff: bool
) -> bool:
    """Return whether a gang over its quota may take something back, now or after its backoff."""
    if in_backoff:
        return reclaim.queue_of(state, gang) is not None
    return demand is not None and make_room.may_reclaim(state, gang, demand)


def _is_parked(state: State, gang: GangRecord, demand: Demand) -> bool:
    """Return whether a gang is known to fail, or follows another one of its demand."""
    if lacks_reason(gang):
        return False
    if gang.is_whole and not demand.blocked_at and cannot_fit(state, gang, demand):
        gang.is_whole = False
        state.queue.block(demand, is_tried=False)
    return bool(demand.blocked_at) or state.queue.follows(gang, demand)


def _note_priority(state: State, gang: GangRecord) -> None:
    """Note the priority of a gang; if it is lower than before, its nodes may take more."""
    before = gang.counted_priority
    state.records.count_priority(gang)
    if gang.counted_priority != before:
        for spare in state.spares.of(gang):  # it is kept from others than before
            state.table.gained(spare.hold.slot)
    if gang.on_nodes and gang.counted_priority < before:
        for record in gang.members.values():
            if record.slot >= 0:
                state.table.gained(record.slot)


def _classify(state: State, gang: GangRecord) -> None:
    """Give pending and waiting members their classes again. O(members)."""
    for record in (*gang.pending.values(), *gang.waiting.values()):
        record.pod_class = state.class_of(record)
    gang.classes_of = state.records.selections.version


def cannot_fit(state: State, gang: GangRecord, demand: Demand) -> bool:
    """Return whether a gang that has failed pod by pod is known to fail as a whole, too.

    A nominated gang is tried in any case: it sees the capacity that is held for it.
    """
    if gang in state.nominations.known:
        return False
    return not state.queue.could_fit(demand) and not state.queue.preempts(demand, None)


def lacks_reason(gang: GangRecord) -> bool:
    """Return whether pods have to be told why they wait, since they were not tried yet.

    If the gang is known to fail, it is activated for that alone. O(pending members).
    """
    if gang.began:
        return False
    return not gang.reason or not all(record.reason for record in gang.pending.values())


def _forget(state: State, gang: GangRecord) -> None:
    """Forget a gang without members; a group may be remembered for its grace period."""
    state.queue.put(gang, _NOWHERE)
    state.reservation.forget(gang)
    state.records.tenancy.forget(gang)
    del state.records.gangs[gang.key]
    for key in gang.infos:
        if state.records.gang_of.get(key) is gang:
            del state.records.gang_of[key]


_Denied: TypeAlias = tuple[PodGroupInfo | None, str, str]
"""The group that is not admitted to the queue, why, and what its pods are told instead.

They are told of its restart, or of its quota, if that is the reason; otherwise it is ``""``.
"""


def _denied(state: State, gang: GangRecord) -> _Denied | None:
    """Return why a gang is not admitted to the queue; None if it is."""
    misplaced = accounts.problem(state, gang)
    if misplaced:
        return gang.group, misplaced, misplaced
    if gang.is_tree:
        return _family_denied(state, gang)
    if gang.is_bundle:
        return _bundle_denied(state, gang)
    # any member speaks for its group, so none has to be looked for
    one = next(reversed((gang.waiting or gang.pending).values()))
    refusal = state.points.pre_enqueue(one.pod, one.info, state.records.now)
    held = "" if one.info is None else restarts.denial(state, one.info)
    if refusal is not None:
        return one.info, refusal.reason, held
    reason, has_parts = held, gang.tree.has_parts or gang.tree.restarted
    if not held and not gang.waiting and has_parts and split(state, gang) == ([], []):
        reason = copy_problem(state, gang)
    return (one.info, reason, reason) if reason else None


def _family_denied(state: State, gang: GangRecord) -> _Denied | None:
    """Return why the groups below a root are not admitted; None if some of their members are."""
    first = sorted(_first_members(gang).items())
    for key, record in first:
        info = gang.infos[key]
        refusal = state.points.pre_enqueue(record.pod, info, state.records.now)
        if refusal is None:
            continue
        if info.is_complete or lacks_no_member(info, state.points.roles_needed(info)):
            return info, refusal.reason, ""  # it lacks no member: a plugin refuses it
    if gang.waiting or split(state, gang) != ([], []):
        return None
    info = gang.infos[first[0][0]]
    held = next(filter(None, (restarts.denial(state, gang.infos[key]) for key, _one in first)), "")
    reason = bundle_problem(state, gang) or held or copy_problem(state, gang)
    return info, reason, reason


def _bundle_denied(state: State, gang: GangRecord) -> _Denied | None:
    """Return why a bundle is not admitted to the queue; None if some of its members are."""
    denied: _Denied | None = None
    # sorted, as a restored scheduler met them in another order
    for key, record in sorted(_first_members(gang).items()):
        info = gang.infos[key]
        refusal = state.points.pre_enqueue(record.pod, info, state.records.now)
        held = restarts.denial(state, info)
        if refusal is None and not held:
            continue
        denied = info, waits_for(key, held if refusal is None else refusal.reason), held
        # it lacks an incomplete group, but the groups that have started do not
        has_rest = len(gang.infos) > 1 and (
            rests(state, info) or not (info.was_scheduled or info.is_complete)
        )
        if not has_rest:
            return denied
    if gang.waiting or split(state, gang) != ([], []):
        return None
    if denied is not None:
        return denied
    info = gang.infos[min(gang.infos)]
    problem = bundle_problem(state, gang)
    if problem:
        return info, problem, restarts.denial(state, info)
    part = copy_problem(state, gang)
    return (info, part, part) if part else None


def _first_members(gang: GangRecord) -> dict[GroupKey, PodRecord]:
    """Return the member of each group that came first, of those that are pending or wait."""
    first: dict[GroupKey, PodRecord] = {}
    for record in (*gang.pending.values(), *gang.waiting.values()):
        if record.info is not None:
            known = first.get(record.info.key)
            if known is None or record.seq < known.seq:
                first[record.info.key] = record
    return first


def _not_admit(state: State, gang: GangRecord, denied: _Denied, before: str) -> None:
    """Keep a gang out of the queue until an event about it; post why, unless it was *before*."""
    info, reason, told = denied
    state.queue.put(gang, QueuePlace.NOT_ADMITTED)
    if gang.waiting:
        gang.denial = reason  # its attempt goes on
        return
    for each in gang.infos.values():
        each.attempt_started_at = None
    gang.began = 0
    if gang.tried:
        gang.count_tried()
    gang.denial, gang.reason = reason, ""
    notices.not_admitted(state, gang, info, reason, told, is_known=reason == before)


def _strayed(state: State, gang: GangRecord) -> str:
    """Return why waiting members cannot start where they wait, by their topology; or ``""``."""
    for tree in () if gang.is_started else gang.tree.constrained:
        within = tree.within
        assert within is not None
        if within.required and within.level != HOST and _spans_domains(state, gang, tree):
            return f"belongs within one {within.level} now"
    if gang.tree.has_apart and not gang.is_started and Apart(gang, state.table, ()).is_broken():
        return "its members belong apart now"
    waiting = gang.waiting.values() if gang.tree.exclusive_leaves else ()
    asked = ((state.records.tenancy.asks(r), r.slot) for r in waiting)
    marks = state.table.marks_of
    found = (asks.refused(marks(slot)) for asks, slot in asked if asks.levels)
    reason = next(filter(None, found), "")
    return f"belongs elsewhere now: {reason}" if reason else ""


def _spans_domains(state: State, gang: GangRecord, tree: SubGroup) -> bool:
    """Return whether waiting members are in no domain with those that are bound, or in several."""
    assert tree.within is not None
    keys = {leaf.key for leaf in tree.leaves}
    held, bound = set[Domain | None](), set[Domain | None]()
    for record in gang.members.values():
        if record.leaf in keys and record.slot >= 0:
            path = state.table.domains.around(record.slot, tree.within.level)
            if record.state is MemberState.WAITING:
                held.add(path)
            elif record.state is MemberState.ASSIGNED and path is not None:
                bound.add(path)
    return not (held <= bound if bound else len(held) <= 1 and None not in held)


def _reject_refused(state: State) -> None:
    """Take waiting pods off their nodes that a permit plugin refused when it was asked again."""
    refused, state.call.refused = state.call.refused, {}
    due: list[tuple[PodRecord, str]] = []
    for uid, reason in refused.items():
        record = state.records.pods.get(uid)
        if record is not None and record.state is MemberState.WAITING:
            due.append((record, reason))
    for verdict in lost_nodes.reject_some(state, due, "refused"):
        apply_verdict(state, verdict)
