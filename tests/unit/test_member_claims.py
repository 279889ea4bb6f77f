"""What members say of their group by labels, and what becomes of it when these change."""

from __future__ import annotations

import pytest

from gangsched import GroupKey, PodGroupAdded, PodGroupDeleted, PodRefused, PodUID, SchedulingUnit
from gangsched.testing import make_pod
from support.driver import Driver
from support.faulty_driver import faulty_driver, told, update
from support.gangs import specify, where
from support.preemption_host import EACH_UNIT

G = GroupKey("default/g")
P = PodUID("default/p")


def give(driver: Driver, minimum: int, *names: str) -> None:
    """Let members give another minimum, one after the other."""
    for name in names:
        labels = make_pod(name, group="g", min_available=minimum).labels
        update(driver, PodUID(f"default/{name}"), labels=labels)


@EACH_UNIT
def test_minimum_that_only_members_give_is_what_they_give_by_now(unit: SchedulingUnit) -> None:
    """F22: no other member arrives, and no entity that could start is parked."""
    driver, _odd = faulty_driver(unit=unit, cpu=4)
    driver.add(*(make_pod(name, group="g", min_available=3, cpu=1) for name in "pq"))
    give(driver, 2, "p", "q")
    driver.drain()
    assert where(driver) == {"p": "n", "q": "n"}


@pytest.mark.parametrize(("names", "start"), [("p", True), ("q", False), ("qp", True)])
def test_current_claim_of_the_first_member_binds_waiting_members(names: str, start: bool) -> None:
    """F22: waiting members are released at once; members that contradict the first stay."""
    driver, _odd = faulty_driver(cpu=2)  # no capacity for the third
    driver.add(*(make_pod(name, group="g", min_available=3, cpu=1) for name in "pqr"))
    driver.step()
    driver.step()
    assert len(driver.scheduler.waiting) == 2
    give(driver, 2, *names)
    assert len(driver.scheduler.waiting) == (0 if start else 2)
    assert len(where(driver)) == (2 if start else 0)
    assert told(driver, PodRefused) == []


def test_minimum_raised_by_members_evicts_no_running_member() -> None:
    """F22."""
    driver, _odd = faulty_driver(cpu=4)
    driver.add(*(make_pod(name, group="g", min_available=2, cpu=1) for name in "pq"))
    driver.drain()
    give(driver, 3, "p", "q")
    assert len(where(driver)) == 2
    info = driver.scheduler.registry.get(G)
    assert info is not None
    assert info.min_available == 3


@pytest.mark.parametrize("goes", [False, True])
def test_contradicting_member_joins_when_the_first_drops_its_claim(goes: bool) -> None:
    driver, _odd = faulty_driver(cpu=4)
    driver.add(make_pod("p", group="g", min_available=3, cpu=1))
    driver.add(*(make_pod(name, group="g", min_available=2, cpu=1) for name in "qr"))
    assert [each.uid for each in told(driver, PodRefused)] == ["default/q", "default/r"]
    if goes:
        driver.delete(P)
    else:
        give(driver, 2, "p")
    driver.drain()
    assert set(where(driver)) == {"q", "r"} | ({"p"} if not goes else set())


def test_member_that_its_specification_refused_says_nothing_for_its_group() -> None:
    """F23: of one priority are all that are in, also when the specification has gone."""
    driver, _odd = faulty_driver(cpu=4, strict_priorities=True)
    driver.add(make_pod("p", group="g", min_available=3))
    driver.tell(PodGroupAdded(specify("g", 3, priority=5)))
    driver.add(make_pod("q", group="g", min_available=3, priority=5))
    driver.tell(PodGroupDeleted(G))
    info = driver.scheduler.registry.get(G)
    assert info is not None
    assert info.priority == 5
    assert [each.uid for each in told(driver, PodRefused)] == ["default/p"]
