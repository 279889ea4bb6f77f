"""Making the known pods agree with what the cluster state shows.

Rules:
  R1  while a bind is under way, a change of the pod is only charged to its node, and a deletion
      counted: the report of the bind, a node, or the end of the pod settles the rest;
  R2  the nodes that a pod has left or come to are read with it;
  R3  a pod is of the equivalence class of its current signature; the class is dropped with its
      last pod.
"""

from __future__ import annotations

from typing import Final

from gangsched._core._counters import MemberState
from gangsched._core._entity import QueuedEntity
from gangsched._core._group_entity import QueuedGroup
from gangsched._core._registry import PodGroupInfo
from gangsched.errors import InvalidPodGroupError
from gangsched.events import PodNotAdmitted, PodRefused, PriorityOverruled
from gangsched.framework.events import assumed_pod, move_entity, pod_ends, prefetch
from gangsched.framework.events.gates import gates
from gangsched.framework.events.prefetch import Seen
from gangsched.framework.events.wanted_state import (
    conflict,
    is_another,
    is_being_bound,
    wanted_state,
)
from gangsched.framework.lifecycle import assume, permit_end
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.placement import nominator
from gangsched.framework.queueing import requeue
from gangsched.framework.runtime import filter_and_score
from gangsched.framework.state import label_readers
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pod_classes import PodClasses
from gangsched.framework.state.pods import Member, Pods
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings
from gangsched.model import NodeName, Pod, PodPhase, PodUID

__all__ = ["has_left", "look_at_nodes", "pod_changed", "tell_priority"]

_EVICTABLE = (MemberState.GATED, MemberState.UNSCHEDULED, MemberState.ASSIGNED)
# a look-up in an enum takes ten times as long, and pods are compared with every event
_ASSIGNED: Final = MemberState.ASSIGNED
_REFUSED: Final = MemberState.REFUSED
_SUCCEEDED: Final = MemberState.SUCCEEDED
_HELD: Final = frozenset({MemberState.REFUSED, MemberState.GATED})
_UNSCHEDULED: Final = MemberState.UNSCHEDULED
_WAITING: Final = MemberState.WAITING


def pod_changed(state: State, uid: PodUID, *, now: float) -> None:
    """Read a pod again. O(log n), plus what follows from it."""
    before = pod_ends.on_its_node(state.settings, state.pods, uid)
    _pod_changed(state, uid, now=now)
    if before is not None:
        pod_ends.notify(state, before, now=now)


def _pod_changed(state: State, uid: PodUID, *, now: float) -> None:
    seen, member = (
        prefetch.look(state.settings, state.pod_classes, state.call, uid),
        state.pods.members.get(uid),
    )
    if seen is None:
        if member is not None:
            _forget(state, member, now=now)
            state.pods.evicted.discard(uid)
        return
    pod = seen.pod
    if (
        member is not None
        and is_being_bound(member)
        and pod.node_name is None
        and not pod.is_finished
    ):
        # the report of its bind decides, and the rest of a change is read with it; but no other
        # pod may get what this one requests by now, and its gang must not count on it to stay
        if state.nodes.replace_pod(pod) and member.node is not None:
            requeue.gain(state, (member.node,), now=now, ends_backoff=True)
        if pod.deleted_at is not None:
            state.pods.put(member, MemberState.TERMINATING)
        return
    due = member if member is not None and member.node and uid in state.pods.evicted else None
    reason = "" if due is None else due.reason
    claim, problem = seen.claim, seen.problem or conflict(state.pods, seen)
    wanted = wanted_state(state.settings, state.pods, seen, problem)
    if uid in state.pods.evicted and wanted in _EVICTABLE:
        wanted = MemberState.TERMINATING
    elif uid in state.pods.evicted and wanted is _SUCCEEDED:
        wanted = MemberState.ENDED
    if member is None:
        _admit(state, seen, wanted, problem, now=now)
    elif is_another(member, seen):
        if member.node is not None and pod.node_name == member.node:
            assumed_pod.confirm(state, member, now=now)
        _forget(state, member, now=now)
        _pod_changed(state, uid, now=now)
        fresh = state.pods.members[uid]
        if pod.node_name is not None and member.started_at is not None:
            fresh.started_at = member.started_at
    else:
        restated: PodGroupInfo | None = None
        if member.state is _REFUSED and claim is not None:
            state.pods.registry.join(pod, claim, wanted)
        elif claim is not None and state.pods.registry.update_claim(pod, claim, wanted):
            restated = member.group
        _change_class(state.nodes, state.pod_classes, member, seen)
        _update(state, member, pod, wanted, problem, now=now)
        if restated is not None:
            _look_at_refused(state, restated, now=now)
            move_entity.move(state, member.entity, now=now)
    if due is not None:
        assume.post_evict(state.call, pod, reason)
        nominator.note_evicted(state.settings, state.reservations, uid, now=now)


