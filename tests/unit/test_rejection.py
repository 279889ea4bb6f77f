"""Unassuming nodes: the notices, the backoff, and the next entity."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import (
    ClusterState,
    Coscheduling,
    Event,
    Evict,
    EvictGroup,
    GroupKey,
    GroupRejected,
    GroupScheduled,
    NodeDeleted,
    NodeName,
    Pod,
    PodDeleted,
    PodRejected,
    PodUID,
    PodUnschedulable,
    PodWaiting,
    Profile,
    Scheduler,
    SchedulingUnit,
    Success,
    Unschedulable,
    Wait,
    WhenBlocked,
    presets,
)
from gangsched.errors import PluginError
from gangsched.explain import BackingOff, PartlyRunning
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.testing import make_pod
from support.driver import Driver, Fate
from support.faulty_driver import faulty_driver, told
from support.faulty_gang import only
from support.faulty_plugin import OOPS, FaultyPlugin
from support.gangs import decide, members, node, where

# Unassuming nodes: the notices, the backoff, and the next entity

G = GroupKey("default/g")


def asked_first(
    *points: str,
    unit: SchedulingUnit = SchedulingUnit.POD,
    when_blocked: WhenBlocked = WhenBlocked.UNTIL_OTHERS_TURN,
) -> tuple[Driver, FaultyPlugin]:
    """Return a driver and a faulty plugin that is asked before all others."""
    faulty = FaultyPlugin(*points)

    def make(cluster: ClusterState) -> Scheduler:
        policy = Coscheduling(when_blocked=when_blocked)
        profile = Profile(faulty, policy, NodeResources(), DefaultBinder())
        return Scheduler(cluster, profile, unit=unit)

    return Driver(make), faulty


def turn_down(*names: str) -> Any:
    """Return what a plugin does that says no to some pods."""

    def ask(*args: object, now: float) -> object:
        pod = next(each for each in args if isinstance(each, Pod))
        return Unschedulable("not yet") if pod.name in names else Success()

    return ask


# Notices --------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [PodDeleted(PodUID("default/g-0")), NodeDeleted(NodeName("n0"))])
def test_each_sibling_of_members_that_lose_their_nodes_is_told_once(loss: Event) -> None:
    """A deleted member leaves an incomplete group, a node takes two at once: one reason a pod."""
    driver = Driver(presets.coscheduling)
    driver.tell(node("n0", cpu=2), node("n1", cpu=1))
    driver.add(*members("g", 4, cpu=1))
    for _cycle in range(3):
        decide(driver)
    assert len(driver.effects(PodWaiting)) == 3
    before = len(driver.effects())
    driver.tell(loss)
    effects = driver.effects()[before:]
    heard = [effect.uid for effect in effects if isinstance(effect, PodUnschedulable)]
    assert heard
    assert sorted(heard) == sorted(set(heard))
    assert sum(isinstance(effect, GroupRejected) for effect in effects) == 1


def test_rejected_group_of_a_bundle_states_the_cause_and_frees_its_nodes() -> None:
    """Law 4, F59: a departure rejects the group; the other releases the larger node."""
    driver, faulty = asked_first("reserve", "unreserve", when_blocked=WhenBlocked.UNTIL_TIMEOUT)
    causes = list[str]()
    faulty.answers["unreserve"] = lambda _cycle, pod, _node, *, cause, now: causes.append(
        f"{pod.name} {cause}"
    )
    driver.tell(node("a", 2), node("b", 3))
    for number, cpu in enumerate((3, 2, 3)):
        driver.add(make_pod(f"g-{number}", group="g", min_available=3, cpu=cpu))
    driver.drain()
    assert len(driver.scheduler.waiting) == 2
    driver.add(make_pod("after", cpu=3))
    driver.drain()
    driver.delete("default/g-1")
    assert causes == ["g-1 deleted", "g-0 rejected"]
    told = [e for e in driver.log[-1].effects if isinstance(e, PodRejected)]
    reason = "pod g-1 was deleted: 1 of 3 members hold a node"
    assert PodRejected(PodUID("default/g-0"), NodeName("b"), reason) in told
    driver.settle()
    assert where(driver) == {"after": "b"}


def test_pod_that_lost_its_node_states_it_during_backoff() -> None:
    driver, faulty = asked_first("permit")
    faulty.answers["permit"] = Wait(9.0)
    driver.tell(node("n", 1))
    driver.add(make_pod("p"))
    driver.step()
    driver.tell(NodeDeleted(NodeName("n")))
    why = driver.scheduler.why(PodUID("default/p"))
    assert isinstance(why, BackingOff)
    assert why.reason == "node n is gone"


def test_evicted_group_ends_running_and_rejects_waiting_members() -> None:
    driver, faulty = asked_first("post_filter", "permit")
    driver.tell(node("n", 6))
    driver.add(*members("g", 2, cpu=2))
    driver.drain()
    faulty.answers["permit"] = Wait(10.0)
    driver.add(*members("g", 1, 2, prefix="late-", cpu=2))
    driver.drain()
    assert len(driver.scheduler.waiting) == 1
    faulty.answers["post_filter"] = EvictGroup(G, "make room")
    driver.add(make_pod("urgent", cpu=6, priority=9))
    driver.fate = Fate.PENDING  # whose end is asked for has not ended yet
    effects = decide(driver)
    assert [e.uid for e in effects if isinstance(e, Evict)] == ["default/g-0", "default/g-1"]
    told = [(e.uid, e.reason) for e in effects if isinstance(e, PodRejected)]
    assert told == [("default/g-late-0", "make room")]
    info: Any = driver.scheduler.registry.get(G)
    assert info.was_scheduled is False


# Backoff --------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", SchedulingUnit)
def test_member_refused_while_others_are_released_backs_off(unit: SchedulingUnit) -> None:
    """Law 5."""
    driver, faulty = asked_first("pre_bind", unit=unit)
    driver.tell(node("n", 6))
    driver.add(*members("g", 3, 2, cpu=2))
    asked, no = list[str](), turn_down("g-1")

    def ask(cycle: object, pod: Pod, node_name: object, *, now: float) -> object:
        asked.append(pod.name)
        return no(cycle, pod, node_name, now=now)

    faulty.answers["pre_bind"] = ask
    driver.drain()
    assert "g-1" not in where(driver)
    assert asked.count("g-1") == 1, "it is not tried again before it has rested"
    assert driver.scheduler.next_deadline() == 1.0
    faulty.answers.clear()
    driver.settle()
    assert (driver.now, len(where(driver))) == (1.0, 3)


# The next entity ------------------------------------------------------------------------------


def two_in_line(*points: str) -> tuple[Driver, FaultyPlugin]:
    """Return two equivalent gangs that failed alike, and are out of backoff."""
    driver, faulty = asked_first(*points)
    driver.add(*members("g", 2, cpu=1), *members("h", 2, cpu=1))
    driver.settle()
    driver.advance(60.0)
    assert not driver.step()
    return driver, faulty


def test_next_entity_is_tried_after_a_refused_group() -> None:
    driver, faulty = two_in_line("pre_filter")
    faulty.answers["pre_filter"] = turn_down("g-0", "g-1")
    driver.tell(node("n", 2))
    driver.drain()
    assert set(where(driver)) == {"h-0", "h-1"}


# Members that hold nodes: effects when they are assumed, wait, are released, or are refused


BOTH = pytest.mark.parametrize("unit", SchedulingUnit)


def until_it_has_come(name: str) -> Any:
    """Return a permit plugin that lets pods wait until it is asked about one of them."""
    come = list[str]()

    def permit(_state: object, pod: Pod, _node: str, *, now: float) -> Any:
        come.append(pod.name)
        return Success() if name in come else Wait(9.0)

    return permit


# Waiting --------------------------------------------------------------------------------------


def test_waiting_pod_states_node_deadline_and_missing_members() -> None:
    driver, faulty = faulty_driver("permit")
    faulty.answers["permit"] = Wait(9.0)
    driver.add(make_pod("p"), *members("g", 2, cpu=1))
    driver.drain()
    assert told(driver, PodWaiting) == [
        PodWaiting(PodUID("default/p"), NodeName("n"), 9.0, 0, 1, ("FaultyPlugin",)),
        PodWaiting(
            PodUID("default/g-0"), NodeName("n"), 9.0, 1, 1, ("FaultyPlugin", "Coscheduling")
        ),
        PodWaiting(PodUID("default/g-1"), NodeName("n"), 9.0, 0, 1, ("FaultyPlugin",)),
    ]


# Going ----------------------------------------------------------------------------------------


@BOTH
def test_group_that_starts_says_in_which_attempt_and_after_how_long(unit: SchedulingUnit) -> None:
    driver, _odd = faulty_driver(unit=unit)
    driver.advance(5.0)
    driver.add(*members("g", 2, cpu=4))
    driver.settle()
    (info,) = driver.scheduler.registry
    assert info.failures == 1
    driver.advance(driver.now + 7.0)
    driver.tell(node("m", 4))
    driver.drain()
    assert told(driver, GroupScheduled) == [GroupScheduled(G, 2, 2, driver.now - 5.0)]
    assert info.failures == 0


@BOTH
def test_member_refused_at_release_states_the_reason_and_is_unassumed(
    unit: SchedulingUnit,
) -> None:
    driver, faulty = faulty_driver("pre_bind", "reserve", "permit", unit=unit)
    given_back = list[tuple[str, str, float]]()

    def give_back(_cycle: object, pod: Pod, _node: str, *, cause: str, now: float) -> None:
        given_back.append((pod.name, cause, now))

    turn_down = only("g-1", Success(), Unschedulable("not this one"))
    faulty.answers = {"pre_bind": turn_down, "unreserve": give_back}
    if unit is SchedulingUnit.POD:
        # one more than needed is there when they go
        faulty.answers["permit"] = until_it_has_come("g-2")
    driver.advance(2.0)
    driver.add(*members("g", 3, 2, cpu=2))
    driver.drain()
    assert given_back == [("g-1", "refused", 2.0)]
    assert PodUnschedulable(PodUID("default/g-1"), "not this one") in told(driver, PodUnschedulable)
    why = driver.scheduler.why(PodUID("default/g-1"))
    assert isinstance(why, PartlyRunning)
    assert isinstance(why.rest, BackingOff)
    assert why.rest.reason == "not this one"


@BOTH
def test_late_member_without_capacity_rejects_no_gang(unit: SchedulingUnit) -> None:
    driver, _odd = faulty_driver(unit=unit)
    driver.add(*members("g", 2, cpu=3))
    driver.drain()
    driver.add(*members("g", 1, 2, prefix="late-", cpu=3))
    (effect,) = decide(driver)
    assert isinstance(effect, PodUnschedulable)
    assert effect.uid == "default/g-late-0"
    assert told(driver, GroupRejected) == []


@pytest.mark.parametrize("point", ["reserve", "permit", "pre_bind"])
def test_assumed_pod_that_is_refused_is_unassumed_with_a_reason(
    point: str,
) -> None:
    driver, faulty = faulty_driver("reserve", "permit", "pre_bind")
    given_back = list[tuple[str, float]]()
    faulty.answers["unreserve"] = lambda *_args, cause, now: given_back.append((cause, now))
    faulty.answers[point] = Unschedulable("not this one")
    driver.advance(2.0)
    driver.add(make_pod("p"))
    assert decide(driver) == (PodUnschedulable(PodUID("default/p"), "not this one"),)
    assert given_back == [("refused", 2.0)]


@BOTH
@pytest.mark.parametrize("point", ["permit", "pre_bind"])
def test_cycle_that_raises_unreserves_in_the_same_instant(point: str, unit: SchedulingUnit) -> None:
    driver, faulty = faulty_driver("reserve", "permit", "pre_bind", unit=unit)
    given_back = list[tuple[str, float]]()
    faulty.answers["unreserve"] = lambda *_args, cause, now: given_back.append((cause, now))
    faulty.answers[point] = OOPS
    driver.advance(2.0)
    driver.add(*members("g", 1))
    with pytest.raises(PluginError):
        driver.step()
    assert given_back == [("refused", 2.0)]
