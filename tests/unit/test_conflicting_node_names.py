"""A pod whose terms name no possible node is told so as by kube-scheduler, without counts."""

from __future__ import annotations

from gangsched import (
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAdded,
    PodUnschedulable,
    presets,
)


def test_pod_with_conflicting_names_of_nodes_is_refused_without_counts() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.pod_by_pod(cluster)
    names = [NodeSelectorRequirement("metadata.name", "In", [name]) for name in ("a", "b")]
    pod = Pod(name="p", affinity=(NodeSelectorTerm((), match_fields=names),))
    for event in (NodeAdded(Node(name="a", allocatable={"cpu": 1})), PodAdded(pod)):
        scheduler.handle(cluster.apply(event), now=0.0)
    effects = scheduler.schedule_one(now=0.0) or ()
    (told,) = [each for each in effects if isinstance(each, PodUnschedulable)]
    assert told.reason == "0/1 nodes are available: pod affinity terms conflict."
