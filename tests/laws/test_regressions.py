"""Histories that broke a law once, in the words of the library alone."""

from __future__ import annotations

import pytest
from attrs import evolve

from gangsched import Bind, Bound, Event, PodAdded, PodGroup, PodGroupAdded
from gangsched.testing import make_pod
from support.driver import Driver, Fate
from support.gangs import members, node, where
from support.shown import binds as would_bind


@pytest.mark.parametrize("how", ["all binds failed", "all were replaced"])
def test_gang_that_lost_every_released_member_is_a_gang_again(how: str) -> None:
    """Law 1: a rival takes half of the capacity meanwhile, so no member may start alone."""
    driver = Driver(fate=Fate.PENDING if how == "all binds failed" else Fate.DONE)
    driver.tell(node("n0", 1), node("n1", 1))
    old, new = members("g", 2, cpu=1), members("g", 2, prefix="new-", cpu=1)
    driver.add(*old)
    driver.drain()
    if how == "all binds failed":
        for bind in list(driver.under_way):
            driver.report(bind, Fate.FAILED)
        driver.fate = Fate.DONE
        driver.add(make_pod("rival", cpu=1, priority=9))
    else:
        driver.add(new[0])
        driver.delete(*(pod.uid for pod in old))
        driver.add(make_pod("rival", cpu=1, priority=9), new[1])
    driver.settle()
    assert set(where(driver)) == {"rival"}
    driver.delete("default/rival")
    driver.settle()
    assert len(where(driver)) == 2


def test_gang_that_fits_starts_in_one_instant_with_a_permit_timeout_of_zero() -> None:
    driver = Driver(now=5.0)
    driver.tell(
        node("n", 2), PodGroupAdded(PodGroup(name="g", min_available=2, schedule_timeout=0))
    )
    driver.add(*(evolve(make_pod(name, cpu=1), pod_group="g") for name in ("a", "b")))
    driver.drain()
    assert (len(where(driver)), driver.now) == (2, 5.0)


def test_claim_of_a_departed_member_does_not_bind_the_others() -> None:
    """Law 10: a scheduler that starts now would start this gang, so this one does."""
    driver = Driver()
    silent = evolve(make_pod("m0", cpu=1), labels={"scheduling.x-k8s.io/pod-group": "g"})
    driver.tell(node("n", 4))
    driver.add(make_pod("typo", group="g", min_available=5, cpu=1), silent)
    driver.add(make_pod("m1", group="g", min_available=2, cpu=1))
    driver.settle()
    assert where(driver) == {}
    driver.delete("default/typo")
    driver.settle()
    assert set(where(driver)) == {"m0", "m1"}


def test_pod_shown_as_bound_before_its_event_counts_once() -> None:
    """Law 8, F15: two binds are done, and something else makes the scheduler look at the node."""
    driver = Driver(fate=Fate.PENDING)
    driver.tell(node("n", 3))
    driver.add(*members("g", 2, cpu=1))
    driver.drain()
    binds: list[Bind] = list(driver.under_way)
    reports = [driver.cluster.apply(Bound(b.uid, b.node, b.attempt)) for b in binds]
    facts: list[Event] = [node("n", 3), *reversed(reports)]
    for fact in facts:
        driver.tell_again(fact)
        assert would_bind(driver.scheduler, make_pod("one", cpu=1))
        assert not would_bind(driver.scheduler, make_pod("two", cpu=2))
    driver.tell(PodAdded(make_pod("third", cpu=1)))
    driver.drain()
    assert driver.effects(Bind)[-1].uid == "default/third"
