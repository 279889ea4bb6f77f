"""Failure modes 3.B: what permit, reject, timeout, delete and bind do to each other (F14, F17).

Every order of decisions, deadlines, deletions, rivals and reports of binds is walked, on small
gangs. The oracle holds each step to the laws; what is left at each end is held to them here.
"""

from __future__ import annotations

import pytest

from gangsched import (
    Node,
    NodeAdded,
    NodeDeleted,
    NodeName,
    Pod,
    PodGroup,
    PodGroupAdded,
    PodGroupUpdated,
    group_key,
)
from gangsched import WhenBlocked as When
from gangsched.testing import make_pod
from support.account import claim_of
from support.driver import Driver, Fate
from support.examples import IS_DEEP
from support.histories import Policy
from support.interleavings import Move, decide, pass_early, pass_time, report, walk
from support.shown import nothing_is_assumed

EACH = list(When) if IS_DEEP else [When.UNTIL_OTHERS_TURN]
"""Only a deep run walks under each policy."""
N = NodeName("n")
G = group_key("default", "g")


def members(size: int, minimum: int | None) -> list[Pod]:
    """Return the members of the gang."""
    return [make_pod(f"g-{n}", group="g", min_available=minimum, cpu=1) for n in range(size)]


def driven(when_blocked: When, room: int, pods: list[Pod]) -> Driver:
    """Return a driver whose binds take their time."""
    driver = Driver(Policy(when_blocked=when_blocked).make, logged=False)
    driver.tell(NodeAdded(Node(name=N, allocatable={"cpu": room})))
    driver.add(*pods)
    driver.fate = Fate.PENDING
    return driver


def deletion(pod: Pod) -> Move:
    """A pod goes."""
    there = lambda d: d.cluster.pod(pod.uid) is not None  # noqa: E731
    return Move(f"delete {pod.name}", there, lambda d: d.delete(pod.uid))


def rival() -> Move:
    """A more urgent pod arrives, so that the gang yields."""
    pod = make_pod("rival", cpu=1, priority=9)
    return Move("rival", lambda _d: True, lambda d: d.add(pod))


def told(name: str, *facts: NodeDeleted | NodeAdded | PodGroupUpdated) -> Move:
    """Each event is reported once."""
    return Move(name, lambda _d: True, lambda d: d.tell(*facts))


def counts_are_those_of_an_observer(driver: Driver) -> None:
    """Check F15 and F16 at every step: each pod that holds a node is counted exactly once."""
    account = driver.oracle.account
    for info in driver.scheduler.registry:
        holding = [r for r in account.pods.values() if r.group and r.group.key == info.key]
        assert info.scheduled == sum(record.counts for record in holding)
        assert info.waiting == len(driver.scheduler.waiting.of(info.key))


def nothing_is_left_over(driver: Driver) -> None:
    """Check an end: no pod waits or is assumed, and the running pods are a quorum, or none."""
    assert list(driver.scheduler.waiting) == []
    assert nothing_is_assumed(driver.scheduler)
    driver.scheduler._check()  # it counts anew what nodes have left


def moves_on(pods: list[Pod], *others: Move) -> list[Move]:
    """Return the moves that every walk has."""
    reports = [report(pod.uid, Fate.DONE, None) for pod in pods]
    reports.append(report(make_pod("rival").uid, Fate.DONE, None))
    failures = [report(pod.uid, Fate.FAILED) for pod in pods]
    return [decide, pass_time, *reports, *failures, *others]


@pytest.mark.parametrize("when_blocked", EACH)
def test_two_members_and_capacity_for_one_are_never_half_a_gang(when_blocked: When) -> None:
    """F17, SP#930: no member is ever released, in any order of events.

    Meanwhile either may be deleted, the node may disappear and return, a rival may take the
    capacity.
    """
    pods = members(2, 2)
    driver = driven(when_blocked, 1, pods)
    node = Node(name=N, allocatable={"cpu": 1})

    def nobody_is_let_go(here: Driver) -> None:
        counts_are_those_of_an_observer(here)
        bound = [bind.uid for bind in here.under_way]
        bound += [pod.uid for pod in here.cluster.pods() if pod.node_name]
        assert set(bound) <= {make_pod("rival").uid}

    moves = [*moves_on(pods, *map(deletion, pods)), pass_early, rival()]
    moves.append(told("blink", NodeDeleted(N), NodeAdded(node)))
    count = walk(driver, moves, always=nobody_is_let_go, at_rest=nothing_is_left_over)
    assert count > 50


