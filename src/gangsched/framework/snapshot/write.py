"""From the state of a scheduler to the rows of a snapshot.

Rules:
  R1  the cluster state is not read, and plugins are asked only for their own state;
  R2  nothing in the scheduler changes;
  R3  a value that cannot be written is refused, never left out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, TypeVar, final

from gangsched._core._entity import QueuedEntity
from gangsched._core._equivalence_queue import EquivalenceQueue
from gangsched._core._registry import PodGroupInfo
from gangsched.errors import GangschedError, InvalidValueError, PluginError
from gangsched.framework.config.cycle_state import CycleState
from gangsched.framework.nodes.node_class import NodeClass
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.queueing.equivalence import EquivalenceClass
from gangsched.framework.runtime import extension_points
from gangsched.framework.snapshot.rows import (
    AssumedRow,
    EntityRow,
    ErrorRow,
    GroupRow,
    LineRow,
    MemberRow,
    NodeClassRow,
    NodeRow,
    NominatedPodRow,
    NominationRow,
    PodClassRow,
    ReservationRow,
    ReservedRow,
    ReservingRow,
    ShapeRow,
    SnapshotRow,
)
from gangsched.framework.state.nomination import Nomination
from gangsched.framework.state.pod_classes import PodClasses
from gangsched.framework.state.pods import Member, Pods
from gangsched.framework.state.reservation_state import BackfillState
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings
from gangsched.model import Pod

__all__ = ["plugin_states", "written"]

K = TypeVar("K")


def written(state: State, *, now: float, listed: bool) -> SnapshotRow:
    """Return the rows of all that a scheduler remembers. O(all of it).

    Raises:
        InvalidValueError: Something that a plugin keeps cannot be written.
        PluginError: A plugin raised.
    """
    nodes, classes, queue, registry = (
        state.nodes,
        state.nodes.classes,
        state.queue,
        state.pods.registry,
    )
    numbered = _NumberedClasses(state.pod_classes)
    lines = tuple(_line(line, numbered) for line in queue._queues.values())
    reserved = {id(entry): number for number, entry in enumerate(nodes.ledger)}
    reserving = _reserving(state.reservations.backfill, numbered, reserved)
    members = tuple(
        _member(state.settings, member, numbered) for member in state.pods.members.values()
    )
    return SnapshotRow(
        unit=state.settings.unit,
        plugins=tuple(
            extension_points.name_of(plugin) for plugin in state.settings.profile.plugins
        ),
        plugin_states=plugin_states(state.settings),
        now=now,
        listed=listed,
        step=state.attempts.step,
        numbers=state.pods.numbers,
        attempt_floor=state.pods.attempt_floor,
        exhausted_searches=state.attempts.exhausted_searches,
        nodes=tuple(
            NodeRow(
                node=info.node,
                index=info.index,
                free=tuple(info.free.items()),
                holders=tuple(info.holders.items()),
                withheld=tuple(info.withheld.items()),
                withheld_pods=info.withheld_pods,
                pods=tuple(pod for pod in info.pods if not _is_known(state.pods, pod)),
            )
            for info in nodes.infos.values()
        ),
        indices=nodes._indices,
        altered=nodes.altered,
        reserved=tuple(
            ReservedRow(
                owner=entry.owner,
                node=entry.node,
                priority=entry.priority,
                requests=entry.requests,
                pods=entry.pods,
                returning=None if entry.returning is None else tuple(sorted(entry.returning)),
            )
            for entry in nodes.ledger
        ),
        departed=tuple(nodes.departed),
        unread=tuple(nodes.unread),
        assumed=tuple(
            AssumedRow(uid=uid, node=name, pod=None if _is_known(state.pods, pod) else pod)
            for uid, (name, pod) in nodes.assumed.items()
        ),
        node_classes=tuple(
            _node_class(state.pod_classes, found) for found in _reachable(state.nodes)
        ),
        node_classes_made=classes._made,
        node_class_numbers=classes._numbers,
        occupied=tuple(found.number for found in classes.occupied()),
        labels=tuple(state.pod_classes.labels._readers.items()),
        idle_label_changes=state.pod_classes.labels.idle_changes(nodes.version),
        pod_classes=tuple(numbered.rows()),
        groups=tuple(_group(info) for info in registry),
        groups_left=tuple(registry._left.items()),
        group_numbers=registry._numbers,
        entities=tuple(_entity(entity) for entity in _entities(state.pods)),
        members=members,
        waiting=tuple(state.pods.waiting),
        active=tuple(entity.seq for entity in queue.active),
        backoff=tuple(entity.seq for entity in queue.backoff),
        gated=tuple(queue._gated),
        lines=lines,
        evicted=tuple(sorted(state.pods.evicted)),
        overdue=tuple(sorted(state.reservations.overdue)),
        nominations=tuple(
            _nomination(each, reserved) for each in state.reservations.nominations.values()
        ),
        reserving=reserving,
        holding=tuple(state.attempts.waiting_since.items()),
        yielding=tuple(state.attempts.giving_way.items()),
        tried=tuple(state.attempts.tried),
        out=tuple(state.call.out),
        deferred=tuple(_error(error) for error in state.call.deferred),
    )


@final
class _NumberedClasses:
    """Pod classes with numbers, in the order of first use."""

    def __init__(self, pod_classes: PodClasses) -> None:
        known = pod_classes.by_signature.values()
        self._numbers: dict[int, int] = {id(each): n for n, each in enumerate(known)}
        self._met: list[tuple[PodClass, bool]] = [(each, True) for each in known]

    def number(self, pod_class: PodClass) -> int:
        """Return the number of a class."""
        if id(pod_class) not in self._numbers:
            self._numbers[id(pod_class)] = len(self._met)
            self._met.append((pod_class, False))
        return self._numbers[id(pod_class)]

    def rows(self) -> Iterator[PodClassRow]:
        """Iterate over the rows of all numbered classes."""
        return (PodClassRow(sample=each.sample, known=known) for each, known in self._met)


def plugin_states(settings: Settings) -> tuple[tuple[str, Any], ...]:
    """Return the state of each plugin that implements ``KeepsState``.

    Raises:
        PluginError: A plugin raised.
    """
    found: list[tuple[str, Any]] = []
    for plugin in settings.profile.keepers:
        name = extension_points.name_of(plugin)
        try:
            found.append((name, plugin.snapshot()))
        except Exception as error:
            raise PluginError(name, "snapshot", "its state", f"raised {error!r}") from error
    return tuple(found)


def _reachable(nodes: Nodes) -> list[NodeClass]:
    """Return every class that a node is in or may move to; known classes first."""
    classes = nodes.classes
    found: dict[int, NodeClass] = {}
    todo = [*reversed(classes._occupied), *reversed(classes._known.values())]
    while todo:
        given = todo.pop()
        if given.number not in found:
            found[given.number] = given
            edges = (given.after, given.before, given.endless)
            todo += [other for each in edges for other in each.values()]
    known = {given.number: given for given in classes._known.values()}
    return list({**known, **found}.values())


def _node_class(pod_classes: PodClasses, given: NodeClass) -> NodeClassRow:
    labels: tuple[str, ...] | None = None
    if given.key is not None:
        read: Any = given.key[-1]
        names = tuple(name for name, _value in read)
        labels = None if names == pod_classes.labels.keys else names
    sample, alone = given.sample, given.key is None
    return NodeClassRow(
        number=given.number,
        node=sample.node,
        free=tuple(sample.free.items()),
        pods=sample.pod_count,
        alone=alone,
        labels=labels,
        nodes=tuple(given.nodes),
        # transitions of a class with a key are looked up by key
        after=_edges(given.after) if alone else (),
        before=_edges(given.before) if alone else (),
        endless=_edges(given.endless) if alone else (),
    )


def _edges(found: Mapping[K, NodeClass]) -> tuple[tuple[K, int], ...]:
    return tuple((name, other.number) for name, other in found.items())


def _group(info: PodGroupInfo) -> GroupRow:
    return GroupRow(
        key=info.key,
        uid=info.uid,
        spec=info.spec,
        claimed_min=info.claimed_min,
        claimed_priority=info.claimed_priority,
        first_seen_at=info.first_seen_at,
        claims=tuple((uid, least, priority) for uid, (least, priority) in info.claims.items()),
        members=tuple(info.members),
        attempts=info.attempts,
        attempt_started_at=info.attempt_started_at,
        last_failure_at=info.last_failure_at,
        failures=info.failures,
        backoff_until=info.backoff_until,
        complete_at=info.complete_at,
        was_scheduled=info.was_scheduled,
    )


def _entities(pods: Pods) -> Iterator[QueuedEntity]:
    """Iterate over those of groups, then over those of regular pods."""
    yield from pods.entities.values()
    for member in pods.members.values():
        if member.group is None:
            yield member.entity


def _entity(entity: QueuedEntity) -> EntityRow:
    records = entity.records()
    return EntityRow(
        seq=entity.seq,
        group=None if entity.group is None else entity.group.key,
        queued_at=entity.queued_at,
        failures=entity.failures,
        backoff_until=entity.backoff_until,
        rank=None if entity.rank is None else tuple(entity.rank),
        tried_step=entity.tried_step,
        failed_step=entity.failed_step,
        event_step=entity.event_step,
        round_step=entity.round_step,
        refused_at=entity.refused_at,
        reason=entity.reason,
        unschedulable_member=entity.unschedulable_member,
        pending=tuple(uid for uid, _is_ready in records),
        tried=tuple(uid for uid, is_ready in records if not is_ready),
    )


def _member(settings: Settings, member: Member, classes: _NumberedClasses) -> MemberRow:
    return MemberRow(
        pod=member.pod,
        seq=member.seq,
        entity=member.entity.seq,
        pod_class=classes.number(member.pod_class),
        state=member.state,
        node=member.node,
        attempt=member.attempt,
        cycle=None if member.cycle is None else _scratch(settings, member, member.cycle),
        reason=member.reason,
        bind_failures=member.bind_failures,
        role=member.role,
        started_at=member.started_at,
    )


def _scratch(settings: Settings, member: Member, cycle: CycleState) -> tuple[tuple[str, Any], ...]:
    found: list[tuple[str, Any]] = []
    for key, value in (cycle._scratch or {}).items():
        if settings.profile.scratch_keys.get(key.name) is not key:
            expected = "a key that a plugin names in its state_keys"
            raise InvalidValueError(f"{member.pod.key}: scratch", key.name, expected)
        found.append((key.name, value))
    return tuple(found)


def _is_known(pods: Pods, pod: Pod) -> bool:
    """Return whether a pod equals the known member of its UID."""
    member = pods.members.get(pod.uid)
    return member is not None and member.pod == pod


def _nomination(nomination: Nomination, reserved: Mapping[int, int]) -> NominationRow:
    return NominationRow(
        entity=nomination.entity.seq,
        priority=nomination.priority,
        pods=tuple(
            NominatedPodRow(
                seq=each.seq,
                uid=each.uid,
                group=each.group,
                role=each.role,
                reserved=reserved[id(each.reserved)],
            )
            for each in nomination.pods.values()
        ),
        required=nomination.required,
        specs=nomination.specs,
        awaited=tuple(nomination.awaited),
        deadline=nomination.deadline,
    )


def _reserving(
    reserving: BackfillState, classes: _NumberedClasses, reserved: Mapping[int, int]
) -> ReservingRow | None:
    """Return the row of the state of backfill; None if it is empty."""
    made = reserving.reservation
    row = ReservingRow(
        asking=tuple(reserving.asking),
        drain_timeouts=tuple(reserving.drain_timeouts.items()),
        infeasible=tuple(reserving.infeasible.items()),
        reservation=None
        if made is None
        else ReservationRow(
            entity=made.entity.seq,
            key=made.key,
            since=made.since,
            starts_at=made.starts_at,
            deadline=made.deadline,
            ends=tuple(made.ends.items()),
            capacity=tuple(reserved[id(entry)] for entry in made.capacity.values()),
        ),
        failed=tuple((_shape(shape, classes), step) for shape, step in reserving.failed.items()),
        gained=reserving.gained,
        is_contested=reserving.is_contested,
        is_stale=reserving.is_stale,
        is_drain_paused=reserving.is_drain_paused,
        has_no_candidate=reserving.has_no_candidate,
        no_candidate_until=reserving.no_candidate_until,
        altered=reserving.altered,
    )
    return None if row == ReservingRow() else row


def _line(line: EquivalenceQueue, classes: _NumberedClasses) -> LineRow:
    return LineRow(
        shape=_shape(line.equivalence_class, classes),
        blocked=line.blocked,
        blocked_at=line.blocked_at,
        opened_at=line.opened_at,
        helped_at=line.helped_at,
        leader=None if line.leader is None else line.leader.seq,
        standing=tuple(entity.seq for entity in line.queued),
        resting=tuple(line.in_backoff),
    )


def _shape(shape: Hashable, classes: _NumberedClasses) -> int | ShapeRow:
    if isinstance(shape, EquivalenceClass):
        return _shape_row(shape, classes)
    assert isinstance(shape, int)
    return shape


def _shape_row(shape: EquivalenceClass, classes: _NumberedClasses) -> ShapeRow:
    return ShapeRow(
        needed=shape.needed,
        runs=tuple((classes.number(pod_class), count) for pod_class, count in shape.runs),
        floor=shape.floor,
        quotas=shape.quotas,
        roles=shape.roles,
        topology=shape.topology,
        parts=tuple(_shape_row(part, classes) for part in shape.parts),
        reach=shape.reach,
        affected=shape.affected,
    )


def _error(error: GangschedError) -> ErrorRow:
    if type(error) is not PluginError:
        raise InvalidValueError("deferred", error, "an error of a plugin")
    return ErrorRow.of(error)
