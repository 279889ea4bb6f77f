"""Failure modes 3.A: gangs that block each other or all others, hot loops, storms, wake-ups."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    GroupRejected,
    Pod,
)
from gangsched import WhenBlocked as When
from gangsched.testing import make_pod
from support.brute_force import could_start, entities
from support.calls import calls_for
from support.driver import Driver
from support.examples import one_in
from support.gangs import node
from support.histories import Policy, policies

gangs = policies.filter(lambda policy: policy.gangs)


def driven(policy: Policy, *gpus: int) -> Driver:
    """Return a driver with nodes."""
    driver = Driver(policy.make, match=policy.match_policy)
    for index, gpu in enumerate(gpus):
        driver.tell(node(f"n{index}", gpu=gpu))
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


def member(name: str, size: int, *, gpu: int, group: str = "g", priority: int = 0) -> Pod:
    """Return a member of a gang that needs *size* members."""
    return make_pod(name, group=group, min_available=size, gpu=gpu, priority=priority)


def falls(driver: Driver) -> int:
    """Return the number of rejected attempts of groups."""
    effects = (effect for told in driver.log for effect in told.effects)
    return sum(isinstance(effect, GroupRejected) for effect in effects)


@pytest.mark.parametrize("when_blocked", list(When))
@pytest.mark.parametrize("at_once", [1, 3])
def test_group_whose_members_are_recreated_each_second_fails_once_for_each_at_the_most(
    when_blocked: When, at_once: int
) -> None:
    """F6: a controller makes new members for those that it deletes, one or all, for a minute.

    The new ones have to be told why they wait, so one failure each time is not in vain.
    """
    driver = driven(Policy(when_blocked=when_blocked), 6, 2, 2, 2)
    driver.watched = driver.checked = False
    alive = [member(f"g-{n}", 3, gpu=4) for n in range(3)]
    driver.add(*alive)
    for second in range(60):
        driver.advance(float(second))
        driver.drain()
        driver.delete(*(pod.uid for pod in alive[:at_once]))
        fresh = [member(f"g-{second}-{n}", 3, gpu=4) for n in range(at_once)]
        alive = [*alive[at_once:], *fresh]
        driver.add(*fresh)
    assert falls(driver) <= 60
    assert driver.decisions <= 5 * falls(driver) + 60 + 10


def operations(size: int, what: Callable[[Driver, list[Pod]], object]) -> int:
    """Return how many calls are made while something happens to a gang of *size*."""
    driver = driven(Policy(), size)
    driver.watched = driver.checked = driver.logged = False
    pods = [member(f"g-{n}", size, gpu=1) for n in range(size)]
    return calls_for(lambda: what(driver, pods))


def start(driver: Driver, pods: list[Pod]) -> None:
    """Let a gang arrive and start."""
    driver.add(*pods)
    driver.drain()
    assert all(pod.node_name for pod in driver.cluster.pods())


def fall(driver: Driver, pods: list[Pod]) -> None:
    """Let a gang be tried whose last member fits nowhere, be rejected, and be tried again."""
    driver.add(*pods[:-1], member("g-last", len(pods), gpu=2))
    driver.settle()
    driver.tell(node("more", gpu=2))
    driver.settle()
    assert all(pod.node_name for pod in driver.cluster.pods())


@pytest.mark.parametrize("story", [start, fall])
def test_gang_of_n_costs_n_calls_not_n_squared(
    story: Callable[[Driver, list[Pod]], None],
) -> None:
    """F7, SP#682, KK#141577: as many for each member, however many siblings it has."""
    operations(10, story)  # what is made once is made
    small, large = operations(10, story), operations(100, story)
    assert large <= 15 * small


priorities = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 3), st.integers(1, 2)), min_size=2, max_size=7
)


@one_in(2)
@given(gangs, priorities, st.integers(1, 4))
def test_freed_capacity_goes_to_the_first_entity_that_could_start(
    policy: Policy, waiting: list[tuple[int, int, int]], room: int
) -> None:
    """F9, SP#983: by brute force, no entity of a higher priority could have started.

    Gangs of several priorities and sizes wait while one pod fills the node, and the pod ends.
    """
    driver = driven(policy, room)
    driver.add(make_pod("first", gpu=room, priority=9))
    driver.drain()
    for number, (priority, size, gpu) in enumerate(waiting):
        for n in range(size):
            pod = member(f"g{number}-{n}", size, gpu=gpu, group=f"g{number}", priority=priority)
            driver.add(pod)
    driver.settle()
    driver.advance(driver.now + 60)  # the backoff of each failed entity has ended
    driver.log.clear()
    driver.delete(make_pod("first").uid)
    pending = entities(driver.cluster)
    before = deepcopy(driver.cluster)
    driver.settle()
    effects = driver.effects()
    binds = [effect.uid for effect in effects if isinstance(effect, Bind)]
    urgency = {pod.uid: pod.priority for pod in before.pods()}
    fitting = [e for e in pending if could_start(policy.make, before, e)]
    assert bool(binds) is bool(fitting)
    if binds:
        assert urgency[binds[0]] == max(urgency[entity[0]] for entity in fitting)
