"""From the rows of a snapshot to the nominations and the state of backfill."""

from __future__ import annotations

from gangsched._core._entity import QueuedEntity
from gangsched.framework.backfill.reserved_plan import ReservedPlan
from gangsched.framework.nodes.reserved_capacity import ReservedCapacity
from gangsched.framework.snapshot.read_queue import equivalence_class
from gangsched.framework.snapshot.reading import Reading, each_once, get, require, unique
from gangsched.framework.snapshot.rows import NominatedPodRow, NominationRow, ReservationRow
from gangsched.framework.state.backfill_state import ActiveReservation
from gangsched.framework.state.nomination import NominatedPod, Nomination
from gangsched.model import NodeName, PodUID

__all__ = ["read_backfill", "read_nominations"]


def read_nominations(reading: Reading) -> None:
    """Read the nominations, and reserve their capacity in the ledger."""
    reservations, rows = reading.state.reservations, reading.rows
    for n, row in enumerate(rows.nominations):
        path = f"nominations[{n}]"
        unique(reservations.nominations, row.entity, f"{path}.entity")
        entity = reading.entity(row.entity, f"{path}.entity")
        reservations.nominations[row.entity] = _nomination(reading, row, entity, path)
    reservations.overdue.update(each_once(rows.overdue, "overdue"))


def _nomination(
    reading: Reading, row: NominationRow, entity: QueuedEntity, path: str
) -> Nomination:
    pods: dict[PodUID, NominatedPod] = {}
    each_once((key for key, _spec in row.specs), f"{path}.specs")
    for n, (key, spec) in enumerate(row.specs):
        own = None if spec is None else spec.key
        require(own in (None, key), f"{path}.specs[{n}]", own, f"the specification of {key}")
    groups = {entity.group.key if entity.group is not None else None, *(k for k, _ in row.specs)}
    for m, each in enumerate(row.pods):
        at = f"{path}.pods[{m}]"
        unique(pods, each.uid, f"{at}.uid")
        require(each.group in groups, f"{at}.group", each.group, "a group that starts with it")
        _check_nominated(reading, each, entity, at)
        entry = ReservedCapacity(row.entity, each.node, row.priority, each.requests)
        reading.state.nodes.ledger.add(entry)
        pods[each.uid] = NominatedPod(each.seq, each.uid, each.group, each.role, entry)
    require(pods, f"{path}.pods", row.pods, "at least one pod")
    for m, ask in enumerate(row.required):
        at = f"{path}.required[{m}].group"
        require(ask.group in groups, at, ask.group, "a group that starts with it")
    each_once(row.awaited, f"{path}.awaited")
    return Nomination(
        entity=entity,
        priority=row.priority,
        pods=pods,
        required=row.required,
        specs=row.specs,
        awaited=list(row.awaited),
        deadline=row.deadline,
    )


def _check_nominated(
    reading: Reading, row: NominatedPodRow, entity: QueuedEntity, path: str
) -> None:
    """Compare a nominated pod with the known pod, unless that was made anew since."""
    member = reading.state.pods.members.get(row.uid)
    if member is None or member.seq != row.seq:
        last = reading.rows.arrivals
        is_gone = row.seq <= last and row.seq not in reading.numbers
        expected = f"the number of {row.uid}, or of a pod that is gone"
        require(is_gone, f"{path}.seq", row.seq, expected)
        return
    group = None if member.group is None else member.group.key
    require(row.group == group, f"{path}.group", row.group, f"{group}, the group of the pod")
    require(row.role == member.role, f"{path}.role", row.role, f"{member.role}, as the pod has it")
    asked = member.pod.requests
    require(
        row.requests == asked, f"{path}.requests", row.requests, f"{asked}, as the pod has them"
    )
    if entity.group is None:
        require(member.entity is entity, f"{path}.uid", row.uid, "the pod of the entity")


def read_backfill(reading: Reading) -> None:
    """Read the state of backfill, and reserve the capacity of its reservation."""
    row, backfill = reading.rows.backfill, reading.state.reservations.backfill
    if row is None:
        return
    entities = reading.state.pods.entities
    for name, keys in (
        ("qualified", row.qualified),
        ("drain_timeouts", [key for key, _count in row.drain_timeouts]),
        ("infeasible", [key for key, _count in row.infeasible]),
    ):
        for n, key in enumerate(each_once(keys, f"backfill.{name}")):
            get(entities, key, f"backfill.{name}[{n}]")
    backfill.qualified.update(dict.fromkeys(row.qualified))
    backfill.candidates.unranked.update(dict.fromkeys(row.qualified))
    backfill.drain_timeouts.update(row.drain_timeouts)
    backfill.infeasible.update(row.infeasible)
    step, altered = reading.rows.step, reading.rows.node_changes
    for n, (asked, at) in enumerate(row.failed):
        path = f"backfill.failed[{n}]"
        found = equivalence_class(reading, asked, path)
        unique(backfill.failed, found, path)
        require(at <= step, path, at, f"an int <= {step}, the current step")
        backfill.failed[found] = at
    for n, (_key, count) in enumerate(row.infeasible):
        path = f"backfill.infeasible[{n}]"
        require(count <= altered, path, count, f"an int <= {altered}, the number of changes")
    require(row.altered <= altered, "backfill.altered", row.altered, f"an int <= {altered}")
    backfill.gained, backfill.is_contested = row.gained, row.is_contested
    backfill.is_stale, backfill.is_drain_paused = row.is_stale, row.is_drain_paused
    backfill.has_no_candidate = row.has_no_candidate
    backfill.no_candidate_until, backfill.altered = row.no_candidate_until, row.altered
    if row.reservation is not None:
        backfill.reservation = _reservation(reading, row.reservation)


def _reservation(reading: Reading, row: ReservationRow) -> ActiveReservation:
    path, now = "backfill.reservation", reading.rows.now
    entity = reading.entity(row.entity, f"{path}.entity")
    require(entity.group is not None, f"{path}.entity", row.entity, "an entity of a group")
    assert entity.group is not None
    require(row.since <= now, f"{path}.since", row.since, f"an instant until now={now!r}")
    each_once((uid for uid, _end in row.ends), f"{path}.ends")
    capacity: dict[NodeName, ReservedCapacity] = {}
    for n, each in enumerate(row.nodes):
        at = f"{path}.nodes[{n}]"
        unique(capacity, each.node, f"{at}.node")
        entry = ReservedCapacity(row.entity, each.node, each.priority, each.requests, each.pods)
        entry.returning = set(each_once(each.returning, f"{at}.returning"))
        capacity[each.node] = entry
        reading.state.nodes.ledger.add(entry)
    each_once((uid for uid, _node in row.planned), f"{path}.planned")
    for n, (uid, node) in enumerate(row.planned):
        require(node in capacity, f"{path}.planned[{n}]", node, f"a node with capacity for {uid}")
    made = ActiveReservation(
        entity,
        entity.group.key,
        row.since,
        row.starts_at,
        row.deadline,
        dict(row.ends),
        capacity,
        row.planned,
        frozenset(each_once(row.drained, f"{path}.drained")),
    )
    state = reading.state
    made.guard = state.nodes.guard = ReservedPlan(
        state.settings, state.nodes, state.pods, state.call, made, now, row.has_refused
    )
    return made
