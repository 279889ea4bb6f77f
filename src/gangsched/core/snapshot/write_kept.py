"""From the capacity that is kept for gangs to the rows of a snapshot."""

from __future__ import annotations

from hashlib import sha256

from gangsched.core.evaluation.pod_class import PodClass
from gangsched.core.records.gang import GangRecord, PodRecord
from gangsched.core.remembered import kept
from gangsched.core.snapshot.kept_rows import (
    BackfillRow,
    NominatedPodRow,
    NominationRow,
    ReservationRow,
    ReservedRow,
)
from gangsched.core.state import State
from gangsched.core.state.nominated import Nomination
from gangsched.core.state.reserved import ActiveReservation

__all__ = ["class_digest", "written_backfill", "written_nominations"]


def class_digest(pod_class: PodClass | None) -> str:
    """Return a digest of what a pod of a class asks for; empty without a class."""
    if pod_class is None:
        return ""
    return sha256(repr(pod_class.signature).encode()).hexdigest()[:32]


def written_nominations(state: State) -> tuple[NominationRow, ...]:
    """Return the rows of the nominations. O(nominated pods)."""
    return tuple(_nomination(state, each) for each in state.nominations)


def _nomination(state: State, nomination: Nomination) -> NominationRow:
    names = state.table.names
    return NominationRow(
        gang=nomination.gang.key,
        pods=tuple(
            NominatedPodRow(
                uid=uid,
                node=names[each.hold.slot],
                since=each.hold.since,
                pod_class=class_digest(each.pod_class),
            )
            for uid, each in nomination.pods.items()
            if _is_known(state, each.record)
        ),
        required=tuple((tuple(sorted(leaves)), count) for leaves, count in nomination.required),
        awaited=tuple(each.uid for each in nomination.awaited if _is_known(state, each)),
        is_new=nomination.made_at == state.mark,
        **kept("Nomination", nomination),
    )


def _is_known(state: State, record: PodRecord) -> bool:
    return state.records.pods.get(record.uid) is record


def written_backfill(state: State) -> BackfillRow | None:
    """Return what is remembered to make reservations; None if backfill is off. O(gangs)."""
    mine, gangs = state.reservation, state.records.gangs
    if mine.policy is None:
        return None

    def is_known(gang: GangRecord) -> bool:
        return gangs.get(gang.key) is gang

    reopened = mine.reopened(mine.offers)
    failed = [
        (gang.key, mine.failed[gang.demand])
        for gang in gangs.values()
        if gang.demand in mine.failed
    ]
    return BackfillRow(
        qualified=tuple(gang.key for gang in mine.qualified if is_known(gang)),
        drain_timeouts=tuple((g.key, n) for g, n in mine.drain_timeouts.items() if is_known(g)),
        infeasible=tuple(g.key for g in mine.infeasible if is_known(g) and g not in reopened),
        failed=tuple(failed),
        reservation=None if mine.current is None else _reservation(state, mine.current),
        node_changes=state.records.altered,
        **kept("ReservationState", mine),
    )


def _reservation(state: State, current: ActiveReservation) -> ReservationRow:
    names = state.table.names
    resources = {number: name for name, number in state.table.resources.items()}
    return ReservationRow(
        gang=current.gang.key,
        ends=tuple(current.ends.items()),
        reserved=tuple(
            ReservedRow(
                node=names[slot],
                since=entry.hold.since,
                wanted=tuple((resources[number], n) for number, n in entry.wanted.items()),
                returning=tuple(r.uid for r in entry.returning if _is_known(state, r)),
            )
            for slot, entry in current.reserved.items()
        ),
        planned=tuple(
            (record.uid, names[slot])
            for record, slot in current.planned
            if _is_known(state, record)
        ),
        drained=tuple(sorted(current.drained)),
        has_refused=current.guard is not None and current.guard.has_refused,
        departed=tuple(state.records.departed),
        **kept("ActiveReservation", current),
    )
