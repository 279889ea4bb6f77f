"""Failure mode 3.C, F30: recreated members, under each of the three match policies."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    MatchPolicy,
    Node,
    NodeAdded,
    NodeName,
    NodeUpdated,
    Pod,
)
from gangsched.testing import make_pod
from support.driver import Driver
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
