"""Requeueing, one rule at a time: which entities an event helps, and which tries are useless."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Backfill,
    ClusterState,
    Coscheduling,
    GroupKey,
    NodeName,
    PodGroup,
    PodGroupAdded,
    PodUID,
    PodUnschedulable,
    PodUpdated,
    Profile,
    RejectGroup,
    Scheduler,
    Success,
    Topology,
    Unschedulable,
    WhenBlocked,
)
from gangsched.framework.queueing import equivalence, requeue
from gangsched.framework.queueing.node_change import NodeChange
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.testing import make_pod
from support.driver import Driver
from support.faulty_gang import only
from support.faulty_plugin import FaultyPlugin
from support.gangs import gang_driver, members, node, place, specify, where
from support.preemption_host import blocked

RACK = Topology("rack")


def key(group: str) -> GroupKey:
    return GroupKey(f"default/{group}")


def attempts(driver: Driver, group: str) -> int:
    info: Any = driver.scheduler._state.pods.registry.get(key(group))
    return int(info.attempts)


def may_fit(driver: Driver, group: str, *names: str) -> bool:
    """Say whether a group may be placed, and if names are given, whether these nodes matter."""
    state = driver.scheduler._state
    shape = equivalence.class_of(
        state.settings, state.nodes, state.pods, state.call, state.pods.entities[key(group)]
    )
    changed = [NodeName(name) for name in names]
    change = NodeChange(state.settings, state.nodes, changed, 0.0) if changed else None
    return requeue.may_fit(state, shape, now=0.0, change=change)


def patient(*points: str) -> tuple[Driver, FaultyPlugin]:
    """Return a driver whose gangs hold nodes until their time is over, and a faulty plugin."""
    faulty = FaultyPlugin(*points)

    def make(cluster: ClusterState) -> Scheduler:
        policy = Coscheduling(when_blocked=WhenBlocked.UNTIL_TIMEOUT)
        return Scheduler(cluster, Profile(faulty, policy, NodeResources(), DefaultBinder()))

    return Driver(make), faulty


def turn_down(name: str) -> Any:
    """Return what a plugin does that says no to one pod."""
    return only(name, Success(), Unschedulable("not yet"))


def is_awake(driver: Driver, uid: str) -> bool:
    entity = driver.scheduler._state.pods.members[PodUID(uid)].entity
    return entity in driver.scheduler.queue.active


# Whether it may fit ---------------------------------------------------------------------------


def test_no_more_pods_of_a_class_count_than_exist() -> None:
    """Many of one class fit, and too few of the other."""
    driver = Driver()
    driver.tell(node("cpu", 9), node("gpu", 0, 1))
    driver.add(*members("g", 1, 3, cpu=1), *members("g", 2, 3, prefix="gpu-", gpu=1))
    assert not may_fit(driver, "g")
    driver.tell(node("gpu", 0, 2))
    assert may_fit(driver, "g")


def test_node_that_takes_no_member_may_complete_the_min_resources_of_a_group() -> None:
    driver = Driver()
    driver.tell(
        node("n", 4), PodGroupAdded(specify("g", 2, min_resources={"cpu": 5})), node("other", 0)
    )
    driver.add(*members("g", 2, cpu=2))
    assert not may_fit(driver, "g", "other")
    driver.tell(node("other", 1))
    assert may_fit(driver, "g", "other")
    driver.drain()
    assert len(where(driver)) == 2


def test_node_that_takes_no_member_requeues_no_gang() -> None:
    """Counted one by one all fit, as before."""
    driver = gang_driver(node("a", 2, rack="r1"), node("b", 2, rack="r2"))
    place(driver, *members("g", 3, cpu=1), spec=specify("g", 3, RACK))
    driver.settle()
    driver.advance(60.0)
    assert attempts(driver, "g") == 1
    driver.tell(node("c", 0, rack="r1"))
    assert not driver.step()
    driver.tell(node("c", 1, rack="r1"))
    driver.drain()
    assert len(where(driver)) == 3


def test_members_of_other_roles_count_only_for_the_total_while_a_role_lacks_some() -> None:
    driver = Driver()
    driver.tell(node("cpu", 2), node("gpu", 0, 0))
    driver.tell(PodGroupAdded(PodGroup(name="g", min_available=2, roles={"ps": 1})))
    driver.add(
        *(make_pod(f"w{n}", group="g", cpu=1) for n in range(2)),
        make_pod("ps", group="g", role="ps", gpu=1),
    )
    assert not may_fit(driver, "g")
    driver.tell(node("gpu", 0, 1))
    assert may_fit(driver, "g")


# Nodes that a rejected group releases ---------------------------------------------------------


def test_released_capacity_helps_an_entity_that_failed_while_it_was_held() -> None:
    """Law 4: in any order of the failed entities."""
    driver, _odd = patient("permit")
    driver.tell(node("n", 4))
    driver.add(make_pod("before", cpu=9))
    driver.settle()
    driver.add(*members("falls", 3, cpu=2))
    driver.drain()
    assert len(driver.scheduler.waiting) == 2
    driver.add(make_pod("after", cpu=3))
    driver.drain()
    assert where(driver) == {}
    driver.advance(10.0)
    assert is_awake(driver, "default/after")
    assert not is_awake(driver, "default/before")
    driver.drain()
    assert where(driver) == {"after": "n"}


def test_released_capacity_requeues_no_entity_that_failed_before_it_was_taken() -> None:
    """Counted one by one all three would fit; no rack has the capacity."""
    driver, _odd = patient("permit")
    driver.tell(node("a", 2, rack="r1"), node("b", 2, rack="r2"))
    place(driver, *members("before", 3, cpu=1), spec=specify("before", 3, RACK))
    driver.settle()
    driver.advance(60.0)
    driver.add(*members("falls", 3, cpu=2))
    driver.drain()
    assert len(driver.scheduler.waiting) == 2
    driver.settle()
    assert list(driver.scheduler.waiting) == []
    assert attempts(driver, "before") == 1


def test_capacity_taken_in_the_last_step_helps_entities_that_failed_for_it() -> None:
    """Law 4: no step intervenes where one group is rejected by the clock and one holds on."""
    driver, faulty = patient("pre_filter")
    faulty.answers["pre_filter"] = turn_down("first-2")
    driver.tell(node("n", 6))
    driver.add(*members("first", 3, 3, cpu=2), *members("first", 1, 3, prefix="x", cpu=9))
    driver.drain()
    driver.add(*members("first", 1, 3, prefix="late-", cpu=9))
    driver.drain()
    assert len(driver.scheduler.waiting) == 2
    driver.advance(5.0)
    driver.add(*members("second", 1, 2, cpu=1), *members("second", 1, 2, prefix="x", cpu=9))
    driver.step()
    assert len(driver.scheduler.waiting) == 3
    driver.advance(10.0)
    faulty.answers.clear()
    driver.drain()
    assert [waiting.uid for waiting in driver.scheduler.waiting] == ["default/second-0"]
    assert driver.settle() > 0
    assert set(where(driver)) == {"first-0", "first-1", "first-2"}
    assert driver.now == 15.0


@pytest.mark.parametrize("is_proven", [True, False])
def test_equal_entity_is_requeued_unless_it_is_known_to_fail(
    is_proven: bool,
) -> None:
    """Law 4: a member that a plugin refuses proves nothing about the others."""
    driver, faulty = patient("pre_filter")
    driver.tell(node("n", 6))
    place(driver, make_pod("runs", cpu=2))
    if not is_proven:
        faulty.answers["pre_filter"] = turn_down("falls-2")
    driver.add(*members("falls", 3, cpu=2))
    driver.drain()
    assert len(driver.scheduler.waiting) == 2
    driver.add(*members("like", 3, cpu=2))
    driver.drain()
    if not is_proven:
        driver.delete("default/runs")
        driver.drain()
    assert attempts(driver, "like") == 1
    driver.advance(10.0)
    assert is_awake(driver, "default/like-0") is not is_proven
    driver.drain()
    assert len(where(driver)) == (1 if is_proven else 3)


# Events in the middle of a try ----------------------------------------------------------------


def reject_in_the_middle(large: int) -> Driver:
    """Let a plugin end the attempt of a gang after its first member was tried."""
    faulty = FaultyPlugin("post_filter")

    def make(cluster: ClusterState) -> Scheduler:
        return Scheduler(cluster, Profile(faulty, Coscheduling(), NodeResources(), DefaultBinder()))

    driver = Driver(make)
    driver.tell(node("n", 4))
    cpus = [9] * large + [1] * (3 - large)
    driver.add(
        *(make_pod(f"g-{n}", group="g", min_available=2, cpu=cpu) for n, cpu in enumerate(cpus))
    )
    driver.step()
    faulty.answers["post_filter"] = RejectGroup(key("g"), "make room")
    driver.add(make_pod("urgent", cpu=9, priority=9))
    driver.step()
    faulty.answers.clear()
    assert attempts(driver, "g") == 1
    driver.settle()
    return driver


def test_interrupted_gang_is_tried_again_though_one_member_fits_nowhere() -> None:
    """Law 4: the others would have been enough."""
    assert where(reject_in_the_middle(large=1)) == {"g-1": "n", "g-2": "n"}


def test_interrupted_gang_is_not_retried_where_too_few_members_fit() -> None:
    """Law 5."""
    driver = reject_in_the_middle(large=2)
    assert attempts(driver, "g") == 1


def test_preemptor_is_not_tried_again_where_its_victims_do_not_help() -> None:
    """Law 5."""
    driver, faulty = patient("post_filter")
    driver.tell(node("n", 4))
    driver.add(*members("falls", 3, cpu=2))
    driver.drain()
    assert len(driver.scheduler.waiting) == 2
    faulty.answers["post_filter"] = RejectGroup(key("falls"), "make room")
    driver.add(make_pod("urgent", cpu=9, priority=9))
    driver.step()
    faulty.answers.clear()
    assert list(driver.scheduler.waiting) == []
    driver.settle()
    told = [e for t in driver.log for e in t.effects if isinstance(e, PodUnschedulable)]
    assert [e.uid for e in told].count(PodUID("default/urgent")) == 1


# Those that hold nodes ------------------------------------------------------------------------


def test_gang_that_holds_nodes_is_not_tried_for_a_node_that_takes_none_of_it() -> None:
    driver, _odd = patient("permit")
    driver.tell(node("n", 4))
    driver.add(*members("g", 3, cpu=2))
    driver.drain()
    assert len(driver.scheduler.waiting) == 2
    driver.tell(node("m", 1))
    assert not driver.step()
    driver.tell(node("m", 2))
    driver.drain()
    assert len(where(driver)) == 3


def test_waiting_gang_is_not_tried_again_for_an_event_that_does_not_help() -> None:
    """A member joins while the round of the others is under way."""
    driver, _odd = patient("permit")
    driver.tell(node("n", 4))
    driver.add(*members("g", 4, 3, cpu=2))
    for _turn in range(3):
        driver.step()
    assert len(driver.scheduler.waiting) == 2
    driver.add(*members("g", 1, 3, prefix="late-", cpu=2))
    assert driver.drain() == 2
    assert not driver.step()
    driver.tell(node("m", 2))
    driver.drain()
    assert len(where(driver)) == 3


def test_refused_gangs_that_hold_nodes_are_requeued_independently() -> None:
    """Any event may help any of them: no two are equivalent."""
    driver, faulty = patient("pre_filter")
    faulty.answers["pre_filter"] = lambda _cycle, pod, *, now: (
        Unschedulable("not yet") if pod.name.endswith("1") else turn_down("")(pod)
    )
    driver.tell(node("n", 2))
    driver.add(*members("g", 2, cpu=1), *members("h", 2, cpu=1))
    driver.drain()
    assert len(driver.scheduler.waiting) == 2
    driver.tell(node("m", 2))
    assert is_awake(driver, "default/g-1")
    assert is_awake(driver, "default/h-1")


def test_next_entity_is_tried_when_the_leader_is_assumed() -> None:
    """The first is refused afterwards, which proves nothing about the other."""
    driver, faulty = patient("pre_filter")
    driver.tell(node("n", 0))
    driver.add(*members("g", 2, cpu=1), *members("h", 2, cpu=1))
    driver.settle()
    driver.advance(60.0)
    faulty.answers["pre_filter"] = turn_down("g-1")
    driver.tell(node("n", 1), node("m", 2))
    driver.drain()
    assert set(where(driver)) == {"h-0", "h-1"}


def test_failed_gang_is_not_retried_for_a_change_that_no_filter_reads() -> None:
    driver = gang_driver(node("n", 1))
    first, second = members("g", 2, cpu=1)
    driver.add(first, second)
    driver.settle()
    tried = attempts(driver, "g")
    driver.tell(PodUpdated(evolve(first, annotations={"told": "again"})))
    assert not is_awake(driver, "default/g-0")
    driver.settle()
    assert attempts(driver, "g") == tried


# Reachable victims ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("priority", "displaces", "reaches"),
    [(0, True, False), (1, True, True), (5, False, False), (6, False, True)],
)
def test_only_a_lower_priority_is_preempted(priority: int, displaces: bool, reaches: bool) -> None:
    """Pods of priority 0 run, and yield to a preemptor; capacity is reserved for 5."""
    state = blocked().scheduler._state
    assert [kept.priority for kept in state.reservations.nominations.values()] == [5]
    assert (
        requeue.may_preempt_others(state.pods, state.reservations, priority, displaces) is reaches
    )


# Candidates for a reservation -----------------------------------------------------------------


def test_failed_preemptors_are_retried_for_capacity_they_were_denied() -> None:
    state = gang_driver(node("a", 1), backfill=Backfill()).scheduler._state
    state.reservations.backfill.failed.update({"before": 4, "since": 5, "same": 6})
    requeue.gain(state, [NodeName("a")], now=0.0, since=5, disproved="same")
    assert state.reservations.backfill.failed == {"before": 4, "same": 6}
    requeue.gain(state, [NodeName("a")], now=0.0)
    assert state.reservations.backfill.failed == {}
