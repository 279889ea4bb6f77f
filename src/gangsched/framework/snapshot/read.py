"""From the rows of a snapshot to the state of a scheduler.

Theory of operation. The parts are read in an order in which each finds what it refers to: groups,
entities, pods, nodes, reserved capacity, the queue.

What follows from the rows is computed, by the functions that compute it while the scheduler runs.
The membership names the group and the role of a pod. Plugins say its class and the labels that are
read, and sort the queue. What a node has free follows from the pods on it and reserved capacity.

Rules:
  R1  the state is built anew: an error here leaves the state of the scheduler unchanged;
  R2  a value that follows from others is not in a snapshot, or is compared with them;
  R3  answers of plugins are not part of a snapshot. The plugins are asked again.
"""

from __future__ import annotations

import math

from gangsched._core._counters import MemberState
from gangsched._core._entity import QueuedEntity
from gangsched._core._group_entity import QueuedGroup
from gangsched._core._registry import PodGroupInfo
from gangsched._core._restarts import GroupLife, Minimum
from gangsched._core._waiting import WaitingPod
from gangsched.cycle_state import CycleState
from gangsched.errors import InvalidValueError
from gangsched.framework.events import prefetch
from gangsched.framework.events.prefetch import Seen
from gangsched.framework.events.wanted_state import wanted_state
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.snapshot import read_nodes, read_queue, read_reserved
from gangsched.framework.snapshot.read_queue import pod_class_of
from gangsched.framework.snapshot.reading import (
    Reading,
    each_once,
    get,
    pairs_once,
    require,
    unique,
)
from gangsched.framework.snapshot.rows import EntityRow, GroupRow, MemberRow, SnapshotRow, WaitRow
from gangsched.framework.state import label_readers
from gangsched.framework.state.pod_classes import PodClasses
from gangsched.framework.state.pods import ASSUMED, Member
from gangsched.framework.state.scheduler_state import State
from gangsched.membership import Membership
from gangsched.model import FrozenMap

__all__ = ["read_into"]

_GONE = (
    MemberState.TERMINATING,
    MemberState.SUCCEEDED,
    MemberState.FAILED,
    MemberState.ENDED,
)
"""The states of a pod whose eviction was requested."""


def read_into(state: State, rows: SnapshotRow) -> None:
    """Fill an empty state with what rows say. O(all of it).

    Raises:
        InvalidValueError: The rows contradict each other.
        PluginError: A plugin raised when it was asked about a pod.
    """
    reading = Reading(state, rows)
    _read_counters(reading)
    _read_groups(reading)
    _read_restarts(reading)
    _read_charges(reading)
    _read_entities(reading)
    _read_members(reading)
    _read_waiting(reading)
    read_nodes.read_nodes(reading)
    read_reserved.read_nominations(reading)
    read_reserved.read_backfill(reading)
    read_nodes.finish_nodes(reading)
    read_queue.read_queue(reading)
    _read_attempts(reading)
    state.call.out.extend(rows.effects)


def _read_counters(reading: Reading) -> None:
    """Read the last numbers, which must not be below the numbers in use."""
    state, rows = reading.state, reading.rows
    numbers = [*(row.seq for row in rows.entities), *(row.seq for row in rows.members)]
    for name, last, given in (
        ("arrivals", rows.arrivals, numbers),
        ("group_arrivals", rows.group_arrivals, [row.number for row in rows.groups]),
        ("node_arrivals", rows.node_arrivals, [row.index for row in rows.nodes]),
    ):
        most = max(given, default=0)
        require(last >= most, name, last, f"an int >= {most}, the largest number in use")
    reading.numbers.update(numbers)
    state.pods.numbers, state.pods.attempt_floor = rows.arrivals, rows.attempt_floor
    state.pods.registry._numbers = rows.group_arrivals
    state.attempts.step = rows.step
    state.attempts.exhausted_searches = rows.exhausted_searches


# Groups ---------------------------------------------------------------------------------------


