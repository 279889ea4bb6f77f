"""CycleState: the data that plugins share in one scheduling cycle of one pod."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final, TypeVar, cast, final

from gangsched.cluster_objects import ObjectStore
from gangsched.cycle_state.pod_counts import KeptPodCounts
from gangsched.model import NodeName
from gangsched.protocols import GroupView, NodeView, ObjectsView, PodCounts, StateKey

__all__ = ["CycleState", "objects_of"]

T = TypeVar("T")

_NO_OBJECTS: Final[ObjectsView] = ObjectStore()


def objects_of(cluster: object) -> ObjectsView:
    """Return the objects that a cluster state shows; none if it shows none. O(1)."""
    found: ObjectsView | None = getattr(cluster, "objects", None)
    return _NO_OBJECTS if found is None else found


@final
class CycleState:
    """The group and the nodes of one scheduling cycle, and typed data that plugins write.

    It exists from ``pre_filter`` of the pod to its ``post_bind`` or its last ``unreserve``.

    Args:
        group: The pod's group; None for a regular pod.
        nodes: The nodes.
        cluster: The cluster state. If it has ``objects``, the plugins see them; see
            ``gangsched.protocols.ClusterState``.
        counts: The counts of their pods. Without them, a plugin that asks for counts fails, unless
            there are no nodes.

    Attributes:
        bind_failures: How many binds of the pod in a row have failed.
        can_evict: Whether the host performs evictions.
    """

    __slots__ = (
        "_cluster",
        "_counts",
        "_group",
        "_nodes",
        "_scratch",
        "bind_failures",
        "can_evict",
    )

    def __init__(
        self,
        group: GroupView | None,
        nodes: Mapping[NodeName, NodeView],
        cluster: object = None,
        counts: PodCounts | None = None,
    ) -> None:
        self._group = group
        self._nodes = nodes
        # the cluster state and not its objects: a fork replaces the cluster state by its own
        self._cluster = cluster
        self._counts = counts
        self._scratch: dict[StateKey[Any], Any] | None = None
        # set before ``unreserve`` after a bind failed, and before ``post_filter`` of a member that
        # is tried again then; no plugin needs them earlier
        self.bind_failures: int = 0
        self.can_evict: bool = False

    @property
    def group(self) -> GroupView | None:
        """The pod's group; None for a regular pod."""
        return self._group

    @property
    def nodes(self) -> Mapping[NodeName, NodeView]:
        """All nodes, with the members that are planned so far and without removed pods."""
        return self._nodes

    @property
    def counts(self) -> PodCounts:
        """Counts of the pods on these nodes by domain.

        Raises:
            LookupError: The state was made by hand, with nodes and without counts.
        """
        if self._counts is None:
            if self._nodes:
                shown = ", ".join(map(repr, islice(self._nodes, 3)))
                raise LookupError(
                    "state.counts needs the argument counts of CycleState, which was made without"
                    f" it, and with the nodes {shown}; a scheduler gives it in each cycle"
                )
            self._counts = KeptPodCounts({})
        return self._counts

    @property
    def objects(self) -> ObjectsView:
        """The other objects of the cluster; none if the cluster state does not show them."""
        return objects_of(self._cluster)

    def read(self, key: StateKey[T]) -> T | None:
        """Return the value that was written under *key* in this cycle; None if none was."""
        return None if self._scratch is None else cast("T | None", self._scratch.get(key))

    def write(self, key: StateKey[T], value: T) -> None:
        """Keep *value* under *key* until the end of this cycle."""
        if self._scratch is None:
            self._scratch = {}
        self._scratch[key] = value
