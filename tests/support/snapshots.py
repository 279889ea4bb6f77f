"""Schedulers with state for a snapshot, and schedulers to restore it into."""

from __future__ import annotations

from attrs import evolve

from gangsched import (
    AnnotatedRunTimes,
    Backfill,
    Coscheduling,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    Outcome,
    Pod,
    PodAdded,
    Profile,
    Scheduler,
    SchedulingUnit,
    Success,
    presets,
)
from gangsched.options import Preemption
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.protocols import CycleView
from gangsched.testing import make_pod
from support.busy import tell
from support.shown import shown

__all__ = ["Fitting", "another", "nominating_scheduler", "reserving_scheduler"]


def another(
    cluster: InMemoryCluster, *plugins: object, unit: SchedulingUnit = SchedulingUnit.POD
) -> Scheduler:
    profile = Profile(Coscheduling(permit_timeout=50.0), NodeResources(), *plugins, DefaultBinder())
    return Scheduler(cluster, profile, unit=unit, strict_priorities=True)


def nominating_scheduler(cluster: InMemoryCluster | None = None) -> Scheduler:
    """Return a scheduler with a nomination whose victim is not gone yet, over a cluster."""
    cluster = cluster or InMemoryCluster()
    scheduler = presets.coscheduling(cluster, preemption=Preemption())
    tell(cluster, scheduler, NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 1})), now=0)
    low = evolve(make_pod("low", cpu=1, priority=0), node_name=NodeName("n"))
    tell(cluster, scheduler, PodAdded(low), now=0)
    tell(cluster, scheduler, PodAdded(make_pod("high", cpu=1, priority=9)), now=0)
    while scheduler.schedule_one(now=1) is not None:
        pass
    assert shown(scheduler).nominations
    return scheduler


def reserving_scheduler(cluster: InMemoryCluster | None = None) -> Scheduler:
    """Return a scheduler with a reservation, after all decisions, over a cluster."""
    cluster, run_times = cluster or InMemoryCluster(), AnnotatedRunTimes("seconds")
    scheduler = presets.gang(cluster, backfill=Backfill(run_times))
    tell(cluster, scheduler, NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 3})), now=0)
    old = evolve(make_pod("old", cpu=1), node_name=NodeName("n"), annotations={"seconds": "50"})
    tell(cluster, scheduler, PodAdded(old), now=0)
    for n in range(3):
        member = make_pod(f"big-{n}", cpu=1, group="big", min_available=3)
        tell(cluster, scheduler, PodAdded(member), now=0)
    while scheduler.schedule_one(now=1) is not None:
        pass
    assert scheduler.reservation is not None
    return scheduler


class Fitting:
    """Has a node signature, unless it is broken; or has none, if it is told so."""

    name = "Fitting"

    def __init__(self, *, signs: bool) -> None:
        self.is_broken = False
        if signs:
            self.node_signature = self.read

    def pod_signature(self, pod: Pod) -> object:
        return ()

    def filter(self, state: CycleView, pod: Pod, node: object) -> Outcome:
        return Success()

    def read(self, node: object) -> object:
        if self.is_broken:
            raise OSError("no such node")
        return ()