def has_left(
    settings: Settings, pods: Pods, pod_classes: PodClasses, call: CurrentCall, uid: PodUID
) -> bool:
    """Return whether a known pod is gone, is ending, or is in its group no more. O(1)."""
    seen, member = prefetch.look(settings, pod_classes, call, uid), pods.members[uid]
    if seen is None or seen.pod.is_finished or seen.pod.deleted_at is not None:
        return True
    group = None if member.group is None else member.group.key
    return is_another(member, seen) or bool(gates(settings, pods, seen.pod, group))


def _admit(
    state: State,
    seen: Seen,
    wanted: MemberState,
    problem: InvalidPodGroupError | None,
    *,
    now: float,
) -> None:
    pod, claim = seen.pod, seen.claim
    info: PodGroupInfo | None = None
    if claim is not None:
        info = state.pods.registry.join(pod, claim, wanted)
        entity = state.pods.entities.get(claim.group)
        if entity is None:
            entity = QueuedGroup(state.pods.number(), pod.created_at, info)
            entity.failures, entity.backoff_until = info.failures, info.backoff_until
            entity.reason = info.failure
            state.pods.entities[claim.group] = entity
    else:
        entity = QueuedEntity(state.pods.number(), pod.created_at)
    pod_class = _join_class(state.nodes, state.pod_classes, seen)
    member = Member(pod, state.pods.number(), entity, info, pod_class, wanted)
    member.started_at = None if pod.node_name is None else now
    # a report of an attempt of an earlier pod with this UID must stay late
    member.attempt = state.pods.attempt_floor
    is_first = label_readers.note(state.nodes, state.pod_classes, member)
    state.pods.members[pod.uid] = member
    state.pods.count_priority(member, 1)
    state.pods.hold(member)
    if claim is not None:
        member.role = claim.role
    if is_first:
        filter_and_score.evaluate_ahead(state.settings, state.nodes, state.pod_classes, member, now)
    if wanted is _UNSCHEDULED:
        tell_priority(state.call, member)
        entity.add(pod, member.seq, member.role, member.pod_class)
    _tell_held(state.settings, state.pods, state.call, member, problem)
    look_at_nodes(state, pod.node_name, uid=pod.uid, now=now)
    move_entity.move(state, entity, arrived=member, now=now)


