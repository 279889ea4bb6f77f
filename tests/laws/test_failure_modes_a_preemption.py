"""Failure modes 3.A: the effect of preemption on waiting members and siblings (F10, F11, F13)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    ClusterState,
    Evict,
    GroupRejected,
    Node,
    NodeAdded,
    NodeName,
    Nominated,
    Preemption,
    Scheduler,
    WhenBlocked,
)
from gangsched.testing import make_pod
from support.driver import Driver
from support.examples import one_in
from support.faulty_driver import told
from support.gangs import members
from support.shown import shown
from support.units import coscheduling

NODE = NodeName("n")


def patient(cluster: ClusterState) -> Scheduler:
    """Return a scheduler where members wait for missing siblings, and late ones preempt."""
    preemption = Preemption(grace=60.0, elastic_members=True)
    return coscheduling(cluster, preemption=preemption, when_blocked=WhenBlocked.UNTIL_TIMEOUT)


def driver_of(cpu: int) -> Driver:
    """Return a driver with one node."""
    driver = Driver(patient)
    driver.tell(NodeAdded(Node(name=NODE, allocatable={"cpu": cpu})))
    return driver


def waiting(driver: Driver, count: int) -> None:
    """Let members of a gang hold nodes and wait for one that fits nowhere."""
    driver.add(*members("low", count, count + 1, cpu=1))
    driver.add(make_pod("low-gpu", group="low", min_available=count + 1, requests={"gpu": 1}))
    driver.drain()
    assert len(driver.scheduler.waiting) == count


def nothing_is_left_over(driver: Driver) -> None:
    """Check that no pod waits, that that nothing is reserved."""
    seen = shown(driver.scheduler)
    assert list(driver.scheduler.waiting) == []
    assert (seen.assumed, seen.nominations) == ({}, ())
    driver.scheduler._check()  # it counts anew what nodes have left


@pytest.mark.pod_by_pod("members hold nodes and wait")
@one_in(2)
@given(st.integers(1, 4), st.integers(0, 2), st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_waiting_gang_is_preempted_whole_and_its_preemptor_runs(
    count: int, free: int, urgent: list[int]
) -> None:
    """F10, SP#1007: at once; no pod is evicted for it, and no departed pod is waited for."""
    driver = driver_of(count + free)
    waiting(driver, count)
    runs = 0
    for number, cpu in enumerate(urgent):
        driver.add(make_pod(f"urgent-{number}", cpu=cpu, priority=5))
        driver.drain()
        runs += cpu if runs + cpu <= count + free else 0
        placed = [pod.requests.amount("cpu") // 1000 for pod in driver.cluster.pods_on(NODE)]
        assert sum(placed) == runs, "who fits beside its equals runs"
        left = len(driver.scheduler.waiting)
        assert left == (count if runs <= free else 0), "they wait together, or nobody does"
    assert told(driver, Evict) == []
    assert len(told(driver, Nominated)) == len(told(driver, GroupRejected)) == int(runs > free)
    driver.delete(*[pod.uid for pod in driver.cluster.pods() if pod.name.startswith("low")])
    driver.settle()
    nothing_is_left_over(driver)
