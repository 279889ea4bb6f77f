"""Failure modes 3.B: binds that fail after the release (F18), and reports in flight."""

from __future__ import annotations

from itertools import product

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    GroupRejected,
    GroupScheduled,
    MatchPolicy,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    PodUnschedulable,
    WhenBindFails,
)
from gangsched.testing import make_pod
from support.driver import Driver, Fate
from support.examples import one_in
from support.histories import Policy, policies

gangs = policies.filter(
    lambda policy: (
        policy.gangs
        and policy.match_policy is MatchPolicy.ONCE_SATISFIED
        and policy.when_bind_fails is WhenBindFails.RETRY_MEMBER
    )
)


def let_go(size: int, minimum: int, room: int) -> tuple[Driver, list[Bind]]:
    """Return a driver in which a gang was released, with all of its binds under way."""
    driver = Driver(Policy().make)
    driver.fate = Fate.PENDING
    driver.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": room})))
    driver.add(*(make_pod(f"g-{n}", group="g", min_available=minimum, cpu=1) for n in range(size)))
    driver.drain()
    return driver, list(driver.under_way)


def bound(driver: Driver) -> list[Pod]:
    """Return the bound pods."""
    return [pod for pod in driver.cluster.pods() if pod.node_name]


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("late", [False, True])
def test_only_the_failed_member_is_tried_again_when_any_bind_fails(size: int, late: bool) -> None:
    """F18, KK#135854: for every k, with the failure reported first or last of all.

    No other member is touched, the failure is reported with its reason, and the group runs
    whole after the backoff of the member, without any other event.
    """
    for k in range(size):
        driver, binds = let_go(size, size, size)
        failing = binds[k]
        others = [bind for bind in binds if bind is not failing]
        driver.log.clear()
        for bind in [*others, failing] if late else [failing, *others]:
            driver.report(bind, Fate.FAILED if bind is failing else Fate.DONE)
        assert {pod.uid for pod in bound(driver)} == {bind.uid for bind in others}
        effects = [effect for told in driver.log for effect in told.effects]
        assert PodUnschedulable(failing.uid, "binding rejected: no answer") in effects
        driver.fate = Fate.DONE
        driver.settle()
        assert driver.now == 1.0
        again = [e for t in driver.log for e in t.effects if isinstance(e, Bind)]
        assert again == [Bind(failing.uid, failing.node, 2)]
        assert len(bound(driver)) == size


@pytest.mark.parametrize("fates", list(product([Fate.DONE, Fate.FAILED], repeat=3)))
def test_three_binds_end_in_three_running_pods_whatever_fails(fates: tuple[Fate, ...]) -> None:
    """F18: all eight ways; with every bind failed it is a gang again, and is released as one."""
    driver, binds = let_go(3, 3, 3)
    for bind, fate in zip(binds, fates, strict=True):
        driver.report(bind, fate)
    driver.fate = Fate.DONE
    driver.settle()
    assert len(bound(driver)) == 3
    starts = [e for t in driver.log for e in t.effects if isinstance(e, GroupScheduled)]
    assert len(starts) == (2 if set(fates) == {Fate.FAILED} else 1)


@one_in(2)
@given(gangs, st.integers(2, 6), st.data())
def test_member_whose_bind_always_fails_blocks_no_other_pod(
    policy: Policy, size: int, data: st.DataObject
) -> None:
    """F18: other entities are decided meanwhile, and the member is tried once per backoff."""
    driver = Driver(policy.make)
    driver.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": size + 2})))
    driver.fate = Fate.PENDING
    driver.add(*(make_pod(f"g-{n}", group="g", min_available=size, cpu=1) for n in range(size)))
    driver.drain()
    bad = data.draw(st.sampled_from(driver.under_way)).uid
    failures = 0
    driver.checked = False
    for turn in range(12):
        if turn == 3:
            driver.add(*(make_pod(f"h-{n}", group="h", min_available=2, cpu=1) for n in range(2)))
        driver.drain()
        for bind in list(driver.under_way):
            failures += bind.uid == bad
            driver.report(bind, Fate.FAILED if bind.uid == bad else Fate.DONE)
        driver.drain()
        due = driver.scheduler.next_deadline()
        assert due is not None
        driver.advance(due)
    assert len(bound(driver)) == size + 1
    assert failures == 12
    assert driver.now >= 12.0


@pytest.mark.parametrize("group", [None, "g"])
def test_backoff_grows_when_binds_fail_repeatedly(group: str | None) -> None:
    """F6, F18: 1, 2, 4, 8, then 10 seconds, as after any other failure in a row."""
    driver = Driver(Policy().make)
    driver.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 1})))
    driver.fate = Fate.FAILED
    driver.add(make_pod("p", group=group, min_available=1 if group else None, cpu=1))
    rests = []
    for _turn in range(6):
        driver.drain()
        due = driver.scheduler.next_deadline()
        assert due is not None
        rests.append(due - driver.now)
        driver.advance(due)
    assert rests == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_unreleased_sibling_is_placed_while_another_bind_fails() -> None:
    """F18, KK#140478: a group that is released with an elastic member is not stuck in flight."""
    driver, binds = let_go(4, 3, 3)
    assert len(binds) == 3
    driver.report(binds[0], Fate.FAILED)
    driver.report(binds[1], Fate.DONE)
    driver.report(binds[2], Fate.DONE)
    driver.fate = Fate.DONE
    driver.tell(NodeAdded(Node(name=NodeName("m"), allocatable={"cpu": 1})))
    driver.settle()
    assert len(bound(driver)) == 4


def with_one_left(*, specified: bool) -> Driver:
    """Return a driver in which one of two released members is gone, and the other's bind fails."""
    driver = Driver(Policy().make)
    driver.fate = Fate.PENDING
    group = PodGroup(name="g", min_available=2)
    driver.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 2})), PodGroupAdded(group))
    pods = [evolve(make_pod(f"g-{n}", cpu=1), pod_group="g") for n in range(2)]
    driver.add(*pods)
    driver.drain()
    failing, _other = driver.under_way
    if not specified:
        driver.tell(PodGroupDeleted(group.key))
    driver.delete(pods[1].uid)
    driver.log.clear()
    driver.report(failing, Fate.FAILED)
    return driver


def test_member_left_alone_by_a_failed_bind_is_not_admitted() -> None:
    """F18, F25: one of two is incomplete; it is no failure of the group that it is."""
    driver = with_one_left(specified=True)
    driver.settle()
    told = [effect for each in driver.log for effect in each.effects]
    failures = [e for e in told if isinstance(e, PodUnschedulable | GroupRejected)]
    assert [type(e) for e in failures] == [PodUnschedulable] * 2
    assert "binding rejected" in failures[0].reason
    assert "incomplete" in failures[1].reason


def test_member_left_alone_without_a_minimum_is_not_tried_for_ever() -> None:
    """F6, F18: until a fact says how many it needs, nothing can be done, and nothing is."""
    driver = with_one_left(specified=False)
    driver.settle()
    assert driver.scheduler.next_deadline() is None
