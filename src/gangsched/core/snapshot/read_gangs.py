"""What is remembered of each gang, and its place in the queue.

Rules:
  R1  a gang that cannot be in the place of its row is settled by the next call;
  R2  a demand is known to fail only if it is what the gang asks for now.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gangsched.core.attempt.pending_members import demand_of
from gangsched.core.intake.gangs import add_group
from gangsched.core.queue.demand import Demand
from gangsched.core.records.gang import Gang, QueuePlace
from gangsched.core.remembered import keep
from gangsched.core.snapshot.checks import each_once
from gangsched.core.snapshot.read_kept import read_backfill, read_failed, read_nominations
from gangsched.core.snapshot.rows import GangRow, SnapshotRow
from gangsched.core.snapshot.write import digest
from gangsched.core.state import State

__all__ = ["read_gangs"]

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
    read_nominations(state, rows.nominations, rows.overdue, rows.no_plans)
    read_backfill(state, rows.backfill)
    demands = _demands(state, found)
    _block(state, found, demands)
    for gang, row in found:
        _put(state, gang, row, demands.get(gang.key))
    _lead(state, found, demands.values())
    read_failed(state, rows.backfill)


def _remember(state: State, gang: Gang, row: GangRow) -> None:
    for key in row.groups:
        info = state.records.registry.get(key)
        if info is not None and not info.members:  # of a bundle that waits for its members
            add_group(state, gang, info)
    order = [key for key in row.groups if key in gang.infos]
    gang.infos = {key: gang.infos[key] for key in dict.fromkeys([*order, *gang.infos])}
    state.records.count_priority(gang)  # a group of a bundle without members may state the highest
    keep(gang, row)
    gang.count_tried()


def _demands(state: State, found: Iterable[tuple[Gang, GangRow]]) -> dict[str, Demand]:
    """Return what each gang in the queue asks for; one value for gangs that ask for the same."""
    known: dict[object, Demand] = {}
    demands: dict[str, Demand] = {}
    for gang, row in found:
        if row.place in _QUEUED and gang.pending:
            demand = demand_of(state, gang)
            demands[gang.key] = known.setdefault(demand.key, demand)
    return demands


def _block(state: State, found: Iterable[tuple[Gang, GangRow]], demands: dict[str, Demand]) -> None:
    blocked = [(row.blocked_at, gang, row) for gang, row in found if row.blocked_at]
    for at, gang, row in sorted(blocked, key=lambda each: each[0]):
        demand = demands.get(gang.key)
        if demand is not None and row.demand == digest(gang):
            state.queue.block_since(demand, at)


def _put(state: State, gang: Gang, row: GangRow, demand: Demand | None) -> None:
    """Put a gang in the place of its row, if it can be there; see R1."""
    place = row.place
    if demand is None and place in _QUEUED:
        state.touch(gang)
        return
    if (place is QueuePlace.NOWHERE) is bool(gang.pending):
        state.touch(gang)
        return
    if place is QueuePlace.BACKOFF:
        state.queue.put(gang, place, demand if row.demand == digest(gang) else None)
    elif place is not QueuePlace.NOWHERE:
        state.queue.put(gang, place, demand)


def _lead(state: State, found: Iterable[tuple[Gang, GangRow]], demands: Iterable[Demand]) -> None:
    """Let a gang lead those that are parked behind it."""
    for gang, row in found:
        if row.leads and gang.place is QueuePlace.ACTIVE:
            state.queue.lead(gang.demand, gang)
    for demand in dict.fromkeys(demands):
        if demand.parked and not demand.blocked_at and demand.leader is None:
            state.queue._lead(demand)
