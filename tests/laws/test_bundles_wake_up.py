"""Bundles: which events requeue a bundle, and which tries would be useless."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import GroupRejected, PodAdded, PodGroupAdded, explain
from support.bundles import AB, CD, pods, running, spec, specs, why
from support.driver import Driver
from support.examples import one_in
from support.gangs import node
from support.histories import Policy, policies

gangs = policies.filter(lambda policy: policy.gangs)


@pytest.mark.parametrize("last", [0, 1, 2, 3, 4])
def test_last_event_is_itself_the_wake_up(last: int) -> None:
    """Law 4: whichever group of the bundle it is about; the first by key is tried for all."""
    facts = [node("n", 4), *specs(*AB), *(PodAdded(pods(group)[1]) for group in AB)]
    late = facts.pop(last)
    driver = Driver()
    driver.add(*(pods(group)[0] for group in AB))
    driver.tell(*facts)
    driver.settle()
    driver.advance(60.0)
    assert running(driver) == {}
    driver.tell(late)
    driver.drain()
    assert (driver.now, running(driver)) == (60.0, dict.fromkeys(AB, 2))


@pytest.mark.parametrize("place", ["a node for the lead", "a node for the other"])
def test_capacity_that_helps_any_group_of_a_bundle_requeues_its_leader(place: str) -> None:
    """Law 4: and no other is asked for."""
    driver = Driver()
    driver.tell(node("cpu", 2 * (place == "a node for the other")), *specs(*AB))
    driver.tell(node("gpu", 0, 2 * (place == "a node for the lead")))
    driver.add(*pods("one/a"), *pods("two/b", cpu=0, gpu=1))
    driver.settle()
    driver.advance(60.0)  # its backoff has ended
    assert running(driver) == {}
    driver.tell(node("cpu", 2), node("gpu", 0, 2))
    driver.drain()
    assert running(driver) == dict.fromkeys(AB, 2)


@one_in(2)
@given(gangs, st.integers(0, 2))
def test_bundle_that_can_never_start_blocks_no_other_entity(policy: Policy, first: int) -> None:
    """Law 5: whether it is tried before the others or after them."""
    driver = policy.world().driver
    driver.tell(node("n", 4), *specs(*AB), *specs(*CD, minimum=1))
    arrivals = [[*pods("one/a"), *pods("two/b", cpu=9)], pods("one/c", 1), pods("two/d", 1)]
    for batch in arrivals[first:] + arrivals[:first]:
        driver.add(*batch)
    driver.settle()
    assert running(driver) == {"one/c": 1, "two/d": 1}
    assert driver.scheduler.next_deadline() is None


def test_bundle_requests_the_sum_of_the_min_resources_of_its_groups() -> None:
    """Each alone would find enough."""
    driver = Driver()
    driver.tell(node("n", 5), *specs(*AB, min_resources={"cpu": 3}))
    driver.add(*pods("one/a"), *pods("two/b"))
    driver.settle()
    assert "resource gap" in str(why(driver, "one/a"))
    driver.tell(node("m", 1))
    driver.settle()
    assert running(driver) == dict.fromkeys(AB, 2)


@pytest.mark.core_lacks("a bundle is tried once more after a node was added in vain")
def test_second_bundle_of_one_equivalence_class_is_not_tried_in_vain() -> None:
    driver = Driver()
    driver.tell(node("n", 1), *specs(*AB), *specs(*CD))
    driver.add(*(p for group in (*AB, *CD) for p in pods(group)))
    for cpu in (2, 3):
        driver.settle()
        driver.tell(node("n", cpu))
    driver.settle()
    falls = [e for t in driver.log for e in t.effects if isinstance(e, GroupRejected)]
    assert [fall.group for fall in falls] == ["one/a", "one/c"]
    driver.tell(node("n", 4))
    driver.settle()
    assert running(driver) == dict.fromkeys(AB, 2)
    assert isinstance(why(driver, "one/c"), explain.NoNodeFits)


def test_bundles_of_equal_size_with_other_groups_do_not_fail_alike() -> None:
    """Law 4: of each two of one kind and two of another, of which not the same are needed."""
    driver = Driver()
    driver.tell(node("cpu", 1), node("gpu", 0, 1))
    for (one, two), minima in ((AB, (2, 1)), (CD, (1, 2))):
        for group, least in zip((one, two), minima, strict=True):
            driver.tell(PodGroupAdded(spec(group, least, (one, two))))
        driver.add(*pods(one), *pods(two, cpu=0, gpu=1))
        driver.settle()
    assert running(driver) == {}
    driver.advance(60.0)
    driver.tell(node("gpu", 0, 2))
    driver.settle()
    assert running(driver) == {"one/c": 1, "two/d": 2}
