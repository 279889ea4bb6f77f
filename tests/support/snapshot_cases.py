"""Busy schedulers of both presets, whose snapshots together have every part of the format."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from attrs import evolve, frozen

from gangsched import (
    AnnotatedRunTimes,
    Backfill,
    Bind,
    BindFailed,
    Bound,
    Event,
    InMemoryCluster,
    NodeAdded,
    NodeName,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodUID,
    Quota,
    Scheduler,
    Topology,
    presets,
)
from gangsched.options import Preemption
from gangsched.testing import make_node, make_pod
from support.bundles import AB, pods, specs
from support.busy import busy_scheduler, tell
from support.restored import posted
from support.snapshots import another, nominating_scheduler, reserving_scheduler

__all__ = ["CASES", "Case", "continued", "copied"]


@frozen
class Case:
    """A snapshot, the cluster of its scheduler, and how to make such a scheduler."""

    data: Any
    cluster: InMemoryCluster
    make: Callable[[InMemoryCluster], Scheduler]


def busy() -> Case:
    """Return pods and groups in every state, one by one."""
    cluster, scheduler = busy_scheduler()
    return Case(posted(scheduler.snapshot()), cluster, another)


def nominating() -> Case:
    """Return a nomination whose victim is not gone yet."""
    cluster = InMemoryCluster()
    scheduler = nominating_scheduler(cluster)
    return Case(
        posted(scheduler.snapshot()),
        cluster,
        lambda own: presets.coscheduling(own, preemption=Preemption()),
    )


def reserving() -> Case:
    """Return a reservation, with a gang that failed although it was exempt."""
    cluster = InMemoryCluster()
    scheduler = reserving_scheduler(cluster)
    policy = Backfill(AnnotatedRunTimes("seconds"))
    return Case(
        posted(scheduler.snapshot()), cluster, lambda own: presets.gang(own, backfill=policy)
    )


def gangs() -> Case:
    """Return whole gangs with roles, with a bundle, within a label, nominated and running."""
    cluster = InMemoryCluster()

    def make(own: InMemoryCluster) -> Scheduler:
        return presets.gang(own, preemption=Preemption())

    scheduler = make(cluster)
    for n in range(3):
        node = make_node(f"n{n}", cpu=4, labels={"rack": f"r{n}", "kind": "a"})
        tell(cluster, scheduler, NodeAdded(node), now=0.0)
    low = evolve(make_pod("low", cpu=3, priority=0), node_name=NodeName("n0"))
    tell(cluster, scheduler, PodAdded(low), now=0.0)
    for event in specs(*AB, roles={"head": 1}, min_resources={"cpu": 2}):
        tell(cluster, scheduler, event, now=0.0)
    for group in AB:
        for pod in pods(group, 1, cpu=9, role="head"):
            tell(cluster, scheduler, PodAdded(pod), now=0.0)
    racks = PodGroup(name="racks", min_available=2, priority=7, topology=Topology("rack"))
    tell(cluster, scheduler, PodGroupAdded(racks), now=0.0)
    for n in range(2):
        pod = make_pod(f"racks-{n}", group="racks", cpu=2, priority=7)
        tell(cluster, scheduler, PodAdded(pod), now=0.0)
    high = PodGroup(name="high", min_available=2, priority=5, roles={"arm": 1})
    tell(cluster, scheduler, PodGroupAdded(high), now=0.0)
    for n in range(2):
        pod = make_pod(f"high-{n}", group="high", cpu=4, priority=5, role="arm")
        tell(cluster, scheduler, PodAdded(pod), now=0.0)
    picky = evolve(make_pod("picky", cpu=1), node_selector={"kind": "b"})
    tell(cluster, scheduler, PodAdded(picky), now=0.0)
    run(cluster, scheduler, now=1.0, most=9)
    tell(cluster, scheduler, PodAdded(make_pod("last", cpu=1)), now=2.0)
    scheduler._check()
    return Case(posted(scheduler.snapshot()), cluster, make)


def lending() -> Case:
    """Return a gang in a rack of its own, with room that is lent, and one that waits."""
    cluster = InMemoryCluster()

    def make(own: InMemoryCluster) -> Scheduler:
        return presets.gang(own, levels=["rack"], preemption=Preemption())

    scheduler = make(cluster)
    for number in range(4):
        labels = {"rack": f"r{number // 2}"}
        event = NodeAdded(make_node(f"n{number}", cpu=2, labels=labels))
        scheduler.handle(cluster.apply(event), now=0.0)
    for name, size, topology in (
        ("own", 2, Topology("rack", exclusive="rack")),
        ("far", 2, Topology(apart="kubernetes.io/hostname")),
        ("late", 3, None),
    ):
        group = PodGroup(name=name, min_available=size, topology=topology, spares=1)
        scheduler.handle(cluster.apply(PodGroupAdded(group)), now=0.0)
        for number in range(size):
            pod = make_pod(f"{name}-{number}", group=name, cpu=1)
            scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
        run(cluster, scheduler, now=0.0, most=9)
    return Case(posted(scheduler.snapshot()), cluster, make)


def sharing() -> Case:
    """Return queues with a past, of which one has borrowed, and the other waits for its own."""
    cluster = InMemoryCluster()
    org = Quota(name="org", hard={"cpu": 8})
    teams = [Quota(name=name, parent="org", namespaces=[name], nominal={"cpu": 3}) for name in "ab"]

    def make(own: InMemoryCluster) -> Scheduler:
        return presets.gang(own, quotas=[org, *teams], history=60.0)

    scheduler = make(cluster)
    scheduler.handle(cluster.apply(NodeAdded(make_node("n", cpu=9))), now=0.0)
    for now, name, count in ((0.0, "a", 5), (30.0, "b", 3)):
        group = PodGroup(name="g", namespace=name, min_available=2)
        scheduler.handle(cluster.apply(PodGroupAdded(group)), now=now)
        for number in range(count):
            pod = evolve(make_pod(f"g-{number}", group="g", cpu=1), namespace=name)
            pod = evolve(pod, uid=PodUID(pod.key))
            scheduler.handle(cluster.apply(PodAdded(pod)), now=now)
        run(cluster, scheduler, now=now, most=9)
    return Case(posted(scheduler.snapshot()), cluster, make)


CASES: dict[str, Callable[[], Case]] = {
    each.__name__: each for each in (busy, nominating, reserving, gangs, lending, sharing)
}


def run(cluster: InMemoryCluster, scheduler: Scheduler, *, now: float, most: int) -> list[str]:
    """Decide, and report each bind as performed; return the effects."""
    log: list[str] = []
    for _turn in range(most):
        effects = scheduler.schedule_one(now=now)
        log.append(repr(effects))
        if effects is None:
            break
        binds = [effect for effect in effects if isinstance(effect, Bind)]
        log += [repr(scheduler.handle(_reported(cluster, bind), now=now)) for bind in binds]
    return log


def _reported(cluster: InMemoryCluster, bind: Bind) -> Event:
    """Return the report of a bind, which fails if the pod is gone or is on a node."""
    pod = cluster.pod(bind.uid)
    if pod is None or pod.node_name is not None or cluster.node(bind.node) is None:
        return BindFailed(bind.uid, bind.attempt, "cannot be bound")
    return cluster.apply(Bound(bind.uid, bind.node, bind.attempt))


def continued(case: Case, cluster: InMemoryCluster, scheduler: Scheduler) -> list[str]:
    """Return what a scheduler answers after it was restored; checked after every step."""
    now = max(scheduler.snapshot().get("now", 0.0), case.data.get("now", 0.0))
    log = [*run(cluster, scheduler, now=now, most=12)]
    scheduler._check()
    for n, wait in enumerate((5.0, 100.0)):
        now += wait
        log.append(repr(scheduler.advance(now=now)))
        scheduler._check()
        node = make_node(f"more{n}", cpu=4, labels={"rack": "r9", "kind": "b"})
        log.append(repr(scheduler.handle(cluster.apply(NodeAdded(node)), now=now)))
        scheduler._check()
        log += run(cluster, scheduler, now=now, most=12)
        scheduler._check()
    return [*log, repr(scheduler.next_deadline())]


def copied(cluster: InMemoryCluster) -> InMemoryCluster:
    """Return a copy of a cluster."""
    return copy.deepcopy(cluster)
