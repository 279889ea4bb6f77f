"""Failure mode 3.C, F30: recreated members, under each of the three match policies."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    GroupRejected,
    MatchPolicy,
    Node,
    NodeAdded,
    NodeName,
    NodeUpdated,
    Pod,
    PodPhase,
    PodUnschedulable,
    PodUpdated,
)
from gangsched.testing import make_pod
from support.driver import Driver, Fate
from support.examples import one_in
from support.histories import Policy

ONCE, RUNNING, WAITING = MatchPolicy


def node(cpu: int) -> Node:
    """Return the node."""
    return Node(name=NodeName("n"), allocatable={"cpu": cpu})


def member(name: str, minimum: int = 3) -> Pod:
    """Return a member."""
    return make_pod(f"g-{name}", group="g", min_available=minimum, cpu=1)


def running(match: MatchPolicy, size: int = 3, room: int = 9) -> Driver:
    """Return a driver in which a gang of three or more runs."""
    driver = Driver(Policy(match_policy=match).make, match=match)
    driver.tell(NodeAdded(node(room)))
    driver.add(*(member(str(n)) for n in range(size)))
    driver.settle()
    return driver


def bound(driver: Driver) -> set[str]:
    """Return the bound pods."""
    return {pod.name[2:] for pod in driver.cluster.pods() if pod.node_name}


@pytest.mark.parametrize(
    ("match", "goes"), [(ONCE, [True, True]), (RUNNING, [False, True]), (WAITING, [False, False])]
)
@pytest.mark.parametrize("lost", [1, 2])
def test_replacement_of_a_lost_member_follows_the_policy(
    match: MatchPolicy, goes: list[bool], lost: int
) -> None:
    """F30, SP#560: alone; when a quorum with the running ones; or with a whole new quorum."""
    driver = running(match)
    driver.delete(*(member(str(n)).uid for n in range(lost)))
    for n in range(lost):
        driver.add(member(f"new{n}"))
        driver.settle()
        complete = n + 1 == lost
        assert (f"new{n}" in bound(driver)) is goes[complete]
    assert {str(n) for n in range(lost, 3)} <= bound(driver), "who runs is left alone"


def test_only_waiting_releases_a_whole_quorum_of_new_members() -> None:
    """F30: three new ones, whatever runs; one more waits for two siblings of its own."""
    driver = running(WAITING)
    for n in range(5):
        driver.add(member(f"new{n}"))
        driver.settle()
        assert len(bound(driver)) == (6 if n >= 2 else 3)


@pytest.mark.parametrize("match", [RUNNING, WAITING])
def test_quorum_that_is_not_there_holds_no_node(match: MatchPolicy) -> None:
    """F30: too few new members are not admitted, and the notice states it."""
    driver = running(match)
    driver.delete(member("0").uid, member("1").uid)
    driver.add(member("new"))
    driver.settle()
    assert len(driver.scheduler.waiting) == 0
    assert driver.scheduler.next_deadline() is None
    assert len(driver.scheduler.queue.unschedulable) == 1


def test_member_without_a_new_quorum_after_a_failed_bind_has_no_backoff() -> None:
    """F25, F30: running members do not count, so one of two is incomplete; no try failed."""
    driver = Driver(Policy(match_policy=WAITING).make, match=WAITING)
    driver.tell(NodeAdded(node(2)))
    driver.fate = Fate.PENDING
    driver.add(member("0", 2), member("1", 2))
    driver.drain()
    first, second = driver.under_way
    driver.report(first, Fate.DONE)
    driver.report(second, Fate.FAILED)
    driver.log.clear()
    driver.settle()
    effects = [effect for told in driver.log for effect in told.effects]
    assert not [e for e in effects if isinstance(e, PodUnschedulable | GroupRejected)]


@pytest.mark.parametrize("match", list(MatchPolicy))
def test_members_that_finish_one_by_one_do_not_stop_the_rest(match: MatchPolicy) -> None:
    """F30, KAI#2012: a gang that is on its way to completion is never taken down."""
    driver = running(match)
    driver.log.clear()
    for n in range(3):
        done = driver.cluster.pod(member(str(n)).uid)
        assert done is not None
        driver.tell(PodUpdated(evolve(done, phase=PodPhase.SUCCEEDED)))
        driver.settle()
    assert [effect for told in driver.log for effect in told.effects] == []
    assert len(bound(driver)) == 3


@one_in(2)
@given(
    st.sampled_from(MatchPolicy),
    st.lists(st.sampled_from(["lose", "make", "room", "less"]), max_size=24),
)
def test_member_starts_exactly_with_its_quorum_in_any_history_of_losses(
    match: MatchPolicy, story: list[str]
) -> None:
    """F30: counted here independently: running pods, pending pods, and the free capacity."""
    driver = running(match, room=6)
    made, room = 3, 6
    for what in story:
        before = bound(driver)
        if what == "lose" and before:
            driver.delete(member(min(before, key=int)).uid)
        elif what == "make":
            driver.add(member(str(made)))
            made += 1
        elif what in ("room", "less"):
            room = max(len(before), room + (1 if what == "room" else -1))
            driver.tell(NodeUpdated(node(room)))
        left = bound(driver)
        pending = sum(pod.node_name is None for pod in driver.cluster.pods())
        driver.settle()
        driver.advance(driver.now + 20)
        fitting = min(pending, room - len(left))
        counted = fitting + (0 if match is WAITING else len(left))
        alone = match is ONCE and left
        expected = fitting if alone or counted >= 3 else 0
        assert len(bound(driver)) - len(left) == expected
