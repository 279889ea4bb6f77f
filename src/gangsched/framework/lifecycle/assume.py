"""Members that hold a node before they are bound: how they take it, wait, and give it back.

Rules:
  R1  a node is taken and given back here only, so the node table, the counters of the group, the
      waiting map and the entity always change together;
  R2  nothing here moves an entity in the queue: callers pass an outcome to ``transition``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gangsched._core._counters import MemberState
from gangsched._core._registry import PodGroupInfo
from gangsched.cycle_state import CycleState
from gangsched.events import Evict, PodRejected, PodWaiting
from gangsched.framework.nodes.node_class import NodeClass
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.runtime import extension_points
from gangsched.framework.runtime.extension_points import Waits
from gangsched.framework.state import label_readers
from gangsched.framework.state.attempts import Attempts
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pods import Member, Pods
from gangsched.framework.state.scheduler_state import State
from gangsched.model import NodeName, Pod
from gangsched.outcomes import EvictGroup, RejectGroup

__all__ = [
    "assume",
    "assume_together",
    "evict",
    "give_back",
    "give_back_all",
    "note_permit_ended",
    "post_evict",
    "report_rejected",
    "unassume",
    "wait",
]


def assume(nodes: Nodes, pods: Pods, member: Member, cycle: CycleState, node: NodeName) -> None:
    """Assume a pod on a node. O(log nodes)."""
    member.node = node
    member.cycle = cycle
    member.attempt += 1
    nodes.assume(member.pod, node)
    pods.put(member, MemberState.WAITING)
    member.entity.discard(member.pod.uid)


def assume_together(
    nodes: Nodes,
    pods: Pods,
    parties: Iterable[Sequence[Member]],
    placed: Sequence[tuple[Member, int]],
    become: Iterable[tuple[int, NodeClass]],
    cycles: Mapping[int, CycleState],
) -> None:
    """Assume the members of a planned gang. O(members), O(nodes x log nodes) of theirs.

    Args:
        nodes: The nodes.
        pods: The known pods and groups.
        parties: The members, by group.
        placed: The members in the order in which they were placed, with the index of the node.
        become: The equivalence class that each node is in afterwards.
        cycles: The cycle state of each member, by its number.
    """
    by_index = nodes.by_index
    for member, index in placed:
        member.node = by_index[index].node.name
        member.cycle = cycles[member.seq]
        member.attempt += 1
    for members in parties:
        members[0].entity.discard_all(pods.put_all(members, MemberState.WAITING))
    nodes.assume_together([(m.pod, m.requests, index) for m, index in placed], become)


def unassume(nodes: Nodes, pods: Pods, member: Member) -> None:
    """Undo ``assume`` for a cycle that is broken off: the attempt of the pod does not count."""
    member.node = member.cycle = None
    member.attempt -= 1
    nodes.forget(member.pod.uid)
    pods.put(member, MemberState.UNSCHEDULED)
    member.entity.add(member.pod, member.seq, member.role, member.pod_class)
    member.entity.mark_ready(member.pod.uid)


def wait(
    state: State, member: Member, waits: Waits, *, now: float, timeout: float | None = None
) -> None:
    """Let an assumed pod wait on permit, and post ``PodWaiting``. O(log n).

    Args:
        state: The scheduler's state.
        member: The pod.
        waits: The plugins that let it wait; none if it waits for its siblings only.
        now: The current instant.
        timeout: How long it waits in seconds; None for the shortest timeout of *waits*.
    """
    info, node, uid = member.group, member.node, member.pod.uid
    plugins = tuple([name for name, _seconds in waits])
    assert node is not None
    waiting = state.pods.waiting.wait(
        uid,
        node=node,
        timeout=min(seconds for _name, seconds in waits) if timeout is None else timeout,
        now=now,
        group=None if info is None else info.key,
        attempt=member.attempt if info is None else info.attempts,
        plugins=plugins,
    )
    remaining = 0
    if info is not None:
        state.attempts.waiting_since.setdefault(info.key, state.attempts.step)
        remaining = max(extension_points.members_needed(state.settings, state.call, info) or 0, 0)
    notice = PodWaiting(uid, node, waiting.deadline, remaining, member.attempt, plugins)
    state.call.out.append(notice)


def give_back(
    state: State, member: Member, *, cause: str, to: MemberState, now: float
) -> RejectGroup | EvictGroup | None:
    """Take an assumed member off its node, and put it in state *to*.

    The counters change before ``unreserve`` is called, so a plugin sees the group without the
    member.

    Returns:
        The verdict of a plugin on the group. The caller applies it when its own step is done,
        so that no rejection runs inside another.
    """
    assert member.node is not None
    state.pods.waiting.remove(member.pod.uid)
    state.nodes.forget(member.pod.uid)
    state.pods.put(member, to)
    verdict = extension_points.unreserve(state.settings, state.call, member, cause, now)
    member.node = member.cycle = None
    state.pods.hold(member)
    label_readers.note(state.nodes, state.pod_classes, member)
    if to is MemberState.UNSCHEDULED:
        member.entity.add(member.pod, member.seq, member.role, member.pod_class)
        member.entity.mark_tried(member.pod.uid)
    return verdict


def give_back_all(state: State, info: PodGroupInfo, reason: str, *, now: float) -> list[NodeName]:
    """Take every waiting member of a group off its node; return the nodes. O(members)."""
    freed: list[NodeName] = []
    for waiting in state.pods.waiting.of(info.key):
        member = state.pods.members[waiting.uid]
        # a verdict of unreserve is dropped: the group is being rejected already
        give_back(state, member, cause="rejected", to=MemberState.UNSCHEDULED, now=now)
        report_rejected(state.call, member, waiting.node, reason)
        freed.append(waiting.node)
    note_permit_ended(state.attempts, info)
    return freed


def report_rejected(call: CurrentCall, member: Member, node: NodeName, reason: str) -> None:
    """Post ``PodRejected`` for a pod that has given a node back."""
    member.reason = reason
    call.out.append(PodRejected(member.pod.uid, node, reason))


def note_permit_ended(attempts: Attempts, info: PodGroupInfo | None) -> None:
    """Forget that a group waits on permit, once no member of it does. O(1)."""
    if info is not None and not info.waiting:
        attempts.waiting_since.pop(info.key, None)
        attempts.giving_way.pop(info.key, None)


def evict(pods: Pods, call: CurrentCall, member: Member, reason: str) -> None:
    """Ask for the eviction of a pod that is bound or being bound; it no longer counts. O(1).

    While its bind is under way, nothing is there to evict, and an eviction may overtake the bind.
    Then ``Evict`` is posted when the bind is reported as done; see ``post_evict``.
    """
    node = member.pod.node_name if member.state is MemberState.ASSIGNED else member.node
    if node is None or member.state is MemberState.WAITING or member.pod.uid in pods.evicted:
        return
    pods.evicted.add(member.pod.uid)
    pods.put(member, MemberState.TERMINATING)
    member.reason = reason
    if member.node is None:
        call.out.append(Evict(member.pod.uid, node, reason))


def post_evict(call: CurrentCall, pod: Pod, reason: str) -> None:
    """Post the eviction that was put off until the bind of a pod ended. O(1)."""
    if pod.node_name is not None and pod.deleted_at is None and not pod.is_finished:
        call.out.append(Evict(pod.uid, pod.node_name, reason))
