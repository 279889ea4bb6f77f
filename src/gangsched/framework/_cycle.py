"""One decision: the scheduling cycle of one pod, and the binding cycle of who is let go.

Rules:
  R1  the points run in the documented order; the binding cycle begins only when permit has let
      a pod go, with everybody who waited for it;
  R2  a plugin that raises leaves everything as it was before its pod's cycle;
  R3  quorum and release are one step over one state: nothing can come between them.
"""

from __future__ import annotations

import math

from gangsched._core._counters import MemberState
from gangsched._core._entity import QueuedEntity
from gangsched._core._registry import PodGroupInfo
from gangsched.errors import GangschedError
from gangsched.events import Bind, GroupScheduled, PodUnschedulable, PodWaiting, Release
from gangsched.explain import Diagnosis, Misfit
from gangsched.framework import _falls, _points, _shapes, _wakeups
from gangsched.framework._state import Member, State
from gangsched.framework.cycle_state import CycleState
from gangsched.model import NodeName
from gangsched.outcomes import EvictGroup, HoldGroup, RejectGroup, Unschedulable, Wait

__all__ = ["recheck_permit", "run"]


def run(state: State, *, now: float) -> bool:
    """Make one decision; say whether there was one to make."""
    entity = _next_entity(state, now=now)
    if entity is None:
        return False
    pod = entity.next_member
    assert pod is not None
    member = state.members[pod.uid]
    state.tick()
    info = entity.group
    gang = None if _shapes.goes_alone(state, info) else info
    begun = gang is not None and gang.attempt_started_at is None
    if gang is not None and begun:
        gang.attempts += 1
        gang.attempt_started_at = now
    turn = _wakeups.begin_turn(state, entity)
    try:
        if gang is None or gang.key in state.holding or not _lacks_room(state, member, gang, now):
            _schedule(state, member, CycleState(info, state.nodes.infos), now=now)
    except GangschedError:
        _wakeups.undo_turn(state, entity, turn)
        if gang is not None and begun:
            gang.attempts -= 1
            gang.attempt_started_at = None
        raise
    return True


def recheck_permit(state: State, info: PodGroupInfo, *, now: float) -> bool:
    """Ask again whether a group's waiting members may go; let them go if so."""
    waiting = state.waiting.of(info.key)
    if not waiting:
        return False
    members = [state.members[pod.uid] for pod in waiting]
    try:
        if isinstance(_points.permit(state, members[0], now), Wait | Unschedulable):
            return False
        return _let_go(state, members, now=now)
    except GangschedError as error:
        state.deferred.append(error)
        return False


def _next_entity(state: State, *, now: float) -> QueuedEntity | None:
    while True:
        entity = state.queue.head()
        if entity is None:
            return None
        own = None if entity.group is None else entity.group.key
        others = [key for key in state.yielding if key != own]
        if not others:
            return entity
        for key in others:
            _falls.reject_group(state, key, state.yielding[key], now=now)


def _lacks_room(state: State, member: Member, info: PodGroupInfo, now: float) -> bool:
    """Let an attempt fall before it begins when the cluster lacks what the group needs in all."""
    missing = _shapes.missing(state, info)
    if not missing:
        return False
    member.reason = f"resource gap: {missing}"
    member.entity.culprit = None
    member.entity.put_aside(member.pod.uid)
    member.entity.failed_step = state.step
    state.out.append(PodUnschedulable(member.pod.uid, member.reason))
    _falls.reject_group(state, info.key, member.reason, now=now, proven=True)
    return True


def _schedule(state: State, member: Member, cycle: CycleState, *, now: float) -> None:
    outcome = _points.pre_filter(state, cycle, member.pod, now)
    if isinstance(outcome, Unschedulable):
        _fail(state, member, cycle, outcome.reason, now=now)
        return
    pod_class, outcome = _points.evaluate(state, cycle, member, now)
    node = pod_class.best(state.nodes)
    if node is None:
        _fail(state, member, cycle, pod_class.diagnosis(), now=now)
    elif isinstance(outcome, Unschedulable):
        _fail(state, member, cycle, outcome.reason, now=now)
    else:
        _place(state, member, cycle, node, now=now)


