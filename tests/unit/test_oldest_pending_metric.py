"""The age of the oldest gang that waits for capacity, and gangs that wait for a quota."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import InMemoryCluster, NodeAdded, PodAdded, PodGroup, PodGroupAdded, Quota, presets
from gangsched.events import Bind, Bound
from gangsched.metrics import Metrics
from gangsched.model import GroupKey, Pod
from gangsched.testing import make_node, make_pod

prometheus_client = pytest.importorskip("prometheus_client")
both = pytest.mark.parametrize("make", [presets.gang, presets.coscheduling])
TEAM = Quota(name="team", namespaces=["team"], hard={"cpu": 1})


class Run:
    """A scheduler on one node of 4 cpu, with the samples of its metrics."""

    def __init__(self, make: Any, instant: Any = None) -> None:
        self.registry: Any = prometheus_client.CollectorRegistry()
        self.cluster, self.now = InMemoryCluster(), 100.0
        made = make(self.cluster, quotas=[TEAM])
        self.scheduler = Metrics(self.registry).watch(made, instant=instant)
        self.tell(NodeAdded(make_node("n", cpu=4)))

    def gang(
        self, name: str, *, cpu: int, minimum: int = 2, namespace: str = "default", **pod: Any
    ) -> None:
        self.tell(PodGroupAdded(PodGroup(name=name, namespace=namespace, min_available=minimum)))
        for n in range(2):
            made = Pod(
                name=f"{name}-{n}",
                namespace=namespace,
                pod_group=name,
                requests={"cpu": cpu},
                **pod,
            )
            self.tell(PodAdded(made))
        self.decide()

    def tell(self, event: Any) -> None:
        self.scheduler.handle(self.cluster.apply(event), now=self.now)

    def decide(self) -> None:
        while (effects := self.scheduler.schedule_one(now=self.now)) is not None:
            for bind in effects:
                if isinstance(bind, Bind):
                    self.tell(Bound(bind.uid, bind.node, bind.attempt))

    def later(self, seconds: float) -> None:
        self.now += seconds
        self.scheduler.advance(now=self.now)
        self.decide()

    def oldest(self) -> float:
        found = self.registry.get_sample_value(
            "gangsched_oldest_pending_seconds", {"profile": "gangsched"}
        )
        assert isinstance(found, float)
        return found

    def groups(self, state: str) -> float | None:
        value: float | None = self.registry.get_sample_value(
            "gangsched_groups", {"profile": "gangsched", "state": state}
        )
        return value


@both
def test_gangs_that_pass_leave_the_age_of_the_oldest_at_zero(make: Any) -> None:
    run = Run(make)
    assert run.oldest() == 0
    run.gang("a", cpu=2)
    run.later(50)
    assert run.groups("started") == 1
    assert run.oldest() == 0


@both
def test_age_is_that_of_the_gang_that_waits_longest(make: Any) -> None:
    run = Run(make)
    run.gang("a", cpu=3)
    run.later(30)
    run.gang("b", cpu=3)
    run.later(10)
    assert run.oldest() == 40
    run.tell(NodeAdded(make_node("m", cpu=4)))
    run.later(20)
    assert run.groups("started") == 1
    assert run.oldest() == 30
    run.tell(NodeAdded(make_node("o", cpu=8)))
    run.later(60)
    assert run.oldest() == 0


@both
def test_gangs_without_enough_members_or_with_gates_do_not_wait_for_capacity(make: Any) -> None:
    run = Run(make)
    run.gang("few", cpu=1, minimum=3)
    run.gang("gated", cpu=1, scheduling_gates=("hold",))
    run.later(30)
    assert (run.groups("incomplete"), run.groups("gated")) == (1, 1)
    assert run.oldest() == 0


@both
def test_gang_that_waits_for_a_quota_does_not_wait_for_capacity(make: Any) -> None:
    run = Run(make)
    run.gang("a", cpu=1, namespace="team")
    run.later(30)
    assert run.groups("over_quota") == 1
    assert run.groups("pending") == 0
    assert run.oldest() == 0


def test_age_goes_on_between_calls_if_the_instant_is_known() -> None:
    now = [100.0]
    run = Run(presets.gang, lambda: now[0])
    run.gang("a", cpu=3)
    assert run.oldest() == 0
    now[0] = 107.0
    assert run.oldest() == 7


def test_falls_are_counted_when_told_if_they_are_not_counted_as_they_come() -> None:
    from gangsched import GroupBelowMinimum, GroupKey

    registry: Any = prometheus_client.CollectorRegistry()
    metrics = Metrics(registry, counts_falls=False)
    metrics.see([GroupBelowMinimum(GroupKey("default/g"), 1, 2)], 0.0)
    name, labels = "gangsched_groups_below_minimum_total", {"profile": "gangsched"}
    assert not registry.get_sample_value(name, labels)
    metrics.fell()
    assert registry.get_sample_value(name, labels) == 1


@both
def test_gang_that_waits_for_another_one_of_its_bundle_does_not_wait_for_capacity(
    make: Any,
) -> None:
    run = Run(make)
    both_keys = (GroupKey("default/a"), GroupKey("default/b"))
    run.tell(PodGroupAdded(PodGroup(name="a", min_available=1, bundle=both_keys)))
    run.tell(PodAdded(make_pod("a-0", group="a", cpu=1)))
    run.decide()
    run.later(30)
    assert run.groups("pending") == 1
    assert run.oldest() == 0
