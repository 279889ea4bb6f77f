"""``check_cluster_state``: what an implementation of the ``ClusterState`` port has to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from attrs import evolve

from gangsched.events import (
    Bound,
    Event,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodGroupDeleted,
    PodUpdated,
)
from gangsched.model import Node, NodeName, PodGroup, PodPhase, PodUID, Resources
from gangsched.protocols import ClusterState
from gangsched.testing._builders import make_pod

__all__ = ["WritableClusterState", "check_cluster_state"]


class WritableClusterState(ClusterState, Protocol):
    """A cluster state that facts can be told to."""

    def apply(self, event: Event) -> object:
        """Make a fact true."""
        ...


def check_cluster_state(make: Callable[[], WritableClusterState]) -> None:
    """Hold an implementation of the ``ClusterState`` port to its contract.

    Args:
        make: Makes a fresh, empty one.

    Raises:
        AssertionError: It breaks the contract; the sentence says where.
    """
    state = make()
    _expect("a fresh state has no nodes", [], list(state.nodes()))
    _expect("a fresh state has no pods", [], list(state.pods()))
    _expect("a node that is not there", None, state.node(NodeName("n")))
    _expect("a pod that is not there", None, state.pod(PodUID("p")))
    _expect("pods on a node that is not there", [], list(state.pods_on(NodeName("n"))))

    node = Node(name=NodeName("n"), allocatable={"cpu": 4})
    pod = make_pod("p", cpu=1)
    twin = evolve(pod, uid=PodUID("twin"))
    group = PodGroup(name="g", min_available=2)
    arrivals = (NodeAdded(node), PodAdded(pod), PodAdded(twin), PodGroupAdded(group))
    for arrival in arrivals:
        state.apply(arrival)
    _expect("the node", node, state.node(node.name))
    _expect("the nodes", [node], list(state.nodes()))
    _expect("the pods: one name, two UIDs", [pod, twin], list(state.pods()))
    _expect("the group", group, state.pod_group(group.key))
    _expect("the groups", [group], list(state.pod_groups()))
    _expect("an unassigned pod is on no node", [], list(state.pods_on(node.name)))

    state.apply(Bound(pod.uid, node.name, 1))
    bound = evolve(pod, node_name=node.name)
    _expect("a bound pod shows its node", bound, state.pod(pod.uid))
    _expect("a bound pod is on its node", [bound], list(state.pods_on(node.name)))
    _expect("its twin is not bound", twin, state.pod(twin.uid))
    state.apply(PodUpdated(evolve(bound, deleted_at=1.0)))
    _expect("a terminating pod holds its node", 1, len(list(state.pods_on(node.name))))
    state.apply(PodUpdated(evolve(bound, phase=PodPhase.SUCCEEDED)))
    _expect("a finished pod holds no node", [], list(state.pods_on(node.name)))

    smaller = evolve(node, allocatable=Resources({"cpu": 2}))
    state.apply(NodeUpdated(smaller))
    _expect("a changed node", smaller, state.node(node.name))
    for uid in (pod.uid, pod.uid, twin.uid):
        state.apply(PodDeleted(uid))
    _expect("no pods after they were deleted", [], list(state.pods()))
    state.apply(PodGroupDeleted(group.key))
    _expect("no group after it was deleted", None, state.pod_group(group.key))
    state.apply(NodeDeleted(node.name))
    _expect("no nodes after they were deleted", [], list(state.nodes()))


def _expect(what: str, expected: object, found: object) -> None:
    assert expected == found, f"{what}: expected {expected!r}, found {found!r}"