def _place(state: State, member: Member, cycle: CycleState, node: NodeName, *, now: float) -> None:
    """Assume a pod on a node, and ask whether it may go."""
    pod, info = member.pod, member.group
    before = None if info is None else info.attempt_started_at
    _assume(state, member, cycle, node)
    if info is not None and before is not None and info.key not in state.holding:
        # the time that an attempt has runs from its first member that holds a node
        info.attempt_started_at = now
    try:
        outcome = _points.reserve(state, member, now)
        if not isinstance(outcome, Unschedulable):
            outcome = _points.permit(state, member, now)
        if isinstance(outcome, Wait):
            _wait(state, member, outcome, now=now)
            return
        if not isinstance(outcome, Unschedulable):
            siblings = () if info is None else state.waiting.of(info.key)
            together = [*(state.members[waiting.uid] for waiting in siblings), member]
            if _let_go(state, together, now=now):
                return
            outcome = Unschedulable(member.reason)
    except GangschedError:
        _points.unreserve(state, member, "refused", now)
        _unassume(state, member)
        if info is not None:
            info.attempt_started_at = before
        raise
    verdict = _falls.release_node(
        state, member, cause="refused", to=MemberState.UNSCHEDULED, now=now
    )
    member.entity.put_back(pod.uid)
    _fail(state, member, cycle, outcome.reason, now=now, verdict=verdict)
    _falls.settle_hold(state, info)


def _assume(state: State, member: Member, cycle: CycleState, node: NodeName) -> None:
    member.node = node
    member.cycle = cycle
    member.attempt += 1
    state.nodes.assume(member.pod, node)
    state.put(member, MemberState.WAITING)
    member.entity.discard(member.pod.uid)


def _unassume(state: State, member: Member) -> None:
    member.node = member.cycle = None
    member.attempt -= 1
    state.nodes.forget(member.pod.uid)
    state.put(member, MemberState.UNSCHEDULED)
    member.entity.add(member.pod, member.seq)
    member.entity.put_back(member.pod.uid)


def _wait(state: State, member: Member, outcome: Wait, *, now: float) -> None:
    info, node, uid = member.group, member.node, member.pod.uid
    assert node is not None
    waiting = state.waiting.wait(
        uid,
        node=node,
        timeout=outcome.timeout,
        now=now,
        group=None if info is None else info.key,
        attempt=member.attempt if info is None else info.attempts,
    )
    remaining = 0
    if info is not None:
        state.holding.setdefault(info.key, state.step)
        remaining = max(_points.members_needed(state, info) or 0, 0)
    state.out.append(PodWaiting(uid, node, waiting.deadline, remaining))
    _after_turn(state, member.entity, now=now)


def _after_turn(state: State, entity: QueuedEntity, *, now: float) -> None:
    """Put an entity where it belongs after a member of it had its turn."""
    if entity.ready_count:
        return
    info = entity.group
    if not len(entity):
        state.queue.remove(entity, now=now)
    elif info is not None and info.key in state.holding:
        _falls.park_holding(state, entity, now=now)
    elif info is None or _shapes.goes_alone(state, info):
        _falls.fail_entity(state, entity, now=now)
    else:
        reason = state.members[entity.pod.uid].reason
        _falls.reject_group(state, info.key, reason, now=now)


