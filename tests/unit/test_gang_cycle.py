"""The cycle of a whole gang: plugin calls, the blamed member, notices, and how plugins end it."""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeVar

import pytest

from gangsched import (
    Bind,
    ClusterState,
    Coscheduling,
    CycleState,
    Effect,
    EvictGroup,
    GroupKey,
    GroupRejected,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    Outcome,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodRejected,
    PodUID,
    PodUnschedulable,
    Profile,
    RejectGroup,
    Scheduler,
    SchedulingUnit,
    Skip,
    Success,
    Unschedulable,
    Wait,
    explain,
)
from gangsched.events import Evict
from gangsched.plugins import DefaultBinder, NodeResources, PrioritySort
from gangsched.protocols import GroupView
from gangsched.testing import make_pod
from support.bundles import AB, pods, running, specs, why
from support.driver import Driver
from support.faulty_driver import faulty_driver
from support.faulty_gang import only
from support.faulty_plugin import FaultyPlugin
from support.gangs import decide, members, node, unschedulable, where
from support.shown import nothing_is_assumed

# A whole gang in its cycle: plugin calls, the blamed member, and the notices

G = GroupKey("default/g")
BOTH = pytest.mark.parametrize("unit", SchedulingUnit)


# A whole gang ---------------------------------------------------------------------------------


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


# Plugins that end the cycle of a whole gang: its nodes are given back, and others lose nothing

T = TypeVar("T")


def with_plugin(plugin: FaultyPlugin) -> Driver:
    def make(cluster: ClusterState) -> Scheduler:
        profile = Profile(Coscheduling(), plugin, NodeResources(), DefaultBinder())
        return Scheduler(cluster, profile, unit=SchedulingUnit.GROUP)

    return Driver(make)


def told(driver: Driver, kind: type[T]) -> list[T]:
    """Return the effects of a kind."""
    found = [effect for call in driver.log for effect in call.effects]
    return [effect for effect in found if isinstance(effect, kind)]


def rejections(driver: Driver) -> list[tuple[str, str]]:
    """Return the group of each rejection, with the reason."""
    return [(each.group, each.reason) for each in told(driver, GroupRejected)]


def test_gang_that_does_not_fit_is_requeued_where_post_filter_evicts_another() -> None:
    plugin = FaultyPlugin("post_filter")
    driver = with_plugin(plugin)
    driver.tell(node("n", 2))
    driver.add(*members("other", 2, cpu=1))
    driver.settle()
    plugin.answers["post_filter"] = EvictGroup(GroupKey("default/other"), "g is worth more")
    driver.add(*members("g", 2, cpu=1))
    driver.drain()
    assert {each.uid for each in told(driver, Evict)} == {"default/other-0", "default/other-1"}
    assert ("default/other", "g is worth more") in rejections(driver)
    assert [group for group, _reason in rejections(driver)].count("default/g") == 1
    plugin.answers["post_filter"] = Skip()
    driver.settle()
    driver.advance(100.0)
    driver.settle()
    assert set(where(driver)) == {"g-0", "g-1"}


def test_why_of_a_group_of_a_bundle_that_a_plugin_holds_has_the_reason_of_the_plugin() -> None:
    plugin = FaultyPlugin("pre_enqueue")

    def hold(_pod: Pod, group: GroupView, *, now: float) -> Outcome:
        return Unschedulable(f"{group.key} is on hold") if group.key == "two/b" else Success()

    plugin.answers["pre_enqueue"] = hold
    driver = with_plugin(plugin)
    driver.tell(node("n", 4), *specs(*AB))
    driver.add(*(each for group in AB for each in pods(group)))
    driver.drain()
    assert running(driver) == {}
    assert why(driver, "two/b") == explain.NotAdmitted("two/b is on hold")
    assert "two/b is on hold" in str(why(driver, "one/a"))


@pytest.mark.parametrize("refused", AB)
def test_bundle_that_pre_bind_refuses_is_rejected_with_the_reason(refused: str) -> None:
    plugin = FaultyPlugin("pre_bind")

    def pre_bind(_state: object, pod: Pod, *_args: object, now: float) -> Outcome:
        mine = refused.startswith(f"{pod.namespace}/")
        return Unschedulable(f"{refused} has no volume") if mine else Success()

    plugin.answers["pre_bind"] = pre_bind
    driver = with_plugin(plugin)
    driver.tell(node("n", 4), *specs(*AB))
    driver.add(*(each for group in AB for each in pods(group)))
    driver.drain()
    assert running(driver) == {}
    assert nothing_is_assumed(driver.scheduler)
    assert f"{refused} has no volume" in str(why(driver, "one/a"))


# The cycle of a whole gang, at its seams


class Host:
    """A scheduler that decides about gangs, and its cluster."""

    def __init__(self, *plugins: object) -> None:
        self.cluster = InMemoryCluster()
        profile = Profile(Coscheduling(), *plugins, NodeResources(), DefaultBinder())
        self.scheduler = Scheduler(self.cluster, profile, unit=SchedulingUnit.GROUP)

    def tell(self, event: NodeAdded | PodAdded | PodGroupAdded) -> None:
        self.scheduler.handle(self.cluster.apply(event), now=0.0)

    def node(self, name: str, **offers: int) -> None:
        self.tell(NodeAdded(Node(name=NodeName(name), allocatable=offers)))

    def member(self, name: str, minimum: int | None = None, role: str = "", **asks: int) -> None:
        made = make_pod(name, group="g", min_available=minimum, role=role or None, requests=asks)
        self.tell(PodAdded(made))

    def decide(self, now: float = 0.0) -> tuple[Effect, ...]:
        effects = self.scheduler.schedule_one(now=now)
        self.scheduler._check()
        return effects or ()


def bound(effects: tuple[Effect, ...]) -> set[str]:
    return {effect.uid for effect in effects if isinstance(effect, Bind)}


def test_elastic_member_is_placed_where_the_minimum_needed_a_search() -> None:
    host = Host()
    host.node("small", cpu=4, memory=4)
    host.node("wide", cpu=8, memory=2)
    roles = {"server": 1, "worker": 1}
    host.tell(PodGroupAdded(PodGroup(name="g", min_available=2, roles=roles)))
    for number in range(2):
        host.member(f"w{number}", role="worker", cpu=1, memory=1)
    host.member("server", role="server", cpu=4, memory=4)
    assert bound(host.decide()) == {"default/w0", "default/w1", "default/server"}
