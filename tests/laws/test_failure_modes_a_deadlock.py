"""Failure modes 3.A, first part: gangs that block each other, or all others (F1, F3, F5)."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import GroupRejected, Node, NodeAdded, NodeName, Order, Pod, PodUnschedulable
from gangsched import WhenBlocked as When
from gangsched.testing import make_pod
from support.driver import Driver
from support.examples import one_in
from support.histories import Policy, policies
from support.shown import nothing_is_assumed

gangs = policies.filter(lambda policy: policy.gangs)


def driven(policy: Policy, *gpus: int) -> Driver:
    """Return a driver with nodes."""
    driver = Driver(policy.make, match=policy.match_policy)
    for index, gpu in enumerate(gpus):
        driver.tell(
            NodeAdded(Node(name=NodeName(f"n{index}"), allocatable={"nvidia.com/gpu": gpu}))
        )
    return driver


def gang(name: str, size: int, *, gpu: int = 1) -> list[Pod]:
    """Return the members of a gang that needs them all."""
    return [make_pod(f"{name}-{n}", group=name, min_available=size, gpu=gpu) for n in range(size)]


def started(driver: Driver) -> set[str]:
    """Return the groups of which a member is bound."""
    return {pod.name.split("-")[0] for pod in driver.cluster.pods() if pod.node_name}


def end(driver: Driver, name: str) -> None:
    """Let every pod of a group go."""
    driver.delete(*(p.uid for p in driver.cluster.pods() if p.name.split("-")[0] == name))


@pytest.mark.parametrize("when_blocked", list(When))
@pytest.mark.parametrize("seed", [1, 2])
def test_sixty_jobs_on_sixteen_gpus_all_run_whatever_the_order_of_their_members(
    when_blocked: When, seed: int
) -> None:
    """F1, SP#114: members of all jobs come mixed, one job ends at a time, and nothing stops."""
    draw = Random(seed)
    driver = driven(Policy(when_blocked=when_blocked), 4, 4, 4, 4)
    driver.checked = False
    sizes = {f"j{n}": draw.choice([1, 2, 4, 8, 12, 16]) for n in range(60)}
    pods = [pod for name, size in sizes.items() for pod in gang(name, size)]
    draw.shuffle(pods)
    driver.add(*pods)
    left = set(sizes)
    while left:
        driver.settle()
        running = started(driver)
        assert running, f"{sorted(left)} are left, the cluster is empty, and nobody starts"
        for name in running:
            members = [p for p in driver.cluster.pods() if p.name.split("-")[0] == name]
            assert all(pod.node_name for pod in members), f"half of {name} runs"
        first = min(running)
        end(driver, first)
        left.discard(first)


@one_in(2)
@given(
    gangs,
    st.lists(st.integers(2, 5), min_size=2, max_size=6),
    st.randoms(use_true_random=False),
    st.lists(st.sampled_from(["decide", "pass", "later"]), max_size=40),
)
def test_on_an_empty_cluster_some_gang_that_fits_starts_within_bounded_steps(
    policy: Policy, sizes: list[int], draw: Random, between: list[str]
) -> None:
    """F1, SP#117: whatever is decided, and however time passes, between the arrivals of members."""
    driver = driven(policy, 5)
    pods = [pod for n, size in enumerate(sizes) for pod in gang(f"g{n}", size)]
    draw.shuffle(pods)
    for pod, what in zip(pods, between + ["later"] * len(pods), strict=False):
        driver.add(pod)
        if what == "decide":
            driver.step()
        elif what == "pass":
            driver.advance(driver.now + draw.choice([0.5, 1.0, 10.0]))
    while list(driver.cluster.pods()):
        driver.settle()
        running = started(driver)
        assert running, "the cluster is empty, each of them fits, and nobody starts"
        for name in running:
            end(driver, name)


