"""Members that hold a node: how they take it, wait, and are let go.

Rules:
  R1  the binding cycle begins only when permit has let a pod go, with everybody who waited for it;
  R2  release is one step over one state: the effects are one ``Release`` and the binds, in the
      order in which the members took their nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from gangsched._core._counters import MemberState
from gangsched._core._entity import QueuedEntity
from gangsched._core._registry import PodGroupInfo
from gangsched.events import Bind, GroupScheduled, PodUnschedulable, PodWaiting, Release
from gangsched.framework.config.cycle_state import CycleState
from gangsched.framework.lifecycle import reject
from gangsched.framework.nodes.node_class import NodeClass
from gangsched.framework.queueing import bundles, equivalence, requeue
from gangsched.framework.runtime import extension_points
from gangsched.framework.state.scheduler_state import Member, State
from gangsched.model import NodeName
from gangsched.outcomes import SUCCESS, Unschedulable, Wait

__all__ = ["after_turn", "assume", "assume_together", "let_go", "unassume", "wait"]


def assume(state: State, member: Member, cycle: CycleState, node: NodeName) -> None:
    """Let a pod hold a node. O(log nodes)."""
    member.node = node
    member.cycle = cycle
    member.attempt += 1
    state.nodes.assume(member.pod, node)
    state.put(member, MemberState.WAITING)
    member.entity.discard(member.pod.uid)


def assume_together(
    state: State,
    parties: Iterable[Sequence[Member]],
    placed: Sequence[tuple[Member, int]],
    become: Iterable[tuple[int, NodeClass]],
    cycles: Mapping[int, CycleState],
) -> None:
    """Let members hold their nodes. O(members), O(nodes x log nodes) of theirs.

    Args:
        state: The scheduler's memory.
        parties: The members, by group.
        placed: The members in the order in which they were placed, with the index of the node.
        become: What the nodes become by it.
        cycles: The cycle of each member, by its number.
    """
    by_index = state.nodes.by_index
    for member, index in placed:
        member.node = by_index[index].node.name
        member.cycle = cycles[member.seq]
        member.attempt += 1
    for members in parties:
        state.put_all(members, MemberState.WAITING)
        members[0].entity.discard_all([member.pod.uid for member in members])
    state.nodes.assume_together(((m.pod, m.requests, index) for m, index in placed), become)


def unassume(state: State, member: Member) -> None:
    """Undo ``assume``, for a turn that is broken off."""
    member.node = member.cycle = None
    member.attempt -= 1
    state.nodes.forget(member.pod.uid)
    state.put(member, MemberState.UNSCHEDULED)
    member.entity.add(member.pod, member.seq, member.role)
    member.entity.put_back(member.pod.uid)


def wait(state: State, member: Member, outcome: Wait, *, now: float) -> None:
    """Let a pod that holds a node wait on permit."""
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
        remaining = max(extension_points.members_needed(state, info) or 0, 0)
    state.out.append(PodWaiting(uid, node, waiting.deadline, remaining))
    after_turn(state, member.entity, now=now)


def after_turn(state: State, entity: QueuedEntity, *, now: float) -> None:
    """Put an entity where it belongs after a member of it had its turn."""
    if entity.ready_count:
        return
    info = entity.group
    if not len(entity):
        state.queue.remove(entity, now=now)
    elif info is not None and info.key in state.holding:
        reject.park_holding(state, entity, now=now)
    elif info is None or equivalence.goes_alone(state, info):
        reject.fail_entity(state, entity, now=now)
    else:
        reason = state.members[entity.pod.uid].reason
        reject.reject_group(state, info.key, reason, now=now)


def let_go(state: State, *parties: list[Member], now: float) -> bool:
    """Run the binding cycle of members that may go together, up to their binds.

    Args:
        state: The scheduler's memory.
        parties: Members of one group each, or one regular pod: all go, or none does.
        now: The current instant.

    Returns:
        False when members were turned down so that no quorum is left: nothing has changed, and
        the ``reason`` of the last member says who and why.
    """
    ready: list[tuple[list[Bind | None], dict[int, str]]] = []
    for members in parties:
        found = _prepare(state, members, now=now)
        if found is None:
            parties[-1][-1].reason = members[-1].reason
            return False
        ready.append(found)
    for members, (binds, refused) in zip(parties, ready, strict=True):
        _release(state, members, binds, refused, now=now)
    return True


def _prepare(
    state: State, members: list[Member], *, now: float
) -> tuple[list[Bind | None], dict[int, str]] | None:
    """Ask for the binds of members; return them with who was turned down, and why."""
    refused: dict[int, str] = {}
    binds: list[Bind | None] = []
    asked = bool(state.profile.pre_bind)
    for member in members:
        outcome = extension_points.pre_bind(state, member, now) if asked else SUCCESS
        if isinstance(outcome, Unschedulable):
            refused[member.seq] = outcome.reason
            binds.append(None)
        else:
            binds.append(extension_points.bind(state, member, now))
    if refused and not _is_quorum_without(state, members, refused):
        members[-1].reason = next(iter(refused.values()))
        return None
    return binds, refused


def _release(
    state: State,
    members: list[Member],
    binds: list[Bind | None],
    refused: dict[int, str],
    *,
    now: float,
) -> None:
    info = members[-1].group
    since = None if info is None else state.holding.get(info.key)
    freed: list[NodeName] = []
    gone = [member for member in members if member.seq not in refused] if refused else members
    if info is not None:
        if since is not None:
            state.waiting.allow(info.key)
        if info.attempt_started_at is not None:
            _mark_scheduled(state, info, now=now)
        if gone:  # a quorum may run already, and of those that join it nobody may go
            state.out.append(Release(info.key, tuple([member.pod.uid for member in gone])))
    state.put_all(gone, MemberState.BINDING)
    for member, effect in zip(members, binds, strict=True):
        if effect is None:
            assert member.node is not None
            freed.append(member.node)
            reject.release_node(state, member, cause="refused", to=MemberState.UNSCHEDULED, now=now)
            member.reason = refused[member.seq]
            state.out.append(PodUnschedulable(member.pod.uid, member.reason))
        else:
            state.out.append(effect)
    reject.settle_hold(state, info)
    _after_release(state, members[-1].entity, now=now)
    if since is not None:
        requeue.gain(state, freed, now=now, since=since)


def _is_quorum_without(state: State, members: list[Member], refused: Mapping[int, object]) -> bool:
    """Say whether those of some members that were not turned down may go. O(members x roles)."""
    info = members[-1].group
    needed: Mapping[str, int] = {} if info is None else extension_points.roles_needed(state, info)
    lost = [member.role for member in members if member.seq in refused]
    if not needed:
        return len(lost) < len(members)
    return all(
        more + (lost.count(role) if role else len(lost)) <= 0 for role, more in needed.items()
    )


def _mark_scheduled(state: State, info: PodGroupInfo, *, now: float) -> None:
    info.was_scheduled = True
    info.last_failure_at = info.attempt_started_at = None
    info.failures = 0
    info.backoff_until = -math.inf
    since = now if info.complete_at is None else info.complete_at
    state.out.append(GroupScheduled(info.key, info.attempts, info.scheduled, now - since))


def _after_release(state: State, entity: QueuedEntity, *, now: float) -> None:
    entity.failures = 0
    entity.reason, entity.unschedulable_member = "", None
    if not len(entity):
        requeue.forget(state, entity)
        state.queue.remove(entity, now=now)
        return
    held = bundles.pre_enqueue(state, entity.pod, entity.group, now)
    if isinstance(held, Unschedulable):
        # who is left over may be too few for the next quorum
        entity.refill()
        reject.gate(state, entity, held, now=now)
    elif entity.ready_count:
        # what ranks a group may have changed with its release
        state.queue.activate(entity, now=now)
    else:
        reject.fail_entity(state, entity, now=now)
