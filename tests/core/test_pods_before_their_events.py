"""What the cluster shows of pods is taken in before their events where it is needed."""

from __future__ import annotations

from attrs import evolve

from gangsched import (
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    NodeUpdated,
    PodAdded,
    PodDeleted,
)
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


def test_pod_that_gave_its_node_back_may_be_gone_before_its_event() -> None:
    cluster = InMemoryCluster()
    scheduler = Scheduler(cluster, coscheduling_profile())
    members = [make_pod(f"m{n}", group="g", min_available=2, cpu=2) for n in range(2)]
    scheduler.handle(cluster.apply(NodeAdded(NODE)), now=0.0)
    for pod in members:
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    while scheduler.schedule_one(now=0.0) is not None:
        pass  # one waits, and the other one does not fit
    deadline = scheduler.next_deadline()
    assert deadline is not None
    scheduler.advance(now=deadline)
    gone = [PodDeleted(pod.uid) for pod in members]
    for event in gone:
        cluster.apply(event)
    scheduler.schedule_one(now=deadline)
    for event in gone:
        scheduler.handle(event, now=deadline)
    scheduler._check()
