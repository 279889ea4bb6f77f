"""Views for plugins, made by hand: a group, a node, an entity, a cycle."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from attrs import define, field

from gangsched.cluster_objects import ClusterObject
from gangsched.cycle_state import CycleState
from gangsched.cycle_state.pod_counts import KeptPodCounts
from gangsched.errors import InvalidValueError
from gangsched.events import ObjectChanged
from gangsched.memory import InMemoryCluster
from gangsched.model import FrozenMap, GroupKey, Node, NodeName, Pod, Resources
from gangsched.primitives.counters import RoleCounts
from gangsched.resources import NOTHING

__all__ = ["FakeEntity", "FakeGroup", "FakeNode", "cycle", "node_view"]

KEY: Final = GroupKey("ns/g")


@define(kw_only=True)
class FakeGroup:
    """A group view whose counts are set by the test, also by role."""

    key: GroupKey = KEY
    uid: int = 1
    min_available: int | None = 3
    schedule_timeout: float | None = None
    min_resources: Resources = NOTHING
    priority: int = 0
    created_at: float = 0.0
    last_failure_at: float | None = None
    attempts: int = 1
    attempt_started_at: float | None = None
    was_scheduled: bool = False
    unscheduled: int = 0
    waiting: int = 0
    binding: int = 0
    assigned: int = 0
    untried: int = 0
    succeeded: int = 0
    roles: Mapping[str, int] = field(factory=dict[str, int])
    of_role: Mapping[str, RoleCounts] = field(factory=dict[str, RoleCounts])

    def role(self, name: str) -> RoleCounts:
        """The counts of one role."""
        return self.of_role.get(name, RoleCounts())

    @property
    def assumed(self) -> int:
        """Members that wait on permit or are being bound."""
        return self.waiting + self.binding

    @property
    def scheduled(self) -> int:
        """Members that hold a node."""
        return self.assumed + self.assigned

    @property
    def all(self) -> int:
        """Members that count."""
        return self.unscheduled + self.scheduled


@define(kw_only=True)
class FakeEntity:
    """A queued pod or group whose attributes are set by the test."""

    pod: Pod = field(factory=lambda: Pod(name="p"))
    seq: int = 1
    queued_at: float = 0.0
    created_at: float = 0.0
    priority: int = 0
    group: FakeGroup | None = None


@define(kw_only=True)
class FakeNode:
    """A node view whose attributes are set by the test."""

    node: Node
    free: dict[str, int]
    pod_count: int = 0
    pods: Collection[Pod] = ()
    defaulted: FrozenMap[int] = NOTHING.defaulted


def node_view(
    node: Node, *, used: Mapping[str, str | int] | None = None, pods: int | Collection[Pod] = 0
) -> FakeNode:
    """Return a view of a node on which pods run.

    Args:
        node: The node.
        used: What they use in sum; None for what *pods* request, nothing if they are a number.
        pods: The pods, as plugins with ``reads_pods`` see them, or their number.

    Raises:
        InvalidValueError: An item of *pods* is no ``Pod``.
    """
    there = () if isinstance(pods, int) else tuple(pods)
    for pod in there:
        if not isinstance(pod, Pod):
            raise InvalidValueError("pods", pod, "a Pod as each item, or a number")
    taken = sum((pod.requests for pod in there), NOTHING) if used is None else Resources(used)
    free = (node.allocatable - taken).to_milli()
    return FakeNode(
        node=node, free=free, pod_count=pods if isinstance(pods, int) else len(there), pods=there
    )


def cycle(
    group: FakeGroup | None = None, *nodes: FakeNode, objects: Iterable[ClusterObject] = ()
) -> CycleState:
    """Return the cycle state of a member of *group*, with these nodes and objects."""
    views: dict[NodeName, FakeNode] = {view.node.name: view for view in nodes}
    cluster = InMemoryCluster()
    for one in objects:
        cluster.apply(ObjectChanged(one))
    return CycleState(group, views, cluster, KeptPodCounts(dict(enumerate(views.values()))))
