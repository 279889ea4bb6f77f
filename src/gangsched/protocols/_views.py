"""Nodes, counts of pods and the state of a cycle, as plugins see them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

from attrs import frozen

from gangsched.constraints.matchers import CarriedTerm, NodeMatcher, PodMatcher
from gangsched.model import FrozenMap, Node, NodeName, Pod
from gangsched.protocols._cluster import ObjectsView
from gangsched.protocols._groups import GroupView

__all__ = ["CycleView", "DomainCounts", "NodeView", "PodCounts", "StateKey"]

T = TypeVar("T")


class NodeView(Protocol):
    """A read-only node with its free capacity and its pods; assumed pods count."""

    @property
    def node(self) -> Node:
        """The node itself."""
        ...

    @property
    def free(self) -> Mapping[str, int]:
        """What is free, in thousandths; negative if the node is overcommitted."""
        ...

    @property
    def defaulted(self) -> FrozenMap[int]:
        """What the pods on the node count for in scores beyond what they request, in thousandths.

        It is not taken from what is free; see ``Resources.defaulted``.
        """
        ...

    @property
    def pod_count(self) -> int:
        """The number of pods on the node, and of pods for which capacity is reserved there."""
        ...

    @property
    def pods(self) -> Collection[Pod]:
        """The pods on the node: bound, assumed, and planned earlier in the same decision.

        In ``filter`` and ``score`` the *node* argument shows them only for a pod for which the
        plugin's ``reads_pods`` returns True; see ``PodExtensions``. Otherwise reading it raises.
        """
        ...


class DomainCounts(Protocol):
    """How many matching pods are in each domain: on the nodes with one value of a label."""

    @property
    def total(self) -> int:
        """The number of matching pods in all domains."""
        ...

    @property
    def domains(self) -> int:
        """The number of domains."""
        ...

    @property
    def least(self) -> int:
        """The smallest number of matching pods in a domain; 0 without domains."""
        ...

    def get(self, value: str) -> int:
        """Return the number of matching pods in the domain of a value. O(1)."""
        ...

    def nodes(self, value: str) -> int:
        """Return the number of counted nodes with a value of the label. O(1)."""
        ...


class PodCounts(Protocol):
    """Counts of the pods on nodes by domain, in the same state as the nodes of the cycle."""

    def matching(
        self, pods: PodMatcher, key: str, nodes: NodeMatcher | None = None
    ) -> DomainCounts:
        """Return how many matching pods are in each domain. O(1), O(pods + nodes) the first time.

        The counts follow the pods as they are placed and taken off; do not keep them.

        Args:
            pods: The pods; its namespaces are given by name, or as every namespace.
            key: The key of the node label whose values are the domains.
            nodes: The nodes that count; None for all.
        """
        ...

    def carried_about(self, pod: Pod) -> Iterable[tuple[CarriedTerm, DomainCounts]]:
        """Iterate over the terms of pods on nodes that may be about *pod*; see ``PodExtensions``.

        Whether the labels of the pod's namespace match is left to the caller.
        """
        ...


@frozen(eq=False)
class StateKey(Generic[T]):
    """A typed key of cycle state: make one per plugin, at module level.

    Attributes:
        name: The name, which snapshots write.
        derived: Whether the plugin computes the value anew where none is written. Such a value is
            left out of snapshots, so it need not be plain data.
    """

    name: str
    derived: bool = False


class CycleView(Protocol):
    """One cycle of one pod: its group, the nodes, and a scratch that lives as long."""

    @property
    def group(self) -> GroupView | None:
        """The pod's group; None for a regular pod."""
        ...

    @property
    def nodes(self) -> Mapping[NodeName, NodeView]:
        """All nodes, in the same state as the node that ``filter`` and ``score`` are given."""
        ...

    @property
    def counts(self) -> PodCounts:
        """Counts of the pods on these nodes by domain; see ``PodExtensions``."""
        ...

    @property
    def objects(self) -> ObjectsView:
        """The namespaces, volumes and other objects of the cluster; see ``ObjectExtensions``."""
        ...

    @property
    def bind_failures(self) -> int:
        """In ``unreserve`` after a failed bind: how many binds of the pod in a row have failed."""
        ...

    @property
    def can_evict(self) -> bool:
        """In ``unreserve`` after a failed bind: whether the host performs evictions."""
        ...

    def read(self, key: StateKey[T]) -> T | None:
        """Return what was written under *key* in this cycle; None when nothing was."""
        ...

    def write(self, key: StateKey[T], value: T) -> None:
        """Keep *value* under *key* until the end of this cycle."""
        ...
