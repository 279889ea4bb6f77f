"""From the rows of a snapshot to the state of a scheduler.

Rules:
  R1  the state is built anew: an error here leaves the state of the scheduler unchanged;
  R2  a row that refers to a missing row, or repeats a row that must be unique, is refused with the
      name of its field;
  R3  answers of plugins are not part of a snapshot. The plugins are asked again.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Mapping
from typing import TypeVar, final

from gangsched._core._entity import Place, QueuedEntity
from gangsched._core._equivalence_queue import EquivalenceQueue
from gangsched._core._group_entity import QueuedGroup
from gangsched._core._registry import PodGroupInfo
from gangsched.errors import InvalidValueError
from gangsched.framework.config.cycle_state import CycleState
from gangsched.framework.nodes.node_class import BOUNDLESS, NodeClass, Snapshot
from gangsched.framework.nodes.node_info import NodeInfo
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.nodes.reserved_capacity import ReservedCapacity
from gangsched.framework.queueing.equivalence import EquivalenceClass
from gangsched.framework.runtime import signatures, sort_keys
from gangsched.framework.snapshot.rows import (
    EntityRow,
    LineRow,
    MemberRow,
    NodeClassRow,
    ReservationRow,
    ShapeRow,
    SnapshotRow,
)
from gangsched.framework.state import label_readers
from gangsched.framework.state.nomination import NominatedPod, Nomination
from gangsched.framework.state.pods import Member
from gangsched.framework.state.reservation_state import ActiveReservation
from gangsched.framework.state.scheduler_state import State
from gangsched.model import GroupKey, NodeName, PodUID

__all__ = ["read_into"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def read_into(state: State, rows: SnapshotRow) -> None:
    """Fill an empty memory with what rows say. O(all of it).

    Raises:
        InvalidValueError: The rows contradict each other.
        PluginError: A plugin raised when it was asked what it reads of a pod.
    """
    _Reader(state, rows).read()


@final
class _Reader:
    """One reading, and what was read so far, by what rows name it by."""

    def __init__(self, state: State, rows: SnapshotRow) -> None:
        self._state = state
        self._rows = rows
        self._pod_classes: dict[int, PodClass] = {}
        self._node_classes: dict[int, NodeClass] = {}
        self._entities: dict[int, QueuedEntity] = {}
        self._reserved: list[ReservedCapacity] = []
        self._claimed: set[int] = set()

    def read(self) -> None:
        state, rows = self._state, self._rows
        self._read_groups()
        self._read_pod_classes()
        self._read_entities()
        self._read_nodes()
        self._read_members()
        self._read_assumed()
        self._read_pods_on_nodes()
        self._read_node_classes()
        self._read_queue()
        for n, waiting in enumerate(rows.waiting):
            _get(state.pods.members, waiting.uid, f"waiting[{n}].uid")
            _fresh(state.pods.waiting, waiting.uid, f"waiting[{n}].uid")
            state.pods.waiting.put(waiting)
        state.pods.evicted.update(rows.evicted)
        state.reservations.overdue.update(rows.overdue)
        self._read_nominations()
        self._read_reserving()
        self._check_claimed()
        for pod_class in state.pod_classes.by_signature.values():
            if pod_class.watches_pods:
                state.pod_classes.watch(pod_class, 1, state.nodes)
        state.attempts.waiting_since.update(rows.holding)
        state.attempts.giving_way.update(rows.yielding)
        state.attempts.tried.update((seq, self._entity(seq, "tried")) for seq in rows.tried)
        state.call.out.extend(rows.out)
        state.attempts.step, state.pods.numbers, state.attempts.exhausted_searches = (
            rows.step,
            rows.numbers,
            rows.exhausted_searches,
        )
        state.pods.attempt_floor = rows.attempt_floor
        self._check_numbers()

    def _check_numbers(self) -> None:
        """Check that the counters are not below the numbers that are in use."""
        rows = self._rows
        for name, last, given in (
            ("numbers", rows.numbers, [*self._entities, *(row.seq for row in rows.members)]),
            ("group_numbers", rows.group_numbers, [row.uid for row in rows.groups]),
            ("indices", rows.indices, [row.index for row in rows.nodes]),
            ("node_class_numbers", rows.node_class_numbers, [*self._node_classes]),
            ("attempt_floor", rows.attempt_floor, []),
        ):
            most = max(given, default=0)
            if last < most:
                raise InvalidValueError(name, last, f"an int >= {most}, the largest number in use")

    # Pods and groups --------------------------------------------------------------------------

    def _read_groups(self) -> None:
        registry, rows = self._state.pods.registry, self._rows
        for n, row in enumerate(rows.groups):
            _fresh(registry._groups, row.key, f"groups[{n}].key")
            registry._groups[row.key] = PodGroupInfo(
                key=row.key,
                uid=row.uid,
                spec=row.spec,
                claimed_min=row.claimed_min,
                claimed_priority=row.claimed_priority,
                first_seen_at=row.first_seen_at,
                claims={uid: (least, priority) for uid, least, priority in row.claims},
                attempts=row.attempts,
                attempt_started_at=row.attempt_started_at,
                last_failure_at=row.last_failure_at,
                failures=row.failures,
                backoff_until=row.backoff_until,
                complete_at=row.complete_at,
                was_scheduled=row.was_scheduled,
            )
        registry._left.update(rows.groups_left)
        registry._numbers = rows.group_numbers

    def _group(self, key: GroupKey, path: str) -> PodGroupInfo:
        return _get(self._state.pods.registry._groups, key, path)

    def _read_pod_classes(self) -> None:
        state = self._state
        for n, row in enumerate(self._rows.pod_classes):
            signature = signatures.signature(state.settings, row.sample)
            labels = signatures.labels_read(state.settings, row.sample)
            reads_pods = signatures.reads_pods(state.settings, row.sample)
            carried = signatures.carried(state.settings.profile, row.sample)
            watches_pods = signatures.watches_pods(state.settings, row.sample)
            objects = signatures.objects_read(state.settings, row.sample)
            pod_class = PodClass(
                signature,
                row.sample,
                labels,
                reads_pods=reads_pods,
                watches_pods=watches_pods,
                carried=carried,
                objects=objects,
            )
            self._pod_classes[n] = pod_class
            if row.known:
                _fresh(state.pod_classes.by_signature, signature, f"pod_classes[{n}].sample")
                state.pod_classes.by_signature[signature] = pod_class
        readers: dict[str, int] = {}
        for n, (key, count) in enumerate(self._rows.labels):
            _fresh(readers, key, f"labels[{n}]")
            readers[key] = count
        state.pod_classes.labels.restore(readers, self._rows.idle_label_changes)

    def _read_entities(self) -> None:
        for n, row in enumerate(self._rows.entities):
            path = f"entities[{n}]"
            _fresh(self._entities, row.seq, f"{path}.seq")
            info = None if row.group is None else self._group(row.group, f"{path}.group")
            entity = (
                QueuedEntity(row.seq, row.queued_at)
                if info is None
                else QueuedGroup(row.seq, row.queued_at, info)
            )
            self._entities[row.seq] = entity
            if row.group is not None:
                _fresh(self._state.pods.entities, row.group, f"{path}.group")
                self._state.pods.entities[row.group] = entity
            entity.failures, entity.backoff_until = row.failures, row.backoff_until
            entity.tried_step, entity.failed_step = row.tried_step, row.failed_step
            entity.event_step, entity.round_step = row.event_step, row.round_step
            entity.refused_at = row.refused_at
            entity.reason, entity.unschedulable_member = row.reason, row.unschedulable_member
            if row.rank is not None and not sort_keys.is_comparable(row.rank):
                expected = "a sort key that compares with every other one"
                raise InvalidValueError(f"{path}.rank", row.rank, expected)
            entity.rank = row.rank

    def _entity(self, seq: int, path: str) -> QueuedEntity:
        return _get(self._entities, seq, path)

    def _read_members(self) -> None:
        state, rows = self._state, self._rows
        for n, row in enumerate(rows.members):
            _fresh(state.pods.members, row.pod.uid, f"members[{n}].pod.uid")
            state.pods.members[row.pod.uid] = self._member(row, f"members[{n}]")
            state.pods.count_priority(row.pod.priority, 1)
        for n, group in enumerate(rows.groups):
            info = state.pods.registry._groups[group.key]
            for uid in group.members:
                member = self._known(uid, f"groups[{n}].members")
                if member.group is not info or uid in info.members:
                    raise InvalidValueError(
                        f"groups[{n}].members", uid, "a member of the group, listed once"
                    )
                info.members.set(uid, member.state)
                info.members.give_role(uid, member.role)
        for n, entity in enumerate(rows.entities):
            self._load(entity, f"entities[{n}]")

    def _member(self, row: MemberRow, path: str) -> Member:
        state = self._state
        entity = self._entity(row.entity, f"{path}.entity")
        pod_class = _get(self._pod_classes, row.pod_class, f"{path}.pod_class")
        pod_class.users += 1
        member = Member(row.pod, row.seq, entity, entity.group, pod_class, row.state)
        member.node, member.attempt = row.node, row.attempt
        member.is_counted = label_readers.is_pending(member)
        pod_class.pending += member.is_counted
        member.reason, member.bind_failures = row.reason, row.bind_failures
        member.role, member.started_at = row.role, row.started_at
        if (row.cycle is None) != (row.node is None):
            raise InvalidValueError(
                f"{path}.cycle", row.cycle, "present exactly if the member holds a node"
            )
        if row.cycle is not None:
            member.cycle = CycleState(
                entity.group, state.nodes.infos, state.settings.cluster, state.nodes.counts
            )
            for name, value in row.cycle:
                key = _get(state.settings.profile.scratch_keys, name, f"{path}.cycle")
                member.cycle.write(key, value)
        return member

    def _known(self, uid: PodUID, path: str) -> Member:
        return _get(self._state.pods.members, uid, path)

    def _load(self, row: EntityRow, path: str) -> None:
        tried = set(row.tried)
        members = [self._known(uid, f"{path}.pending") for uid in row.pending]
        entity = self._entities[row.seq]
        if any(member.entity is not entity for member in members):
            raise InvalidValueError(f"{path}.pending", row.pending, "members of the group")
        if not tried <= set(row.pending):
            raise InvalidValueError(f"{path}.tried", row.tried, "pending members")
        if entity.group is None and len(members) > 1:
            raise InvalidValueError(
                f"{path}.pending", row.pending, "a single pod, because it has no group"
            )
        entity.load([(m.pod, m.seq, m.role, m.pod.uid not in tried) for m in members])

    # Nodes ------------------------------------------------------------------------------------

    def _read_nodes(self) -> None:
        nodes, rows = self._state.nodes, self._rows
        for n, row in enumerate(rows.nodes):
            _fresh(nodes.infos, row.node.name, f"nodes[{n}].node.name")
            _fresh(nodes.by_index, row.index, f"nodes[{n}].index")
            info = NodeInfo(row.node, row.index)
            info.free, info.holders = dict(row.free), dict(row.holders)
            info.withheld, info.withheld_pods = dict(row.withheld), row.withheld_pods
            nodes.infos[row.node.name] = nodes.by_index[row.index] = info
            nodes._sum_up(info, 1)
        nodes._indices = rows.indices
        nodes.altered, nodes.departed = rows.altered, list(rows.departed)
        nodes.unread = dict.fromkeys(rows.unread)
        for each in rows.reserved:
            entry = ReservedCapacity(each.owner, each.node, each.priority, each.requests, each.pods)
            entry.returning = None if each.returning is None else set(each.returning)
            nodes.ledger.add(entry)
            self._reserved.append(entry)
            at = nodes.infos.get(each.node)
            if at is not None:
                (at.nominated if entry.returning is None else at.expected).append(entry)

    def _claim(self, number: int, owner: int, path: str, *, nominated: bool) -> ReservedCapacity:
        """Return the reserved capacity of a number, once, for its owner."""
        if not 0 <= number < len(self._reserved) or number in self._claimed:
            raise InvalidValueError(path, number, "an index into `reserved`, used only once")
        entry = self._reserved[number]
        if entry.owner != owner:
            raise InvalidValueError(
                path, number, f"the index of capacity reserved for entity {owner}"
            )
        if (entry.returning is None) is not nominated:
            kind = "a nominated pod" if nominated else "a reservation"
            raise InvalidValueError(path, number, f"the index of capacity reserved for {kind}")
        self._claimed.add(number)
        return entry

    def _check_claimed(self) -> None:
        for number in range(len(self._reserved)):
            if number not in self._claimed:
                expected = "referred to by a nomination or a reservation"
                raise InvalidValueError(f"reserved[{number}]", number, expected)

    def _read_assumed(self) -> None:
        for n, row in enumerate(self._rows.assumed):
            pod = self._known(row.uid, f"assumed[{n}].uid").pod if row.pod is None else row.pod
            self._state.nodes.assumed[row.uid] = (row.node, pod)

    def _read_pods_on_nodes(self) -> None:
        state = self._state
        for n, row in enumerate(self._rows.nodes):
            others = {pod.uid: pod for pod in row.pods}
            info = state.nodes.infos[row.node.name]
            for uid in info.holders:
                member = state.pods.members.get(uid)
                pod = others.get(uid) or (None if member is None else member.pod)
                if pod is not None:
                    info.show(pod)
                elif not uid.startswith("\0"):
                    raise InvalidValueError(f"nodes[{n}].holders", uid, "a pod of the snapshot")

    def _read_node_classes(self) -> None:
        state, rows = self._state, self._rows
        classes, made = state.nodes.classes, self._node_classes
        for n, row in enumerate(rows.node_classes):
            _fresh(made, row.number, f"node_classes[{n}].number")
            made[row.number] = self._node_class(row, f"node_classes[{n}]")
        for n, row in enumerate(rows.node_classes):
            self._link(row, f"node_classes[{n}]")
        for n, number in enumerate(rows.occupied):
            classes._occupied[_get(made, number, f"occupied[{n}]")] = None
        classes._made, classes._numbers = rows.node_classes_made, rows.node_class_numbers

    def _node_class(self, row: NodeClassRow, path: str) -> NodeClass:
        state, classes = self._state, self._state.nodes.classes
        sample = Snapshot(row.node, dict(row.free), row.pods)
        key: tuple[Hashable, ...] | None = None
        if not row.alone:
            key = signatures.node_signature(
                state.settings, state.pod_classes, state.call, sample, row.labels
            )
            _fresh(classes._known, key, path)
        given = NodeClass(key, row.number, sample)
        if key is not None:
            classes._known[key] = given
        for index in row.nodes:
            _get(state.nodes.by_index, index, f"{path}.nodes")
            _fresh(classes._of, index, f"{path}.nodes")
            given.nodes.add(index)
            classes._of[index] = given
        return given

    def _link(self, row: NodeClassRow, path: str) -> None:
        """Restore the transitions of a class without a key, and check them against its amounts."""
        given = self._node_classes[row.number]
        for name, edges, sign in (("after", given.after, 1), ("before", given.before, -1)):
            for asked, number in getattr(row, name):
                free = dict(row.free)
                for resource, amount in asked.items():
                    free[resource] = free.get(resource, 0) - sign * amount
                other = self._alone(number, free, row.pods + sign, f"{path}.{name}")
                edges[asked] = other
        for resource, number in row.endless:
            free = dict(row.free)
            free[resource] = BOUNDLESS
            given.endless[resource] = self._alone(number, free, row.pods, f"{path}.endless")

    def _alone(self, number: int, free: dict[str, int], pods: int, path: str) -> NodeClass:
        other = _get(self._node_classes, number, path)
        if (_some(other.sample.free), other.sample.pod_count) != (_some(free), pods):
            raise InvalidValueError(path, number, "the number of a node class with free capacity")
        return other

    def _read_nominations(self) -> None:
        for n, row in enumerate(self._rows.nominations):
            _fresh(self._state.reservations.nominations, row.entity, f"nominations[{n}].entity")
            self._state.reservations.nominations[row.entity] = Nomination(
                entity=self._entity(row.entity, f"nominations[{n}].entity"),
                priority=row.priority,
                pods={
                    each.uid: NominatedPod(
                        each.seq,
                        each.uid,
                        each.group,
                        each.role,
                        self._claim(
                            each.reserved,
                            row.entity,
                            f"nominations[{n}].pods[{m}].reserved",
                            nominated=True,
                        ),
                    )
                    for m, each in enumerate(row.pods)
                },
                required=row.required,
                specs=row.specs,
                awaited=list(row.awaited),
                deadline=row.deadline,
            )

    def _read_reserving(self) -> None:
        row, reserving = self._rows.reserving, self._state.reservations.backfill
        if row is None:
            return
        reserving.asking.update(dict.fromkeys(row.asking))
        reserving.drain_timeouts.update(row.drain_timeouts)
        reserving.infeasible.update(row.infeasible)
        for n, (shape, step) in enumerate(row.failed):
            reserving.failed[self._shape(shape, f"reserving.failed[{n}]")] = step
        reserving.gained, reserving.is_contested = row.gained, row.is_contested
        reserving.is_stale, reserving.is_drain_paused = row.is_stale, row.is_drain_paused
        reserving.has_no_candidate, reserving.no_candidate_until = (
            row.has_no_candidate,
            row.no_candidate_until,
        )
        reserving.altered = row.altered
        if row.reservation is not None:
            reserving.reservation = self._reservation(row.reservation)

    def _reservation(self, row: ReservationRow) -> ActiveReservation:
        path = "reserving.reservation"
        entity = self._entity(row.entity, f"{path}.entity")
        if entity.group is None:
            raise InvalidValueError(f"{path}.entity", row.entity, "an entity of a group")
        if row.key != entity.group.key:
            expected = f"{entity.group.key}, the group of its entity"
            raise InvalidValueError(f"{path}.key", row.key, expected)
        entries = [
            self._claim(number, row.entity, f"{path}.capacity[{n}]", nominated=False)
            for n, number in enumerate(row.capacity)
        ]
        capacity: dict[NodeName, ReservedCapacity] = {}
        for n, entry in enumerate(entries):
            _fresh(capacity, entry.node, f"{path}.capacity[{n}]")
            capacity[entry.node] = entry
        return ActiveReservation(
            entity, row.key, row.since, row.starts_at, row.deadline, dict(row.ends), capacity
        )

    # The queue --------------------------------------------------------------------------------

    def _read_queue(self) -> None:
        queue, rows = self._state.queue, self._rows
        for n, seq in enumerate(rows.active):
            entity = self._place(seq, Place.ACTIVE, f"active[{n}]")
            entity._handle = queue._active.push(entity.rank, entity)
        for n, seq in enumerate(rows.backoff):
            entity = self._place(seq, Place.BACKOFF, f"backoff[{n}]")
            queue._backoff[(entity.backoff_until, seq)] = entity
        for n, seq in enumerate(rows.gated):
            queue._gated[seq] = self._place(seq, Place.UNSCHEDULABLE, f"gated[{n}]")
        for n, row in enumerate(rows.lines):
            line = self._line(row, f"lines[{n}]")
            _fresh(queue._queues, line.equivalence_class, f"lines[{n}].shape")
            queue._queues[line.equivalence_class] = line

    def _place(self, seq: int, place: Place, path: str) -> QueuedEntity:
        entity = self._entity(seq, path)
        if entity.place is not Place.NOWHERE:
            raise InvalidValueError(path, seq, "an entity that is listed once")
        entity.place = place
        return entity

    def _line(self, row: LineRow, path: str) -> EquivalenceQueue:
        line = EquivalenceQueue(self._shape(row.shape, f"{path}.shape"))
        line.blocked, line.blocked_at = row.blocked, row.blocked_at
        line.opened_at, line.helped_at = row.opened_at, row.helped_at
        if row.blocked and row.helped_at != -1:
            raise InvalidValueError(f"{path}.helped_at", row.helped_at, "-1 if it is blocked")
        for seq in row.standing:
            entity = self._place(seq, Place.UNSCHEDULABLE, f"{path}.standing")
            entity.equivalence_class = line.equivalence_class
            entity._handle = line.queued.push(entity.rank, entity)
        for seq in row.resting:
            line.in_backoff[seq] = entity = self._entity(seq, f"{path}.resting")
            entity.equivalence_class = line.equivalence_class
            self._state.queue._early.enter(entity, line)
        if row.leader is not None:
            line.leader = self._entity(row.leader, f"{path}.leader")
            line.leader.equivalence_class = line.equivalence_class
        return line

    def _shape(self, row: int | ShapeRow, path: str) -> Hashable:
        return row if isinstance(row, int) else self._whole_shape(row, path)

    def _whole_shape(self, row: ShapeRow, path: str) -> EquivalenceClass:
        return EquivalenceClass(
            row.needed,
            tuple((_get(self._pod_classes, n, f"{path}.runs"), count) for n, count in row.runs),
            row.floor,
            row.quotas,
            row.roles,
            row.topology,
            tuple(self._whole_shape(part, f"{path}.parts") for part in row.parts),
            row.reach,
            row.affected,
        )


def _get(known: Mapping[K, V], name: K, path: str) -> V:
    if name not in known:
        raise InvalidValueError(path, name, "listed in the snapshot")
    return known[name]


def _some(free: Mapping[str, int]) -> dict[str, int]:
    """Return the amounts that are not zero; zero amounts are optional in a snapshot."""
    return {name: amount for name, amount in free.items() if amount}


def _fresh(known: Container[object], name: object, path: str) -> None:
    if name in known:
        raise InvalidValueError(path, name, "listed once in the snapshot")
