"""The answers of ``Scheduler.pending``, ``binding``, ``running`` and ``groups``.

Rules:
  R1  a question changes nothing;
  R2  pending entities are listed in the order in which they would be tried. The active ones come
      first, by sort key; then those in backoff, by deadline; then the parked ones, by sort key.
      Groups that wait on permit or are incomplete, and pods that are not admitted, follow by
      arrival.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import final

from attrs import frozen

from gangsched._core._counters import MemberState
from gangsched._core._entity import QueuedEntity
from gangsched._core._queue import SchedulingQueue
from gangsched._core._registry import PodGroupInfo
from gangsched.framework.runtime import extension_points
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pods import Member, Pods
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings
from gangsched.framework.what_if import why as answers
from gangsched.listings import BindingRow, GroupRow, Listing, PendingRow, RunningRow

__all__ = ["binding", "groups", "pending", "running"]

_PENDING = (MemberState.UNSCHEDULED, MemberState.WAITING, MemberState.GATED, MemberState.REFUSED)


def pending(state: State, now: float) -> Listing[PendingRow]:
    """List the pods and groups that need nodes. O(pods log pods)."""
    queued = _Order.of(state.queue)
    rows: dict[int, tuple[tuple[int, int], PendingRow]] = {}
    for member in state.pods.members.values():
        entity = member.entity
        if member.state in _PENDING and entity.seq not in rows:
            place = queued.place(entity)
            rows[entity.seq] = ((place, entity.seq), _pending_row(state, member, queued, now))
    return Listing(row for _order, row in sorted(rows.values(), key=lambda each: each[0]))


def binding(pods: Pods) -> Listing[BindingRow]:
    """List the pods whose bind is in progress. O(pods)."""
    return Listing(
        BindingRow(
            name=member.pod.key,
            group=None if member.group is None else member.group.key,
            uid=uid,
            node=member.node,
            attempt=member.attempt,
        )
        for uid, member in pods.members.items()
        if member.state is MemberState.BINDING and member.node is not None
    )


def running(pods: Pods, now: float) -> Listing[RunningRow]:
    """List the regular pods and the groups that have bound pods. O(pods)."""
    bound: dict[int, list[Member]] = {}
    for member in pods.members.values():
        if member.state is MemberState.ASSIGNED:
            bound.setdefault(member.entity.seq, []).append(member)
    return Listing(_running_row(members, now) for members in bound.values())


def groups(state: State, now: float) -> Listing[GroupRow]:
    """List the groups that have members or a specification. O(members + active entities)."""
    queued = _Order.of(state.queue)
    known = (info for info in state.pods.registry if info.members or info.spec is not None)
    return Listing(_group_row(state, info, queued, now) for info in known)


@final
@frozen
class _Order:
    """The order of rule R2, read from the queue once for all rows.

    Attributes:
        places: The place of each queued entity, by its number.
        active: The number of active entities, which have the first places.
    """

    places: Mapping[int, int]
    active: int

    @classmethod
    def of(cls, queue: SchedulingQueue) -> _Order:
        """Read a queue. O(n log n) for n queued entities."""
        active = _by_sort_key(each for each in queue.active if not queue.is_gated(each))
        parked = _by_sort_key(each for each in queue.unschedulable if not queue.is_gated(each))
        backoff = sorted(queue.backoff, key=lambda each: (each.backoff_until, each.seq))
        ordered = (*active, *backoff, *parked)
        return cls({entity.seq: place for place, entity in enumerate(ordered)}, len(active))

    def place(self, entity: QueuedEntity) -> int:
        """Return the place of an entity; behind all others if it is not queued. O(1)."""
        return self.places.get(entity.seq, len(self.places))

    def active_place(self, entity: QueuedEntity) -> int | None:
        """Return the place among the active entities; None if it is not active. O(1)."""
        place = self.place(entity)
        return place if place < self.active else None

    def ahead(self) -> answers.Ahead:
        """Return how many entities are ahead of one, as ``why`` asks for it."""
        return lambda _queue, entity: self.place(entity)


def _by_sort_key(entities: Iterable[QueuedEntity]) -> list[QueuedEntity]:
    queued = [each for each in entities if each.sort_key is not None]
    return sorted(queued, key=lambda each: each.sort_key or ())


def _pending_row(state: State, member: Member, queued: _Order, now: float) -> PendingRow:
    entity, info = member.entity, member.group
    position = queued.active_place(entity)
    if info is None:
        pod = member.pod
        return PendingRow(
            name=pod.key,
            group=None,
            uid=pod.uid,
            priority=pod.priority,
            pods=1,
            needed=1,
            position=position,
            attempts=entity.failures,
            age=now - pod.created_at,
            why=answers.why_pod(state, member, queued.ahead(), now=now),
        )
    return PendingRow(
        name=info.key,
        group=info.key,
        uid=None,
        priority=info.priority,
        pods=sum(info.members.count(each) for each in _PENDING),
        needed=_needed(state.settings, state.call, info),
        position=position,
        attempts=entity.failures,
        age=now - info.created_at,
        why=answers.why_group(state, info, queued.ahead(), now=now),
    )


def _needed(settings: Settings, call: CurrentCall, info: PodGroupInfo) -> int | None:
    """Return how many further members a group needs to start; 0 once it has started."""
    needed = extension_points.members_needed(settings, call, info)
    if needed is None:
        return 0 if info.was_scheduled else None
    return max(needed, 0)


def _running_row(members: list[Member], now: float) -> RunningRow:
    first = members[0]
    names = (each.pod.node_name for each in members)
    since = min(each.started_at for each in members if each.started_at is not None)
    info = first.group
    return RunningRow(
        name=first.pod.key if info is None else info.key,
        group=None if info is None else info.key,
        uid=first.pod.uid if info is None else None,
        priority=first.pod.priority if info is None else info.priority,
        pods=len(members),
        nodes=tuple(dict.fromkeys(name for name in names if name is not None)),
        age=now - since,
    )


def _group_row(state: State, info: PodGroupInfo, queued: _Order, now: float) -> GroupRow:
    return GroupRow(
        key=info.key,
        priority=info.priority,
        min_available=info.min_available,
        members=info.all,
        pending=info.unscheduled,
        waiting=info.waiting,
        bound=info.assigned,
        attempts=info.attempts,
        was_scheduled=info.was_scheduled,
        age=now - info.created_at,
        why=answers.why_group(state, info, queued.ahead(), now=now),
    )
