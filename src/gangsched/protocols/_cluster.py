"""What a scheduler reads of a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from gangsched.model import GroupKey, Node, NodeName, Pod, PodGroup, PodUID

__all__ = ["ClusterState", "ObjectsView"]

T = TypeVar("T")


class ClusterState(Protocol):
    """What exists in the cluster: nodes, pods, pod groups. Nothing that is only planned.

    Every method answers from memory. The order of iteration depends only on the history of the
    cluster, so that two runs over one history agree.

    Two members are optional, and so no part of this protocol:

    - ``objects``, an attribute: an ``ObjectsView`` of the objects that constraints refer to, after
      ``ObjectChanged`` and ``ObjectDeleted`` as these events say. Without it plugins find no such
      object. So a pod that needs one, such as a pod with a claim for storage, is not scheduled;
    - ``fork()``: a ``ClusterState`` that shows the same, and is read in the place of this one by
      ``Scheduler.what_if``.
    """

    def nodes(self) -> Iterable[Node]:
        """Return every node."""
        ...

    def node(self, name: NodeName) -> Node | None:
        """Return one node, or None if there is no such node. O(1)."""
        ...

    def pods(self) -> Iterable[Pod]:
        """Return every pod, in every phase."""
        ...

    def pod(self, uid: PodUID) -> Pod | None:
        """Return one pod, or None if there is no such pod. O(1)."""
        ...

    def pods_on(self, node: NodeName) -> Iterable[Pod]:
        """Return the unfinished pods that are assigned to *node*. O(pods on the node)."""
        ...

    def pod_groups(self) -> Iterable[PodGroup]:
        """Return every pod group."""
        ...

    def pod_group(self, key: GroupKey) -> PodGroup | None:
        """Return the specification of one pod group, or None if there is no such group. O(1)."""
        ...


class ObjectsView(Protocol):
    """The objects of a cluster that constraints refer to, read-only.

    They are of the classes in ``gangsched.cluster_objects``: namespaces, volumes and so on.

    A view may also have ``services_of(namespace, labels, /)``. It returns the services of a
    namespace that select pods with these labels in O(labels + services that select one of them).
    Without it each such lookup reads every service of the cluster.
    """

    def get(self, kind: type[T], key: str, /) -> T | None:
        """Return the object of a class with a key; None if there is none. O(1)."""
        ...

    def all(self, kind: type[T], /) -> Iterable[T]:
        """Return every object of a class. O(objects of the class)."""
        ...