def _read_groups(reading: Reading) -> None:
    registry, rows, now = reading.state.pods.registry, reading.rows, reading.rows.now
    last = 0
    for n, row in enumerate(rows.groups):
        path = f"groups[{n}]"
        unique(registry._groups, row.key, f"{path}.key")
        require(row.number > last, f"{path}.number", row.number, "in ascending order")
        last = row.number
        _check_group(row, path, now)
        info = registry._groups[row.key] = PodGroupInfo(
            key=row.key,
            uid=row.number,
            first_seen_at=row.first_seen_at,
            attempts=row.attempts,
            attempt_started_at=row.attempt_started_at,
            last_failure_at=row.last_failure_at,
            failures=row.failures,
            backoff_until=row.backoff_until,
            failure=row.failure,
            complete_at=row.complete_at,
            was_scheduled=row.was_scheduled,
            is_binding=row.is_binding,
        )
        for role, count in pairs_once(row.collected, f"{path}.collected").items():
            info.members._collected[role or None] = count
        registry._specify(info, row.spec)
        if row.spec is not None and row.spec.topology is not None:
            reading.state.pod_classes.labels.add((row.spec.topology.key,))
    left = each_once((key for key, _until in rows.groups_left), "groups_left")
    for n, key in enumerate(left):
        get(registry._groups, key, f"groups_left[{n}]")
    registry._left.update(rows.groups_left)


def _check_group(row: GroupRow, path: str, now: float) -> None:
    key = None if row.spec is None else row.spec.key
    require(key in (None, row.key), f"{path}.spec", key, f"the specification of {row.key}")
    for name in ("attempt_started_at", "last_failure_at", "complete_at"):
        at = getattr(row, name)
        require(at is None or at <= now, f"{path}.{name}", at, f"an instant until now={now!r}")


def _read_restarts(reading: Reading) -> None:
    pods = reading.state.pods
    for n, row in enumerate(reading.rows.restarts):
        path = f"restarts[{n}]"
        get(pods.registry._groups, row.group, f"{path}.group")
        unique(pods.restarts._lives, row.group, f"{path}.group")
        is_timed = row.until > -math.inf
        expected = "false for a group that runs, or was never restarted"
        may_be_held = row.minimum is None and row.restarts and is_timed
        require(may_be_held or not row.is_held, f"{path}.is_held", row.is_held, expected)
        expected = "an int >= 1 for a group that does not run"
        require(row.restarts or row.minimum is not None, f"{path}.restarts", 0, expected)
        roles = FrozenMap(pairs_once(row.roles, f"{path}.roles"))
        minimum = None if row.minimum is None else Minimum(row.minimum, roles)
        since, due_at = row.short_since, row.due_at
        expected = "None for a group that does not run"
        require(since is None or minimum is not None, f"{path}.short_since", since, expected)
        expected = "None for a group that is neither short of members nor held"
        waits = since is not None or row.is_held
        require(due_at is None or waits, f"{path}.due_at", due_at, expected)
        pods.restarts.restore(
            row.group,
            GroupLife(minimum, row.restarts, row.is_held, row.until, since, row.failed_at, due_at),
        )


def _read_charges(reading: Reading) -> None:
    pods, rows = reading.state.pods, reading.rows
    known = pods.registry._groups
    charged = each_once((charge.key for charge in rows.charges), "charges")
    waiting = pairs_once(rows.over_quota, "over_quota")
    for path, keys in (("charges", charged), ("over_quota", waiting)):
        for n, key in enumerate(keys):
            get(known, key, f"{path}[{n}]")
            expected = "a group in a namespace with a quota"
            require(pods.quotas.covers(key), f"{path}[{n}]", key, expected)
    pods.quotas.restore(rows.charges, waiting.items())


# Entities -------------------------------------------------------------------------------------


def _read_entities(reading: Reading) -> None:
    pods, groups = reading.state.pods, reading.state.pods.registry._groups
    for n, row in enumerate(reading.rows.entities):
        path = f"entities[{n}]"
        unique(reading.entities, row.seq, f"{path}.seq")
        entity: QueuedEntity
        if row.group is None:
            require(row.pod is not None, f"{path}.pod", row.pod, "a UID where there is no group")
            assert row.pod is not None
            unique(reading.of_pods, row.pod, f"{path}.pod")
            entity = reading.of_pods[row.pod] = QueuedEntity(row.seq, row.queued_at)
        else:
            require(row.pod is None, f"{path}.pod", row.pod, "None for the entity of a group")
            unique(pods.entities, row.group, f"{path}.group")
            info = get(groups, row.group, f"{path}.group")
            entity = pods.entities[row.group] = QueuedGroup(row.seq, row.queued_at, info)
        reading.entities[row.seq] = entity
        _read_entity(reading, entity, row, path)


