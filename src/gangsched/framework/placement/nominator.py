"""Keeping room for somebody until those in it are gone.

Rules:
  R1  while it waits for them, a nominated entity is out of the queue: it is sent for when the room
      is there, when it cannot come any more, and when there is news about itself;
  R2  it has its turn with its stand-ins aside, and goes where room was kept for it, if it still
      may; where it cannot start though nobody is in the way, the room is not kept any longer;
  R3  what it was planned with has to be so still: who is no longer there as it was, and a node
      that is gone, have no room kept; too little of it is none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from gangsched._core._counters import MemberState
from gangsched._core._entity import Place, QueuedEntity
from gangsched.events import NominationLapsed
from gangsched.framework.config.cycle_state import CycleState
from gangsched.framework.nodes.node_class import NodeClass
from gangsched.framework.nodes.pod_class import Judge, PodClass
from gangsched.framework.placement import topology as group_topology
from gangsched.framework.placement.plan import Plan
from gangsched.framework.queueing import bundles, equivalence, requeue
from gangsched.framework.runtime import filter_and_score
from gangsched.framework.state.nomination import Kept, Nomination
from gangsched.framework.state.scheduler_state import Member, State
from gangsched.model import NodeName, PodUID
from gangsched.outcomes import Unschedulable

__all__ = [
    "drop",
    "hold_back",
    "holds_room",
    "keep",
    "lapse",
    "next_deadline",
    "next_member",
    "node_for",
    "plan",
    "review",
    "send_back",
    "step_aside",
    "step_back",
]

_FINISHED = (MemberState.SUCCEEDED, MemberState.FAILED)


def holds_room(state: State, uid: PodUID) -> bool:
    """Say whether a pod takes room on a node. O(1)."""
    member = state.members.get(uid)
    if member is None:
        return False
    return member.node is not None or (
        member.pod.node_name is not None and member.state not in _FINISHED
    )


def next_deadline(state: State) -> float | None:
    """Return when the first nomination lapses that waits for somebody. O(nominations)."""
    return min((n.deadline for n in state.nominations.values() if n.awaited), default=None)


# Before and after a turn ----------------------------------------------------------------------


def keep(state: State, nomination: Nomination) -> None:
    """Let stand-ins hold the room. O(pods x log nodes)."""
    state.nominations[nomination.entity.seq] = nomination
    for kept in nomination.kept.values():
        state.nodes.assume(kept.stand_in, kept.node)


def step_aside(state: State, entity: QueuedEntity) -> Nomination | None:
    """Let the stand-ins of an entity step aside for its turn, if there are any."""
    nomination = state.nominations.get(entity.seq)
    if nomination is not None:
        for stand_in in nomination.stand_ins():
            state.nodes.forget(stand_in.uid)
        nomination.is_lifted = True
    return nomination


def step_back(state: State, nomination: Nomination) -> None:
    """Let stand-ins hold the room again, after a turn that did not need it."""
    nomination.is_lifted = False
    keep(state, nomination)


def hold_back(state: State, nomination: Nomination, *, now: float) -> None:
    """Take who waits for room out of the queue until it is there; send for it if it is."""
    entity = nomination.entity
    if _is_there(state, nomination):
        _send_for(state, nomination, now=now)
        return
    entity.refill()
    state.queue.gate(entity, now=now)
    requeue.forget(state, entity)
    nodes = len(nomination.nodes)
    where = "1 node" if nodes == 1 else f"{nodes} nodes"
    entity.reason = f"room is kept on {where} until {_pods_are(nomination)} gone from there"


def drop(
    state: State, nomination: Nomination, reason: str, uids: Iterable[PodUID] | None = None
) -> list[NodeName]:
    """Keep room no more, and tell nobody but by a notice; return the nodes.

    Args:
        state: The scheduler's memory.
        nomination: The room.
        reason: Why; empty where there is nothing to tell.
        uids: For whom it was kept; None for those for whom it still is.
    """
    whose = [*nomination.kept] if uids is None else uids
    for stand_in in nomination.stand_ins():
        state.nodes.forget(stand_in.uid)
    del state.nominations[nomination.entity.seq]
    if reason:
        pods = tuple(uid for uid in whose if uid in state.members)
        state.out.append(NominationLapsed(nomination.group, pods, reason))
    return nomination.nodes


def lapse(
    state: State,
    nomination: Nomination,
    reason: str,
    *,
    now: float,
    uids: Iterable[PodUID] | None = None,
) -> None:
    """Keep room no more: whoever it was kept for, and whoever else it may help, is tried again."""
    nodes = drop(state, nomination, reason, uids)
    send_back(state, nomination, now=now)
    requeue.gain(state, nodes, now=now)


def send_back(state: State, nomination: Nomination, *, now: float) -> None:
    """Let an entity whose room is kept no more be tried again, if it was out of the queue."""
    entity = nomination.entity
    if state.queue.is_gated(entity) and len(entity):
        held = bundles.pre_enqueue(state, entity.pod, entity.group, now)
        if isinstance(held, Unschedulable):
            entity.reason = held.reason
        else:
            state.queue.activate(entity, now=now)


# Between turns --------------------------------------------------------------------------------


def review(state: State, *, now: float) -> None:
    """Look whether room that is kept is there by now, or is kept in vain.

    Runtime complexity: O(pods that room is kept for).
    """
    if state.overdue:
        state.overdue = {uid for uid in state.overdue if uid in state.members}
    for nomination in list(state.nominations.values()):
        uids = [*nomination.kept]  # what is kept on a node that is gone is dropped meanwhile
        reason = _vain(state, nomination, now=now)
        if not reason and not _is_there(state, nomination) and nomination.deadline <= now:
            state.overdue.update(uid for uid in nomination.awaited if holds_room(state, uid))
            reason = f"{_pods_are(nomination)} not gone in time"
        if reason:
            lapse(state, nomination, reason, now=now, uids=uids)
        elif not nomination.awaited and nomination.entity.place is not Place.ACTIVE:
            _send_for(state, nomination, now=now)


def _vain(state: State, nomination: Nomination, *, now: float) -> str:
    """Say why room is kept in vain; empty when it is not."""
    for uid, kept in list(nomination.kept.items()):
        if not _is_as_it_was(state, kept) or kept.node not in state.nodes.infos:
            del nomination.kept[uid]
            state.nodes.forget(kept.stand_in.uid)
            requeue.gain(state, (kept.node,), now=now)
    if not nomination.is_of_use:
        return "too little of it is left, or too few pods to use it"
    if equivalence.reach_of(state, nomination.entity)[0] != nomination.priority:
        return "another priority"
    for key, spec in nomination.specs:
        info = state.registry.get(key)
        if (None if info is None else info.spec) != spec:
            return f"the specification of pod group {key} has changed"
    return ""


def _is_as_it_was(state: State, kept: Kept) -> bool:
    member = state.members.get(kept.uid)
    pending = member is not None and member.state is MemberState.UNSCHEDULED
    return pending and member is not None and member.seq == kept.seq


def _is_there(state: State, nomination: Nomination) -> bool:
    """Say whether nobody is in the way any more. O(1) amortised."""
    awaited = nomination.awaited
    while awaited and not holds_room(state, awaited[-1]):
        awaited.pop()
    return not awaited


def _send_for(state: State, nomination: Nomination, *, now: float) -> None:
    """Let an entity have its turn now that its room is there, whether it rests or not."""
    entity = nomination.entity
    held = bundles.pre_enqueue(state, entity.pod, entity.group, now)
    if isinstance(held, Unschedulable):
        lapse(state, nomination, held.reason, now=now)
        return
    state.queue.remove(entity, now=now)
    entity.backoff_until = -math.inf
    if entity.group is not None:
        entity.group.backoff_until = -math.inf
    entity.refill()
    state.queue.activate(entity, now=now)


# In a turn ------------------------------------------------------------------------------------


def next_member(state: State, entity: QueuedEntity) -> Member | None:
    """Return whose turn it is by a nomination of one pod; None where there is none."""
    nomination = state.nominations.get(entity.seq)
    if nomination is None or len(nomination.kept) > 1:
        return None
    return state.members[next(iter(nomination.kept))]


def node_for(state: State, member: Member, pod_class: PodClass, judge: Judge) -> NodeName | None:
    """Return the node where room was kept for a pod, if it is there and takes it.

    Runtime complexity: O(pods that room is kept for).
    """
    nomination = state.nominations.get(member.entity.seq)
    kept = None if nomination is None else nomination.kept.get(member.pod.uid)
    if nomination is None or kept is None or nomination.awaited:
        return None
    now_and_then = _now_and_then(state, nomination, kept.node)
    is_refused = any(pod_class.judgement(given, judge).reasons for given in now_and_then)
    return None if is_refused else kept.node


def plan(
    state: State,
    entity: QueuedEntity,
    members: Sequence[Member],
    cycles: Mapping[int, CycleState],
    *,
    now: float,
) -> Plan | None:
    """Return a plan with everybody where room was kept for him; None where that cannot be.

    Runtime complexity: O(pods).
    """
    nomination = state.nominations.get(entity.seq)
    if nomination is None or nomination.awaited:
        return None
    found, taken = Plan(state), dict[int, list[NodeClass]]()
    by_uid = {member.pod.uid: member for member in members}
    for kept in nomination.kept.values():
        member = by_uid.get(kept.uid)
        if member is None or not _is_in_its_domain(state, member, nomination):
            return None
        index = state.nodes.infos[kept.node].index
        given = found.at(index) if index in taken else state.nodes.classes.of(index)
        asked = taken.get(index) or _now_and_then(state, nomination, kept.node)
        pod_class, judge, answer = filter_and_score.judge_nodes(
            state, cycles[member.seq], member, now
        )
        if isinstance(answer, Unschedulable):
            return None
        if any(pod_class.judgement(each, judge).reasons for each in asked):
            return None
        found.put(member, given, on=index)
        taken[index] = [state.nodes.classes.taking(each, member.requests) for each in asked]
    return found


def _now_and_then(state: State, nomination: Nomination, name: NodeName) -> list[NodeClass]:
    """Return what a node is without the stand-ins of others, and what it is to be.

    Others leave enough room for who has some kept there, but only once those are gone who go: so
    there has to be room now beside who is there, and then beside whom room is kept for that no
    lower priority may take. Where the node came to offer less, there need not be.
    """
    classes, info = state.nodes.classes, state.nodes.infos[name]
    now = then = classes.of(info.index)
    awaited: dict[PodUID, None] = {}
    for other in state.nominations.values():
        if other is nomination:
            continue
        for kept in other.kept.values():
            if kept.node == name:
                now = classes.giving_back(now, kept.stand_in.requests)
                if other.priority < nomination.priority:
                    then = classes.giving_back(then, kept.stand_in.requests)
        awaited.update(dict.fromkeys(other.awaited))
    for uid in awaited:
        if uid in info.holders:
            then = classes.giving_back(then, info.holders[uid])
    return [now] if now is then else [now, then]


def _is_in_its_domain(state: State, member: Member, nomination: Nomination) -> bool:
    """Say whether the nodes that are kept for a gang still have one value of its label."""
    info = member.group
    topology = None if info is None or info.spec is None else info.spec.topology
    if info is None or topology is None or not topology.required:
        return True
    nodes = (each.node for each in nomination.kept.values() if each.group == info.key)
    values = {state.nodes.infos[name].node.labels.get(topology.key) for name in nodes}
    joined = group_topology.joined(state, info)
    return len(values) == 1 and None not in values and (joined is None or values <= joined.values)


def _pods_are(nomination: Nomination) -> str:
    count = len(nomination.awaited)
    return "1 pod is" if count == 1 else f"{count} pods are"
