"""Failure mode 3.D, F42: a restart in every state that a gang can be in."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    MatchPolicy,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodUID,
    WhenBindFails,
    WhenBlocked,
)
from gangsched.explain import Refused
from gangsched.testing import make_pod
from support.driver import Driver, Fate
from support.gangs import node
from support.histories import Policy
from support.interleavings import Move, decide, pass_early, pass_time, report, walk
from support.shown import nothing_is_assumed
from support.units import coscheduling

POLICIES = [
    Policy(),
    Policy(when_blocked=WhenBlocked.UNTIL_TIMEOUT),
    Policy(match_policy=MatchPolicy.WAITING_AND_RUNNING),
    Policy(when_bind_fails=WhenBindFails.RELEASE_GROUP),
]


def members(group: str, size: int) -> list[Pod]:
    """Return the members of a gang that needs them all."""
    return [make_pod(f"{group}-{n}", group=group, min_available=size, cpu=1) for n in range(size)]


def restarts() -> list[Move]:
    """Another scheduler takes over, and all binds under way happened, or none of them."""
    return [
        Move("restart, all happened", lambda _d: True, lambda d: d.restart(lambda _bind: True)),
        Move("restart, none happened", lambda _d: True, lambda d: d.restart(lambda _bind: False)),
    ]


@pytest.mark.parametrize("field", ["min_available", "priority"])
@pytest.mark.parametrize("reverse", [False, True])
def test_member_that_contradicts_a_running_gang_is_refused_after_a_restart(
    field: str, reverse: bool
) -> None:
    """F42, F23: however old it is, and wherever it stands in the listing."""
    gang: dict[str, Any] = {"min_available": 2}
    driver = Driver(partial(coscheduling, strict_priorities=True))
    driver.tell(node("n", 9))
    names = ["a-odd", "b-0", "b-1"]
    says = [gang, gang | {field: 5}, gang]
    for name, each in zip(names[::-1] if reverse else names, says, strict=True):
        driver.add(make_pod(name, group="g", cpu=1, **each))
    driver.drain()
    (left,) = (pod.uid for pod in driver.cluster.pods() if pod.node_name is None)
    first = next(pod.uid for pod in driver.cluster.pods() if pod.uid != left)
    before = driver.cluster.pod(first)
    assert before is not None
    driver.delete(first)
    driver.add(evolve(before, uid=PodUID("anew"), node_name=None, created_at=9.0))
    driver.drain()
    driver.restart(lambda _bind: True)
    driver.settle()
    assert [pod.uid for pod in driver.cluster.pods() if pod.node_name is None] == [left]
    assert isinstance(driver.scheduler.why(left), Refused)


def test_listing_takes_members_without_a_node_by_age() -> None:
    """F42: they arrived in this order, as far as a listing shows it."""
    driver = Driver(Policy().make)
    for name, minimum, created_at in (("a", 3, 3.0), ("b", 2, 1.0), ("c", 2, 2.0)):
        pod = make_pod(name, group="g", min_available=minimum, created_at=created_at)
        driver.cluster.apply(PodAdded(pod))
    driver.restart(lambda _bind: True)
    driver.advance(4.0)
    assert isinstance(driver.scheduler.why(PodUID("default/a")), Refused)


@pytest.mark.parametrize("policy", POLICIES, ids=range(len(POLICIES)))
def test_restart_in_any_state_loses_no_pod_and_starts_none_twice(policy: Policy) -> None:
    """F42: up to two restarts, at any two moments of a gang's life; in the end it runs whole.

    The oracle is handed over, too: it sees that no bound pod is bound again, and no node is
    used twice.
    """
    pods = members("g", 2)
    driver = Driver(policy.make, match=policy.match_policy, logged=False)
    driver.tell(node("n", 2))
    driver.add(*pods)
    driver.fate = Fate.PENDING
    moves = [decide, pass_time, pass_early, *restarts()]
    moves += [report(pod.uid, Fate.DONE, None) for pod in pods]

    def whole(here: Driver) -> None:
        assert all(pod.node_name == "n" for pod in here.cluster.pods())
        assert nothing_is_assumed(here.scheduler)

    assert walk(driver, moves, at_rest=whole) > 30


def test_restart_with_failing_binds_ends_with_nothing_assumed() -> None:
    """F42, F18: half a gang may have been bound when the scheduler died; the other half follows."""
    pods = members("g", 2)
    driver = Driver(Policy().make, logged=False)
    driver.tell(node("n", 2))
    driver.add(*pods)
    driver.fate = Fate.PENDING
    moves = [decide, pass_time, *restarts()]
    moves += [report(pod.uid, Fate.DONE, None) for pod in pods]
    moves.append(report(pods[1].uid, Fate.FAILED))

    def whole(here: Driver) -> None:
        assert all(pod.node_name == "n" for pod in here.cluster.pods())

    assert walk(driver, moves, at_rest=whole) > 30


def test_restart_with_two_competing_gangs_runs_one_and_queues_one_whole() -> None:
    """F42: another gang may start than without it; half of each never does."""
    driver = Driver(Policy().make, logged=False)
    driver.tell(node("n", 3))
    driver.tell(PodGroupAdded(PodGroup(name="b", min_available=2)))
    pods = [*members("a", 2), *members("b", 2)]
    driver.add(*pods)
    driver.fate = Fate.PENDING
    moves = [decide, pass_time, *restarts()]
    moves += [report(pod.uid, Fate.DONE, None) for pod in pods]

    def one_of_them(here: Driver) -> None:
        running = {pod.name for pod in here.cluster.pods() if pod.node_name}
        assert running in ({"a-0", "a-1"}, {"b-0", "b-1"})
        assert len(here.scheduler.waiting) <= 1

    assert walk(driver, moves, at_rest=one_of_them) > 30
