"""Strategies for events and for cluster states."""

from __future__ import annotations

from hypothesis import strategies as st

from gangsched.events import (
    BindFailed,
    Bound,
    Event,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    ObjectChanged,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodUpdated,
)
from gangsched.memory import InMemoryCluster
from gangsched.model import Node, NodeName, Pod, PodGroup, Resources
from gangsched.strategies._arguments import bound, strategy
from gangsched.strategies._nouns import some_groups, some_nodes, some_pods
from gangsched.strategies._objects import deleted_objects, some_objects

__all__ = ["clusters", "events"]

_ATTEMPTS = st.integers(1, 3)


def events(
    *,
    pods: st.SearchStrategy[Pod] | None = None,
    nodes: st.SearchStrategy[Node] | None = None,
    pod_groups: st.SearchStrategy[PodGroup] | None = None,
    attempts: st.SearchStrategy[int] | None = None,
) -> st.SearchStrategy[Event]:
    """Draw events, often about the same pods, nodes and groups.

    Each event is valid by itself. Whether one can follow another, ``InMemoryCluster.apply``
    decides.

    Args:
        pods: The pods of the events.
        nodes: The nodes of the events.
        pod_groups: The groups of the events.
        attempts: The attempt number of each bind report, from 1.
    """
    of_pods = strategy("pods", pods, some_pods())
    of_nodes = strategy("nodes", nodes, some_nodes())
    of_groups = strategy("pod_groups", pod_groups, some_groups())
    uids, attempts = of_pods.map(lambda pod: pod.uid), strategy("attempts", attempts, _ATTEMPTS)
    return st.one_of(
        st.builds(PodAdded, of_pods),
        st.builds(PodUpdated, of_pods),
        st.builds(PodDeleted, uids),
        st.builds(NodeAdded, of_nodes),
        st.builds(NodeUpdated, of_nodes),
        st.builds(NodeDeleted, of_nodes.map(lambda node: node.name)),
        st.builds(PodGroupAdded, of_groups),
        st.builds(PodGroupUpdated, of_groups),
        st.builds(PodGroupDeleted, of_groups.map(lambda group: group.key)),
        st.builds(ObjectChanged, some_objects()),
        deleted_objects(),
        st.builds(Bound, uids, of_nodes.map(lambda node: node.name), attempts),
        st.builds(BindFailed, uids, attempts, st.just("no answer")),
    )


def clusters(
    *,
    nodes: st.SearchStrategy[Node] | None = None,
    pods: st.SearchStrategy[Pod] | None = None,
    pod_groups: st.SearchStrategy[PodGroup] | None = None,
    max_nodes: int = 4,
    max_pods: int = 8,
) -> st.SearchStrategy[InMemoryCluster]:
    """Draw cluster states: nodes, groups, and pods, pending or bound within the capacity.

    Args:
        nodes: The nodes.
        pods: The pods.
        pod_groups: The pod groups.
        max_nodes: The maximum number of nodes.
        max_pods: The maximum number of pods.
    """
    of_nodes = strategy("nodes", nodes, some_nodes())
    of_pods = strategy("pods", pods, some_pods())
    of_groups = strategy("pod_groups", pod_groups, some_groups())
    bound("max_nodes", max_nodes)
    bound("max_pods", max_pods)

    @st.composite
    def made(draw: st.DrawFn) -> InMemoryCluster:
        cluster = InMemoryCluster()
        free: dict[NodeName, Resources] = {}
        for node in draw(st.lists(of_nodes, max_size=max_nodes, unique_by=lambda n: n.name)):
            cluster.apply(NodeAdded(node))
            free[node.name] = node.allocatable
        for group in draw(st.lists(of_groups, max_size=3, unique_by=lambda g: g.key)):
            cluster.apply(PodGroupAdded(group))
        for pod in draw(st.lists(of_pods, max_size=max_pods, unique_by=lambda p: p.uid)):
            cluster.apply(PodAdded(pod))
            fitting = [name for name, left in free.items() if not pod.requests.missing_from(left)]
            name = draw(st.sampled_from([None, *fitting])) if pod.node_name is None else None
            if name is not None:
                cluster.apply(Bound(pod.uid, name, 1))
                free[name] -= pod.requests
        return cluster

    return made()
