"""A whole gang in its cycle: plugin calls, the blamed member, and the notices."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from gangsched import (
    Coscheduling,
    CycleState,
    GroupKey,
    GroupRejected,
    NodeName,
    Pod,
    PodRejected,
    PodUID,
    PodUnschedulable,
    Profile,
    RejectGroup,
    Scheduler,
    SchedulingUnit,
    Success,
    Unschedulable,
    Wait,
)
from gangsched.plugins import DefaultBinder, NodeResources, PrioritySort
from gangsched.testing import make_pod
from support.bundles import AB, pods, specs
from support.driver import Driver
from support.faulty_driver import faulty_driver
from support.faulty_gang import only
from support.faulty_plugin import FaultyPlugin
from support.gangs import decide, members, node, unschedulable, where

G = GroupKey("default/g")
BOTH = pytest.mark.parametrize("unit", SchedulingUnit)


# A whole gang ---------------------------------------------------------------------------------


@BOTH
def test_nodes_can_be_read_from_the_first_point_of_a_cycle_on(unit: SchedulingUnit) -> None:
    driver, faulty = faulty_driver("pre_filter", unit=unit)
    seen = list[set[str]]()

    def ask(cycle: CycleState, pod: Pod, *, now: float) -> Success:
        seen.append(set(cycle.nodes))
        return Success()

    faulty.answers["pre_filter"] = ask
    driver.add(make_pod("p"), *members("g", 2))
    driver.drain()
    assert seen == [{"n"}] * 3


@pytest.mark.parametrize("point", ["pre_filter", "reserve", "permit"])
def test_each_plugin_is_asked_once_for_its_group(point: str) -> None:
    """One for each member, one for the gang, though they are asked beside each other."""
    points = [point, "unreserve"] if point == "reserve" else [point]
    each, whole, asked = (
        FaultyPlugin(*points),
        FaultyPlugin(*points, group_wide=[point]),
        Counter[str](),
    )
    each.name, whole.name = "Each", "Whole"

    def note(name: str) -> Any:
        def ask(cycle: object, pod: Pod, *_node: object, now: float) -> Success:
            assert isinstance(cycle, CycleState)
            assert now == 3.0
            asked[name] += 1
            return Success()

        return ask

    each.answers[point], whole.answers[point] = note("each"), note("whole")
    plugins = (each, whole, Coscheduling(), NodeResources(), DefaultBinder())
    driver = Driver(
        lambda cluster: Scheduler(cluster, Profile(*plugins), unit=SchedulingUnit.GROUP)
    )
    driver.advance(3.0)
    driver.tell(node("n", 6))
    driver.add(*members("g", 3))
    driver.drain()
    assert len(where(driver)) == 3
    assert asked == {"each": 3, "whole": 1}


@pytest.mark.parametrize("point", ["pre_filter", "reserve"])
def test_plugin_that_answers_for_a_gang_has_only_its_own_word_counted(point: str) -> None:
    """No other plugin answers for each member."""
    driver, faulty = faulty_driver(point, unit=SchedulingUnit.GROUP, wide=point)
    faulty.answers[point] = Unschedulable("not this gang")
    driver.add(*members("g", 2))
    effects = decide(driver)
    assert PodUnschedulable(PodUID("default/g-0"), "not this gang") in effects
    found = unschedulable(driver, "g")
    assert (found.uid, found.pod, found.reason) == ("default/g-0", "default/g-0", "not this gang")


def test_last_member_is_blamed_where_its_pre_bind_is_refused() -> None:
    driver, faulty = faulty_driver("pre_bind", unit=SchedulingUnit.GROUP)
    faulty.answers["pre_bind"] = only("g-0", Success(), Unschedulable("not this one"))
    driver.add(*members("g", 4, cpu=1))
    assert PodUnschedulable(PodUID("default/g-3"), "not this one") in decide(driver)


def test_first_group_of_a_bundle_is_blamed_where_it_would_have_to_wait() -> None:
    driver, faulty = faulty_driver("permit", unit=SchedulingUnit.GROUP)
    faulty.answers["permit"] = Wait(5.0)
    driver.tell(*specs(*AB))
    driver.add(*(pod for group in AB for pod in pods(group)))
    reason = "the groups of a bundle do not wait on permit"
    assert PodUnschedulable(PodUID("one/a-0"), reason) in decide(driver)


def test_refused_gang_of_one_is_tried_again() -> None:
    driver, faulty = faulty_driver("permit", unit=SchedulingUnit.GROUP)
    faulty.answers["permit"] = Unschedulable("not yet")
    driver.add(*members("g", 1))
    driver.drain()
    faulty.answers.clear()
    driver.settle()
    assert len(where(driver)) == 1


def test_effects_while_nodes_are_released_come_before_later_effects() -> None:
    points = ("members_needed", "reserve", "unreserve", "permit", "post_filter")
    driver, faulty = faulty_driver(*points, unit=SchedulingUnit.GROUP, policy=PrioritySort())
    causes = list[tuple[str, str, float]]()

    def give_back(_cycle: object, pod: Pod, _node: str, *, cause: str, now: float) -> Any:
        causes.append((pod.name, cause, now))
        return RejectGroup(G, "broken") if pod.name == "g-1" else None

    faulty.answers = {
        "permit": only("g-0", Success(), Unschedulable("not yet")),
        "unreserve": give_back,
        "post_filter": RejectGroup(G, "full"),
    }
    driver.advance(2.0)
    driver.add(*members("g", 3))
    effects = decide(driver)
    assert PodUnschedulable(PodUID("default/g-0"), "not yet") in effects
    assert GroupRejected(G, 1, "broken", 3.0) in effects
    assert causes == [(name, "refused", 2.0) for name in ("g-2", "g-1", "g-0")]


def test_group_that_released_its_nodes_is_asked_about_with_its_cycle() -> None:
    """The plugin finds what it wrote as the nodes were taken, and the reason."""
    points = ("members_needed", "reserve", "permit", "post_filter")
    driver, faulty = faulty_driver(*points, unit=SchedulingUnit.GROUP, policy=PrioritySort())
    asked = list[tuple[str, str, float]]()

    def ask(cycle: CycleState, pod: Pod, reason: str, *, now: float) -> RejectGroup:
        assert isinstance(cycle, CycleState)
        asked.append((pod.name, reason, now))
        return RejectGroup(G, "full")

    faulty.answers = {
        "permit": only("g-1", Success(), Unschedulable("not yet")),
        "post_filter": ask,
    }
    driver.advance(2.0)
    driver.add(*members("g", 2))
    assert GroupRejected(G, 1, "full", 3.0) in decide(driver)
    assert asked == [("g-1", "not yet", 2.0)]


@BOTH
def test_gang_without_capacity_may_preempt_a_gang_that_waits_on_permit(
    unit: SchedulingUnit,
) -> None:
    driver, faulty = faulty_driver("permit", "post_filter", unit=unit)
    faulty.answers["permit"] = Wait(40.0)
    driver.add(*members("g", 2))
    driver.drain()
    assert len(driver.scheduler.waiting) == 2
    faulty.answers["post_filter"] = RejectGroup(G, "make room")
    driver.add(*members("h", 2, cpu=9))
    effects = decide(driver)
    assert GroupRejected(G, 1, "make room", 1.0) in effects
    assert PodRejected(PodUID("default/g-1"), NodeName("n"), "make room") in effects
