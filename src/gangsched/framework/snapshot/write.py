"""From the state of a scheduler to the rows of a snapshot.

Rules:
  R1  the cluster state is not read, and plugins are asked only for their own state;
  R2  nothing in the scheduler changes;
  R3  a value that cannot be written is refused, never left out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, TypeAlias

from gangsched._core._entity import QueuedEntity
from gangsched._core._equivalence_queue import EquivalenceQueue
from gangsched._core._registry import PodGroupInfo
from gangsched._core._restarts import GroupLife
from gangsched.cycle_state import CycleState
from gangsched.errors import GangschedError, InvalidValueError, PluginError
from gangsched.framework.nodes.node_info import NodeInfo
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.queueing.equivalence import EquivalenceClass
from gangsched.framework.runtime import extension_points
from gangsched.framework.snapshot.rows import (
    AssumedRow,
    BackfillRow,
    EntityRow,
    EquivalenceClassRow,
    EquivalenceQueueRow,
    ErrorRow,
    GroupRow,
    MemberRow,
    NodeRow,
    NominatedPodRow,
    NominationRow,
    ReservationRow,
    ReservedNodeRow,
    RestartRow,
    SnapshotRow,
    WaitRow,
)
from gangsched.framework.state.backfill_state import ActiveReservation, BackfillState
from gangsched.framework.state.nomination import Nomination
from gangsched.framework.state.pods import Member, Pods
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings
from gangsched.model import GroupKey, Pod, PodUID

__all__ = ["plugin_states", "written"]

_Samples: TypeAlias = Mapping[int, PodUID]
"""The first known pod of each pod class, by the identity of the class."""


def written(state: State, *, now: float, listed: bool) -> SnapshotRow:
    """Return the rows of all that a scheduler remembers. O(all of it).

    Raises:
        InvalidValueError: A value that a plugin remembers cannot be written.
        PluginError: A plugin raised.
    """
    settings, nodes, queue, pods = state.settings, state.nodes, state.queue, state.pods
    samples = _samples(pods)
    return SnapshotRow(
        unit=settings.unit,
        plugins=tuple(extension_points.name_of(plugin) for plugin in settings.profile.plugins),
        plugin_states=plugin_states(settings),
        now=now,
        listed=listed,
        step=state.attempts.step,
        arrivals=pods.numbers,
        attempt_floor=pods.attempt_floor,
        exhausted_searches=state.attempts.exhausted_searches,
        nodes=tuple(_node(pods, info) for info in nodes.infos.values()),
        node_arrivals=nodes._indices,
        node_changes=nodes.altered,
        departed=tuple(nodes.departed),
        unread=tuple(nodes.unread),
        assumed=tuple(
            AssumedRow(uid=uid, pod=None if _is_known(pods, pod) else pod)
            for uid, (_name, pod) in nodes.assumed.items()
        ),
        groups=tuple(_group(info) for info in pods.registry),
        group_arrivals=pods.registry._numbers,
        groups_left=tuple(pods.registry._left.items()),
        restarts=tuple(_restart(key, life) for key, life in pods.restarts._lives.items()),
        charges=tuple(pods.quotas._charges.values()),
        over_quota=tuple(pods.quotas._waiting.items()),
        entities=tuple(_entity(entity, uid) for entity, uid in _entities(pods)),
        members=tuple(_member(settings, member) for member in pods.members.values()),
        waiting=tuple(
            WaitRow(
                uid=one.uid,
                attempt=one.attempt,
                since=one.since,
                deadline=one.deadline,
                plugins=one.pending_plugins,
            )
            for one in pods.waiting
        ),
        active=tuple(entity.seq for entity in queue.active),
        backoff=tuple(entity.seq for entity in queue.backoff),
        gated=tuple(queue._gated),
        queues=tuple(_queue(each, samples) for each in queue._queues.values()),
        evicted=tuple(sorted(pods.evicted)),
        overdue=tuple(sorted(state.reservations.overdue)),
        nominations=tuple(_nomination(each) for each in state.reservations.nominations.values()),
        backfill=_backfill(state.reservations.backfill, samples),
        waiting_since=tuple(state.attempts.waiting_since.items()),
        giving_way=tuple(state.attempts.giving_way.items()),
        effects=tuple(state.call.out),
        errors=tuple(_error(error) for error in state.call.deferred),
    )


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


# Nodes, groups and pods ------------------------------------------------------------------------


def _node(pods: Pods, info: NodeInfo) -> NodeRow:
    others = (pod for pod in info.pods if not _is_known(pods, pod))
    return NodeRow(node=info.node, index=info.index, pods=tuple(info.holders), others=tuple(others))


def _group(info: PodGroupInfo) -> GroupRow:
    return GroupRow(
        key=info.key,
        number=info.uid,
        spec=info.spec,
        first_seen_at=info.first_seen_at,
        claims=tuple(info.claims),
        attempts=info.attempts,
        attempt_started_at=info.attempt_started_at,
        last_failure_at=info.last_failure_at,
        failures=info.failures,
        backoff_until=info.backoff_until,
        failure=info.failure,
        complete_at=info.complete_at,
        was_scheduled=info.was_scheduled,
        is_binding=info.is_binding,
        collected=tuple(sorted((role or "", n) for role, n in info.members._collected.items())),
    )


def _restart(key: GroupKey, life: GroupLife) -> RestartRow:
    minimum = life.runs_with
    return RestartRow(
        group=key,
        restarts=life.restarts,
        until=life.until,
        is_held=life.is_held,
        minimum=None if minimum is None else minimum.members,
        roles=() if minimum is None else tuple(minimum.roles.items()),
        short_since=life.short_since,
        failed_at=life.failed_at,
        due_at=life.due_at,
    )


def _entities(pods: Pods) -> Iterator[tuple[QueuedEntity, PodUID | None]]:
    """Yield the entities of groups, then those of regular pods, each with its pod."""
    for entity in pods.entities.values():
        yield entity, None
    for uid, member in pods.members.items():
        if member.group is None:
            yield member.entity, uid


def _entity(entity: QueuedEntity, uid: PodUID | None) -> EntityRow:
    return EntityRow(
        seq=entity.seq,
        group=None if entity.group is None else entity.group.key,
        pod=uid,
        queued_at=entity.queued_at,
        failures=entity.failures,
        backoff_until=entity.backoff_until,
        tried_step=entity.tried_step,
        failed_step=entity.failed_step,
        event_step=entity.event_step,
        round_step=entity.round_step,
        refused_at=entity.refused_at,
        reason=entity.reason,
        denial=entity.denial,
        unschedulable_member=entity.unschedulable_member,
        tried=tuple(sorted(uid for uid, is_ready in entity.records() if not is_ready)),
    )


def _member(settings: Settings, member: Member) -> MemberRow:
    return MemberRow(
        pod=member.pod,
        seq=member.seq,
        state=member.state,
        node=member.node,
        attempt=member.attempt,
        cycle=None if member.cycle is None else _scratch(settings, member, member.cycle),
        reason=member.reason,
        told=member.told,
        bind_failures=member.bind_failures,
        started_at=member.started_at,
    )


def _scratch(settings: Settings, member: Member, cycle: CycleState) -> tuple[tuple[str, Any], ...]:
    found: list[tuple[str, Any]] = []
    for key, value in (cycle._scratch or {}).items():
        if key.derived:
            continue
        if settings.profile.scratch_keys.get(key.name) is not key:
            expected = "a key that a plugin names in its state_keys"
            raise InvalidValueError(f"{member.pod.key}: scratch", key.name, expected)
        found.append((key.name, value))
    return tuple(found)


def _is_known(pods: Pods, pod: Pod) -> bool:
    """Return whether a pod equals the known member of its UID."""
    member = pods.members.get(pod.uid)
    return member is not None and member.pod == pod


# Reserved capacity ----------------------------------------------------------------------------


def _nomination(nomination: Nomination) -> NominationRow:
    return NominationRow(
        entity=nomination.entity.seq,
        priority=nomination.priority,
        pods=tuple(
            NominatedPodRow(
                seq=each.seq,
                uid=each.uid,
                node=each.node,
                requests=each.reserved.requests,
                group=each.group,
                role=each.role,
            )
            for each in nomination.pods.values()
        ),
        required=nomination.required,
        specs=nomination.specs,
        awaited=tuple(nomination.awaited),
        deadline=nomination.deadline,
    )


def _reservation(made: ActiveReservation) -> ReservationRow:
    return ReservationRow(
        entity=made.entity.seq,
        since=made.since,
        starts_at=made.starts_at,
        deadline=made.deadline,
        ends=tuple(made.ends.items()),
        nodes=tuple(
            ReservedNodeRow(
                node=each.node,
                priority=each.priority,
                pods=each.pods,
                requests=each.requests,
                returning=tuple(sorted(each.returning or ())),
            )
            for each in made.capacity.values()
        ),
        planned=made.planned,
        drained=tuple(sorted(made.drained)),
        has_refused=made.guard.has_refused,
    )


def _backfill(state: BackfillState, samples: _Samples) -> BackfillRow | None:
    """Return the row of the state of backfill; None if it is empty."""
    made = state.reservation
    row = BackfillRow(
        qualified=tuple(state.qualified),
        drain_timeouts=tuple(state.drain_timeouts.items()),
        infeasible=tuple(state.infeasible.items()),
        reservation=None if made is None else _reservation(made),
        failed=tuple((_asked(each, samples), step) for each, step in state.failed.items()),
        gained=state.gained,
        is_contested=state.is_contested,
        is_stale=state.is_stale,
        is_drain_paused=state.is_drain_paused,
        has_no_candidate=state.has_no_candidate,
        no_candidate_until=state.no_candidate_until,
        altered=state.altered,
    )
    return None if row == BackfillRow() else row


# Equivalence classes --------------------------------------------------------------------------


def _samples(pods: Pods) -> _Samples:
    found: dict[int, PodUID] = {}
    for uid, member in pods.members.items():
        found.setdefault(id(member.pod_class), uid)
    return found


def _queue(queue: EquivalenceQueue, samples: _Samples) -> EquivalenceQueueRow:
    return EquivalenceQueueRow(
        asked=_asked(queue.equivalence_class, samples),
        blocked=queue.blocked,
        blocked_at=queue.blocked_at,
        opened_at=queue.opened_at,
        helped_at=queue.helped_at,
        leader=None if queue.leader is None else queue.leader.seq,
        entities=(*(entity.seq for entity in queue.queued), *sorted(queue.in_backoff)),
    )


def _asked(asked: Hashable, samples: _Samples) -> int | EquivalenceClassRow:
    if isinstance(asked, EquivalenceClass):
        return _equivalence_class(asked, samples)
    assert isinstance(asked, int)
    return asked


def _equivalence_class(asked: EquivalenceClass, samples: _Samples) -> EquivalenceClassRow:
    return EquivalenceClassRow(
        needed=asked.needed,
        runs=tuple((_sample(each, samples), count) for each, count in asked.runs),
        floor=asked.floor,
        role_counts=asked.role_counts,
        roles=asked.roles,
        topology=asked.topology,
        parts=tuple(_equivalence_class(part, samples) for part in asked.parts),
        reach=asked.reach,
        affected=asked.affected,
    )


def _sample(pod_class: PodClass, samples: _Samples) -> PodUID | Pod:
    return samples.get(id(pod_class), pod_class.sample)


def _error(error: GangschedError) -> ErrorRow:
    if type(error) is not PluginError:
        raise InvalidValueError("deferred", error, "an error of a plugin")
    return ErrorRow.of(error)