def _update(
    state: State,
    member: Member,
    pod: Pod,
    wanted: MemberState,
    problem: InvalidPodGroupError | None,
    *,
    now: float,
) -> None:
    before, node, known = member.state, member.node, member.pod
    left = known.node_name
    member.replace(pod)
    state.pods.hold(member)
    if pod.node_name is None:
        member.started_at = None
    elif member.started_at is None:
        member.started_at = now
    if before is _UNSCHEDULED:
        member.entity.replace(pod)
        state.queue.note_changed(member.entity)
    if before is wanted and node is None:
        look_at_nodes(state, left, pod.node_name, uid=pod.uid, now=now)
        if before is _UNSCHEDULED and known != pod:
            move_entity.move_if_needed(state, member.entity, now=now)
        elif before in _HELD and (
            _why_held(state.settings, state.pods, member, problem) != member.reason
        ):
            _tell_held(state.settings, state.pods, state.call, member, problem)
        return
    if node is not None:
        if pod.node_name == node:
            assumed_pod.confirm(state, member, now=now)
        elif wanted is _UNSCHEDULED:
            if state.nodes.replace_pod(pod):
                requeue.gain(state, (node,), now=now, ends_backoff=True)
            if before is _WAITING and known != pod:
                permit_end.ask_again(state, member, now=now)
            return
        else:
            reason = (
                f"pod {pod.name} {_what_happened(state.settings, state.pods, member, pod, problem)}"
            )
            assumed_pod.put_down(state, member, reason, cause="changed", to=wanted, now=now)
    elif before is _UNSCHEDULED:
        member.entity.discard(pod.uid)
    if wanted is _UNSCHEDULED:
        member.entity.add(pod, member.seq, member.role, member.pod_class)
    if before is _SUCCEEDED and wanted is MemberState.ENDED and member.group is not None:
        member.group.members.collect(member.role)
    if wanted is MemberState.FAILED and pod.deleted_at is None and member.group is not None:
        state.pods.restarts.note_failed(member.group.key, now=now)
    state.pods.put(member, wanted)
    label_readers.note(state.nodes, state.pod_classes, member)
    _tell_held(state.settings, state.pods, state.call, member, problem)
    look_at_nodes(state, left, pod.node_name, uid=pod.uid, now=now)
    move_entity.move(state, member.entity, now=now)


def _what_happened(
    settings: Settings,
    pods: Pods,
    member: Member,
    pod: Pod,
    problem: InvalidPodGroupError | None,
) -> str:
    """Return why a pod can no longer hold the node that it was assumed on."""
    if problem is not None and pod.node_name is None:
        return f"contradicts its group: {problem}"
    if pod.is_finished:
        return "has succeeded" if pod.phase is PodPhase.SUCCEEDED else "has failed"
    if pod.deleted_at is not None:
        return "is terminating"
    if pod.node_name is not None:
        return f"was bound to {pod.node_name}"
    group = None if member.group is None else member.group.key
    return "; ".join(gates(settings, pods, pod, group))


def _forget(state: State, member: Member, *, now: float) -> None:
    uid, entity, info = member.pod.uid, member.entity, member.group
    is_gone = prefetch.look(state.settings, state.pod_classes, state.call, uid) is None
    if member.node is not None:
        cause, how = ("deleted", "was deleted") if is_gone else ("changed", "has changed")
        reason = f"pod {member.pod.name} {how}"
        ended = MemberState.TERMINATING
        assumed_pod.put_down(state, member, reason, cause=cause, to=ended, now=now)
    entity.discard(uid)
    state.pods.attempt_floor = max(state.pods.attempt_floor, member.attempt)
    del state.pods.members[uid]
    state.pods.count_priority(member, -1)
    state.pods.hold(member, is_known=False)
    label_readers.leave(state.nodes, state.pod_classes, member)
    _leave_class(state.nodes, state.pod_classes, member.pod_class)
    if info is not None:
        said = (info.claimed_min, info.claimed_priority)
        if member.state is _SUCCEEDED and is_gone:
            info.members.collect(member.role)
        state.pods.registry.leave(info.key, uid, now=now)
        if not info.members:
            del state.pods.entities[info.key]
            state.call.touched[info.key] = None
            state.reservations.backfill.forget(info.key)
        elif said != (info.claimed_min, info.claimed_priority):
            # members that contradicted a member that is gone may be admitted now
            _look_at_refused(state, info, now=now)
    look_at_nodes(state, member.pod.node_name, uid=uid, now=now)
    move_entity.move(state, entity, now=now)


