"""From the rows of a snapshot to the capacity that is kept for gangs.

Rules:
  R1  a gang that is gone keeps nothing, and for a pod that has changed nothing is held. The next
      call reviews what is left;
  R2  what a reservation holds is computed: it depends on what is reserved, and on the pods there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gangsched.core.nodes.hold import Hold
from gangsched.core.records.gang import GangRecord
from gangsched.core.remembered import keep, kept
from gangsched.core.reservation.reserved_plan import ReservedPlan
from gangsched.core.snapshot.checks import each_once, get, pairs_once, require, unique
from gangsched.core.snapshot.kept_rows import BackfillRow, NominationRow, ReservationRow
from gangsched.core.snapshot.write_kept import class_digest
from gangsched.core.state import State
from gangsched.core.state.nominated import NominatedPod, Nomination
from gangsched.core.state.reserved import ActiveReservation, Reserved
from gangsched.model import PodUID

__all__ = ["read_backfill", "read_failed", "read_nominations"]

_BEFORE = (float("-inf"), -1)


def read_nominations(
    state: State,
    rows: Iterable[NominationRow],
    overdue: Iterable[PodUID],
    no_plans: Iterable[str],
    gone: Collection[PodUID],
) -> None:
    """Read the nominations, and hold their capacity; nothing for pods that are *gone*."""
    gangs = state.records.gangs
    known: dict[str, None] = {}
    for n, row in enumerate(rows):
        path = f"nominations[{n}]"
        unique(known, row.gang, f"{path}.gang")
        known[row.gang] = None
        gang = gangs.get(row.gang)
        if gang is not None:
            _nomination(state, gang, row, path, gone)
    state.nominations.overdue.update(each_once(overdue, "overdue"))
    for key in each_once(no_plans, "no_plans"):
        if key in gangs:
            gangs[key].no_plan_at = state.mark


def _nomination(
    state: State, gang: GangRecord, row: NominationRow, path: str, gone: Collection[PodUID]
) -> None:
    records, pods = state.records, dict[PodUID, NominatedPod]()
    each_once((each.uid for each in row.pods), f"{path}.pods: uid")
    for m, each in enumerate(row.pods):
        record = get(records.pods, each.uid, f"{path}.pods[{m}].uid")
        if each.uid in gone:
            continue
        pod_class = record.pod_class
        if class_digest(pod_class) != each.pod_class:
            pod_class = None
        # one that has changed is dropped by the next call, whose notice names it
        slot = state.table.slot(each.node)
        needs = record.needs if pod_class is not None else ()
        hold = Hold(slot, needs, gang.name, records.tenancy.asks(record))
        records.hold(hold)
        hold.since = each.since
        pods[each.uid] = NominatedPod(record, pod_class, hold)
    awaited = each_once(row.awaited, f"{path}.awaited")
    pairs_once(row.specs, f"{path}.specs")
    state.nominations.add(
        Nomination(
            gang=gang,
            pods=pods,
            required=tuple([(frozenset(leaves), count) for leaves, count in row.required]),
            made_at=state.mark if row.is_new else _BEFORE,
            awaited=[get(records.pods, uid, f"{path}.awaited") for uid in awaited],
            **kept("Nomination", row),
        )
    )


def read_backfill(state: State, row: BackfillRow | None) -> None:
    """Read what is remembered to make reservations, and hold what is reserved."""
    mine, gangs = state.reservation, state.records.gangs
    if row is None or mine.policy is None:
        return
    for key in each_once(row.qualified, "backfill.qualified"):
        if key in gangs:
            mine.qualified[gangs[key]] = None
    for key, times in pairs_once(row.drain_timeouts, "backfill.drain_timeouts").items():
        if key in gangs:
            mine.drain_timeouts[gangs[key]] = times
    for key in each_once(row.infeasible, "backfill.infeasible"):
        if key in gangs:
            mine.infeasible[gangs[key]] = None
    for gang in mine.qualified:
        if gang not in mine.infeasible:
            mine.open.add(gang)
    keep(mine, row)
    state.records.altered = row.node_changes
    if row.reservation is not None and row.reservation.gang in gangs:
        _reservation(state, gangs[row.reservation.gang], row.reservation)


def _reservation(state: State, gang: GangRecord, row: ReservationRow) -> None:
    records, table, path = state.records, state.table, "backfill.reservation"
    require(
        row.since <= state.records.now,
        f"{path}.since",
        row.since,
        f"until now={state.records.now!r}",
    )
    reserved: dict[int, Reserved] = {}
    each_once((each.node for each in row.reserved), f"{path}.reserved: node")
    for n, each in enumerate(row.reserved):
        at, slot = f"{path}.reserved[{n}]", table.slot(each.node)
        wanted = pairs_once(each.wanted, f"{at}.wanted")
        returning = each_once(each.returning, f"{at}.returning")
        hold = Hold(slot, (), gang.name)
        records.hold(hold)
        hold.since = each.since
        reserved[slot] = Reserved(
            slot,
            {table.number(name): amount for name, amount in wanted.items()},
            {get(records.pods, uid, f"{at}.returning"): None for uid in returning},
            hold,
        )
    planned = [
        (get(records.pods, uid, f"{path}.planned"), table.slot(node))
        for uid, node in pairs_once(row.planned, f"{path}.planned").items()
    ]
    current = ActiveReservation(
        gang=gang,
        ends=pairs_once(row.ends, f"{path}.ends"),
        reserved=reserved,
        planned=tuple(planned),
        drained=frozenset(each_once(row.drained, f"{path}.drained")),
        **kept("ActiveReservation", row),
    )
    guard = ReservedPlan(state, current)
    guard.has_refused = row.has_refused
    current.guard = records.guard = guard
    state.reservation.current = current
    state.reservation.withhold(records)
    records.notes_departed = True
    records.departed[:] = row.departed


def read_failed(state: State, row: BackfillRow | None) -> None:
    """Read which demands failed although they were exempt, once the demands are known."""
    for key, step in () if row is None else row.failed:
        gang = state.records.gangs.get(key)
        if gang is not None and gang.demand is not None:
            state.reservation.failed[gang.demand] = step
