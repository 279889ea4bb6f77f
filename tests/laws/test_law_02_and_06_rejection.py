"""Laws 2 and 6: a rejected group is unassumed at once, within one timeout."""

from __future__ import annotations

import pytest

from gangsched import (
    BindFailed,
    Bound,
    GroupRejected,
    Node,
    NodeAdded,
    NodeDeleted,
    NodeName,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodRejected,
    PodUnschedulable,
    PodWaiting,
    Release,
    WhenBlocked,
)
from gangsched.testing import make_pod
from support.driver import Driver
from support.histories import Policy
from support.shown import memory, nothing_is_assumed


def holding(size: int, held: int) -> tuple[Driver, list[Pod]]:
    """Return a driver in which *held* of *size* members of a gang hold nodes and wait."""
    driver = Driver(Policy().make)
    driver.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": held})))
    pods = [make_pod(f"g-{n}", group="g", min_available=size, cpu=1) for n in range(size)]
    driver.add(*pods)
    driver.drain()
    assert len(driver.scheduler.waiting) == held
    return driver, pods


def nothing_is_held(driver: Driver) -> None:
    assert list(driver.scheduler.waiting) == []
    assert nothing_is_assumed(driver.scheduler)
    assert all(info.waiting == info.assumed == 0 for info in driver.scheduler.registry)


def fell(driver: Driver) -> list[GroupRejected]:
    return [e for t in driver.log for e in t.effects if isinstance(e, GroupRejected)]


@pytest.mark.pod_by_pod("members hold nodes and wait")
def test_every_member_is_unassumed_at_the_deadline_in_one_step() -> None:
    driver, _pods = holding(5, 4)
    driver.advance(9.999)
    assert len(driver.scheduler.waiting) == 4
    driver.advance(10.0)
    last = driver.log[-1].effects
    assert [type(e) for e in last][:5] == [PodRejected] * 4 + [GroupRejected]
    assert {type(e) for e in last[5:]} == {PodUnschedulable}, "and each member is told why"
    nothing_is_held(driver)


@pytest.mark.pod_by_pod("members hold nodes and wait")
def test_members_that_join_later_do_not_prolong_the_attempt() -> None:
    """F26: the timer belongs to the attempt, and starts with its first member that holds."""
    driver = Driver(Policy().make)
    driver.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 2})))
    driver.add(*(make_pod(f"g-{n}", group="g", min_available=3, cpu=1) for n in range(3)))
    driver.step()
    driver.advance(8.0)
    driver.step()
    waits = [e.deadline for t in driver.log for e in t.effects if isinstance(e, PodWaiting)]
    assert waits == [10.0, 10.0]
    driver.advance(10.0)
    nothing_is_held(driver)


@pytest.mark.pod_by_pod("members hold nodes and wait")
def test_groups_own_timeout_counts() -> None:
    driver = Driver(Policy().make)
    driver.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 1})))
    driver.tell(PodGroupAdded(PodGroup(name="g", min_available=2, schedule_timeout=3.0)))
    driver.add(*(make_pod(f"g-{n}", group="g", cpu=1) for n in range(2)))
    driver.drain()
    assert driver.scheduler.next_deadline() == 3.0


@pytest.mark.pod_by_pod("members hold nodes and wait")
def test_cycle_of_another_entity_rejects_the_waiting_group() -> None:
    driver, _pods = holding(3, 2)
    driver.add(make_pod("other", cpu=2))
    driver.step()
    assert len(fell(driver)) == 1
    other = driver.cluster.pod(make_pod("other").uid)
    assert other is not None
    assert other.node_name == "n"


def test_when_blocked_at_once_holds_nothing_after_a_failed_member() -> None:
    driver = Driver(Policy(when_blocked=WhenBlocked.AT_ONCE).make)
    driver.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 2})))
    driver.add(*(make_pod(f"g-{n}", group="g", min_available=3, cpu=1) for n in range(3)))
    for _turn in range(3):
        driver.step()
    assert len(fell(driver)) == 1
    nothing_is_held(driver)


@pytest.mark.pod_by_pod("members hold nodes and wait")
@pytest.mark.parametrize("spare", [0, 1])
def test_deleted_member_rejects_its_group_only_without_a_quorum(spare: int) -> None:
    """F57."""
    driver, pods = holding(4, 3)
    if spare:
        driver.add(make_pod("g-spare", group="g", min_available=4, cpu=1))
        driver.drain()
    driver.delete(pods[0].uid)
    assert len(fell(driver)) == 1 - spare
    if not spare:
        nothing_is_held(driver)


@pytest.mark.pod_by_pod("members hold nodes and wait")
def test_deleted_node_rejects_the_attempt() -> None:
    driver, _pods = holding(3, 2)
    driver.tell(NodeDeleted(NodeName("n")))
    assert len(fell(driver)) == 1
    nothing_is_held(driver)


@pytest.mark.pod_by_pod("members hold nodes and wait")
def test_deleted_specification_rejects_the_attempt() -> None:
    """F58."""
    driver = Driver(Policy().make)
    driver.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 2})))
    group = PodGroup(name="g", min_available=3)
    driver.tell(PodGroupAdded(group))
    driver.add(*(make_pod(f"g-{n}", group="g", cpu=1) for n in range(3)))
    driver.drain()
    assert len(driver.scheduler.waiting) == 2
    driver.tell(PodGroupDeleted(group.key))
    nothing_is_held(driver)


@pytest.mark.pod_by_pod("members hold nodes and wait")
def test_lowered_minimum_releases_waiting_members_and_raised_minimum_rejects_none() -> None:
    """F22."""
    driver = Driver(Policy().make)
    driver.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 2})))
    driver.tell(PodGroupAdded(PodGroup(name="g", min_available=3)))
    driver.add(*(make_pod(f"g-{n}", group="g", cpu=1) for n in range(3)))
    driver.drain()
    driver.tell(PodGroupUpdated(PodGroup(name="g", min_available=2)))
    releases = [e for t in driver.log for e in t.effects if isinstance(e, Release)]
    assert [len(release.members) for release in releases] == [2]
    driver.tell(PodGroupUpdated(PodGroup(name="g", min_available=3)))
    driver.settle()
    assert len(list(driver.cluster.pods_on(NodeName("n")))) == 2


def test_late_reports_of_an_old_attempt_change_nothing() -> None:
    """F14: the report of attempt 1 comes when attempt 2 is under way."""
    driver = Driver(Policy().make)
    pod = make_pod("p", cpu=1)
    driver.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 1})))
    scheduler, cluster = driver.scheduler, driver.cluster
    cluster.apply(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 1})))
    driver.watched = False
    scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    assert scheduler.schedule_one(now=0.0) is not None
    scheduler.handle(BindFailed(pod.uid, 1, "no answer"), now=0.0)
    scheduler.advance(now=1.0)
    assert scheduler.schedule_one(now=1.0) is not None
    before = memory(scheduler)
    assert scheduler.handle(BindFailed(pod.uid, 1, "no answer"), now=1.0) == ()
    assert memory(scheduler) == before
    scheduler.handle(cluster.apply(Bound(pod.uid, NodeName("n"), 2)), now=1.0)
    assert nothing_is_assumed(scheduler)
