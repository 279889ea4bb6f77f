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
    PodGroupUpdated,
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
    _is_one_of_history(make)


def _is_one_of_history(make: Callable[[], WritableClusterState]) -> None:
    """Hold two of them to one history: they show the same, in the same order."""
    nodes = [Node(name=NodeName(name), allocatable={"cpu": 4}) for name in ("b", "a", "c")]
    pods = [make_pod(name, cpu=1) for name in ("q", "p", "r")]
    groups = [PodGroup(name=name, min_available=2) for name in ("h", "g")]
    history: list[Event] = [
        *map(NodeAdded, nodes),
        *map(PodGroupAdded, groups),
        *map(PodAdded, pods),
        *(Bound(pod.uid, nodes[1].name, 1) for pod in pods),
        PodGroupUpdated(evolve(groups[1], min_available=3)),
    ]
    one, other = make(), make()
    for fact in history:
        one.apply(fact)
        other.apply(fact)
    _expect("a changed group", 3, _minimum(one, groups[1]))
    _expect(
        "the pods on a node", {p.uid for p in pods}, {p.uid for p in one.pods_on(nodes[1].name)}
    )
    _expect("the other nodes are empty", [], list(one.pods_on(nodes[0].name)))
    _expect("the nodes, by one history", list(one.nodes()), list(other.nodes()))
    _expect("the pods, by one history", list(one.pods()), list(other.pods()))
    _expect("the groups, by one history", list(one.pod_groups()), list(other.pod_groups()))
    there = list(one.pods_on(nodes[1].name))
    _expect("the pods on a node, by one history", there, list(other.pods_on(nodes[1].name)))
    for fact in (NodeAdded(nodes[0]), PodGroupDeleted(groups[0].key), PodDeleted(pods[0].uid)):
        one.apply(fact)
        one.apply(fact)
    _expect("a fact that is true already adds nothing", 3, len(list(one.nodes())))
    _expect("a pod that is deleted is on no node", 2, len(list(one.pods_on(nodes[1].name))))
    one.apply(NodeDeleted(nodes[1].name))
    _expect("the pods of a node that is deleted are there", 2, len(list(one.pods())))
    _expect("the second of two is as it was", 3, len(list(other.pods())))


def _minimum(state: ClusterState, group: PodGroup) -> int | None:
    found = state.pod_group(group.key)
    return None if found is None else found.min_available


def _expect(what: str, expected: object, found: object) -> None:
    assert expected == found, f"{what}: expected {expected!r}, found {found!r}"
