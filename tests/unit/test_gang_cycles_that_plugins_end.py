"""Plugins that end the cycle of a whole gang: its nodes are given back, and others lose nothing."""

from __future__ import annotations

from typing import TypeVar

import pytest

from gangsched import (
    ClusterState,
    Coscheduling,
    EvictGroup,
    GroupKey,
    GroupRejected,
    Outcome,
    PluginError,
    Pod,
    PodUnschedulable,
    Profile,
    Scheduler,
    SchedulingUnit,
    Skip,
    Success,
    Unschedulable,
    explain,
)
from gangsched.events import Evict
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.protocols import GroupView
from support.bundles import AB, key, pods, running, specs, why
from support.driver import Driver
from support.faulty_plugin import OOPS, FaultyPlugin
from support.gangs import members, node, where

T = TypeVar("T")

pytestmark = pytest.mark.once("schedules whole gangs")


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


def test_gang_that_permit_refuses_as_a_whole_gives_its_nodes_back() -> None:
    plugin, asked = FaultyPlugin("permit", group_wide=("permit",)), list[str]()

    def refuse(_state: object, pod: Pod, *_args: object, now: float) -> Outcome:
        asked.append(pod.name)
        return Unschedulable("no licence")

    plugin.answers["permit"] = refuse
    driver = with_plugin(plugin)
    driver.tell(node("n", 3))
    driver.add(*members("g", 3, cpu=1))
    driver.drain()
    assert asked == ["g-0"]
    assert [group for group, _reason in rejections(driver)] == ["default/g"]
    refused = {each.uid for each in told(driver, PodUnschedulable) if each.reason == "no licence"}
    assert "default/g-0" in refused
    state = driver.scheduler._state
    assert state.nodes.assumed == {}
    assert state.nodes.total()["cpu"] == 3000
    plugin.answers.clear()
    driver.advance(100.0)
    driver.settle()
    assert set(where(driver)) == {"g-0", "g-1", "g-2"}


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


@pytest.mark.parametrize("raising", ["a-0", "b-0", "b-1"])
def test_attempts_of_a_bundle_whose_cycle_is_broken_off_do_not_count(raising: str) -> None:
    plugin = FaultyPlugin("permit")

    def permit(_state: object, pod: Pod, *_args: object, now: float) -> Outcome:
        if pod.name == raising:
            raise OOPS
        return Success()

    plugin.answers["permit"] = permit
    driver = with_plugin(plugin)
    driver.tell(node("n", 4), *specs(*AB))
    driver.add(*(each for group in AB for each in pods(group)))
    state = driver.scheduler._state
    with pytest.raises(PluginError, match=f"permit for .*{raising}.*oops"):
        driver.scheduler.schedule_one(now=0.0)
    driver.scheduler._check()
    infos = [state.pods.registry.get(key(group)) for group in AB]
    assert [(i.attempts, i.attempt_started_at) for i in infos if i] == [(0, None)] * 2
    assert state.nodes.assumed == {}
    plugin.answers.clear()
    driver.advance(100.0)
    driver.settle()
    assert running(driver) == {"one/a": 2, "two/b": 2}
    assert [i.attempts for i in infos if i] == [1, 1]


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
    assert driver.scheduler._state.nodes.assumed == {}
    assert f"{refused} has no volume" in str(why(driver, "one/a"))


def test_bundle_that_a_plugin_holds_since_it_was_queued_is_not_tried() -> None:
    plugin = FaultyPlugin("pre_enqueue", "permit")
    driver = with_plugin(plugin)
    driver.tell(node("n", 4), *specs(*AB))
    driver.add(*(each for group in AB for each in pods(group)))
    plugin.answers["pre_enqueue"] = Unschedulable("on hold since noon")
    plugin.answers["permit"] = OOPS
    driver.drain()
    assert rejections(driver) == []
    assert why(driver, "one/a") == explain.NotAdmitted("on hold since noon")
    entity = driver.scheduler._state.pods.entities[key("one/a")]
    assert driver.scheduler._state.queue.is_gated(entity)
