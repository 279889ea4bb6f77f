"""What a late member, a refused member and a parked class cost: counted, not timed."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    InMemoryCluster,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodDeleted,
    PodUnschedulable,
    Scheduler,
    presets,
)
from gangsched._core._queue import SchedulingQueue
from gangsched.framework.runtime import filter_and_score
from gangsched.model import Node
from gangsched.testing import make_pod


def scheduler_of(*pods: Pod) -> tuple[InMemoryCluster, Scheduler]:
    cluster = InMemoryCluster()
    cluster.apply(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 1})))
    for pod in pods:
        cluster.apply(PodAdded(pod))
    scheduler = presets.coscheduling(cluster)
    scheduler.rebuild(now=0.0)
    return cluster, scheduler


def test_late_members_of_one_class_cost_one_decision_for_each_arrival() -> None:
    first = make_pod("first", group="g", min_available=1, cpu=1)
    cluster, scheduler = scheduler_of(evolve(first, node_name=NodeName("n")))
    decisions, told = 0, set[str]()
    for n in range(30):
        now = 1000.0 * n  # any backoff is over
        late = make_pod(f"late-{n}", group="g", min_available=1, cpu=1)
        arrived = scheduler.handle(cluster.apply(PodAdded(late)), now=now)
        told |= {e.uid for e in arrived if isinstance(e, PodUnschedulable)}
        while (effects := scheduler.schedule_one(now=now)) is not None:
            decisions += 1
            told |= {e.uid for e in effects if isinstance(e, PodUnschedulable)}
    assert decisions <= 2 * 30
    assert told == {f"default/late-{n}" for n in range(30)}, "each is told why it waits"
    scheduler._check()


def test_refused_member_that_leaves_has_no_other_member_read() -> None:
    cluster, scheduler = scheduler_of(make_pod("first", group="g", min_available=2, cpu=1))
    refused = [make_pod(f"r{n}", group="g", min_available=3, cpu=1) for n in range(20)]
    for pod in refused:
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    read: list[str] = []
    original = cluster.pod

    def pod_read(uid: Any) -> Pod | None:
        read.append(uid)
        return original(uid)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(cluster), "pod", lambda _cluster, uid: pod_read(uid))
        scheduler.handle(cluster.apply(PodDeleted(refused[0].uid)), now=0.0)
    assert set(read) <= {refused[0].uid}
    scheduler._check()


def test_no_plugin_is_asked_about_a_node_with_too_little_free_for_parked_classes() -> None:
    waiting = [make_pod(f"p{n}", requests={"cpu": f"{2000 + n}m"}) for n in range(20)]
    running = evolve(make_pod("r", requests={"cpu": "10m"}), node_name=NodeName("n"))
    cluster, scheduler = scheduler_of(running, *waiting)
    while scheduler.schedule_one(now=0.0) is not None:
        pass
    scheduler.advance(now=1000.0)
    while scheduler.schedule_one(now=1000.0) is not None:
        pass
    asked: list[str] = []
    original = filter_and_score._Judge._call

    def counted(judge: Any, plugin: Any, point: str, given: Any) -> Any:
        asked.append(point)
        return original(judge, plugin, point, given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            filter_and_score._Judge,
            "_call",
            counted,
        )
        scheduler.handle(cluster.apply(PodDeleted(running.uid)), now=1000.0)
    assert asked == []
    assert scheduler.schedule_one(now=1000.0) is None


@pytest.mark.parametrize("question", ["pending", "groups"])
def test_listing_reads_the_queue_once_whatever_its_length(question: str) -> None:
    """Each row of 10,000 had the active entities sorted anew."""
    pods = [make_pod(f"p{n}", cpu=1) for n in range(20)]
    pods += [make_pod(f"m{n}", group=f"g{n}", min_available=1, cpu=1) for n in range(20)]
    _cluster, scheduler = scheduler_of(*pods)
    reads = 0
    original: Any = SchedulingQueue.active

    def counted(queue: SchedulingQueue) -> Any:
        nonlocal reads
        reads += 1
        return original.fget(queue)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SchedulingQueue, "active", property(counted))
        rows = scheduler.pending() if question == "pending" else scheduler.groups()
    assert len(rows) >= 20
    assert reads == 1
