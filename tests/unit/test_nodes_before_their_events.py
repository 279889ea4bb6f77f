"""Nodes whose changes the cluster state shows before the event about them is handled."""

from __future__ import annotations

from attrs import evolve

from gangsched import (
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeDeleted,
    NodeName,
    Pod,
    PodAdded,
    PodDeleted,
    PodUpdated,
    Resources,
    SchedulingUnit,
    presets,
)
from gangsched.framework.nodes.node_table import Nodes
from gangsched.testing import make_node, make_pod

N = NodeName("n")


def test_assumed_pod_holds_what_it_was_assumed_with_once_its_resized_bind_is_gone() -> None:
    """It was shown bound with other requests, and deleted again, before any event about it."""
    cluster = InMemoryCluster()
    cluster.apply(NodeAdded(Node(name=N, allocatable={"cpu": 8})))
    nodes = Nodes(cluster)
    nodes.refresh(N)
    pod = Pod(name="p", requests={"cpu": 3})
    nodes.assume(pod, N)
    cluster.apply(PodAdded(evolve(pod, requests=Resources({"cpu": 5}), node_name=N)))
    nodes.refresh(N)
    assert nodes.infos[N].free["cpu"] == 3_000
    cluster.apply(PodDeleted(pod.uid))
    nodes.refresh(N)
    assert nodes.infos[N].free["cpu"] == 5_000
    assert nodes.infos[N].holders == {pod.uid: pod.requests}
    nodes._check()


def test_waiting_member_changes_after_its_node_is_gone_and_before_the_event() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.coscheduling(cluster, unit=SchedulingUnit.POD)
    scheduler.handle(cluster.apply(NodeAdded(make_node("n", cpu=2))), now=0.0)
    other = evolve(make_pod("other", cpu=1), node_name=N)
    scheduler.handle(cluster.apply(PodAdded(other)), now=0.0)
    members = [make_pod(f"g-{number}", group="g", min_available=2, cpu=1) for number in range(2)]
    for member in members:
        scheduler.handle(cluster.apply(PodAdded(member)), now=0.0)
    while scheduler.schedule_one(now=0.0) is not None:
        pass
    assert len(scheduler.waiting) == 1
    gone = cluster.apply(NodeDeleted(N))
    # an event about another pod on the node reads the node
    scheduler.handle(cluster.apply(PodDeleted(other.uid)), now=0.0)
    changed = evolve(members[0], labels={**members[0].labels, "a": "b"})
    scheduler.handle(cluster.apply(PodUpdated(changed)), now=0.0)
    assert len(scheduler.waiting) == 1
    scheduler._check()
    scheduler.handle(gone, now=0.0)
    assert len(scheduler.waiting) == 0
    scheduler._check()
