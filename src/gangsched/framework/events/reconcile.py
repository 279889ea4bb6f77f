"""Making nodes, groups and objects agree with what the cluster state shows.

Rules:
  R1  an event says where to look; the content is read from the cluster state. So an event that
      arrives twice, late or out of order does no harm;
  R2  a change of a group, or of an object, is passed on to the pods that it concerns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gangsched._core._counters import MemberState
from gangsched.cluster_objects import ClusterObject
from gangsched.framework.events import assumed_pod, move_entity, prefetch, reconcile_pod
from gangsched.framework.lifecycle import permit_end
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.queueing import requeue
from gangsched.framework.state.pod_classes import PodClasses
from gangsched.framework.state.pods import Member, Pods
from gangsched.framework.state.scheduler_state import State
from gangsched.model import GroupKey, NodeName, PodGroup

__all__ = ["group_changed", "node_changed", "objects_changed"]

# a look-up in an enum takes ten times as long, and pods are compared with every event
_UNSCHEDULED: Final = MemberState.UNSCHEDULED
_WAITING: Final = MemberState.WAITING


def node_changed(state: State, name: NodeName, *, now: float) -> None:
    """Read a node again. O(pods on it), plus requeueing the entities that it may help."""
    reconcile_pod.look_at_nodes(state, name, now=now)
    if name not in state.nodes.infos:
        on_it = [waiting for waiting in state.pods.waiting if waiting.node == name]
        for waiting in on_it:
            member = state.pods.members[waiting.uid]
            if member.state is _WAITING:
                reason = f"node {name} is gone"
                assumed_pod.put_down(state, member, reason, cause="node_gone", now=now)


def group_changed(state: State, key: GroupKey, *, now: float) -> None:
    """Read a group's specification again. O(members)."""
    spec = prefetch.spec(state.settings, state.call, key)
    known = state.pods.registry.get(key)
    if spec == (None if known is None else known.spec):
        return
    priority = None if known is None else known.priority
    before, left = (None, None) if known is None else (known.spec, known.bundle)
    _read_labels(state.nodes, state.pod_classes, before, spec)
    if spec is None:
        state.pods.registry.delete_spec(key, now=now)
    else:
        state.pods.registry.set_spec(spec)
        state.pods.restarts.resume(key, spec.restarts, spec.restarting_until, now=now)
    info = state.pods.registry.get(key)
    if spec is None:
        state.pods.restarts.forget(key)
        state.call.touched[key] = None
    if info is not None and info.members:
        if info.priority != priority:
            for member in state.pods.of_group(info):
                if member.state is _UNSCHEDULED:
                    reconcile_pod.tell_priority(state.call, member)
        for member in state.pods.of_group(info):
            reconcile_pod.pod_changed(state, member.pod.uid, now=now)
        entity = state.pods.entities.get(key)
        if entity is not None:  # otherwise reading its members has removed them all
            move_entity.move(state, entity, now=now)
    joined = None if info is None else info.bundle
    for bundle in (left, None if joined is left else joined):
        move_entity.move_siblings(state, bundle, key, now=now)


def objects_changed(state: State, *kinds: type[ClusterObject], now: float) -> None:
    """Drop the answers that depend on objects of some kinds, and requeue pods that read them.

    Runtime complexity: O(1) if no known pod reads objects of these kinds; else O(classes of pods),
    plus requeueing.
    """
    if not state.settings.profile.object_readers:
        return
    changed = frozenset(kinds)
    readers = [
        each
        for each in state.pod_classes.by_signature.values()
        if not changed.isdisjoint(each.objects)
    ]
    for pod_class in readers:
        pod_class.judgements.forget()
    if readers:
        requeue.objects_changed(state, changed, now=now)
    if any(pod_class.carried for pod_class in readers):
        # a carried term may be about other pods now, for which no plugin reads these objects
        requeue.pods_changed(state, now=now)
    for member in _waiting_readers(state.pods, changed) if readers else ():
        permit_end.ask_again(state, member, now=now)


def _waiting_readers(pods: Pods, changed: frozenset[type[ClusterObject]]) -> Iterable[Member]:
    """Return waiting pods for which changed objects are read, one of each group. O(waiting)."""
    waiting = (pods.members[entry.uid] for entry in pods.waiting)
    concerned = (each for each in waiting if not changed.isdisjoint(each.pod_class.objects))
    return {member.entity.seq: member for member in concerned}.values()


def _read_labels(
    nodes: Nodes, pod_classes: PodClasses, before: PodGroup | None, spec: PodGroup | None
) -> None:
    """Tell nodes apart by the topology label of a group, for as long as a group has it."""
    changed = False
    if spec is not None and spec.topology is not None:
        changed = pod_classes.labels.add((spec.topology.key,))
    if before is not None and before.topology is not None:
        changed = pod_classes.labels.discard((before.topology.key,)) or changed
    if changed:
        nodes.classify_anew()
