"""A restored scheduler tries again what its quotas refused, and what its plugins did if told to.

The cluster has not changed, so no event says that anything may fit now.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from gangsched import (
    Bind,
    Bound,
    Effect,
    Event,
    GroupRejected,
    InMemoryCluster,
    Node,
    NodeAdded,
    Pod,
    Quota,
    Scheduler,
    gang,
    presets,
)
from gangsched.explain import NoNodeFits, NotAdmitted
from gangsched.outcomes import Outcome, Success, Unschedulable
from gangsched.protocols import CycleView, GroupView, NodeView


class Limited:
    """Lets at most so many pods hold a node, and refuses the others at the point of its name."""

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def on_nodes(self, state: CycleView) -> int:
        return sum(len(node.pods) for node in state.nodes.values())

    def refusal(self) -> Unschedulable:
        return Unschedulable(f"limited to {self.limit} pods", resolvable=False)


class AtFilter(Limited):
    name = "Limited"

    def reads_pods(self, pod: Pod) -> bool:
        return True

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        return Success() if self.on_nodes(state) < self.limit else self.refusal()


class Signed(AtFilter):
    def pod_signature(self, pod: Pod) -> None:
        return None

    def node_signature(self, node: NodeView) -> None:
        return None


class AtPreEnqueue(Limited):
    name = "Limited"

    def pre_enqueue(self, pod: Pod, group: GroupView | None, *, now: float) -> Outcome:
        return Success() if self.limit >= 3 else self.refusal()


class AtReserve(Limited):
    name = "Limited"

    def reserve(self, state: CycleView, pod: Pod, node: str, *, now: float) -> Outcome:
        return Success() if self.limit >= 3 else self.refusal()

    def unreserve(self, state: CycleView, pod: Pod, node: str, *, cause: str, now: float) -> None:
        pass


def with_quota(cluster: InMemoryCluster, limit: int) -> Scheduler:
    quota = Quota(name="q", namespaces=["default"], hard={"cpu": limit})
    return presets.gang(cluster, quotas=[quota])


def with_plugin(kind: Callable[[int], object]) -> Callable[[InMemoryCluster, int], Scheduler]:
    return lambda cluster, limit: presets.gang(cluster, plugins=[kind(limit)])


MAKERS = [with_quota, *map(with_plugin, (AtFilter, AtPreEnqueue, AtReserve))]
NAMES = ["quota", "filter", "pre_enqueue", "reserve"]


def told(scheduler: Scheduler, cluster: InMemoryCluster, *events: Event, now: float) -> None:
    for event in events:
        scheduler.handle(cluster.apply(event), now=now)


def decided(scheduler: Scheduler, cluster: InMemoryCluster, now: float) -> Iterator[Effect]:
    """Yield what a scheduler decides, and perform its binds."""

    def perform(effects: Iterable[Effect]) -> Iterator[Effect]:
        for effect in effects:
            yield effect
            if isinstance(effect, Bind):
                bound = Bound(effect.uid, effect.node, effect.attempt)
                yield from perform(scheduler.handle(cluster.apply(bound), now=now))

    while (effects := scheduler.schedule_one(now=now)) is not None:
        yield from perform(effects)


def refused(make: Callable[[InMemoryCluster, int], Scheduler]) -> tuple[InMemoryCluster, Any]:
    """Return a cluster with a gang of 3 that a limit of 2 refuses, and a snapshot of that."""
    cluster = InMemoryCluster()
    scheduler = make(cluster, 2)
    told(scheduler, cluster, NodeAdded(Node(name="n", allocatable={"cpu": 4, "pods": 9})), now=0.0)
    told(scheduler, cluster, *gang("g", workers=3, cpu=1).events(), now=0.0)
    assert not [each for each in decided(scheduler, cluster, 0.0) if isinstance(each, Bind)]
    return cluster, json.loads(json.dumps(scheduler.snapshot()))


@pytest.mark.parametrize("make", MAKERS, ids=NAMES)
def test_gang_starts_when_the_limit_is_raised_at_a_restart(
    make: Callable[[InMemoryCluster, int], Scheduler],
) -> None:
    cluster, data = refused(make)
    scheduler = make(cluster, 3)
    scheduler.restore(data, retry_refused=make is not with_quota)
    assert scheduler.snapshot() == data
    scheduler.rebuild(now=50.0)
    binds = [each for each in decided(scheduler, cluster, 50.0) if isinstance(each, Bind)]
    assert len(binds) == 3


@pytest.mark.parametrize("make", MAKERS, ids=NAMES)
def test_gang_still_waits_when_the_limit_is_the_same(
    make: Callable[[InMemoryCluster, int], Scheduler],
) -> None:
    cluster, data = refused(make)
    scheduler = make(cluster, 2)
    scheduler.restore(data, retry_refused=True)
    scheduler.rebuild(now=50.0)
    found = list(decided(scheduler, cluster, 50.0))
    assert not [each for each in found if isinstance(each, Bind)]
    # once, and not again with the next listing
    told_of = [each for each in found if isinstance(each, GroupRejected)]
    assert len(told_of) == (0 if make is with_quota or make is MAKERS[2] else 1)
    scheduler.rebuild(now=51.0)
    assert list(decided(scheduler, cluster, 51.0)) == []


def test_gang_that_lacks_capacity_is_not_tried_again_at_a_restart() -> None:
    cluster = InMemoryCluster()
    scheduler = with_plugin(Signed)(cluster, 9)
    told(scheduler, cluster, NodeAdded(Node(name="n", allocatable={"cpu": 2, "pods": 9})), now=0.0)
    told(scheduler, cluster, *gang("g", workers=3, cpu=1).events(), now=0.0)
    first = [each for each in decided(scheduler, cluster, 0.0) if isinstance(each, GroupRejected)]
    assert len(first) == 1
    again = with_plugin(Signed)(cluster, 9)
    again.restore(scheduler.snapshot(), retry_refused=True)
    again.rebuild(now=50.0)
    assert list(decided(again, cluster, 50.0)) == []
    assert isinstance(again.why("default/g"), NoNodeFits)


def test_quota_that_is_raised_too_little_names_the_new_limit() -> None:
    cluster, data = refused(with_quota)
    scheduler = with_quota(cluster, 1)
    scheduler.restore(data)
    scheduler.rebuild(now=50.0)
    why = scheduler.why("default/g")
    assert isinstance(why, NotAdmitted)
    assert "limited cpu=1" in str(why)


@pytest.mark.parametrize("make", MAKERS, ids=NAMES)
def test_restored_scheduler_decides_as_the_original_unless_told_to_retry(
    make: Callable[[InMemoryCluster, int], Scheduler],
) -> None:
    cluster, data = refused(make)
    scheduler = make(cluster, 2)
    scheduler.restore(data)
    scheduler.rebuild(now=0.5)
    assert list(decided(scheduler, cluster, 0.5)) == []
