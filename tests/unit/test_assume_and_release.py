"""Members that hold nodes: effects when they are assumed, wait, are released, or are refused."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    Coscheduling,
    CycleState,
    GroupIncomplete,
    GroupKey,
    GroupRejected,
    GroupScheduled,
    MatchPolicy,
    NodeName,
    Pod,
    PodGroupAdded,
    PodUID,
    PodUnschedulable,
    PodUpdated,
    PodWaiting,
    SchedulingUnit,
    Skip,
    Success,
    Topology,
    Unschedulable,
    Wait,
)
from gangsched.errors import PluginError
from gangsched.explain import BackingOff, PartlyRunning, Terminating
from gangsched.plugins import PrioritySort
from gangsched.testing import make_pod
from support.bundles import AB, pods, running, specs
from support.driver import Fate
from support.faulty_driver import faulty_driver, told
from support.faulty_gang import only
from support.faulty_plugin import OOPS
from support.gangs import decide, members, node, specify, where

G = GroupKey("default/g")
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


def test_waiting_pod_has_the_attempt_of_its_group_or_its_own() -> None:
    """The second of a group that held nothing in its first; the second of a pod that did."""
    driver, faulty = faulty_driver("permit")
    driver.add(*members("g", 2, cpu=7))
    driver.drain()
    driver.tell(node("m", 14))  # ends the backoff of the group
    faulty.answers["permit"] = lambda _state, pod, _node, *, now: Wait(
        9.0 if pod.name == "p" else 20.0
    )
    driver.add(make_pod("p"))
    driver.drain()
    driver.advance(9.0)
    driver.advance(10.0)
    driver.drain()
    assert {w.uid: w.attempt for w in driver.scheduler.waiting} == {
        "default/p": 2,
        "default/g-0": 2,
        "default/g-1": 2,
    }


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


def test_every_group_of_a_bundle_counts_its_attempts() -> None:
    driver, _odd = faulty_driver(unit=SchedulingUnit.GROUP)
    driver.tell(*specs(*AB))
    for _again in range(2):
        driver.add(*(pod for group in AB for pod in pods(group)))
        driver.drain()
        assert len(running(driver)) == 2
        driver.delete(*(pod.uid for group in AB for pod in pods(group)))
    attempts = [(each.group, each.attempt) for each in told(driver, GroupScheduled)]
    assert attempts == [("one/a", 1), ("two/b", 1), ("one/a", 2), ("two/b", 2)]


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
def test_remaining_group_without_a_quorum_is_not_admitted(unit: SchedulingUnit) -> None:
    policy = Coscheduling(match_policy=MatchPolicy.ONLY_WAITING)
    driver, _odd = faulty_driver(unit=unit, policy=policy, match=MatchPolicy.ONLY_WAITING)
    driver.fate = Fate.PENDING
    driver.add(*members("g", 4, 3, cpu=2))
    driver.drain()
    assert len(driver.under_way) == 3
    (call,) = [each for each in driver.log if any(isinstance(e, Bind) for e in each.effects)]
    assert GroupIncomplete(G, 1, 3) in call.effects
    reasons = {each.reason for each in told(driver, PodUnschedulable)}
    assert reasons == {f"pod group {G} is incomplete"}, "it was not tried in vain"
    (held,) = driver.scheduler.queue.unschedulable
    assert driver.scheduler.queue.is_gated(held)
    assert held.ready_count == 1


@BOTH
def test_remaining_group_is_checked_in_the_instant_in_which_others_leave(
    unit: SchedulingUnit,
) -> None:
    driver, faulty = faulty_driver("pre_enqueue", unit=unit)
    asked = list[tuple[str, str, float]]()

    def ask(pod: Pod, group: Any, *, now: float) -> Success:
        asked.append((pod.name, group.key, now))
        return Success()

    faulty.answers["pre_enqueue"] = ask
    driver.fate = Fate.PENDING
    driver.add(*members("g", 3, 2, cpu=3))
    driver.advance(2.0)
    asked.clear()
    while not driver.under_way:
        driver.step()
    assert asked == [("g-2", G, 2.0)]


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


def test_group_of_refused_members_is_rejected_with_the_first_reason() -> None:
    """No plugin says what becomes of it."""
    driver, faulty = faulty_driver("members_needed", "pre_filter", policy=PrioritySort())
    faulty.answers["pre_filter"] = Unschedulable("not today")
    driver.add(*members("g", 2))
    driver.drain()
    assert told(driver, GroupRejected) == [GroupRejected(G, 1, "not today", 1.0)]


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
def test_refusal_at_pre_bind_beside_a_running_quorum_is_reported_alone(
    unit: SchedulingUnit,
) -> None:
    """No member is released, so no release is reported."""
    match = MatchPolicy.WAITING_AND_RUNNING
    driver, faulty = faulty_driver(
        "pre_bind", unit=unit, policy=Coscheduling(match_policy=match), match=match
    )
    driver.add(*members("g", 3, 2, cpu=1))
    driver.drain()
    faulty.answers["pre_bind"] = Unschedulable("not today")
    driver.add(make_pod("g-late", group="g", min_available=2, cpu=1))
    assert decide(driver) == (PodUnschedulable(PodUID("default/g-late"), "not today"),)


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


@BOTH
def test_member_refused_before_score_is_asked_about_with_its_cycle(
    unit: SchedulingUnit,
) -> None:
    driver, faulty = faulty_driver("pre_score", "post_filter", unit=unit)
    asked = list[str]()

    def ask(cycle: CycleState, _pod: Pod, reason: str, *, now: float) -> Skip:
        assert isinstance(cycle, CycleState)
        asked.append(reason)
        return Skip()

    faulty.answers = {"pre_score": Unschedulable("not this one"), "post_filter": ask}
    driver.add(*members("g", 1))
    driver.step()
    assert asked == ["not this one"]


@BOTH
def test_terminating_pod_that_never_ran_keeps_its_reason(
    unit: SchedulingUnit,
) -> None:
    driver, _odd = faulty_driver(unit=unit)
    (pod,) = members("g", 1, cpu=9)
    driver.add(pod)
    (told_first, *_others) = decide(driver)
    assert isinstance(told_first, PodUnschedulable)
    driver.tell(PodUpdated(evolve(pod, deleted_at=0.0)))
    assert driver.scheduler.why(pod) == Terminating(told_first.reason)


@BOTH
def test_group_that_requests_more_than_exists_is_rejected_once_with_a_reason(
    unit: SchedulingUnit,
) -> None:
    driver, _odd = faulty_driver(unit=unit)
    driver.tell(PodGroupAdded(specify("g", 2, min_resources={"cpu": 9})))
    driver.add(*members("g", 2, cpu=1))
    reason = "resource gap: cpu=3"
    driver.settle()
    gap = [each.uid for each in told(driver, PodUnschedulable) if each.reason == reason]
    assert gap == ["default/g-0", "default/g-1"]
    assert [fallen.attempt for fallen in told(driver, GroupRejected)] == [1]


def test_capacity_of_an_unreserved_member_requeues_no_entity_that_failed_before() -> None:
    """Counted one by one all three would fit; no rack has the capacity."""
    driver, faulty = faulty_driver("permit", "pre_bind", unit=SchedulingUnit.POD)
    driver.tell(node("a", 2, rack="r1"), node("b", 2, rack="r2"))
    driver.tell(PodGroupAdded(specify("before", 3, Topology("rack"))))
    driver.add(*members("before", 3, cpu=1))
    driver.settle()
    before = [fallen.group for fallen in told(driver, GroupRejected)]
    assert before == ["default/before"]
    faulty.answers = {
        "permit": until_it_has_come("g-2"),
        "pre_bind": only("g-1", Success(), Unschedulable("not this one")),
    }
    driver.advance(60.0)
    driver.add(*members("g", 3, 2, cpu=2))
    driver.drain()
    assert len(where(driver)) == 2
    assert [fallen.group for fallen in told(driver, GroupRejected)] == before
