"""Whole gangs: in each call as many members go as are needed, or nothing is taken."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    Coscheduling,
    GroupRejected,
    GroupScheduled,
    InMemoryCluster,
    Outcome,
    Pod,
    PodAdded,
    PodUnschedulable,
    PodWaiting,
    Profile,
    Scheduler,
    SchedulingUnit,
    Success,
    Unschedulable,
)
from gangsched.plugins import DefaultBinder
from gangsched.protocols import CycleView, NodeView
from gangsched.testing import make_pod
from support.busy import NOW, tell
from support.examples import one_in
from support.gangs import binds, decide, gang_driver, members, node, place, where
from support.histories import Policy, histories, policies
from support.history_steps import Decide, HistoryStep, PutNode, PutPods
from support.shown import nothing_is_assumed, shown
from support.world import World

pytestmark = pytest.mark.once("says itself which unit it is about")
wholes = policies.filter(lambda p: p.gangs).map(lambda p: evolve(p, unit=SchedulingUnit.GROUP))


def nothing_is_held_that_is_not_let_go(world: World) -> None:
    assert list(world.driver.scheduler.waiting) == []
    let_go = {
        effect.uid
        for told in world.driver.log
        for effect in told.effects
        if isinstance(effect, Bind)
    }
    assert shown(world.driver.scheduler).assumed.keys() <= let_go


@one_in(4)
@given(wholes, histories())
def test_no_member_waits_in_any_history(policy: Policy, steps: list[HistoryStep]) -> None:
    """Law 1: nothing is reserved, assumed or waiting but what is being bound."""
    world = policy.world()
    for step in steps:
        world.do(step)
        nothing_is_held_that_is_not_let_go(world)
    said = [effect for told in world.finish().driver.log for effect in told.effects]
    assert not [effect for effect in said if isinstance(effect, PodWaiting)]
    nothing_is_held_that_is_not_let_go(world)


@one_in(2)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), st.integers(1, 6), st.integers(0, 4))
def test_gang_of_equal_members_starts_exactly_where_its_minimum_fits(
    rooms: list[int], minimum: int, spare: int
) -> None:
    """And with as many more as fit."""
    driver = gang_driver(*(node(f"n{n}", cpu) for n, cpu in enumerate(rooms)))
    placed = place(driver, *members("g", minimum + spare, minimum, cpu=1))
    room = sum(rooms)
    assert len(placed) == (min(room, minimum + spare) if room >= minimum else 0)
    assert nothing_is_assumed(driver.scheduler)


@one_in(2)
@given(st.permutations(["need"] * 3 + ["more"] * 2), st.integers(0, 9))
def test_members_beyond_the_minimum_never_cost_the_minimum(order: list[str], cpu: int) -> None:
    """In any order of arrival, three small members go to the nodes where three fit."""
    driver = gang_driver(node("n", cpu))
    small, large = members("g", 3, 3, cpu=1), members("g", 2, 3, prefix="large-", cpu=2)
    pods = [small.pop() if each == "need" else large.pop() for each in order]
    placed = place(driver, *pods)
    assert bool(placed) is (cpu >= 3)
    assert not placed or len(placed) >= 3


def test_late_member_of_a_started_gang_is_scheduled_alone_at_once() -> None:
    driver = gang_driver(node("n", 4))
    assert len(place(driver, *members("g", 2, cpu=1))) == 2
    driver.add(*members("g", 1, 2, prefix="late-", cpu=1))
    effects = decide(driver)
    assert binds(effects) == {"g-late-0": "n"}
    assert not [e for e in effects if isinstance(e, GroupScheduled)]


def test_late_member_joins_when_capacity_is_added() -> None:
    driver = gang_driver(node("n", 2))
    assert len(place(driver, *members("g", 3, 2, cpu=1))) == 2
    driver.settle()
    driver.tell(node("m", 1))
    driver.settle()
    assert len(where(driver)) == 3


def test_failed_attempt_has_one_reason_and_no_backoff() -> None:
    """However many members there are, of however many kinds."""
    driver = gang_driver(node("n", 4))
    driver.add(*members("g", 4, 7, cpu=1), *members("g", 3, 7, prefix="large-", cpu=2))
    effects = decide(driver)
    blamed = [e for e in effects if isinstance(e, PodUnschedulable)]
    (fall,) = (e for e in effects if isinstance(e, GroupRejected))
    assert {e.reason for e in blamed} == {fall.reason}, "one for all members"
    assert (len(blamed), len(effects)) == (7, 8)
    assert fall.reason == "at most 4 of 7 members fit: cpu is short"
    assert (fall.attempt, fall.retry_after) == (1, 0.0), "no time helps it"
    assert not driver.step()
    assert driver.scheduler.next_deadline() is None, "only a fact can help it"


sizes = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), min_size=1, max_size=5)


@one_in(2)
@given(sizes, st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_both_units_start_the_same_gangs_of_equal_members(
    gangs: list[tuple[int, int]], rooms: list[int]
) -> None:
    """Groups that arrive one after the other, and constant capacity."""
    started = {}
    for unit in SchedulingUnit:
        world = Policy(unit=unit).world().live(*(PutNode(n, cpu=c) for n, c in enumerate(rooms)))
        for group, (minimum, spare) in enumerate(gangs):
            world.live(PutPods(group, minimum + spare, minimum), Decide())
        world.finish()
        started[unit] = where(world.driver)
    assert started[SchedulingUnit.POD] == started[SchedulingUnit.GROUP]


class Spare:
    """Lets pods onto nodes that have two processors left, whatever they ask for."""

    name = "Spare"

    def filter(self, _state: CycleView, _pod: Pod, node: NodeView) -> Outcome:
        return Success() if node.free.get("cpu", 0) >= 2000 else Unschedulable("busy")

    def pod_signature(self, _pod: Pod) -> str:
        return "alike"

    def node_signature(self, node: NodeView) -> int:
        return node.free.get("cpu", 0)


def placed(*cpus: int) -> dict[str, str]:
    """Return the node of each member of a gang that needs all its members."""
    cluster = InMemoryCluster()
    profile = Profile(Coscheduling(permit_timeout=50.0), Spare(), DefaultBinder())
    scheduler = Scheduler(cluster, profile, unit=SchedulingUnit.GROUP)
    tell(cluster, scheduler, node("n", 4), now=NOW)
    for number, cpu in enumerate(cpus):
        pod = make_pod(f"w-{number}", group="w", min_available=len(cpus), cpu=cpu)
        tell(cluster, scheduler, PodAdded(pod), now=NOW)
    effects = scheduler.schedule_one(now=NOW) or ()
    scheduler._check()
    return {effect.uid: effect.node for effect in effects if isinstance(effect, Bind)}


def test_members_are_placed_by_their_own_requests() -> None:
    assert placed(1, 1, 2) == {f"default/w-{number}": "n" for number in range(3)}
    assert placed(1, 1, 1, 1) == {}, "after the third nobody is let onto the node"
