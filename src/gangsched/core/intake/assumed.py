"""Pods that are assumed on a node when an event changes them, or the node.

Rule: while a bind is under way the pod is left alone: its report, its end or a node settles it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gangsched.core.intake.seen import gates
from gangsched.core.moves.lost_nodes import lose
from gangsched.core.preemption import nominations
from gangsched.core.records.gang import PodRecord
from gangsched.core.state import State
from gangsched.errors import InvalidPodGroupError
from gangsched.events import (
    Evict,
    PodScheduled,
)
from gangsched.model import Pod, PodPhase
from gangsched.primitives.counters import MemberState

__all__ = [
    "check_waiting",
    "confirm",
    "evict_if_due",
    "note_change_while_bound",
    "what_happened",
]

_UNSCHEDULED: Final = MemberState.UNSCHEDULED
_WAITING: Final = MemberState.WAITING
_ASSIGNED: Final = MemberState.ASSIGNED
_TERMINATING: Final = MemberState.TERMINATING


def note_change_while_bound(state: State, record: PodRecord, pod: Pod) -> None:
    """Count what a pod requests now on the node that it is being bound to.

    A pod that was deleted meanwhile terminates there.
    """
    state.records.replace(record, pod)
    if pod.deleted_at is not None and record.state is MemberState.BINDING:
        state.records.move(record, _TERMINATING, record.slot)
    state.touch(record.gang)


def confirm(state: State, record: PodRecord) -> None:
    """Make an assumed pod assigned: the cluster shows it on its node."""
    node = record.node
    assert node is not None
    state.records.waiting.remove(record.uid)
    if record.is_evicted:
        state.records.move(record, _TERMINATING, record.slot)
    else:
        state.records.move(record, _ASSIGNED, record.slot)
    record.cycle = None
    record.pod_class = None
    record.bind_failures = 0
    record.started_at = state.records.now
    reason, record.reason, record.told = record.reason, "", ""
    state.call.out.append(PodScheduled(record.uid, node))
    state.points.post_bind(record, state.records.now)
    if record.is_evicted:
        evict_if_due(state, record, reason)


def evict_if_due(state: State, record: PodRecord, reason: str) -> None:
    """Post the eviction of a pod that was put off until its bind had ended, wherever it ended."""
    pod = record.pod
    if record.is_evicted and pod.node_name and not pod.is_finished and pod.deleted_at is None:
        state.call.out.append(Evict(record.uid, pod.node_name, reason or "evicted"))
        nominations.note_evicted(state, record)


def what_happened(
    state: State, record: PodRecord, pod: Pod, problem: InvalidPodGroupError | None
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
    group = None if record.info is None else record.info.key
    return "; ".join(gates(state, pod, group))


def check_waiting(state: State, records: Iterable[PodRecord]) -> None:
    """Take waiting pods off their nodes that could not be placed there any more."""
    table = state.table
    for record in records:
        if record.state is not _WAITING or record.pod_class is None:
            continue
        node_state = table.state_of[record.slot]
        short = any(node_state.free[number] < 0 for number, _amount in record.pod_class.compared)
        if short or not record.pod_class.memo.accepts(node_state):
            node = record.node
            why = f"node {node} of pod {record.pod.name} takes it no longer"
            lose(state, record, why, "changed", _UNSCHEDULED)
        state.touch(record.gang)
