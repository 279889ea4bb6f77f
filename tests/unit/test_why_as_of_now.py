"""``Scheduler.why`` has the reason of now; with a budget of 0, that of the last attempt."""

from __future__ import annotations

import math
from typing import Any

import pytest
from attrs import evolve, frozen

from gangsched import (
    InvalidValueError,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodDeleted,
    PodUID,
    ProfileError,
    Success,
    UnknownPodError,
    Unschedulable,
    explain,
    presets,
)
from gangsched.outcomes import SUCCESS
from gangsched.protocols import CycleView, NodeView, StateKey
from gangsched.testing import make_pod
from support.driver import Driver, Fate
from support.fingerprint import fingerprint


def node(name: str, cpu: int = 4) -> NodeAdded:
    return NodeAdded(Node(name=NodeName(name), allocatable={"cpu": cpu}))


def gang(name: str, size: int, minimum: int | None = None) -> list[Pod]:
    names = [f"{name}-{n}" for n in range(size)]
    return [make_pod(n, group=name, min_available=minimum or size, cpu=4) for n in names]


@pytest.fixture
def half_free() -> Driver:
    """Two nodes that were full when a gang of two was tried, one of which is free now."""
    driver = Driver(presets.gang)
    driver.tell(node("n0"), node("n1"))
    driver.add(make_pod("a", cpu=4), make_pod("b", cpu=4))
    driver.settle()
    driver.add(*gang("g", 2))
    driver.settle()
    driver.advance(driver.now + 100)
    driver.settle()
    driver.tell(PodDeleted(PodUID("default/a")))
    driver.settle()
    return driver


def parked(answer: explain.Why) -> explain.NoNodeFits:
    assert isinstance(answer, explain.NoNodeFits)
    return answer


def test_why_counts_what_is_free_now(half_free: Driver) -> None:
    old = parked(half_free.scheduler.why("default/g", budget=0))
    new = parked(half_free.scheduler.why("default/g"))
    assert str(old).endswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert str(new).endswith("at most 1 of 2 members fit: cpu is short")


def test_why_says_when_it_tried(half_free: Driver) -> None:
    scheduler, now = half_free.scheduler, half_free.now
    assert (parked(scheduler.why("default/g", budget=0)).tried_at or 0) < now
    assert parked(scheduler.why("default/g")).tried_at == now
    assert parked(scheduler.why("default/g", now=now + 5)).tried_at == now + 5


def test_why_counts_no_attempt(half_free: Driver) -> None:
    old = parked(half_free.scheduler.why("default/g", budget=0))
    assert parked(half_free.scheduler.why("default/g")).attempts == old.attempts == 1


def test_why_changes_nothing(half_free: Driver) -> None:
    before = fingerprint(half_free.scheduler)
    half_free.scheduler.why("default/g")
    assert fingerprint(half_free.scheduler) == before


def test_why_is_asked_about_a_pod_of_a_gang_or_alone(half_free: Driver) -> None:
    half_free.add(make_pod("large", cpu=9))
    half_free.settle()
    scheduler = half_free.scheduler
    member = scheduler.why("default/g-0")
    assert "at most 1 of 2 members fit" in str(member)
    assert "0/2 nodes are available" in str(scheduler.why("default/large"))


def test_why_counts_nodes_that_came_since_and_cannot_help() -> None:
    driver = Driver(presets.gang)
    driver.tell(node("n0", 1))
    driver.add(make_pod("p", cpu=4))
    driver.settle()
    driver.tell(node("n1", 2))
    driver.settle()
    assert "0/1 nodes are available" in str(driver.scheduler.why("default/p", budget=0))
    assert "0/2 nodes are available" in str(driver.scheduler.why("default/p"))


def test_why_of_a_running_pod_names_its_node(half_free: Driver) -> None:
    scheduler = half_free.scheduler
    assert scheduler.why("default/b") == explain.Running(NodeName("n1"))


def test_why_has_the_fresh_reason_of_late_members() -> None:
    driver = Driver(presets.gang)
    driver.tell(node("n0"), node("n1"))
    driver.add(*gang("g", 2))
    driver.settle()
    driver.add(make_pod("g-2", group="g", min_available=2, cpu=8))
    driver.settle()
    driver.advance(driver.now + 100)
    driver.settle()
    driver.tell(node("n2"))
    driver.settle()
    old, new = (driver.scheduler.why("default/g", budget=budget) for budget in (0, 100_000))
    assert isinstance(old, explain.PartlyRunning)
    assert isinstance(new, explain.PartlyRunning)
    assert "0/2 nodes are available" in str(old)
    assert "0/3 nodes are available" in str(new)


