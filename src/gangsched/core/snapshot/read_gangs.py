"""What is remembered of each gang, and its place in the queue.

Rules:
  R1  a gang that cannot be in the place of its row is settled by the next call;
  R2  a demand is known to fail only if it is what the gang asks for now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, TypeAlias

from gangsched.core.attempt.pending_members import demand_of
from gangsched.core.attempt.spares import keep_again
from gangsched.core.intake.gangs import add_group
from gangsched.core.queue.demand import Demand
from gangsched.core.records.gang import GangRecord, QueuePlace
from gangsched.core.remembered import keep
from gangsched.core.snapshot.checks import each_once, get
from gangsched.core.snapshot.read_kept import read_backfill, read_failed, read_nominations
from gangsched.core.snapshot.rows import GangRecordRow, SnapshotRow
from gangsched.core.snapshot.write import digest
from gangsched.core.state import State
from gangsched.model import PodUID

__all__ = ["read_gangs"]

_Demands: TypeAlias = Mapping[str, Demand]
_QUEUED: Final = (QueuePlace.ACTIVE, QueuePlace.BACKOFF, QueuePlace.PARKED)


def read_gangs(state: State, rows: SnapshotRow) -> None:
    """Give each gang what is remembered of it, and its place in the queue."""
    gangs = state.records.gangs
    each_once((row.key for row in rows.gangs), "gangs: key")
    found = [(gangs[row.key], row) for row in rows.gangs if row.key in gangs]
    known = {row.key for row in rows.gangs}
    for gang in gangs.values():
        state.records.count_priority(gang)
        if gang.key not in known:
            state.touch(gang)
    state.records.gangs = {gang.key: gang for gang, _row in found} | gangs
    for gang, row in found:
        _remember(state, gang, row)
    state.records._numbers = max([rows.arrivals, *(gang.seq for gang in gangs.values())])
    state.giving_way = sum(bool(gang.giving_way) for gang, _row in found)
    # a nominated gang, and one that the plan of a reservation concerns, has a demand of its own
    for key in each_once(rows.held, "held"):
        if key in gangs:
            gangs[key].held_at = state.events
    gone = {uid for uid in state.unread if state.settings.cluster.pod(uid) is None}
    read_nominations(state, rows.nominations, rows.overdue, rows.no_plans, gone)
    for n, (group, node, requests, since) in enumerate(rows.spares):
        get(state.records.registry._groups, group, f"spares[{n}]")
        keep_again(state, group, state.table.slot(node), requests, since)
    read_backfill(state, rows.backfill)
    demands, same = _demands(state, found, gone)
    _block(state, found, same)
    for gang, row in found:
        _put(state, gang, row, demands, same)
    _lead(state, found, demands.values())
    read_failed(state, rows.backfill)


def _remember(state: State, gang: GangRecord, row: GangRecordRow) -> None:
    for key in row.groups:
        info = state.records.registry.get(key)
        if info is not None and not info.members:  # of a bundle that waits for its members
            add_group(state, gang, info)
    order = [key for key in row.groups if key in gang.infos]
    gang.infos = {key: gang.infos[key] for key in dict.fromkeys([*order, *gang.infos])}
    state.records.count_priority(gang)  # a group of a bundle without members may state the highest
    keep(gang, row)
    gang.count_tried()


def _demands(
    state: State, found: Iterable[tuple[GangRecord, GangRecordRow]], gone: Collection[PodUID]
) -> tuple[_Demands, _Demands]:
    """Return what each gang in the queue asks for; and of those of which the row says the same.

    Gangs that ask for the same have one value. Pods that are gone ask for nothing, as their rows do
    not have what they asked for: the next call forgets them.
    """
    known: dict[object, Demand] = {}
    demands, same = dict[str, Demand](), dict[str, Demand]()
    for gang, row in found:
        if row.place not in _QUEUED or not gang.pending:
            continue
        pending = gang.pending
        if gone:
            gang.pending = {u: r for u, r in pending.items() if u not in gone} or pending
        demand = demand_of(state, gang)
        demands[gang.key] = known.setdefault(demand.key, demand)
        if row.demand == digest(gang, demand):
            same[gang.key] = demands[gang.key]
        gang.pending = pending
    return demands, same


def _block(state: State, found: Iterable[tuple[GangRecord, GangRecordRow]], same: _Demands) -> None:
    blocked = [(row.blocked_at, gang.key) for gang, row in found if row.blocked_at]
    for at, key in sorted(blocked, key=lambda each: each[0]):
        if key in same:
            state.queue.block_since(same[key], at)


def _put(
    state: State, gang: GangRecord, row: GangRecordRow, demands: _Demands, same: _Demands
) -> None:
    """Put a gang in the place of its row, if it can be there; see R1."""
    place = row.place
    if (place is QueuePlace.NOWHERE) is bool(gang.pending):
        state.touch(gang)
    elif place is not QueuePlace.NOWHERE:
        known = same if place is QueuePlace.BACKOFF else demands
        state.queue.put(gang, place, known.get(gang.key))


def _lead(
    state: State, found: Iterable[tuple[GangRecord, GangRecordRow]], demands: Iterable[Demand]
) -> None:
    """Let a gang lead those that are parked behind it."""
    for gang, row in found:
        if row.leads and gang.place is QueuePlace.ACTIVE:
            state.queue.lead(gang.demand, gang)
    for demand in dict.fromkeys(demands):
        if demand.parked and not demand.blocked_at and demand.leader is None:
            state.queue._lead(demand)