@pytest.mark.pod_by_pod("members hold nodes and wait")
def test_no_waiting_pod_is_left_counted_when_one_is_rejected() -> None:
    """F17: two wait for a third that does not fit; any of them may be deleted at any time."""
    pods = members(3, 3)
    driver = driven(When.UNTIL_TIMEOUT, 2, pods)

    def they_wait_together(here: Driver) -> None:
        counts_are_those_of_an_observer(here)
        assert here.under_way == []
        (info,) = here.scheduler.registry
        if here.scheduler.queue.active == ():
            assert info.waiting in (0, 2)

    moves = [decide, pass_time, pass_early, *map(deletion, pods)]
    count = walk(driver, moves, always=they_wait_together, at_rest=nothing_is_left_over)
    assert count > 20


def all_or_nothing(driver: Driver) -> None:
    """Check an end: a gang without losses runs whole, or not at all."""
    nothing_is_left_over(driver)
    pods = [pod for pod in driver.cluster.pods() if claim_of(pod)]
    if len(pods) == 2:
        assert len({pod.node_name for pod in pods}) == 1


@pytest.mark.parametrize("when_blocked", EACH)
def test_permit_reject_timeout_delete_and_bind_in_every_order(when_blocked: When) -> None:
    """F17: quorum and release are one step, and rejected members are not counted.

    Two members with capacity for both, each of which may be deleted at any time, and whose
    binds are reported in any order, done or failed.
    """
    pods = members(2, 2)
    driver = driven(when_blocked, 2, pods)
    moves = [*moves_on(pods, *map(deletion, pods)), pass_early]
    count = walk(
        driver, moves, always=counts_are_those_of_an_observer, at_rest=nothing_is_left_over
    )
    assert count > 100


@pytest.mark.parametrize("when_blocked", EACH)
def test_competing_scheduler_at_any_moment_leaves_a_gang_whole_or_unstarted(
    when_blocked: When,
) -> None:
    """F17, F14: the rival takes half of the capacity before, between or after the cycles."""
    pods = members(2, 2)
    driver = driven(when_blocked, 2, pods)
    moves = [decide, pass_time, pass_early, rival(), deletion(make_pod("rival"))]
    moves += [report(pod.uid, Fate.DONE, None) for pod in (*pods, make_pod("rival"))]
    count = walk(driver, moves, always=counts_are_those_of_an_observer, at_rest=all_or_nothing)
    assert count > 20


@pytest.mark.parametrize("when_blocked", EACH)
def test_minimum_may_drop_and_rise_at_any_moment(when_blocked: When) -> None:
    """F17, F22: the minimum of that instant is compared with the members that hold nodes."""
    pods = members(3, None)
    driver = Driver(Policy(when_blocked=when_blocked).make, logged=False)
    driver.tell(NodeAdded(Node(name=N, allocatable={"cpu": 2})))
    group = PodGroup(name="g", min_available=3)
    driver.tell(PodGroupAdded(group))
    driver.add(*pods)
    driver.fate = Fate.PENDING
    lower = told("lower", PodGroupUpdated(PodGroup(name="g", min_available=2)))
    higher = Move(
        "raise",
        lambda d: d.cluster.pod_group(G) != group,
        lambda d: d.tell(PodGroupUpdated(group)),
    )
    moves = [decide, pass_time, lower, higher, deletion(pods[1])]
    moves += [report(pod.uid, Fate.DONE, None) for pod in pods]
    count = walk(
        driver, moves, always=counts_are_those_of_an_observer, at_rest=nothing_is_left_over
    )
    assert count > 50


@pytest.mark.skipif(not IS_DEEP, reason="walks for a minute; HYPOTHESIS_PROFILE=deep")
@pytest.mark.parametrize("room", [1, 2, 3])
@pytest.mark.parametrize("minimum", [2, 3])
def test_three_members_with_every_fate_in_every_order(minimum: int, room: int) -> None:
    """F14, F17: as above, with an elastic member."""
    pods = members(3, minimum)
    driver = driven(When.UNTIL_OTHERS_TURN, room, pods)
    moves = [*moves_on(pods, *map(deletion, pods)), pass_early]
    walk(
        driver,
        moves,
        always=counts_are_those_of_an_observer,
        at_rest=nothing_is_left_over,
        most=1_000_000,
    )