def test_gang_in_backoff_that_would_start_now_is_answered_as_backing_off() -> None:
    driver = Driver(presets.gang, fate=Fate.FAILED)
    driver.tell(node("n0"), node("n1"))
    driver.add(*gang("g", 2))
    driver.drain()
    answer = driver.scheduler.why("default/g")
    assert isinstance(answer, explain.BackingOff)
    assert driver.scheduler.why("default/g", budget=0) == answer


def test_why_of_an_attempt_beyond_its_budget_has_the_last_reason(half_free: Driver) -> None:
    answer = parked(half_free.scheduler.why("default/g", budget=1))
    assert answer == half_free.scheduler.why("default/g", budget=0)
    assert str(answer).startswith(f"as of {answer.tried_at:g}: pod default/g-")


def test_why_of_an_unknown_subject_is_an_error(half_free: Driver) -> None:
    with pytest.raises(UnknownPodError, match="default/no-such"):
        half_free.scheduler.why("default/no-such")


@pytest.mark.parametrize("now", [math.nan, -1.0])
def test_instant_before_the_last_call_is_refused(half_free: Driver, now: float) -> None:
    with pytest.raises(InvalidValueError, match="now"):
        half_free.scheduler.why("default/g", now=now)


@pytest.mark.parametrize("budget", [-1, 1.5, None])
def test_budget_that_is_no_number_of_steps_is_refused(half_free: Driver, budget: Any) -> None:
    with pytest.raises(InvalidValueError, match="budget"):
        half_free.scheduler.why("default/g", budget=budget)


class Counts:
    """A plugin with state that cannot be forked."""

    name = "Counts"

    def __init__(self) -> None:
        self.seen: list[PodUID] = []

    def pre_filter(self, _state: object, pod: Pod, *, now: float) -> Success:
        self.seen.append(pod.uid)
        return SUCCESS


def test_why_of_a_scheduler_that_cannot_be_forked_has_the_last_reason() -> None:
    plugin = Counts()
    driver = Driver(lambda cluster: presets.gang(cluster, plugins=(plugin,)))
    driver.tell(node("n0"), node("n1"))
    driver.add(*gang("g", 3))
    driver.settle()
    asked = len(plugin.seen)
    with pytest.raises(ProfileError):
        driver.scheduler.what_if()
    assert driver.scheduler.why("default/g") == driver.scheduler.why("default/g", budget=0)
    assert str(driver.scheduler.why("default/g")).startswith("as of 0: ")
    assert len(plugin.seen) == asked


USED: StateKey[int] = StateKey("TenantQuota", derived=True)


@frozen
class TenantQuota:
    """At most two pods of the tenant red may run; it bounds what it accepts."""

    name: str = "TenantQuota"

    def reads_pods(self, pod: Pod) -> bool:
        return pod.labels.get("tenant") == "red"

    def pre_filter(self, state: CycleView, pod: Pod, *, now: float) -> Success:
        on_nodes = (each for info in state.nodes.values() for each in info.pods)
        state.write(USED, sum(map(self.reads_pods, on_nodes)))
        return SUCCESS

    def add_pod(self, state: CycleView, pod: Pod, added: Pod, node: NodeView) -> None:
        state.write(USED, (state.read(USED) or 0) + self.reads_pods(added))

    def remove_pod(self, state: CycleView, pod: Pod, removed: Pod, node: NodeView) -> None:
        state.write(USED, (state.read(USED) or 0) - self.reads_pods(removed))

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Success | Unschedulable:
        if not self.reads_pods(pod) or (state.read(USED) or 0) < 2:
            return SUCCESS
        return Unschedulable("the quota is used up")

    def cluster_headroom(self, state: CycleView, pod: Pod) -> int | None:
        return max(2 - (state.read(USED) or 0), 0) if self.reads_pods(pod) else None

    def pod_signature(self, pod: Pod) -> bool:
        return self.reads_pods(pod)

    def node_signature(self, node: NodeView) -> None:
        return None


def test_why_names_the_quota_that_is_the_only_cause_by_now() -> None:
    driver = Driver(lambda cluster: presets.gang(cluster, plugins=(TenantQuota(),)))
    driver.tell(node("n0", 8))
    driver.add(evolve(make_pod("a", cpu=1), labels={"tenant": "red"}), make_pod("b", cpu=4))
    driver.settle()
    red = [make_pod(f"g-{n}", group="g", min_available=2, cpu=3) for n in range(2)]
    driver.add(*(evolve(pod, labels={**pod.labels, "tenant": "red"}) for pod in red))
    driver.settle()
    driver.tell(PodDeleted(PodUID("default/b")))
    driver.settle()
    assert str(driver.scheduler.why("default/g", budget=0)).endswith("cpu is short")
    assert str(driver.scheduler.why("default/g")).endswith("1 the quota is used up.")