@one_in(2)
@given(gangs, st.integers(1, 12), st.integers(0, 1))
def test_all_but_one_start_in_one_instant_with_capacity_for_all_but_one(
    policy: Policy, count: int, late: int
) -> None:
    """F3, SP#110: the oldest can never start, and no other entity waits for it.

    Not for a moment, or for one timeout where the policy is to hold until the timeout.
    """
    driver = driven(policy, 2 * count)
    driver.add(*gang("never", 2 * count + 1))
    if late:
        driver.drain()
    for n in range(count):
        driver.add(*gang(f"g{n}", 2))
    driver.drain()
    if policy.when_blocked is When.UNTIL_TIMEOUT or policy.reject_percentage:
        driver.advance(10.0)
        driver.drain()
    assert started(driver) == {f"g{n}" for n in range(count)}


def test_entity_that_can_never_start_is_tried_once_a_round_after_all_others() -> None:
    """F3, SP#658: after its failure it stands behind all that were not tried since."""
    driver = driven(Policy(order=Order.LAST_FAILURE, when_blocked=When.AT_ONCE), 2)
    driver.add(*gang("never", 3))
    driver.drain()
    driver.now = 20.0
    for n in range(10):
        driver.add(*gang(f"g{n}", 2))
    driver.log.clear()
    for _turn in range(10):
        driver.settle()
        for name in started(driver):
            end(driver, name)
    effects = [effect for told in driver.log for effect in told.effects]
    falls = [e for e in effects if isinstance(e, GroupRejected) and e.group == "default/never"]
    assert len(falls) <= 10, "once for each time that room was freed"
    assert not [p for p in driver.cluster.pods() if not p.name.startswith("never")]


@pytest.mark.pod_by_pod("the permit timeout")
@pytest.mark.parametrize("when_blocked", list(When))
@pytest.mark.parametrize("held", range(1, 10))
def test_waiting_members_block_another_gang_for_one_timeout_at_most(
    when_blocked: When, held: int
) -> None:
    """F5, SP#713: however many of them hold, and however few are missing."""
    driver = driven(Policy(when_blocked=when_blocked), held)
    driver.add(*gang("ten", 10))
    driver.drain()
    driver.add(*gang("other", held))
    driver.drain()
    expected = set() if when_blocked is When.UNTIL_TIMEOUT else {"other"}
    assert started(driver) == expected
    driver.advance(10.0)  # the default timeout, from the first that held
    driver.drain()
    assert started(driver) == {"other"}


@pytest.mark.pod_by_pod("the permit timeout")
@pytest.mark.parametrize("held", range(1, 10))
def test_nearly_complete_group_keeps_its_nodes_for_one_timeout_at_most(
    held: int,
) -> None:
    """F5, SP#713: with a percentage of 10, nine of ten keep their nodes, and eight do not."""
    driver = driven(Policy(when_blocked=When.AT_ONCE, reject_percentage=10), held)
    driver.add(*gang("ten", 10))
    driver.drain()
    assert len(driver.scheduler.waiting) == (9 if held == 9 else 0)
    driver.add(*gang("other", held))
    driver.drain()
    assert started(driver) == (set() if held == 9 else {"other"})
    driver.advance(10.0)
    driver.drain()
    assert started(driver) == {"other"}


@one_in(2)
@given(st.sampled_from(When), st.integers(2, 8), st.integers(0, 7), st.integers(1, 9))
def test_no_attempt_holds_nodes_longer_than_its_timeout_in_any_order_of_arrival(
    when_blocked: When, size: int, pause: int, room: int
) -> None:
    """F5: the oracle sees each wait; here the sum of all of them is bounded, too."""
    driver = driven(Policy(when_blocked=when_blocked), min(room, size - 1))
    driver.add(*gang("g", size))
    for _turn in range(size):
        driver.step()
        driver.advance(driver.now + pause)
    driver.advance(max(driver.now, 10.0 + pause * size))
    driver.settle()
    assert len(driver.scheduler.waiting) == 0
    assert nothing_is_assumed(driver.scheduler)
    effects = [effect for told in driver.log for effect in told.effects]
    assert [e for e in effects if isinstance(e, PodUnschedulable)]
