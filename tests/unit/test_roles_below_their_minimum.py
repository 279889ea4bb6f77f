"""A running group falls below its minimum with the first role that has too few members."""

from __future__ import annotations

import pytest

from gangsched import GroupBelowMinimum, PodGroup, PodGroupAdded
from gangsched.testing import make_pod
from support.driver import Driver
from support.gangs import node

SPEC = PodGroup(name="g", roles={"ps": 1, "worker": 2})


def running() -> Driver:
    """Return a group that runs with one parameter server and one worker more than it needs."""
    driver = Driver()
    driver.tell(node("n", 9), PodGroupAdded(SPEC))
    for name in ("ps-0", "worker-0", "worker-1", "worker-2"):
        driver.add(make_pod(name, group="g", role=name[:-2], cpu=1))
    driver.settle()
    return driver


def falls(driver: Driver) -> list[GroupBelowMinimum]:
    found = [effect for call in driver.log for effect in call.effects]
    return [effect for effect in found if isinstance(effect, GroupBelowMinimum)]


def test_group_that_keeps_just_enough_of_each_role_is_not_below_its_minimum() -> None:
    driver = running()
    driver.delete("default/worker-1")
    assert falls(driver) == []


@pytest.mark.parametrize(("lost", "left"), [(["ps-0"], 3), (["worker-0", "worker-2"], 2)])
def test_group_that_lacks_one_role_is_below_its_minimum(lost: list[str], left: int) -> None:
    driver = running()
    driver.delete(*(f"default/{name}" for name in lost))
    assert falls(driver) == [GroupBelowMinimum(SPEC.key, left, 3)]
