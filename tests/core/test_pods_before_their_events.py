"""The event of a node takes in the pods that the cluster shows on it, also before their events."""

from __future__ import annotations

from attrs import evolve

from gangsched import InMemoryCluster, Node, NodeAdded, NodeName, NodeUpdated, PodAdded
from gangsched.core.scheduler import Scheduler
from gangsched.presets import coscheduling_profile
from gangsched.testing import make_pod

NODE = Node(name=NodeName("n"), allocatable={"cpu": 2})


def test_pod_of_another_scheduler_takes_capacity_before_its_event() -> None:
    cluster = InMemoryCluster()
    scheduler = Scheduler(cluster, coscheduling_profile())
    scheduler.handle(cluster.apply(NodeAdded(NODE)), now=0.0)
    theirs = PodAdded(evolve(make_pod("theirs", cpu=2), node_name=NODE.name))
    cluster.apply(theirs)
    labelled = evolve(NODE, labels={"a": "b"})
    scheduler.handle(cluster.apply(NodeUpdated(labelled)), now=0.0)
    scheduler.handle(cluster.apply(PodAdded(make_pod("ours", cpu=1))), now=0.0)
    assert "Insufficient cpu" in str(scheduler.schedule_one(now=0.0))
    assert scheduler.handle(theirs, now=0.0) == ()
