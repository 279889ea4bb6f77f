"""Events about nodes, and about the other objects that constraints refer to."""

from __future__ import annotations

import math
from typing import Final

from gangsched._core._counters import MemberState
from gangsched.core.intake.assumed import check_waiting, fail_alone, unassume
from gangsched.core.intake.pods import read_pod
from gangsched.core.records import Gang, QueuePlace
from gangsched.core.state import State
from gangsched.model import NodeName

__all__ = ["object_changed", "read_node", "retry"]

_UNSCHEDULED: Final = MemberState.UNSCHEDULED
_WAITING: Final = MemberState.WAITING


def read_node(state: State, name: NodeName) -> None:
    """Make a node agree with the cluster; members that wait there may lose it."""
    node, table = state.settings.cluster.node(name), state.table
    state.records.set_node(name, node)
    state.pods_changed = True
    for pod in state.settings.cluster.pods_on(name):
        record = state.records.pods.get(pod.uid)
        if record is None or record.state is _UNSCHEDULED:
            read_pod(state, pod.uid)  # another scheduler has bound it, before the event about it
    slot = table.slots.get(name)
    if slot is None:
        return
    waiting = [r for r in state.records.holders(slot) if r.state is _WAITING]
    if node is None:
        for record in waiting:
            why = f"node {name} of pod {record.pod.name} is gone"
            if record.state is _WAITING:
                unassume(state, record, why, "node_gone", _UNSCHEDULED)
                fail_alone(state, record, why)
    elif waiting:
        check_waiting(state, waiting)


def retry(state: State, gang: Gang) -> None:
    """Let a gang be tried once more, whatever it waits for."""
    if gang.pending and gang.place in (QueuePlace.BACKOFF, QueuePlace.PARKED):
        gang.backoff_until = -math.inf
        if gang.demand is not None and gang.demand.blocked_at:
            state.queue.force(gang)
        state.touch(gang)


def object_changed(state: State) -> None:
    """Drop the answers that may depend on an object, and let all be tried again."""
    state.evaluator.forget()
    state.pods_changed = True
    for gang in list(state.records.gangs.values()):
        if gang.place is QueuePlace.NOT_ADMITTED or gang.waiting:
            state.touch(gang)
    state.queue.wake_all()
