"""A plugin that bounds how many pods it accepts anywhere spares searches and useless attempts."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import pytest

from gangsched import (
    GroupRejected,
    GroupScheduled,
    Node,
    NodeAdded,
    Order,
    Pod,
    Profile,
    ProfileError,
    gang,
    presets,
)
from gangsched.outcomes import Outcome, Success, Unschedulable
from gangsched.protocols import CycleView, NodeView, StateKey
from gangsched.testing import check_plugin
from support.driver import Driver

GPU = "nvidia.com/gpu"
USED: StateKey[int] = StateKey("GpuQuota", derived=True)


@dataclass(frozen=True)
class Undeclared:
    """The pods with GPUs use at most *limit* of them; says nothing of a bound."""

    limit: int
    name: str = "GpuQuota"

    def reads_pods(self, pod: Pod) -> bool:
        return pod.requests.amount(GPU) > 0

    def pre_filter(self, state: CycleView, pod: Pod, *, now: float) -> Outcome:
        pods = (each for node in state.nodes.values() for each in node.pods)
        state.write(USED, sum(each.requests.amount(GPU) for each in pods))
        return Success()

    def add_pod(self, state: CycleView, pod: Pod, added: Pod, node: NodeView) -> None:
        state.write(USED, (state.read(USED) or 0) + added.requests.amount(GPU))

    def remove_pod(self, state: CycleView, pod: Pod, removed: Pod, node: NodeView) -> None:
        state.write(USED, (state.read(USED) or 0) - removed.requests.amount(GPU))

    def left(self, state: CycleView) -> int:
        return 1000 * self.limit - (state.read(USED) or 0)

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        if not self.reads_pods(pod) or pod.requests.amount(GPU) <= self.left(state):
            return Success()
        return Unschedulable(f"the lab may use {self.limit} GPUs", resolvable=False)

    def pod_signature(self, pod: Pod) -> Hashable:
        return pod.requests.amount(GPU)

    def node_signature(self, node: NodeView) -> Hashable:
        return None


@dataclass(frozen=True)
class GpuQuota(Undeclared):
    def cluster_headroom(self, state: CycleView, pod: Pod) -> int | None:
        if not self.reads_pods(pod):
            return None
        return max(self.left(state), 0) // pod.requests.amount(GPU)


def host(gpus: int, limit: int) -> Driver:
    """Return a driver of a scheduler that tries groups in the order of their creation."""
    driver = Driver(
        lambda cluster: presets.gang(cluster, plugins=[GpuQuota(limit)], order=Order.CREATION)
    )
    driver.tell(NodeAdded(Node(name="n", allocatable={GPU: gpus, "pods": 99})))
    return driver


def add(driver: Driver, name: str, created_at: float) -> None:
    driver.tell(*gang(name, workers=2, gpu=1, created_at=created_at).events())
    driver.drain()


def groups_of(driver: Driver, kind: type[GroupRejected] | type[GroupScheduled]) -> list[str]:
    return [e.group for call in driver.log for e in call.effects if isinstance(e, kind)]


def test_unrelated_pods_do_not_cause_attempts_of_a_gang_over_its_quota() -> None:
    driver = host(gpus=5, limit=2)
    add(driver, "first", 1.0)
    add(driver, "second", 2.0)
    for number in range(5):
        driver.advance(10.0 * (number + 1))
        driver.add(Pod(name=f"cpu-{number}"))
        driver.drain()
        driver.delete(f"default/cpu-{number}")
        driver.drain()
    assert groups_of(driver, GroupRejected) == ["default/second"]
    driver.delete("default/first-0", "default/first-1")
    driver.drain()
    assert groups_of(driver, GroupScheduled) == ["default/first", "default/second"]


def test_older_gang_starts_before_a_younger_one_when_the_quota_returns() -> None:
    driver = host(gpus=2, limit=2)
    for number, name in enumerate(("first", "older", "younger"), 1):
        driver.advance(float(number))
        add(driver, name, float(number))
    driver.advance(9.0)
    driver.delete("default/first-0", "default/first-1")
    driver.drain()
    assert groups_of(driver, GroupScheduled) == ["default/first", "default/older"]


class Negative(GpuQuota):
    def cluster_headroom(self, state: CycleView, pod: Pod) -> int | None:
        return -1


class TooFew(GpuQuota):
    def cluster_headroom(self, state: CycleView, pod: Pod) -> int | None:
        return 0


def test_bound_needs_reads_pods() -> None:
    class Bounds:
        name = "Bounds"

        def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
            return Success()

        def cluster_headroom(self, state: CycleView, pod: Pod) -> int | None:
            return None

    with pytest.raises(ProfileError, match="cluster_headroom"):
        Profile(*presets.coscheduling_profile().plugins, Bounds())


def test_check_plugin_finds_a_bound_below_what_filter_accepts() -> None:
    pods = [Pod(name=f"p{n}", requests={GPU: n}) for n in (1, 2)]
    check_plugin(GpuQuota(4), pods=pods, forkable=True)
    with pytest.raises(AssertionError, match="cluster_headroom: is 0, and filter lets"):
        check_plugin(TooFew(4), pods=pods)
    with pytest.raises(AssertionError, match="cluster_headroom: returned -1"):
        check_plugin(Negative(4), pods=pods)
