"""InMemoryCluster: the ``ClusterState`` port with nothing behind it.

Invariants (checked by ``_check``):
  I1  a pod is listed on a node exactly while it is assigned there and not finished;
  I2  an event that cannot be is refused, and nothing has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import TypeVar, assert_never

from attrs import evolve

from gangsched._checks import check_event
from gangsched.errors import ClusterStateError, InternalError
from gangsched.events import (
    BindFailed,
    Bound,
    Event,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodUpdated,
)
from gangsched.model import GroupKey, Node, NodeName, Pod, PodGroup, PodUID

__all__ = ["InMemoryCluster"]

E = TypeVar("E", bound=Event)


class InMemoryCluster:
    """A cluster that is only remembered: for tests, simulations and hosts without one.

    Not thread-safe.
    """

    __slots__ = ("_groups", "_nodes", "_on", "_pods")

    def __init__(self) -> None:
        self._nodes: MutableMapping[NodeName, Node] = {}
        self._pods: MutableMapping[PodUID, Pod] = {}
        self._groups: MutableMapping[GroupKey, PodGroup] = {}
        self._on: MutableMapping[NodeName, dict[PodUID, Pod]] = {}

    def apply(self, event: E) -> E:
        """Make a fact true, and return it, so that it can be handed on.

        Runtime complexity: O(1).

        Raises:
            InvalidValueError: It is no fact, or carries what it cannot; nothing has changed.
            ClusterStateError: The event names a pod that is not there, or binds one that is
                bound elsewhere; nothing has changed.
        """
        check_event(event)
        fact: Event = event
        match fact:
            case PodAdded(pod) | PodUpdated(pod):
                self._put(pod)
            case PodDeleted(uid):
                self._take_off(self._pods.pop(uid, None))
            case NodeAdded(node) | NodeUpdated(node):
                self._nodes[node.name] = node
            case NodeDeleted(name):
                self._nodes.pop(name, None)
            case PodGroupAdded(group) | PodGroupUpdated(group):
                self._groups[group.key] = group
            case PodGroupDeleted(key):
                self._groups.pop(key, None)
            case Bound(uid, name):
                known = self._pods.get(uid)
                if known is None:
                    raise ClusterStateError(uid, f"is not there, cannot be bound to {name}")
                if known.node_name not in (None, name):
                    raise ClusterStateError(known.key, f"is bound to {known.node_name} already")
                self._put(evolve(known, node_name=name))
            case BindFailed():
                pass
            case _:
                assert_never(fact)
        return event

    def nodes(self) -> Iterable[Node]:
        """Return every node, in the order in which they came."""
        return tuple(self._nodes.values())

    def node(self, name: NodeName) -> Node | None:
        """Return one node; None when there is none."""
        return self._nodes.get(name)

    def pods(self) -> Iterable[Pod]:
        """Return every pod, in the order in which they came."""
        return tuple(self._pods.values())

    def pod(self, uid: PodUID) -> Pod | None:
        """Return one pod; None when there is none."""
        return self._pods.get(uid)

    def pods_on(self, node: NodeName) -> Iterable[Pod]:
        """Return the pods that are assigned to *node* and not finished."""
        return tuple(self._on.get(node, {}).values())

    def pod_groups(self) -> Iterable[PodGroup]:
        """Return every pod group, in the order in which they came."""
        return tuple(self._groups.values())

    def pod_group(self, key: GroupKey) -> PodGroup | None:
        """Return one pod group's specification; None when there is none."""
        return self._groups.get(key)

    def _put(self, pod: Pod) -> None:
        before = self._pods.get(pod.uid)
        if before is not None and before.node_name != pod.node_name:
            self._take_off(before)
        self._pods[pod.uid] = pod
        if pod.node_name is None:
            return
        if pod.is_finished:
            self._take_off(pod)
        else:
            self._on.setdefault(pod.node_name, {})[pod.uid] = pod

    def _take_off(self, pod: Pod | None) -> None:
        if pod is None or pod.node_name is None:
            return
        on_it = self._on.get(pod.node_name, {})
        on_it.pop(pod.uid, None)
        if not on_it:
            self._on.pop(pod.node_name, None)

    def _check(self) -> None:
        listed = {(name, uid) for name, pods in self._on.items() for uid in pods}
        assigned = {
            (pod.node_name, uid)
            for uid, pod in self._pods.items()
            if pod.node_name is not None and not pod.is_finished
        }
        if listed != assigned or not all(self._on.values()):
            raise InternalError("pods on nodes and assigned pods differ")