def _fail(
    state: State,
    member: Member,
    cycle: CycleState,
    found: Diagnosis | str,
    *,
    now: float,
    verdict: RejectGroup | EvictGroup | None = None,
) -> None:
    """End the cycle of a pod without a node.

    Args:
        state: The scheduler's memory.
        member: The pod.
        cycle: Its cycle.
        found: Why: where every node refused it, and pods like it fail alike, which and for what.
        now: The current instant.
        verdict: What is decided about its group already.
    """
    entity, info, uid = member.entity, member.group, member.pod.uid
    reason, diagnosis = str(found), found if isinstance(found, Diagnosis) else None
    entity.put_aside(uid)
    try:
        answer = verdict or _points.post_filter(state, cycle, member.pod, reason, now)
    except GangschedError:
        entity.put_back(uid)
        raise
    member.reason = reason
    entity.culprit = Misfit(uid, member.pod.key, reason, diagnosis)
    if diagnosis is not None:
        entity.failed_step = state.step
    state.out.append(PodUnschedulable(uid, reason))
    own = None if info is None else info.key
    too_few = entity.ready_count < _shapes.needed(state, entity)
    if isinstance(answer, EvictGroup):
        _falls.carry_out(state, answer, now=now)
    elif isinstance(answer, RejectGroup | HoldGroup) and answer.group != own:
        _falls.reject_group(state, answer.group, answer.reason, now=now)
    elif isinstance(answer, RejectGroup):
        _falls.reject_group(state, answer.group, answer.reason, now=now, proven=too_few)
        return
    elif isinstance(answer, HoldGroup):
        if answer.group in state.holding:
            state.yielding[answer.group] = answer.reason
            _falls.park_holding(state, entity, now=now)
        else:
            _falls.reject_group(state, answer.group, answer.reason, now=now, proven=too_few)
        return
    _after_turn(state, entity, now=now)


def _let_go(state: State, members: list[Member], *, now: float) -> bool:
    """Run the binding cycle of members that may go together, up to their binds.

    Returns:
        False when members were turned down so that no quorum is left: nothing has changed, and
        the last member's ``reason`` says who and why.
    """
    info = members[-1].group
    refused: dict[int, str] = {}
    binds: list[Bind | None] = []
    for member in members:
        outcome = _points.pre_bind(state, member, now)
        if isinstance(outcome, Unschedulable):
            refused[member.seq] = outcome.reason
            binds.append(None)
        else:
            binds.append(_points.bind(state, member, now))
    first = info is not None and info.attempt_started_at is not None
    more = None if info is None else _points.members_needed(state, info)
    lacking = 1 - len(members) if more is None else more
    if refused and lacking + len(refused) > 0:
        members[-1].reason = next(iter(refused.values()))
        return False
    since = None if info is None else state.holding.get(info.key)
    freed: list[NodeName] = []
    if info is not None:
        state.waiting.allow(info.key)
        if first:
            _mark_scheduled(state, info, now=now)
        gone = tuple(m.pod.uid for m in members if m.seq not in refused)
        state.out.append(Release(info.key, gone))
    for member, effect in zip(members, binds, strict=True):
        if effect is None:
            assert member.node is not None
            freed.append(member.node)
            _falls.release_node(state, member, cause="refused", to=MemberState.UNSCHEDULED, now=now)
            member.reason = refused[member.seq]
            state.out.append(PodUnschedulable(member.pod.uid, member.reason))
        else:
            state.put(member, MemberState.BINDING)
            member.reason = ""
            state.out.append(effect)
    _falls.settle_hold(state, info)
    _after_release(state, members[-1].entity, now=now)
    if since is not None:
        _wakeups.gain(state, freed, now=now, since=since)
    return True


def _mark_scheduled(state: State, info: PodGroupInfo, *, now: float) -> None:
    info.was_scheduled = True
    info.last_failure_at = info.attempt_started_at = None
    info.failures = 0
    info.backoff_until = -math.inf
    since = now if info.complete_at is None else info.complete_at
    state.out.append(GroupScheduled(info.key, info.attempts, info.scheduled, now - since))


def _after_release(state: State, entity: QueuedEntity, *, now: float) -> None:
    entity.failures = 0
    entity.reason, entity.culprit = "", None
    if not len(entity):
        _wakeups.forget(state, entity)
        state.queue.remove(entity, now=now)
        return
    held = _points.pre_enqueue(state, entity.pod, entity.group, now)
    if isinstance(held, Unschedulable):
        # who is left over may be too few for the next quorum
        entity.refill()
        _falls.gate(state, entity, held, now=now)
    elif entity.ready_count:
        # what ranks a group may have changed with its release
        state.queue.activate(entity, now=now)
    else:
        _falls.fail_entity(state, entity, now=now)
