"""Giving nodes back: one pod, one group, one entity whose try failed.

Rules:
  R1  a group that falls lets go of everything in one pass: nobody's ``unreserve`` makes another
      group fall in the middle of it;
  R2  who fell or failed rests, then waits for a fact; who was never tried does not rest;
  R3  all effects are flat, in the order in which they happened.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from gangsched._core._counters import MemberState
from gangsched._core._entity import Place, QueuedEntity
from gangsched._core._registry import PodGroupInfo
from gangsched.events import Evict, GroupIncomplete, GroupRejected, PodNotAdmitted, PodRejected
from gangsched.framework.queueing import bundles, equivalence, requeue
from gangsched.framework.runtime import extension_points
from gangsched.framework.state.scheduler_state import Member, State
from gangsched.model import GroupKey, NodeName
from gangsched.outcomes import EvictGroup, RejectGroup, Unschedulable

__all__ = [
    "carry_out",
    "evict",
    "fail_entity",
    "gate",
    "park_holding",
    "put_out",
    "reject_group",
    "release_node",
    "set_down",
    "settle_hold",
]


def release_node(
    state: State, member: Member, *, cause: str, to: MemberState, now: float
) -> RejectGroup | EvictGroup | None:
    """Take a member that is assumed off its node, and put it in state *to*.

    Returns:
        The verdict on its group, for the caller to carry out when this step is done.
    """
    node = member.node
    assert node is not None
    state.waiting.remove(member.pod.uid)
    state.nodes.forget(member.pod.uid)
    state.put(member, to)
    verdict = extension_points.unreserve(state, member, cause, now)
    member.node = member.cycle = None
    if to is MemberState.UNSCHEDULED:
        member.entity.add(member.pod, member.seq, member.role)
        member.entity.put_aside(member.pod.uid)
    return verdict


def carry_out(
    state: State,
    verdict: RejectGroup | EvictGroup,
    *,
    now: float,
    freed: Iterable[NodeName] = (),
) -> None:
    """Do to a group what a plugin said when a member of it gave its node back."""
    if isinstance(verdict, EvictGroup):
        _evict_group(state, verdict.group, verdict.reason)
    reject_group(state, verdict.group, verdict.reason, now=now, freed=freed)


def _evict_group(state: State, key: GroupKey, reason: str) -> None:
    """Ask for the end of every member that is bound or being bound: none counts from now on."""
    info = state.registry.get(key)
    if info is None:
        return
    for member in state.of_group(info):
        evict(state, member, reason)
    info.was_scheduled = False


def evict(state: State, member: Member, reason: str) -> None:
    """Ask for the end of a pod that is bound or being bound: it does not count from now on."""
    node = member.pod.node_name if member.state is MemberState.ASSIGNED else member.node
    if node is None or member.state is MemberState.WAITING or member.pod.uid in state.evicted:
        return
    state.evicted.add(member.pod.uid)
    state.put(member, MemberState.TERMINATING)
    member.reason = reason
    state.out.append(Evict(member.pod.uid, node, reason))


def put_out(state: State, member: Member, reason: str, *, now: float) -> NodeName:
    """Let a regular pod that waits give its node back, and rest; return the node. O(log n)."""
    node = member.node
    assert node is not None
    verdict = release_node(state, member, cause="rejected", to=MemberState.UNSCHEDULED, now=now)
    set_down(state, member, node, reason)
    fail_entity(state, member.entity, now=now)
    if verdict is not None:
        carry_out(state, verdict, now=now)
    return node


def set_down(state: State, member: Member, node: NodeName, reason: str) -> None:
    """Tell that a pod that waited has given its node back."""
    member.reason = reason
    state.out.append(PodRejected(member.pod.uid, node, reason))


def reject_group(
    state: State,
    key: GroupKey,
    reason: str,
    *,
    now: float,
    freed: Iterable[NodeName] = (),
    proven: bool = False,
) -> None:
    """Let the current attempt of a group fall.

    Runtime complexity: O(k log n) for k members that wait, plus waking others.

    Args:
        state: The scheduler's memory.
        key: The group.
        reason: Why; every member is told.
        now: The current instant.
        freed: Nodes that its members gave back in this step already.
        proven: Whether it falls because those whose turn is still to come are too few.
    """
    info = state.registry.get(key)
    entity = state.entities.get(key)
    if info is None or entity is None:
        return
    since = state.holding.get(key)
    if not proven:
        _is_cut_short(state, entity)
    given_back = list(freed)
    for waiting in state.waiting.of(key):
        member = state.members[waiting.uid]
        release_node(state, member, cause="rejected", to=MemberState.UNSCHEDULED, now=now)
        set_down(state, member, waiting.node, reason)
        given_back.append(waiting.node)
    settle_hold(state, info)
    info.attempt_started_at = None
    info.last_failure_at = now
    # before others are woken: what it gives back itself is no news to it
    shape = equivalence.shape(state, entity)
    step = requeue.conclude(state, entity, shape, now=now)
    if step >= 0:
        # before it leaves the lead: what it failed with holds for the next one too
        state.queue.prove(shape, step=step)
    state.reserving.fell(entity, shape, step, state.nodes, for_want_of_room=proven)
    # out of the queue while what ranks it changes, and while others are woken
    state.queue.remove(entity, now=now)
    _tire(state, entity, now=now)
    entity.reason = reason
    info.failures = entity.failures
    info.backoff_until = entity.backoff_until
    state.out.append(GroupRejected(key, info.attempts, reason, entity.backoff_until))
    if since is not None:
        disproved = shape if step >= 0 else None
        requeue.gain(state, given_back, now=now, since=since, disproved=disproved)
    if not len(entity):
        return
    entity.refill()
    held = bundles.pre_enqueue(state, entity.pod, info, now)
    if isinstance(held, Unschedulable):
        gate(state, entity, held, now=now)
        return
    state.queue.park(entity, shape=shape, step=step, now=now)


def fail_entity(state: State, entity: QueuedEntity, *, now: float) -> None:
    """Let an entity that holds nothing rest after a try, then wait for a fact.

    Without a member that found no node, nothing is known about the cluster: it is tried again
    after its rest.
    """
    _is_cut_short(state, entity)
    if entity.place is not Place.ACTIVE:
        # what it rests until is what it is kept by
        state.queue.remove(entity, now=now)
    _tire(state, entity, now=now)
    entity.refill()
    entity.reason = state.members[entity.pod.uid].reason
    if entity.group is not None:
        # who gave a node back may be too few now for a quorum
        held = bundles.pre_enqueue(state, entity.pod, entity.group, now)
        if isinstance(held, Unschedulable):
            gate(state, entity, held, now=now)
            return
    shape = equivalence.shape(state, entity)
    step = requeue.conclude(state, entity, shape, now=now)
    state.reserving.fell(entity, shape, step, state.nodes, for_want_of_room=False)
    state.queue.park(entity, shape=shape, step=step, now=now)


def park_holding(state: State, entity: QueuedEntity, *, now: float) -> None:
    """Let a group that cannot be completed now keep what it holds and wait for a fact.

    When no member is known to fit nowhere, any fact may help it, and it stands alone.
    """
    entity.refill()
    if entity.failed_step < 0:
        state.queue.park(entity, shape=entity.seq, step=state.step, now=now)
        return
    shape = equivalence.shape(state, entity)
    step = entity.failed_step
    if entity.stirred_step > entity.round_step:
        step = -1 if requeue.may_fit(state, shape, now=now) else state.step
    state.queue.park(entity, shape=shape, step=step, now=now)


def gate(state: State, entity: QueuedEntity, held: Unschedulable, *, now: float) -> None:
    """Hold an entity out of the queue until a fact about it, and tell why."""
    state.queue.gate(entity, now=now)
    requeue.forget(state, entity)
    entity.reason = held.reason
    info = entity.group
    if info is None:
        state.out.append(PodNotAdmitted(entity.pod.uid, held.reason))
    else:
        info.attempt_started_at = None
        present, absent = equivalence.presence(state, info)
        if bundles.keys(info.spec) and present >= (info.min_available or 0) and not absent:
            # nobody of its own is missing
            state.out.append(PodNotAdmitted(entity.pod.uid, held.reason))
        else:
            state.out.append(GroupIncomplete(info.key, present, info.min_available, absent))


def settle_hold(state: State, info: PodGroupInfo | None) -> None:
    """Take note that a group holds nothing any more, if that is so. O(1)."""
    if info is not None and not info.waiting:
        state.holding.pop(info.key, None)
        state.yielding.pop(info.key, None)


def _is_cut_short(state: State, entity: QueuedEntity) -> None:
    """Take note when a round ends before everybody had a turn: it proves nothing then."""
    if entity.place is Place.ACTIVE and entity.ready_count:
        requeue.stir(state, entity)


def _tire(state: State, entity: QueuedEntity, *, now: float) -> None:
    entity.failures += 1
    entity.queued_at = now
    # where the clock is too coarse for a rest, the next instant ends it
    rest = now + state.rest.delay(entity.failures)
    entity.backoff_until = max(rest, math.nextafter(now, math.inf))
