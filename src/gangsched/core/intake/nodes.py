"""Events about nodes, and about the other objects that constraints refer to."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final

from gangsched.cluster_objects import ClusterObject
from gangsched.core.intake.assumed import check_waiting
from gangsched.core.intake.pods import read_pod
from gangsched.core.intake.seen import look_ahead, node_shown, pods_shown
from gangsched.core.moves.lost_nodes import lose
from gangsched.core.records.gang import GangRecord, QueuePlace
from gangsched.core.state import State
from gangsched.model import FrozenMap, Node, NodeName, PodUID
from gangsched.primitives.counters import MemberState

__all__ = ["objects_changed", "read_node", "retry"]

_UNSCHEDULED: Final = MemberState.UNSCHEDULED
_WAITING: Final = MemberState.WAITING


def read_node(state: State, name: NodeName) -> None:
    """Make a node agree with the cluster; members that wait there may lose it."""
    node, table = node_shown(state, name), state.table
    # another scheduler may have bound pods before the event about it
    arrived = [uid for uid in pods_shown(state, name) if _is_due(state, uid)]
    look_ahead(state, arrived)
    slot = table.slots.get(name)
    before = None if slot is None else table.nodes[slot]
    if state.records.set_node(name, node):
        state.call.pods_changed = True
        state.note_outside()
        if slot is not None and _labels(before) != _labels(node):
            _note_moved(state, slot)
        offered = None if node is None else table.state_of[table.slots[name]].offered
        state.reservation.note_node(offered)
    for uid in arrived:
        read_pod(state, uid)
    slot = table.slots.get(name)
    if slot is None:
        return
    waiting = [r for r in state.records.holders(slot) if r.state is _WAITING]
    if node is None:
        why = f"node {name} is gone"
        for record in waiting:
            lose(state, record, why, "node_gone", _UNSCHEDULED)
    elif waiting:
        check_waiting(state, waiting)


def _labels(node: Node | None) -> FrozenMap[str] | None:
    return None if node is None else node.labels


def _note_moved(state: State, slot: int) -> None:
    """Note that members on a node may keep their gangs in another domain now. O(pods there)."""
    for record in state.records.holders(slot):
        gang = record.gang
        if gang.pending and (gang.tree.constrained or gang.tree.has_apart):
            state.note_event(gang)
            state.touch(gang)


def _is_due(state: State, uid: PodUID) -> bool:
    record = state.records.pods.get(uid)
    return record is None or record.state is _UNSCHEDULED


def retry(state: State, gang: GangRecord) -> None:
    """Let a gang be tried once more, whatever it waits for."""
    if gang.pending and gang.place in (QueuePlace.BACKOFF, QueuePlace.PARKED):
        gang.backoff_until, gang.refused = -math.inf, None  # what is known does not count
        if gang.demand is not None and gang.demand.blocked_at:
            state.queue.force(gang)
        state.touch(gang)


def objects_changed(state: State, kinds: Collection[type[ClusterObject]]) -> None:
    """Drop answers that may depend on objects of some kinds; let what reads them be tried again.

    Runtime complexity: O(1) if nothing reads such objects; else O(classes + waiting pods).
    """
    readers = state.evaluator.readers(kinds)
    for pod_class in readers:
        pod_class.forget()
    if readers:
        state.call.pods_changed = True
        for entry in state.records.waiting:
            record = state.records.pods[entry.uid]
            if record.pod_class is not None and not record.pod_class.objects.isdisjoint(kinds):
                state.touch(record.gang)
        state.queue.wake_all(kinds)
