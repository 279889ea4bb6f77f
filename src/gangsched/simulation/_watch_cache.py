"""What the scheduler sees of the cluster: all of it, or what its watch has delivered.

Invariant: the cache shows an object as it was at its last delivered event, or later; never
earlier.
"""

from __future__ import annotations

from typing import final

from gangsched.cluster_objects import KINDS, ClusterObject
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
from gangsched.memory import InMemoryCluster
from gangsched.model import GroupKey, NodeName, PodUID

__all__ = ["WatchCache"]


@final
class WatchCache:
    """The cache behind a watch.

    Args:
        truth: The cluster as it is.
        ahead: Whether the scheduler sees the cluster as it is.

    Attributes:
        cluster: The cluster as the scheduler sees it.
    """

    def __init__(self, truth: InMemoryCluster, *, ahead: bool) -> None:
        self._truth = truth
        self.cluster = truth if ahead else InMemoryCluster()

    def update(self, event: Event) -> None:
        """Show the object of an event as it is now; the event of a failed bind has none."""
        if self.cluster is self._truth:
            return
        match event:
            case PodAdded(pod) | PodUpdated(pod):
                self._show_pod(pod.uid)
            case PodDeleted(uid) | Bound(uid):
                self._show_pod(uid)
            case NodeAdded(node) | NodeUpdated(node):
                self._show_node(node.name)
            case NodeDeleted(name):
                self._show_node(name)
            case PodGroupAdded(group) | PodGroupUpdated(group):
                self._show_group(group.key)
            case PodGroupDeleted(key):
                self._show_group(key)
            case ObjectChanged(value):
                self._show_object(type(value), value.key)
            case ObjectDeleted(kind, key):
                self._show_object(KINDS[kind], key)
            case BindFailed() | PermitAllowed() | PermitRejected():
                pass

    def relist(self) -> None:
        """Show every object as it is now, as a listing does."""
        truth, shown = self._truth, self.cluster
        if shown is truth:
            return
        for node in (*truth.nodes(), *shown.nodes()):
            self._show_node(node.name)
        for group in (*truth.pod_groups(), *shown.pod_groups()):
            self._show_group(group.key)
        for kind in KINDS.values():
            for value in (*truth.objects.all(kind), *shown.objects.all(kind)):
                self._show_object(kind, value.key)
        for pod in (*truth.pods(), *shown.pods()):
            self._show_pod(pod.uid)

    def _show_pod(self, uid: PodUID) -> None:
        pod = self._truth.pod(uid)
        self.cluster.apply(PodDeleted(uid) if pod is None else PodUpdated(pod))

    def _show_node(self, name: NodeName) -> None:
        node = self._truth.node(name)
        self.cluster.apply(NodeDeleted(name) if node is None else NodeUpdated(node))

    def _show_object(self, kind: type[ClusterObject], key: str) -> None:
        found = self._truth.objects.get(kind, key)
        gone = ObjectDeleted(kind.__name__, key)
        self.cluster.apply(gone if found is None else ObjectChanged(found))

    def _show_group(self, key: GroupKey) -> None:
        group = self._truth.pod_group(key)
        self.cluster.apply(PodGroupDeleted(key) if group is None else PodGroupUpdated(group))
