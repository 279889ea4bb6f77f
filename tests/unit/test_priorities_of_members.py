"""Members with another priority than their group: the priority of the group decides."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Event,
    GroupKey,
    InMemoryCluster,
    NodeAdded,
    Pod,
    PodAdded,
    PodGroupAdded,
    PodGroupUpdated,
    PodRefused,
    PodUID,
    PriorityOverruled,
    Scheduler,
    SchedulingUnit,
    presets,
)
from gangsched.errors import InvalidValueError
from gangsched.replay import Recipe
from gangsched.testing import make_group, make_node, make_pod
from support.driver import Driver
from support.faulty_driver import told
from support.gangs import node, where

pytestmark = pytest.mark.once("chooses the unit itself")

EACH_UNIT = pytest.mark.parametrize("unit", list(SchedulingUnit))
G = GroupKey("default/g")


def host(unit: SchedulingUnit, cpu: int = 2, *, strict: bool = False) -> Driver:
    def make(cluster: Any) -> Scheduler:
        return presets.coscheduling(cluster, unit=unit, strict_priorities=strict)

    driver = Driver(make)
    driver.tell(node("n", cpu))
    return driver


def member(name: str, priority: int) -> Pod:
    return make_pod(name, group="g", min_available=2, cpu=1, priority=priority)


@EACH_UNIT
def test_gang_whose_group_has_another_priority_starts(unit: SchedulingUnit) -> None:
    """An admission plugin may fill in the priority of a group."""
    driver = host(unit)
    driver.tell(PodGroupAdded(evolve(make_group("g", 2), priority=0)))
    driver.add(member("a", 1000), member("b", 1000))
    driver.settle()
    assert where(driver) == {"a": "n", "b": "n"}
    assert told(driver, PodRefused) == []
    uids = [PodUID("default/a"), PodUID("default/b")]
    assert told(driver, PriorityOverruled) == [PriorityOverruled(u, G, 1000, 0) for u in uids]


@EACH_UNIT
def test_members_of_two_priorities_start_with_that_of_the_first(unit: SchedulingUnit) -> None:
    driver = host(unit)
    driver.add(member("a", 5), member("b", 7))
    driver.settle()
    assert where(driver) == {"a": "n", "b": "n"}
    assert told(driver, PriorityOverruled) == [PriorityOverruled(PodUID("default/b"), G, 7, 5)]


@EACH_UNIT
@pytest.mark.parametrize(("of_group", "first"), [(0, "p"), (9, "a")])
def test_priority_of_the_group_orders_the_queue(
    unit: SchedulingUnit, of_group: int, first: str
) -> None:
    cluster = InMemoryCluster()
    scheduler = presets.coscheduling(cluster, unit=unit)
    group = evolve(make_group("g", 2), priority=of_group)
    pods = [member("a", 5), member("b", 5), make_pod("p", cpu=1, priority=5)]
    events: list[Event] = [NodeAdded(make_node("n", cpu=9)), PodGroupAdded(group)]
    for event in [*events, *map(PodAdded, pods)]:
        scheduler.handle(cluster.apply(event), now=0.0)
    head = scheduler.queue.head()
    assert head is not None
    assert head.pod.name == first


@EACH_UNIT
def test_changed_priority_of_a_group_is_told_once(unit: SchedulingUnit) -> None:
    driver = host(unit, cpu=0)
    driver.tell(PodGroupAdded(evolve(make_group("g", 2), priority=5)))
    driver.add(member("a", 5), member("b", 5))
    driver.drain()
    assert told(driver, PriorityOverruled) == []
    for _ in range(2):
        driver.tell(PodGroupUpdated(evolve(make_group("g", 2), priority=0)))
    assert len(told(driver, PriorityOverruled)) == 2


@EACH_UNIT
def test_strict_priorities_refuse_the_pod(unit: SchedulingUnit) -> None:
    driver = host(unit, strict=True)
    driver.add(member("a", 5), member("b", 7))
    driver.settle()
    assert where(driver) == {}
    (refused,) = told(driver, PodRefused)
    assert refused.uid == "default/b"
    assert told(driver, PriorityOverruled) == []


def test_strict_priorities_must_be_a_bool() -> None:
    wrong: Any = 1
    with pytest.raises(InvalidValueError, match="strict_priorities"):
        presets.gang(InMemoryCluster(), strict_priorities=wrong)


def test_recipe_keeps_strict_priorities() -> None:
    recipe = Recipe("gang", strict_priorities=True)
    assert recipe(InMemoryCluster())._state.settings.strict_priorities
