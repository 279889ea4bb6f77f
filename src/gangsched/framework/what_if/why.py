"""The answer of ``Scheduler.why``: the state of a pod or a group, with the reason.

Rules:
  R1  a question changes nothing, and calls no plugin method that may change anything;
  R2  the reason for a failed attempt is the one that was found in that attempt. The nodes are not
      evaluated again. If time has passed since, the answer says as of when it is; see ``anew``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeVar, assert_never

from gangsched._core import _quorum
from gangsched._core._counters import MemberState
from gangsched._core._entity import Place, QueuedEntity
from gangsched._core._queue import SchedulingQueue
from gangsched._core._registry import PodGroupInfo
from gangsched._core._waiting import WaitingPod
from gangsched._plugin_calls import name_of
from gangsched.errors import UnknownPodError
from gangsched.explain import (
    BackingOff,
    Binding,
    Finished,
    NoNodeFits,
    NotAdmitted,
    NotEnoughMembers,
    OnPermit,
    PartlyRunning,
    Queued,
    Refused,
    Running,
    Terminating,
    Why,
)
from gangsched.framework.queueing import bundles, equivalence
from gangsched.framework.runtime import extension_points
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pods import Member, Pods
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings
from gangsched.model import GroupKey, Pod, PodGroup, PodPhase, PodUID

__all__ = ["Ahead", "asked", "why", "why_group", "why_pod"]

Ahead: TypeAlias = Callable[[SchedulingQueue, QueuedEntity], int]
"""Returns the number of entities before an entity."""

_Answer = TypeVar("_Answer")

_APART = (
    MemberState.GATED,
    MemberState.TERMINATING,
    MemberState.SUCCEEDED,
    MemberState.FAILED,
    MemberState.ENDED,
)
_SUCCEEDED = (MemberState.SUCCEEDED, MemberState.ENDED)


def why(state: State, subject: str | Pod | PodGroup, *, now: float) -> Why:
    """Return why a pod or a group is not running. O(active entities + members of the group).

    Raises:
        UnknownPodError: *subject* is not known.
        PluginError: A plugin raised.
    """
    return asked(state.call, lambda: _answer(state, subject, now))


def asked(call: CurrentCall, question: Callable[[], _Answer]) -> _Answer:
    """Return the answer to a question.

    Raises:
        PluginError: A plugin raised.
    """
    # The state defers errors of plugins to the end of a call. A question is not a call, so the
    # errors that it caused are taken out again and the first one is raised here.
    deferred = len(call.deferred)
    answer = question()
    if len(call.deferred) > deferred:
        error = call.deferred[deferred]
        del call.deferred[deferred:]
        raise error
    return answer


def _answer(state: State, subject: str | Pod | PodGroup, now: float) -> Why:
    key = subject.uid if isinstance(subject, Pod) else subject
    if isinstance(key, str):
        member = state.pods.members.get(PodUID(key))
        if member is not None:
            return why_pod(state, member, now=now)
    elif not isinstance(key, PodGroup):
        raise UnknownPodError(str(key))
    group = key.key if isinstance(key, PodGroup) else GroupKey(key)
    info = state.pods.registry.get(group)
    if info is None or isinstance(subject, Pod):
        raise UnknownPodError(str(group))
    return why_group(state, info, now=now)


def why_pod(state: State, member: Member, ahead: Ahead | None = None, *, now: float) -> Why:
    """Return why a pod is not running; *ahead* saves counting the queue."""
    uid, group = member.pod.uid, member.group
    match member.state:
        case MemberState.REFUSED:
            return Refused(uid, member.reason)
        case MemberState.GATED:
            return NotAdmitted(member.reason)
        case MemberState.WAITING if group is None:
            waiting = state.pods.waiting.get(uid)
            assert waiting is not None
            pending = _pending_plugins(state.settings, [waiting])
            return OnPermit((uid,), waiting.since, 0, waiting.deadline, plugins=pending)
        case MemberState.UNSCHEDULED if group is None:
            return _why_entity(state.queue, member.entity, ahead, now=now)
        case MemberState.UNSCHEDULED | MemberState.WAITING:
            assert group is not None
            return why_group(state, group, ahead, now=now)
        case MemberState.BINDING:
            assert member.node is not None
            return Binding(member.node, member.attempt)
        case MemberState.ASSIGNED:
            return Running(member.pod.node_name)
        case MemberState.TERMINATING:
            return Terminating(member.reason)
        case MemberState.SUCCEEDED | MemberState.FAILED | MemberState.ENDED:
            return Finished(member.pod.phase)
        case _:
            assert_never(member.state)


def why_group(state: State, info: PodGroupInfo, ahead: Ahead | None = None, *, now: float) -> Why:
    """Return why a group is not running; *ahead* saves counting the queue."""
    entity = state.pods.entities.get(info.key)
    needed = extension_points.members_needed(state.settings, state.call, info)
    if info.waiting:
        waiting = state.pods.waiting.of(info.key)
        return OnPermit(
            tuple(pod.uid for pod in waiting),
            waiting[0].since,
            max(needed or 0, 0),
            min(pod.deadline for pod in waiting),
            None if entity is None else entity.unschedulable_member,
            _pending_plugins(state.settings, waiting),
        )
    unknown = info.min_available is None and not info.was_scheduled
    present, absent = equivalence.presence(state.settings, state.call, info)
    if unknown or absent or (needed is not None and needed > info.unscheduled):
        return NotEnoughMembers(
            info.key,
            present,
            info.min_available,
            _apart(info),
            absent,
            _refused(state.pods, info),
            _held(state.pods, info),
            _without_role(state.pods, info) if absent else 0,
            state.pods.registry.forgotten_at(info.key),
            () if unknown else _gates(state.pods, info, present, absent),
        )
    is_pending = entity is not None and len(entity) > 0
    rest: Why | None = None
    if is_pending and entity is not None and state.queue.is_gated(entity):
        settings, pods, call = state.settings, state.pods, state.call
        rest = NotAdmitted(bundles.reason(settings, pods, call, entity, now))
    elif is_pending and entity is not None:
        rest = _why_entity(state.queue, entity, ahead, now=now)
    if info.scheduled:
        part = _partly_running(state.pods, info, rest)
        if part is not None:
            return part
    if rest is None and not info.scheduled:
        failed = info.members.count(MemberState.FAILED)
        succeeded = sum(info.members.count(each) for each in _SUCCEEDED)
        if failed or succeeded:
            return Finished(PodPhase.FAILED if failed else PodPhase.SUCCEEDED, failed + succeeded)
    return rest or Running(None, info.scheduled, info.members.count(MemberState.BINDING))


def _partly_running(pods: Pods, info: PodGroupInfo, rest: Why | None) -> PartlyRunning | None:
    """Return the answer about a group that runs without all of its members; None if all run.

    It does not matter whether this scheduler released the group: after a restart it may find some
    members on nodes, and the others still have to be placed.

    Args:
        pods: The pods.
        info: The group, of which some members hold nodes.
        rest: Why its unscheduled members do not run; None if there are none. Then members with
            scheduling gates may be pending.
    """
    if info.min_available is None:
        return None
    pending = info.unscheduled
    if rest is None and info.members.gated():
        gated = [m for m in pods.of_group(info) if m.state is MemberState.GATED]
        rest, pending = NotAdmitted(gated[0].reason), len(gated)
    lacks = _quorum.lacks_members(info)
    if not lacks and rest is None:
        return None
    counts = ((role, least, info.role(role).scheduled) for role, least in info.roles.items())
    roles = tuple(each for each in counts if lacks and each[2] < each[1])
    return PartlyRunning(
        info.key,
        info.scheduled,
        info.min_available,
        rest,
        roles,
        pending if rest is not None else 0,
        lacks,
    )


def _pending_plugins(settings: Settings, waiting: Iterable[WaitingPod]) -> tuple[str, ...]:
    """Return the plugins that have not allowed waiting pods yet, without the one for the quorum."""
    rule = settings.profile.quorum
    names = {name for entry in waiting for name in entry.pending_plugins}
    return tuple(sorted(names - ({name_of(rule)} if rule is not None else set())))


def _apart(info: PodGroupInfo) -> tuple[tuple[str, int], ...]:
    counts = ((state.name.lower(), info.members.count(state)) for state in _APART)
    return tuple((word, count) for word, count in counts if count)


def _refused(pods: Pods, info: PodGroupInfo) -> tuple[Refused, ...]:
    return tuple(
        Refused(member.pod.uid, member.reason)
        for member in pods.of_group(info)
        if member.state is MemberState.REFUSED
    )


def _held(pods: Pods, info: PodGroupInfo) -> tuple[str, ...]:
    """Return the constraints that are not modelled of a group or of its first such member."""
    of_group = () if info.spec is None else info.spec.unmodelled
    if of_group or not info.members.count(MemberState.GATED):
        return of_group
    held = (m.pod.unmodelled for m in pods.of_group(info) if m.state is MemberState.GATED)
    return next(filter(None, held), ())


def _gates(
    pods: Pods, info: PodGroupInfo, present: int, absent: Iterable[tuple[str, int, int]]
) -> tuple[str, ...]:
    """Return the scheduling gates of members if they alone keep a group from being tried.

    They do not if members are held by something else, such as a constraint that is not modelled.
    """
    if not info.completes_with_gated(present, absent):
        return ()
    found = [m.pod for m in pods.of_group(info) if m.state is MemberState.GATED]
    if _held(pods, info) or not all(pod.scheduling_gates for pod in found):
        return ()
    return tuple(dict.fromkeys(gate for pod in found for gate in pod.scheduling_gates))


def _without_role(pods: Pods, info: PodGroupInfo) -> int:
    refused = MemberState.REFUSED
    members = (m for m in pods.of_group(info) if m.state is not refused)
    return sum(member.role is None for member in members)


def _why_entity(
    queue: SchedulingQueue, entity: QueuedEntity, ahead: Ahead | None = None, *, now: float
) -> Why:
    ahead = ahead or _ahead
    if queue.is_gated(entity):
        return NotAdmitted(entity.denial)
    # nothing else sets the time of an entity that has failed
    tried_at = entity.queued_at if entity.failures else None
    if entity.group is not None and entity.group.last_failure_at is not None:
        # the pods, and with them the entity, may be newer than the attempt of their group
        tried_at = entity.group.last_failure_at
    is_old = tried_at is not None and tried_at < now
    failures, reason, member = entity.failures, entity.reason, entity.unschedulable_member
    if entity.place is Place.BACKOFF:
        return BackingOff(entity.backoff_until, failures, reason, member, tried_at, is_old)
    if entity.place is Place.UNSCHEDULABLE:
        leader = queue.leader_of(entity)
        if leader is None:
            return NoNodeFits(failures, reason, member, tried_at, is_old)
        return Queued(ahead(queue, entity), _name(leader), member)
    return Queued(ahead(queue, entity), None, member)


def _ahead(queue: SchedulingQueue, entity: QueuedEntity) -> int:
    key = entity.sort_key
    assert key is not None
    return sum(other.sort_key < key for other in queue.active if other.sort_key is not None)


def _name(entity: QueuedEntity) -> str:
    return f"pod {entity.pod.key}" if entity.group is None else f"pod group {entity.group.key}"