def _read_entity(reading: Reading, entity: QueuedEntity, row: EntityRow, path: str) -> None:
    step = reading.rows.step
    for name in ("tried_step", "failed_step", "event_step", "round_step", "refused_at"):
        given = getattr(row, name)
        require(given <= step, f"{path}.{name}", given, f"an int <= {step}, the current step")
        setattr(entity, name, given)
    if row.tried_step >= 0:
        reading.state.attempts.tried[row.seq] = entity
    entity.failures, entity.backoff_until = row.failures, row.backoff_until
    entity.reason, entity.denial = row.reason, row.denial
    entity.unschedulable_member = row.unschedulable_member


# Pods -----------------------------------------------------------------------------------------


def _read_members(reading: Reading) -> None:
    state, rows = reading.state, reading.rows
    claims: dict[str, Membership] = {}
    last = 0
    evicted = each_once(rows.evicted, "evicted")
    for n, row in enumerate(rows.members):
        path = f"members[{n}]"
        unique(state.pods.members, row.pod.uid, f"{path}.pod.uid")
        require(row.seq > last, f"{path}.seq", row.seq, "in ascending order")
        unique(reading.entities, row.seq, f"{path}.seq")
        last = row.seq
        seen = prefetch.ask(state.settings, state.pod_classes, row.pod)
        member = _member(reading, row, seen, path, is_evicted=row.pod.uid in evicted)
        state.pods.members[row.pod.uid] = member
        state.pods.count_priority(member, 1)
        if seen.claim is not None:
            claims[row.pod.uid] = seen.claim
    for n, uid in enumerate(evicted):
        reading.member(uid, f"evicted[{n}]")
    state.pods.evicted.update(evicted)
    for n, group in enumerate(rows.groups):
        _read_claims(reading, group, claims, f"groups[{n}].claims")
    for n, entity in enumerate(rows.entities):
        _load(reading, entity, f"entities[{n}]")


def _member(reading: Reading, row: MemberRow, seen: Seen, path: str, *, is_evicted: bool) -> Member:
    state, uid = reading.state, row.pod.uid
    info: PodGroupInfo | None = None
    if seen.claim is None:
        entity = get(reading.of_pods, uid, f"{path}.pod.uid")
    else:
        info = get(state.pods.registry._groups, seen.claim.group, f"{path}.pod")
        entity = get(state.pods.entities, seen.claim.group, f"{path}.pod")
    _check_state(reading, row, seen, path, is_evicted=is_evicted)
    member = Member(row.pod, row.seq, entity, info, _pod_class(state.pod_classes, seen), row.state)
    member.node, member.attempt = row.node, row.attempt
    member.is_counted = label_readers.is_pending(member)
    member.pod_class.pending += member.is_counted
    if member.is_counted and member.pod_class.pending == 1:
        state.pod_classes.labels.add(member.pod_class.labels)
    member.reason, member.told, member.bind_failures = row.reason, row.told, row.bind_failures
    now, at = reading.rows.now, row.started_at
    require(at is None or at <= now, f"{path}.started_at", at, f"an instant until now={now!r}")
    is_started = row.pod.node_name is not None
    expected = "an instant exactly if the pod names a node"
    require((at is not None) == is_started, f"{path}.started_at", at, expected)
    member.started_at = at
    if info is not None and seen.claim is not None:
        member.role = seen.claim.role
        info.members.set(uid, row.state)
        info.members.give_role(uid, member.role)
        state.pods.hold(member)
    expected = "present exactly if the member holds a node"
    require((row.cycle is None) == (row.node is None), f"{path}.cycle", row.cycle, expected)
    if row.cycle is not None:
        member.cycle = CycleState(
            info, state.nodes.infos, state.settings.cluster, state.nodes.counts
        )
        each_once((name for name, _value in row.cycle), f"{path}.cycle")
        for name, value in row.cycle:
            key = get(state.settings.profile.scratch_keys, name, f"{path}.cycle")
            member.cycle.write(key, value)
    return member


