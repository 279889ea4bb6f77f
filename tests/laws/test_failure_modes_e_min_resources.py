"""Failure modes 3.E: what a group needs in all, as a quick no and nothing more (F43-F47)."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    GroupRejected,
    Node,
    NodeAdded,
    NodeName,
    NodeUpdated,
    Order,
    Pod,
    PodGroup,
    PodGroupAdded,
    WhenBlocked,
    resource_gap,
)
from gangsched.testing import make_pod
from support.driver import Driver
from support.examples import one_in
from support.histories import Policy

amounts = st.dictionaries(st.sampled_from(["cpu", "gpu", "pods"]), st.integers(-5000, 9000))


def node(cpu: int, name: str = "n", *, cordoned: bool = False) -> Node:
    """Return a node."""
    return Node(name=NodeName(name), allocatable={"cpu": cpu}, unschedulable=cordoned)


def group(minimum: int, cpu: int) -> PodGroup:
    """Return a specification that says what is needed in all."""
    return PodGroup(name="g", min_available=minimum, min_resources={"cpu": cpu})


def member(number: int, cpu: int = 1) -> Pod:
    """Return a member."""
    return evolve(make_pod(f"g-{number}", cpu=cpu), pod_group="g")


def bound(driver: Driver) -> set[str]:
    """Return the bound pods."""
    return {pod.name for pod in driver.cluster.pods() if pod.node_name}


def reasons(driver: Driver) -> list[str]:
    """Return the reasons of rejected groups."""
    effects = (effect for told in driver.log for effect in told.effects)
    return [effect.reason for effect in effects if isinstance(effect, GroupRejected)]


@pytest.mark.once("makes no scheduler")
@one_in(2)
@given(amounts, st.lists(amounts, max_size=5))
def test_subject_of_a_question_is_unchanged(
    wanted: dict[str, int], free: list[dict[str, int]]
) -> None:
    """F43, F46: nothing is consumed; what is below zero counts as nothing, and adds to no gap."""
    before: tuple[Mapping[str, int], list[dict[str, int]]] = deepcopy((wanted, free))
    missing = dict(resource_gap(wanted, free))
    assert (wanted, free) == before
    assert dict(resource_gap(wanted, free)) == missing
    for name in wanted.keys() | missing.keys():
        there = sum(max(0, amounts.get(name, 0)) for amounts in free)
        assert missing.get(name, 0) == max(0, wanted.get(name, 0) - there)


def test_specification_is_the_same_after_many_attempts() -> None:
    """F43: neither the check nor a placement writes to it."""
    driver = Driver(Policy().make)
    spec = group(2, 2)
    driver.tell(PodGroupAdded(spec), NodeAdded(node(1)))
    driver.add(member(0), member(1))
    for cpu in (2, 1, 3, 1):
        driver.settle()
        driver.tell(NodeUpdated(node(cpu)))
    driver.settle()
    assert driver.cluster.pod_group(spec.key) is spec
    assert spec == group(2, 2)
    assert dict(spec.min_resources) == {"cpu": 2000}


facts = st.lists(
    st.one_of(
        st.tuples(st.just("node"), st.integers(0, 2), st.integers(0, 4)),
        st.tuples(st.just("plain"), st.integers(0, 3), st.integers(1, 2)),
        st.tuples(st.just("end"), st.integers(0, 3), st.just(0)),
    ),
    max_size=20,
)


@one_in(2)
@given(facts, st.integers(2, 4), st.integers(1, 2))
def test_gang_with_true_run_times_starts_when_it_would_have_anyway(
    story: list[tuple[str, int, int]], size: int, cpu: int
) -> None:
    """F45, F47: the check saves tries, and never costs a start.

    By the other order a gang that was tried in vain goes behind what failed before it.
    """
    outcomes = []
    for in_all in (0, size * cpu):
        driver = Driver(Policy(order=Order.CREATION, when_blocked=WhenBlocked.AT_ONCE).make)
        spec = PodGroup(name="g", min_available=size, min_resources={"cpu": in_all})
        driver.tell(PodGroupAdded(spec))
        driver.add(*(member(n, cpu) for n in range(size)))
        seen = []
        for what, index, amount in story:
            if what == "node":
                driver.tell(NodeUpdated(node(amount, f"n{index}")))
            elif what == "plain" and driver.cluster.pod(make_pod(f"p{index}").uid) is None:
                driver.add(make_pod(f"p{index}", cpu=amount))
            elif what == "end":
                driver.delete(make_pod(f"p{index}").uid)
            driver.settle()
            driver.advance(driver.now + 60)
            seen.append(bound(driver))
        outcomes.append(seen)
    assert outcomes[0] == outcomes[1]
