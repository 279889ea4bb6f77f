"""Law 10: all state can be rebuilt from a listing; a restart loses and doubles nothing."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import Bind, Node, NodeAdded, NodeName, Quota
from gangsched.testing import make_pod
from support.driver import Driver, Fate
from support.examples import one_in
from support.histories import Policy, histories, policies, steady_policies
from support.history_steps import HistoryStep, Restart
from support.units import coscheduling


@one_in(4)
@given(policies, histories())
def test_listing_changes_nothing_for_a_scheduler_that_is_up_to_date(
    policy: Policy, steps: list[HistoryStep]
) -> None:
    driver = policy.world().live(*steps).finish().driver
    driver.log.clear()
    driver.rebuild()
    assert [effect for told in driver.log for effect in told.effects] == []
    assert driver.scheduler.schedule_one(now=driver.now) is None


@one_in(2)
@given(steady_policies, st.integers(0, 30), st.integers(1, 3), st.integers(2, 5))
def test_restart_during_a_gang_starts_every_gang_whole_and_once(
    policy: Policy, at: int, every: int, size: int
) -> None:
    """F42: the cluster fits all of them; the scheduler dies at some step, binds under way."""
    world = policy.world()
    driver = world.driver
    driver.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 3 * size})))
    for gang in range(3):
        for n in range(size):
            driver.add(make_pod(f"g{gang}-{n}", group=f"g{gang}", min_available=size, cpu=1))
    driver.fate = Fate.PENDING
    for _step in range(at):
        driver.step()
    world.do(Restart(every=every))
    world.finish()
    assert all(pod.node_name == "n" for pod in driver.cluster.pods())


@one_in(4)
@given(policies, histories())
def test_bound_pod_stays_bound_through_a_restart(policy: Policy, steps: list[HistoryStep]) -> None:
    driver = policy.world().live(*steps).finish().driver
    bound = {pod.uid: pod.node_name for pod in driver.cluster.pods() if pod.node_name}
    driver.log.clear()
    driver.restart(lambda _bind: False)
    driver.settle()
    again = [e.uid for t in driver.log for e in t.effects if isinstance(e, Bind)]
    assert not set(again) & bound.keys()
    for uid, node in bound.items():
        pod = driver.cluster.pod(uid)
        assert pod is not None
        assert pod.node_name == node


def test_scheduler_that_starts_late_takes_in_what_is_there() -> None:
    driver = Driver(Policy().make)
    for name in ("a", "b"):
        driver.cluster.apply(NodeAdded(Node(name=NodeName(name), allocatable={"cpu": 1})))
    driver.restart(lambda _bind: True)
    driver.add(*(make_pod(f"g-{n}", group="g", min_available=2, cpu=1) for n in range(2)))
    driver.drain()
    assert {pod.node_name for pod in driver.cluster.pods()} == {"a", "b"}


@pytest.mark.parametrize("limits", [[], [Quota(name="q", namespaces=["default"], hard={"cpu": 1})]])
def test_listing_repeats_no_reason_why_a_gang_is_not_admitted(limits: list[Quota]) -> None:
    """A gang that is incomplete, and one that a quota keeps waiting."""
    driver = Driver(partial(coscheduling, quotas=limits))
    driver.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 9})))
    driver.add(make_pod("lonely", group="incomplete", min_available=2, cpu=1))
    driver.add(*(make_pod(f"g-{n}", group="g", min_available=2, cpu=1) for n in range(2)))
    driver.settle()
    driver.log.clear()
    driver.rebuild()
    assert [effect for told in driver.log for effect in told.effects] == []
