"""``check_cluster_state``: check an implementation of the ``ClusterState`` protocol."""

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
    """A cluster state that events can be applied to."""

    def apply(self, event: Event) -> object:
        """Apply an event."""
        ...


def check_cluster_state(make: Callable[[], WritableClusterState]) -> None:
    """Check an implementation of the ``ClusterState`` protocol.

    Args:
        make: Returns an empty cluster state.

    Raises:
        AssertionError: The implementation is wrong; the message says where.
    """
    state = make()
    _expect("a fresh state has no nodes", [], list(state.nodes()))
    _expect("a fresh state has no pods", [], list(state.pods()))
    _expect("a node that does not exist", None, state.node(NodeName("n")))
    _expect("a pod that does not exist", None, state.pod(PodUID("p")))
    _expect("pods on a node that does not exist", [], list(state.pods_on(NodeName("n"))))

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
    _expect("a terminating pod is on its node", 1, len(list(state.pods_on(node.name))))
    state.apply(PodUpdated(evolve(bound, phase=PodPhase.SUCCEEDED)))
    _expect("a finished pod is on no node", [], list(state.pods_on(node.name)))

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
    _check_determinism(make)


def _check_determinism(make: Callable[[], WritableClusterState]) -> None:
    """Check that two cluster states show the same, in the same order, after the same events."""
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
    for event in history:
        one.apply(event)
        other.apply(event)
    _expect("a changed group", 3, _minimum(one, groups[1]))
    _expect(
        "the pods on a node", {p.uid for p in pods}, {p.uid for p in one.pods_on(nodes[1].name)}
    )
    _expect("the other nodes are empty", [], list(one.pods_on(nodes[0].name)))
    _expect("the nodes, after the same events", list(one.nodes()), list(other.nodes()))
    _expect("the pods, after the same events", list(one.pods()), list(other.pods()))
    _expect("the groups, after the same events", list(one.pod_groups()), list(other.pod_groups()))
    there = list(one.pods_on(nodes[1].name))
    _expect("the pods on a node, after the same events", there, list(other.pods_on(nodes[1].name)))
    for event in (NodeAdded(nodes[0]), PodGroupDeleted(groups[0].key), PodDeleted(pods[0].uid)):
        one.apply(event)
        one.apply(event)
    _expect("an event that was applied already adds nothing", 3, len(list(one.nodes())))
    _expect("a deleted pod is on no node", 2, len(list(one.pods_on(nodes[1].name))))
    one.apply(NodeDeleted(nodes[1].name))
    _expect("the pods of a deleted node exist", 2, len(list(one.pods())))
    _expect("the other cluster state is unchanged", 3, len(list(other.pods())))


def _minimum(state: ClusterState, group: PodGroup) -> int | None:
    found = state.pod_group(group.key)
    return None if found is None else found.min_available


def _expect(what: str, expected: object, found: object) -> None:
    assert expected == found, f"{what}: expected {expected!r}, found {found!r}"