def _join_class(nodes: Nodes, pod_classes: PodClasses, seen: Seen) -> PodClass:
    """Count a pod as one more of its equivalence class. O(1)."""
    pod_class = pod_classes.by_signature.get(seen.signature)
    if pod_class is None:
        pod_class = PodClass(
            seen.signature,
            seen.pod,
            seen.labels,
            reads_pods=seen.reads_pods,
            watches_pods=seen.watches_pods,
            carried=seen.carried,
            selected=seen.selected,
            objects=seen.objects,
        )
        pod_classes.by_signature[seen.signature] = pod_class
        if pod_class.watches_pods:
            pod_classes.watch(pod_class, 1, nodes)
    pod_class.users += 1
    return pod_class


def _leave_class(nodes: Nodes, pod_classes: PodClasses, pod_class: PodClass) -> None:
    """Count a pod as one less of its equivalence class, and drop the class after the last."""
    pod_class.users -= 1
    if not pod_class.users:
        del pod_classes.by_signature[pod_class.signature]
        pod_classes.leave(pod_class.judgements)
        if pod_class.watches_pods:
            pod_classes.watch(pod_class, -1, nodes)


def _change_class(nodes: Nodes, pod_classes: PodClasses, member: Member, seen: Seen) -> None:
    """Move a pod that has a node to the pod class of its current signature."""
    if member.pod_class.signature != seen.signature:
        before = member.pod_class
        label_readers.leave(nodes, pod_classes, member)
        member.pod_class = _join_class(nodes, pod_classes, seen)
        label_readers.note(nodes, pod_classes, member)
        _leave_class(nodes, pod_classes, before)


def _look_at_refused(state: State, info: PodGroupInfo, *, now: float) -> None:
    """Re-read the members that were refused because their claims contradicted earlier members."""
    for member in state.pods.of_group(info):
        if member.state is _REFUSED:
            pod_changed(state, member.pod.uid, now=now)


def tell_priority(call: CurrentCall, member: Member) -> None:
    """Post that the priority of a group decides for a member that has another one."""
    info, pod = member.group, member.pod
    if info is not None and info.priority != pod.priority:
        call.out.append(PriorityOverruled(pod.uid, info.key, pod.priority, info.priority))


def _tell_held(
    settings: Settings,
    pods: Pods,
    call: CurrentCall,
    member: Member,
    problem: InvalidPodGroupError | None,
) -> None:
    if member.state in _HELD:
        member.reason = _why_held(settings, pods, member, problem)
        notice = PodRefused if member.state is _REFUSED else PodNotAdmitted
        call.out.append(notice(member.pod.uid, member.reason))


def _why_held(
    settings: Settings, pods: Pods, member: Member, problem: InvalidPodGroupError | None
) -> str:
    """Return why a member is refused or gated; empty for a member that is neither."""
    if member.state is _REFUSED:
        return str(problem)
    group = None if member.group is None else member.group.key
    return "; ".join(gates(settings, pods, member.pod, group))


def look_at_nodes(
    state: State, *names: NodeName | None, now: float, uid: PodUID | None = None
) -> None:
    """Read nodes again, such as the one that a pod has left and the one that it is on.

    Pending pods that the cluster state shows on such a node, before their own event, are read too:
    another scheduler has bound them. Until they are known as assigned, they would be placed a
    second time, and counted twice. Runtime complexity: O(pods on the nodes).

    Args:
        state: The scheduler's state.
        *names: The nodes; None for none.
        now: The current instant.
        uid: The pod that the event is about; of a crowded node, only that pod is read.
    """
    for name in dict.fromkeys(names):
        if name is None:
            continue
        pods_version = state.nodes.pods_version
        if uid is None:
            gains = state.nodes.refresh(name)
        else:
            seen = prefetch.look(state.settings, state.pod_classes, state.call, uid)
            gains = state.nodes.refresh_pod(name, uid, None if seen is None else seen.pod)
        if gains:
            requeue.gain(state, (name,), now=now, ends_backoff=True)
        elif state.nodes.pods_version != pods_version:
            requeue.pods_changed(state, now=now)
        for arrived in state.call.arrived.pop(name, ()):
            pod_changed(state, arrived, now=now)
