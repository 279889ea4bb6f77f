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
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodUnschedulable,
    Resources,
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


@pytest.mark.core_lacks("has other words")
@pytest.mark.parametrize(("foreign", "starts"), [(1, True), (2, False)])
def test_assumed_capacity_of_members_counts_for_their_group(foreign: int, starts: bool) -> None:
    """F44, rows 42 to 44: the group needs 4 of 5; a member uses 2, another pod the others."""
    driver = Driver(Policy().make)
    own = evolve(member(0, 2), node_name=NodeName("n"))
    other = evolve(make_pod("other", cpu=foreign), node_name=NodeName("n"))
    driver.tell(NodeAdded(node(5)), PodGroupAdded(group(2, 4)), PodAdded(other), PodAdded(own))
    driver.add(member(1, 2))
    driver.settle()
    assert ("g-1" in bound(driver)) is starts
    assert reasons(driver) == ([] if starts else [f"resource gap: {Resources({'cpu': 1})}"])


def test_fragmented_capacity_gives_no_reservation() -> None:
    """F45, SP#429: enough in total, and no member fits; the group is rejected like any other."""
    driver = Driver(Policy(when_blocked=WhenBlocked.AT_ONCE).make)
    driver.tell(*(NodeAdded(node(1, f"n{n}")) for n in range(4)), PodGroupAdded(group(2, 4)))
    driver.add(member(0, 2), member(1, 2))
    driver.settle()
    assert bound(driver) == set()
    assert len(driver.scheduler.waiting) == 0
    assert len(reasons(driver)) == 1
    assert "resource gap" not in reasons(driver)[0]


def test_overcommitted_node_has_nothing_and_takes_nothing_from_the_others() -> None:
    """F46: one node shrank below its pods; the other has capacity for the whole group."""
    driver = Driver(Policy().make)
    driver.tell(NodeAdded(node(6, "big")))
    driver.add(make_pod("runs", cpu=6))
    driver.drain()
    driver.tell(NodeUpdated(node(1, "big")), NodeAdded(node(2, "small")))
    driver.tell(PodGroupAdded(group(2, 2)))
    driver.add(member(0), member(1))
    driver.drain()
    assert bound(driver) == {"runs", "g-0", "g-1"}


def test_cordoned_node_may_pass_the_check_and_takes_no_pod() -> None:
    """F46: the check errs on the side of a try; the caller of ``resource_gap`` selects the pods."""
    driver = Driver(Policy().make)
    driver.tell(NodeAdded(node(4, cordoned=True)), PodGroupAdded(group(2, 2)))
    driver.add(member(0), member(1))
    driver.settle()
    assert bound(driver) == set()
    assert not [reason for reason in reasons(driver) if "resource gap" in reason]
    usable = [{"cpu": 0}]
    assert dict(resource_gap({"cpu": 2000}, usable)) == {"cpu": 2000}


@pytest.mark.core_lacks("a lack of capacity begins no backoff")
def test_check_is_made_anew_for_each_attempt() -> None:
    """F47: capacity of the first attempt is gone at the second, and no pod is placed."""
    driver = Driver(Policy(when_blocked=WhenBlocked.AT_ONCE).make)
    driver.tell(NodeAdded(node(1, "a")), NodeAdded(node(1, "b")), PodGroupAdded(group(2, 2)))
    driver.add(member(0), member(1, 2))
    driver.settle()
    first = len(reasons(driver))
    assert first >= 1
    assert "resource gap" not in reasons(driver)[-1]
    driver.add(make_pod("plain", cpu=1))
    driver.drain()
    driver.log.clear()
    driver.add(member(2))
    driver.settle()
    assert bound(driver) == {"plain"}
    assert all(reason.startswith("resource gap: ") for reason in reasons(driver))
    assert reasons(driver)


@pytest.mark.core_lacks("the check is made at each event about a node")
def test_group_that_fails_the_check_is_parked_until_an_event_closes_the_gap() -> None:
    """F47, F6: nothing polls, and insufficient capacity requeues no entity."""
    driver = Driver(Policy().make)
    driver.tell(NodeAdded(node(2, "a")), PodGroupAdded(group(2, 8)))
    driver.add(member(0), member(1))
    driver.settle()
    assert driver.scheduler.next_deadline() is None
    driver.log.clear()
    driver.decisions = 0
    for n in range(5):
        driver.tell(NodeAdded(node(1, f"b{n}")))
        driver.settle()
    effects = [effect for told in driver.log for effect in told.effects]
    assert not [e for e in effects if isinstance(e, PodUnschedulable | GroupRejected)]
    assert driver.decisions == 5, "a look at an empty queue for each fact"
    driver.tell(NodeAdded(node(1, "enough")))
    driver.settle()
    assert bound(driver) == {"g-0", "g-1"}
    assert driver.now <= 1.0, "it may have to rest to the end after its only try"


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
    """F45, F47: the check saves tries, and never costs a start."""
    outcomes = []
    for in_all in (0, size * cpu):
        driver = Driver(Policy(when_blocked=WhenBlocked.AT_ONCE).make)
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
