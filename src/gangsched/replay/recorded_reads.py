"""The objects that a cluster state shows to a scheduler, recorded as they are read.

A cluster state may show an object before its event is delivered, and an event that is delivered
again may be outdated. So the events alone do not determine what the scheduler read. The recorder
compares each object that is read with what the logged events give, and records each difference as
an event.

Invariants:
  I1  once the recorded differences are applied, ``known`` shows what the scheduler read;
  I2  ``known`` is built from logged events alone: those of calls and the recorded differences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar, final

from attrs import evolve

from gangsched.cluster_objects import KINDS, ObjectStore, Service, services_of
from gangsched.errors import ClusterStateError
from gangsched.events import (
    Event,
    NodeAdded,
    NodeDeleted,
    ObjectChanged,
    ObjectDeleted,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodGroupDeleted,
    PodUpdated,
)
from gangsched.memory import InMemoryCluster
from gangsched.model import GroupKey, Node, NodeName, Pod, PodGroup, PodUID
from gangsched.protocols import ClusterState, ObjectsView

__all__ = ["RecordedClusterState", "apply_if_possible"]

T = TypeVar("T")

_OBJECTS: Final = frozenset(KINDS.values())


def apply_if_possible(cluster: InMemoryCluster, event: Event) -> None:
    """Apply an event to a cluster; an event that contradicts the cluster is ignored."""
    with suppress(ClusterStateError):
        cluster.apply(event)


@final
class RecordedClusterState:
    """A cluster state that passes on every read, and records each difference to the log.

    Attributes:
        unlogged: The differences that are not in the log yet, as events.
    """

    __slots__ = ("_cluster", "_known", "unlogged")

    def __init__(self, cluster: ClusterState, known: InMemoryCluster) -> None:
        self._cluster = cluster
        self._known = known
        self.unlogged: list[Event] = []

    def fork(self) -> ClusterState:
        """Return the cluster state itself: reads of a what-if question are not recorded."""
        return self._cluster

    def take(self) -> tuple[Event, ...]:
        """Return the differences that are not in the log yet, and forget them."""
        taken = tuple(self.unlogged)
        self.unlogged.clear()
        return taken

    def nodes(self) -> Iterable[Node]:
        """Return every node."""
        shown = list(self._cluster.nodes())
        for node in shown:
            self._see_node(node.name, node)
        listed = {node.name for node in shown}
        for known in self._known.nodes():
            if known.name not in listed:
                self._note(NodeDeleted(known.name))
        self._put_in_order(
            shown, self._known.nodes(), lambda node: (NodeDeleted(node.name), NodeAdded(node))
        )
        return shown

    def node(self, name: NodeName) -> Node | None:
        """Return one node; None if there is none."""
        shown = self._cluster.node(name)
        self._see_node(name, shown)
        return shown

    def pods(self) -> Iterable[Pod]:
        """Return every pod, in any phase."""
        shown = list(self._cluster.pods())
        for pod in shown:
            self._see_pod(pod.uid, pod)
        listed = {pod.uid for pod in shown}
        for known in self._known.pods():
            if known.uid not in listed:
                self._note(PodDeleted(known.uid))
        self._put_in_order(
            shown, self._known.pods(), lambda pod: (PodDeleted(pod.uid), PodAdded(pod))
        )
        return shown

    def pod(self, uid: PodUID) -> Pod | None:
        """Return one pod; None if there is none."""
        shown = self._cluster.pod(uid)
        self._see_pod(uid, shown)
        return shown

    def pods_on(self, node: NodeName) -> Iterable[Pod]:
        """Return the pods that are bound to *node* and not finished."""
        shown = tuple(self._cluster.pods_on(node))
        if shown == self._known.pods_on(node):
            return shown
        for pod in shown:
            self._see_pod(pod.uid, pod)
        listed = {pod.uid for pod in shown}
        for known in self._known.pods_on(node):
            if known.uid not in listed:
                self._see_pod(known.uid, self._cluster.pod(known.uid))
        self._put_in_order(
            shown,
            self._known.pods_on(node),
            lambda pod: (PodUpdated(evolve(pod, node_name=None)), PodUpdated(pod)),
        )
        return shown

    def pod_groups(self) -> Iterable[PodGroup]:
        """Return every pod group."""
        shown = list(self._cluster.pod_groups())
        for group in shown:
            self._see_group(group.key, group)
        listed = {group.key for group in shown}
        for known in self._known.pod_groups():
            if known.key not in listed:
                self._note(PodGroupDeleted(known.key))
        self._put_in_order(
            shown,
            self._known.pod_groups(),
            lambda group: (PodGroupDeleted(group.key), PodGroupAdded(group)),
        )
        return shown

    def pod_group(self, key: GroupKey) -> PodGroup | None:
        """Return the specification of one pod group; None if there is none."""
        shown = self._cluster.pod_group(key)
        self._see_group(key, shown)
        return shown

    @property
    def objects(self) -> ObjectsView:
        """The other objects of the cluster."""
        shown: ObjectsView | None = getattr(self._cluster, "objects", None)
        shown = ObjectStore() if shown is None else shown
        return _RecordedObjects(shown, self._known.objects, self._see_object)

    # Inside ---------------------------------------------------------------------------------

    def _see_node(self, name: NodeName, shown: Node | None) -> None:
        if shown != self._known.node(name):
            self._note(NodeDeleted(name) if shown is None else NodeAdded(shown))

    def _see_pod(self, uid: PodUID, shown: Pod | None) -> None:
        if shown != self._known.pod(uid):
            self._note(PodDeleted(uid) if shown is None else PodAdded(shown))

    def _see_group(self, key: GroupKey, shown: PodGroup | None) -> None:
        if shown != self._known.pod_group(key):
            self._note(PodGroupDeleted(key) if shown is None else PodGroupAdded(shown))

    def _see_object(self, kind: type[Any], key: str, shown: Any) -> None:
        if kind in _OBJECTS and shown != self._known.objects.get(kind, key):
            gone = ObjectDeleted(kind.__name__, key)
            self._note(gone if shown is None else ObjectChanged(shown))

    def _put_in_order(
        self,
        shown: Sequence[T],
        known: Iterable[T],
        again: Callable[[T], tuple[Event, Event]],
    ) -> None:
        """Record the order of a list, if it differs from the order that the events give."""
        pairs = enumerate(zip(known, shown, strict=False))
        same = next((n for n, (one, other) in pairs if one != other), len(shown))
        for one in shown[same:]:
            for event in again(one):
                self._note(event)

    def _note(self, event: Event) -> None:
        apply_if_possible(self._known, event)
        self.unlogged.append(event)


@final
class _RecordedObjects:
    """A view of objects that reports each object that is read."""

    __slots__ = ("_known", "_see", "_shown")

    def __init__(
        self,
        shown: ObjectsView,
        known: ObjectsView,
        see: Callable[[type[Any], str, Any], None],
    ) -> None:
        self._shown = shown
        self._known = known
        self._see = see

    def get(self, kind: type[T], key: str) -> T | None:
        found = self._shown.get(kind, key)
        self._see(kind, key, found)
        return found

    def all(self, kind: type[T]) -> Iterable[T]:
        found = tuple(self._shown.all(kind))
        shown = {_key(one): one for one in found}
        for key in (*shown, *map(_key, self._known.all(kind))):
            self._see(kind, key, shown.get(key))
        return found

    def services_of(self, namespace: str, labels: Mapping[str, str]) -> Iterable[Service]:
        found = services_of(self._shown, namespace, labels)
        known = services_of(self._known, namespace, labels)
        for key in dict.fromkeys(one.key for one in (*found, *known)):
            self._see(Service, key, self._shown.get(Service, key))
        return found


def _key(value: Any) -> str:
    key: str = value.key
    return key
