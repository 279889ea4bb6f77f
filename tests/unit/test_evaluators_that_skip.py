"""A plugin that skips pods is not asked for its evaluator, since no filter is asked for them."""

from __future__ import annotations

from gangsched import (
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    Scheduler,
    SchedulingUnit,
)
from gangsched.coscheduling import Coscheduling
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.profile import Profile
from gangsched.testing import make_pod


class Skipping(NodeResources):
    """Accepts every node for a pod that requests a licence, which no node offers."""

    def skips(self, pod: Pod) -> bool:
        return "example.com/licence" in pod.requests


def test_gang_that_a_plugin_with_an_evaluator_skips_is_placed() -> None:
    """Its second member is planned on the node as it is with the first."""
    cluster = InMemoryCluster()
    profile = Profile(Coscheduling(), Skipping(), DefaultBinder())
    scheduler = Scheduler(cluster, profile, unit=SchedulingUnit.GROUP)
    node = Node(name=NodeName("n"), allocatable={"cpu": 1})
    scheduler.handle(cluster.apply(NodeAdded(node)), now=0.0)
    for number in range(2):
        asks = {"example.com/licence": 1}
        pod = make_pod(f"g-{number}", group="g", min_available=2, requests=asks)
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    scheduler.schedule_one(now=0.0)
    assert len(scheduler._state.nodes.assumed) == 2


def test_pod_that_is_not_skipped_is_refused() -> None:
    cluster = InMemoryCluster()
    scheduler = Scheduler(cluster, Profile(Coscheduling(), Skipping(), DefaultBinder()))
    node = Node(name=NodeName("n"), allocatable={"cpu": 1})
    scheduler.handle(cluster.apply(NodeAdded(node)), now=0.0)
    scheduler.handle(cluster.apply(PodAdded(make_pod("large", cpu=9))), now=0.0)
    scheduler.schedule_one(now=0.0)
    assert not scheduler._state.nodes.assumed