def _check_state(
    reading: Reading, row: MemberRow, seen: Seen, path: str, *, is_evicted: bool
) -> None:
    """Check the state of a pod against what the pod says of itself."""
    found, value = row.state, row.state.name.lower()
    allowed: tuple[MemberState, ...]
    if row.node is not None:
        # its deletion may have been requested while its bind was under way
        allowed = (MemberState.TERMINATING,) if is_evicted else (*ASSUMED, MemberState.TERMINATING)
    elif is_evicted:
        allowed = _GONE
    else:
        allowed = (wanted_state(reading.state.settings, reading.state.pods, seen, seen.problem),)
        if row.pod.node_name is None and seen.claim is not None:
            allowed = (*allowed, MemberState.REFUSED)
    names = " or ".join(each.name.lower() for each in allowed)
    require(found in allowed, f"{path}.state", value, f"{names}, as the pod is")


def _pod_class(classes: PodClasses, seen: Seen) -> PodClass:
    """Count a pod as one more of its equivalence class."""
    found = classes.by_signature.get(seen.signature)
    if found is None:
        found = classes.by_signature[seen.signature] = pod_class_of(seen)
    found.users += 1
    return found


def _read_claims(reading: Reading, row: GroupRow, claims: dict[str, Membership], path: str) -> None:
    state = reading.state
    info = state.pods.registry._groups[row.key]
    counted = {uid for uid in info.members if info.members.state(uid) is not MemberState.REFUSED}
    if each_once(row.claims, path).keys() != counted:
        expected = "the members of the group that are not refused"
        raise InvalidValueError(path, row.claims, expected)
    for uid in row.claims:
        claim = (claims[uid].min_available, state.pods.members[uid].pod.priority)
        info.claims.put(uid, claim)
    state.pods.registry._read_claims(info)


def _load(reading: Reading, row: EntityRow, path: str) -> None:
    """Load the pending members of an entity."""
    pods, entity = reading.state.pods, reading.entities[row.seq]
    tried = each_once(row.tried, f"{path}.tried")
    if row.pod is not None:
        members = [reading.member(row.pod, f"{path}.pod")]
        require(members[0].group is None, f"{path}.pod", row.pod, "a pod without a group")
    else:
        assert entity.group is not None
        members = pods.of_group(entity.group)
    pending = [each for each in members if each.state is MemberState.UNSCHEDULED]
    known = {each.pod.uid for each in pending}
    require(tried.keys() <= known, f"{path}.tried", row.tried, "pending members")
    entity.load([(m.pod, m.seq, m.role, m.pod.uid not in tried, m.pod_class) for m in pending])


def _read_waiting(reading: Reading) -> None:
    waiting, now = reading.state.pods.waiting, reading.rows.now
    for n, row in enumerate(reading.rows.waiting):
        path = f"waiting[{n}]"
        member = reading.member(row.uid, f"{path}.uid")
        unique(waiting, row.uid, f"{path}.uid")
        expected = "a pod that waits on permit on a node"
        require(member.state is MemberState.WAITING, f"{path}.uid", row.uid, expected)
        require(row.since <= now, f"{path}.since", row.since, f"an instant until now={now!r}")
        require(row.deadline >= row.since, f"{path}.deadline", row.deadline, "an instant >= since")
        info, node = member.group, member.node
        assert node is not None
        number = member.attempt if info is None else info.attempts
        require(row.attempt <= number, f"{path}.attempt", row.attempt, f"an int <= {number}")
        key = None if info is None else info.key
        _check_pending(reading, row, path)
        waiting.put(
            WaitingPod(row.uid, key, node, row.attempt, row.since, row.deadline, row.plugins)
        )


def _check_pending(reading: Reading, row: WaitRow, path: str) -> None:
    """Require pending plugins of the profile."""
    names = reading.state.settings.profile.permit_names
    for n, name in enumerate(row.plugins):
        expected = f"the name of a permit plugin; these are: {', '.join(names) or 'none'}"
        require(name in names, f"{path}.plugins[{n}]", name, expected)
    each_once(row.plugins, f"{path}.plugins")


# Attempts -------------------------------------------------------------------------------------


def _read_attempts(reading: Reading) -> None:
    attempts, rows = reading.state.attempts, reading.rows
    each_once((key for key, _step in rows.waiting_since), "waiting_since")
    each_once((key for key, _reason in rows.giving_way), "giving_way")
    attempts.waiting_since.update(rows.waiting_since)
    attempts.giving_way.update(rows.giving_way)
    # a plugin that raised may have kept a call from judging them
    for info in reading.state.pods.registry:
        if info.members:
            reading.state.call.touched[info.key] = None
