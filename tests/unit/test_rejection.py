"""Unassuming nodes: the notices, the backoff, and the next entity."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import (
    ClusterState,
    Coscheduling,
    Evict,
    EvictGroup,
    GroupKey,
    HoldGroup,
    NodeDeleted,
    NodeName,
    Pod,
    PodGroup,
    PodGroupAdded,
    PodRejected,
    PodUID,
    PodUnschedulable,
    Profile,
    RejectGroup,
    Scheduler,
    SchedulingUnit,
    Success,
    Topology,
    Unschedulable,
    Wait,
    WhenBlocked,
)
from gangsched.explain import BackingOff
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.testing import make_pod
from support.driver import Driver, Fate
from support.faulty_plugin import FaultyPlugin
from support.gangs import decide, gang_driver, members, node, specify, where

G = GroupKey("default/g")
RACK = Topology("rack")


def faulty_driver(
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


def attempts(driver: Driver, group: str) -> int:
    info: Any = driver.scheduler._state.pods.registry.get(GroupKey(f"default/{group}"))
    return int(info.attempts)


# Notices --------------------------------------------------------------------------------------


def test_rejected_group_of_a_bundle_states_the_cause_and_frees_its_nodes() -> None:
    """Law 4, F59: a departure rejects the group; the other releases the larger node."""
    driver, faulty = faulty_driver("reserve", "unreserve", when_blocked=WhenBlocked.UNTIL_TIMEOUT)
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
    reason = "pod g-1 was deleted: 2 of 3 members held a node"
    assert PodRejected(PodUID("default/g-0"), NodeName("b"), reason) in told
    driver.settle()
    assert where(driver) == {"after": "b"}


def test_pod_that_lost_its_node_states_it_during_backoff() -> None:
    driver, faulty = faulty_driver("permit")
    faulty.answers["permit"] = Wait(9.0)
    driver.tell(node("n", 1))
    driver.add(make_pod("p"))
    driver.step()
    driver.tell(NodeDeleted(NodeName("n")))
    why = driver.scheduler.why(PodUID("default/p"))
    assert isinstance(why, BackingOff)
    assert why.reason == "node n is gone"


@pytest.mark.parametrize("verdict", [RejectGroup, HoldGroup, EvictGroup])
def test_verdict_on_a_group_that_has_no_members_is_a_no_and_nothing_else(verdict: Any) -> None:
    driver, faulty = faulty_driver("post_filter")
    driver.tell(PodGroupAdded(PodGroup(name="g", min_available=1)))
    driver.add(make_pod("p", cpu=1))
    faulty.answers["post_filter"] = verdict(G, "make room")
    (told,) = decide(driver)
    assert isinstance(told, PodUnschedulable)
    assert told.uid == "default/p"


def test_evicted_group_ends_running_and_rejects_waiting_members() -> None:
    driver, faulty = faulty_driver("post_filter", "permit")
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
    info: Any = driver.scheduler._state.pods.registry.get(G)
    assert info.was_scheduled is False


# Backoff --------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", SchedulingUnit)
def test_member_refused_while_others_are_released_backs_off(unit: SchedulingUnit) -> None:
    """Law 5."""
    driver, faulty = faulty_driver("pre_bind", unit=unit)
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


def test_bind_that_fails_before_all_members_are_tried_puts_the_gang_in_backoff() -> None:
    driver, _odd = faulty_driver("permit")
    driver.fate = Fate.PENDING
    driver.tell(node("n", 3))
    driver.add(*members("g", 2, cpu=1))
    driver.drain()
    driver.add(*members("g", 1, 2, prefix="late-", cpu=1))
    driver.report(driver.under_way[0], Fate.FAILED)
    assert not driver.step()
    driver.fate = Fate.DONE
    driver.settle()
    assert set(where(driver)) == {"g-0", "g-late-0"}


# The next entity ------------------------------------------------------------------------------


def two_in_line(*points: str) -> tuple[Driver, FaultyPlugin]:
    """Return two equivalent gangs that failed alike, and are out of backoff."""
    driver, faulty = faulty_driver(*points)
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


def test_next_entity_is_tried_after_a_group_that_waits_for_a_refused_one() -> None:
    """No event is known to help the third, so the group has an equivalence queue of its own."""
    driver, faulty = faulty_driver("pre_filter", when_blocked=WhenBlocked.UNTIL_OTHERS_TURN)
    driver.add(*members("g", 3, cpu=1), *members("h", 3, cpu=1))
    driver.settle()
    driver.advance(60.0)
    faulty.answers["pre_filter"] = turn_down("g-2")
    driver.tell(node("n", 3))
    for number in range(3):
        assert [w.uid for w in driver.scheduler.waiting] == [
            f"default/g-{n}" for n in range(number)
        ]
        driver.step()
    head = driver.scheduler.queue.head()
    assert head is not None
    assert head.pod.name == "h-0"
    driver.drain()
    assert set(where(driver)) == {"h-0", "h-1", "h-2"}


def test_next_entity_is_tried_after_a_group_that_is_not_admitted() -> None:
    driver, _odd = two_in_line("permit")
    driver.tell(node("n", 2))
    driver.delete("default/g-0")
    driver.drain()
    assert set(where(driver)) == {"h-0", "h-1"}


def test_next_entity_is_tried_after_a_member_that_is_not_admitted_any_more() -> None:
    driver, faulty = faulty_driver("pre_enqueue", "pre_filter")
    driver.tell(node("n", 2))
    driver.add(*members("g", 1, cpu=1), *members("h", 1, cpu=1))
    driver.drain()
    driver.add(*(pod for name in "gh" for pod in members(name, 1, prefix="late-", cpu=9)))
    driver.settle()
    driver.advance(60.0)
    driver.tell(node("m", 9))
    faulty.answers = dict.fromkeys(("pre_enqueue", "pre_filter"), turn_down("g-late-0"))
    driver.drain()
    assert where(driver)["h-late-0"] == "m"


def test_equal_entity_is_not_tried_in_vain_after_a_failure() -> None:
    """Law 5: counted one by one all fit, and only a try can prove that they do not."""
    driver = gang_driver(node("a", 2, rack="r1"), node("b", 1, rack="r2"))
    for name in "gh":
        driver.tell(PodGroupAdded(specify(name, 3, RACK)))
        driver.add(*members(name, 3, cpu=1))
    driver.settle()
    driver.advance(60.0)
    before = [attempts(driver, name) for name in "gh"]
    driver.tell(node("b", 2, rack="r2"))
    driver.settle()
    assert [attempts(driver, name) for name in "gh"] == [before[0] + 1, before[1]]
