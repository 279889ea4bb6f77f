"""``InMemoryCluster``: a ``ClusterState`` that consists of the events applied to it.

Invariants (checked by ``_check``):
  I1  ``pods_on`` lists a pod exactly while the pod is assigned to that node and not finished.

Rules:
  R1  an event that contradicts the state is refused before anything changes.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import TypeVar, assert_never

from gangsched.cluster_objects import KINDS, ObjectStore
from gangsched.errors import ClusterStateError, InternalError, InvalidValueError
from gangsched.events import (
    BindFailed,
    Bound,
    Event,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    ObjectChanged,
    ObjectDeleted,
    PermitAllowed,
    PermitRejected,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodUpdated,
)
from gangsched.model import GroupKey, Node, NodeName, Pod, PodGroup, PodUID
from gangsched.model._pod_copy import pod_with_fields
from gangsched.protocols import ObjectsView
from gangsched.values.checks import check_event

__all__ = ["InMemoryCluster"]

E = TypeVar("E", bound=Event)


class InMemoryCluster:
    """A cluster state in memory, for tests, simulations, and hosts without a cache of their own.

    Apply each event before the scheduler handles it. Not thread-safe.
    """

    __slots__ = ("_groups", "_nodes", "_objects", "_on", "_pods")

    def __init__(self) -> None:
        self._nodes: MutableMapping[NodeName, Node] = {}
        self._pods: MutableMapping[PodUID, Pod] = {}
        self._groups: MutableMapping[GroupKey, PodGroup] = {}
        self._on: MutableMapping[NodeName, dict[PodUID, Pod]] = {}
        self._objects = ObjectStore()

    def apply(self, event: E) -> E:
        """Apply an event, and return it, so that it can be passed to ``Scheduler.handle``.

        An event about an object that is not there adds the object, or does nothing if it deletes.
        A pod replaces the one with its UID as a whole, its node included: one without ``node_name``
        is not bound. To change a pod that runs, pass ``attrs.evolve(cluster.pod(uid), ...)``.

        Runtime complexity: O(1).

        Args:
            event: The event.

        Raises:
            InvalidValueError: *event* is not an event, or has an attribute of a wrong type;
                nothing has changed.
            ClusterStateError: A ``Bound`` names a pod that is not there, or that is bound to
                another node; nothing has changed.
        """
        check_event(event)
        # A second name, because assert_never needs the union and not the type variable.
        given: Event = event
        match given:
            case PodAdded(pod) | PodUpdated(pod):
                self._put(pod)
            case PodDeleted(uid):
                self._take_off(self._pods.pop(uid, None))
            case Bound(uid, name):
                known = self._pods.get(uid)
                if known is None:
                    raise ClusterStateError(uid, f"is not there and cannot be bound to {name}")
                if known.node_name not in (None, name):
                    problem = f"is bound to {known.node_name} and cannot be bound to {name}"
                    raise ClusterStateError(known.key, problem)
                if not name:
                    raise InvalidValueError("node_name", name, "the name of a node")
                self._put(pod_with_fields(known, node_name=name))
            case NodeAdded(node) | NodeUpdated(node):
                self._nodes[node.name] = node
            case NodeDeleted(name):
                self._nodes.pop(name, None)
            case PodGroupAdded(group) | PodGroupUpdated(group):
                self._groups[group.key] = group
            case PodGroupDeleted(key):
                self._groups.pop(key, None)
            case ObjectChanged(value):
                self._objects.put(value)
            case ObjectDeleted(kind, name):
                self._objects.remove(KINDS[kind], name)
            case BindFailed() | PermitAllowed() | PermitRejected():
                pass
            case _:
                assert_never(given)
        return event

    @property
    def objects(self) -> ObjectsView:
        """The namespaces, volumes and other objects that constraints refer to."""
        return self._objects

    def nodes(self) -> Iterable[Node]:
        """Return every node, in the order in which they were added."""
        return tuple(self._nodes.values())

    def node(self, name: str) -> Node | None:
        """Return the node of a name; None if there is none. O(1)."""
        return self._nodes.get(NodeName(name))

    def pods(self) -> Iterable[Pod]:
        """Return every pod, in the order in which they were added."""
        return tuple(self._pods.values())

    def pod(self, uid: str) -> Pod | None:
        """Return the pod of a UID; None if there is none. O(1)."""
        return self._pods.get(PodUID(uid))

    def pods_on(self, node: str) -> Iterable[Pod]:
        """Return the pods that are assigned to *node* and not finished. O(these pods)."""
        found = self._on.get(NodeName(node))
        return () if found is None else tuple(found.values())

    def pod_groups(self) -> Iterable[PodGroup]:
        """Return every pod group, in the order in which they were added."""
        return tuple(self._groups.values())

    def pod_group(self, key: str) -> PodGroup | None:
        """Return the specification of a pod group by its key; None if there is none. O(1)."""
        return self._groups.get(GroupKey(key))

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} nodes={len(self._nodes)} pods={len(self._pods)}"
            f" pod_groups={len(self._groups)}>"
        )

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
        self._objects._check()
        listed = {(name, uid) for name, pods in self._on.items() for uid in pods}
        assigned = {
            (pod.node_name, uid)
            for uid, pod in self._pods.items()
            if pod.node_name is not None and not pod.is_finished
        }
        if listed != assigned or not all(self._on.values()):
            raise InternalError("the pods listed on nodes differ from the assigned pods")
