"""Failure mode 3.A, F8: a wake-up that is lost because of its timing.

Every order of decisions, deadlines and events is walked. At each end, brute force decides whether a
parked entity could start.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from attrs import evolve

from gangsched import Node, NodeAdded, NodeName, Pod, PodUpdated
from gangsched import WhenBlocked as When
from gangsched.testing import make_pod
from support.brute_force import could_start, entities
from support.driver import Driver
from support.examples import IS_DEEP
from support.histories import Policy
from support.interleavings import Move, decide, pass_early, pass_time, walk

EACH = list(When) if IS_DEEP else [When.UNTIL_OTHERS_TURN]
"""Only a deep run walks under each policy."""


def node(name: str, cpu: int, gpu: int = 0) -> NodeAdded:
    """Return the fact that a node comes."""
    return NodeAdded(Node(name=NodeName(name), allocatable={"cpu": cpu, "nvidia.com/gpu": gpu}))


def member(name: str, *, gpu: int = 0, minimum: int = 3) -> Pod:
    """Return a member of the gang."""
    return make_pod(name, group="g", min_available=minimum, cpu=1, gpu=gpu)


def comes(driver: Driver, pod: Pod) -> bool:
    """Say whether a pod has not been there yet."""
    return driver.cluster.pod(pod.uid) is None


def arrival(pod: Pod) -> Move:
    """A pod comes."""
    return Move(f"add {pod.name}", lambda d: comes(d, pod), lambda d: d.add(pod))


def room(fact: NodeAdded) -> Move:
    """A node comes."""
    return Move(f"node {fact.node.name}", lambda _d: True, lambda d: d.tell(fact))


def end(pod: Pod) -> Move:
    """A pod goes."""
    return Move(f"end {pod.name}", lambda d: not comes(d, pod), lambda d: d.delete(pod.uid))


def opening(pod: Pod) -> Move:
    """A pod loses its gate."""

    def may(driver: Driver) -> bool:
        now = driver.cluster.pod(pod.uid)
        return now is not None and bool(now.scheduling_gates)

    return Move("ungate", may, lambda d: d.tell(PodUpdated(evolve(pod, scheduling_gates=()))))


def late_sibling(driver: Driver) -> list[Move]:
    """The first holds a node, the second fits nowhere; the third arrives, then another node."""
    driver.tell(node("n", 2))
    driver.add(member("a"), member("b", gpu=1))
    return [arrival(member("c")), room(node("m", 1, 1))]


def a_rival_that_ends(driver: Driver) -> list[Move]:
    """Another pod uses the capacity of one member and ends at some time; a second rival arrives."""
    rival, second = make_pod("rival", cpu=1), make_pod("second", cpu=1)
    driver.tell(node("n", 3))
    driver.add(rival)
    driver.drain()
    driver.add(member("a"), member("b"), member("c"))
    return [end(rival), arrival(second), end(second)]


def a_gate_that_opens(driver: Driver) -> list[Move]:
    """One of three is gated; the gate is removed during the others' cycles, or a fourth arrives."""
    gated = evolve(member("c"), scheduling_gates=("quota",))
    driver.tell(node("n", 2))
    driver.add(member("a"), member("b"), gated)
    return [opening(gated), arrival(member("d")), room(node("m", 1))]


def a_member_that_goes(driver: Driver) -> list[Move]:
    """A member that holds, or fails, goes while its siblings are woken; another takes its place."""
    a, b = member("a", minimum=2), member("b", minimum=2, gpu=1)
    driver.tell(node("n", 1))
    driver.add(a, b)
    return [end(a), arrival(member("c", minimum=2)), room(node("m", 1, 1))]


def a_node_freed_while_another_is_held(driver: Driver) -> list[Move]:
    """A gang needs two nodes: a rival on one of them ends while another gang holds the other."""
    rival = make_pod("rival", cpu=1)
    driver.tell(node("n", 1))
    driver.add(rival)
    driver.drain()
    driver.tell(node("m", 1))
    driver.add(*(make_pod(name, group="h", min_available=2, cpu=1) for name in "xy"))
    driver.settle()
    return [arrival(member("a", minimum=2)), arrival(member("b", gpu=1, minimum=2)), end(rival)]


STORIES = [
    *(late_sibling, a_rival_that_ends, a_gate_that_opens, a_member_that_goes),
    a_node_freed_while_another_is_held,
]


@pytest.mark.parametrize("when_blocked", EACH)
@pytest.mark.parametrize("story", STORIES)
def test_no_order_of_failures_and_events_leaves_a_startable_pod_parked(
    story: Callable[[Driver], list[Move]], when_blocked: When
) -> None:
    """F8, SP#1001, KK#139162: and the oracle and the scheduler's own check look at every step."""
    policy = Policy(when_blocked=when_blocked)
    driver = Driver(policy.make)
    moves = story(driver)

    def awake(here: Driver) -> None:
        for entity in entities(here.cluster):
            could = could_start(policy.make, here.cluster, entity)
            assert not could, f"{sorted(could)} could start, and sleep"

    assert (
        walk(driver, [decide, pass_time, pass_early, *moves], at_rest=awake) >= 7
    )  # without backoffs
