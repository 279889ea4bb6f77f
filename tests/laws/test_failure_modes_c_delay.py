"""Failure modes 3.C: members that come late, short waits, flags that stay (F24-F31)."""

from __future__ import annotations

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    GroupRejected,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodGroup,
    PodGroupAdded,
)
from gangsched.testing import make_pod
from support.driver import Driver
from support.examples import one_in
from support.histories import Policy, policies

gangs = policies.filter(lambda policy: policy.gangs)
DAY = 86_400.0


def node(cpu: int, name: str = "n") -> NodeAdded:
    """Return the fact that a node comes."""
    return NodeAdded(Node(name=NodeName(name), allocatable={"cpu": cpu}))


def member(number: int, minimum: int | None = None) -> Pod:
    """Return a member; without a minimum, the specification has to give it."""
    pod = make_pod(f"g-{number}", cpu=1)
    if minimum is None:
        return evolve(pod, pod_group="g")
    return make_pod(f"g-{number}", group="g", min_available=minimum, cpu=1)


def bound(driver: Driver) -> int:
    """Return how many pods are bound."""
    return sum(pod.node_name is not None for pod in driver.cluster.pods())


def falls(driver: Driver) -> list[GroupRejected]:
    """Return the rejections of groups."""
    effects = (effect for told in driver.log for effect in told.effects)
    return [effect for effect in effects if isinstance(effect, GroupRejected)]


arrivals = st.permutations(["node", "group", 0, 1, 2, 3])


@one_in(2)
@given(gangs, arrivals, st.lists(st.sampled_from([0.0, 0.5, 70.0]), min_size=6, max_size=6))
def test_last_arrival_is_the_wake_up_in_any_order(
    policy: Policy, order: list[str | int], pauses: list[float]
) -> None:
    """F24, SP#397, F29: decided in the instant in which the last of them arrives.

    No pod is tried before there is a quorum, and none is tried uselessly before there is a node.
    """
    driver = Driver(policy.make, match=policy.match_policy)
    there: set[str | int] = set()
    for what, pause in zip(order, pauses, strict=True):
        driver.advance(driver.now + pause)
        before = driver.decisions
        began = driver.now
        if what == "node":
            driver.tell(node(4))
        elif what == "group":
            driver.tell(PodGroupAdded(PodGroup(name="g", min_available=4)))
        else:
            driver.add(member(int(what)))
        there.add(what)
        driver.drain()
        if there >= {"group", 0, 1, 2, 3}:
            driver.settle()  # it was tried without a node, and backs off
        else:
            assert driver.decisions == before + 1, "a look at an empty queue, and nobody tried"
            assert driver.scheduler.next_deadline() is None
        assert bound(driver) == (4 if len(there) == 6 else 0)
        if len(there) == 6 and what != "node":
            assert driver.now == began
    assert len(falls(driver)) == (1 if order[-1] == "node" else 0)


@one_in(2)
@given(st.integers(1, 5), st.integers(0, 5))
def test_members_before_their_group_consume_no_cycle(early: int, late: int) -> None:
    """F29: held with a reason, until the group comes, with the minimum that it says."""
    driver = Driver(Policy().make)
    driver.tell(node(10))
    driver.add(*(member(n) for n in range(early)))
    driver.advance(DAY)
    assert driver.drain() == 0
    assert driver.scheduler.next_deadline() is None
    driver.tell(PodGroupAdded(PodGroup(name="g", min_available=early + late)))
    driver.add(*(member(early + n) for n in range(late)))
    driver.drain()
    assert bound(driver) == early + late
    assert driver.now == DAY


@one_in(2)
@given(st.integers(1, 8), st.integers(0, 3))
def test_lacking_one_member_again_and_again_costs_no_backoff(size: int, gap: int) -> None:
    """F25, SP#450: members come and go; when all are there it starts in that instant."""
    driver = Driver(Policy().make)
    driver.tell(node(size + 1))
    driver.add(*(member(n, size + 1) for n in range(size)))
    for n in range(8):
        driver.advance(driver.now + gap)
        driver.delete(member(n % size).uid)
        driver.drain()
        driver.add(member(n % size, size + 1))
        driver.drain()
    began = driver.now
    driver.add(member(size, size + 1))
    driver.drain()
    assert (bound(driver), driver.now, falls(driver)) == (size + 1, began, [])
