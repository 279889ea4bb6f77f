"""Law 5: no livelock, no starvation, no polling.

That decisions and deadlines without a fact are bounded is asserted by the driver in every test:
``Driver.drain`` and ``Driver.settle`` raise when there are more than eight for each pod and group.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    GroupRejected,
    Node,
    NodeAdded,
    NodeName,
    NodeUpdated,
    Pod,
    PodDeleted,
    PodUnschedulable,
    SchedulingUnit,
    Unschedulable,
    WhenBlocked,
)
from gangsched.testing import make_pod
from support.driver import Driver
from support.examples import one_in
from support.faulty_driver import faulty_driver
from support.faulty_plugin import FaultyPlugin
from support.gangs import members
from support.histories import Policy, histories, policies, steps
from support.history_steps import Catch, HistoryStep, PutNode, PutPods
from support.world import World


def node(cpu: int, name: str = "n") -> Node:
    return Node(name=NodeName(name), allocatable={"cpu": cpu})


def gang(name: str, size: int, *, cpu: int = 1, priority: int = 0) -> list[Pod]:
    return [
        make_pod(f"{name}-{n}", group=name, min_available=size, cpu=cpu, priority=priority)
        for n in range(size)
    ]


@one_in(2)
@given(
    policies.filter(lambda p: p.gangs),
    st.integers(0, 1),
    st.lists(st.integers(1, 4), min_size=1, max_size=12),
    st.randoms(use_true_random=False),
)
def test_one_impossible_group_never_blocks_the_others(
    policy: Policy, priority: int, sizes: list[int], draw: st.DataObject
) -> None:
    """F3: the impossible group may be older, or more urgent, than all the others."""
    driver = Driver(policy.make)
    driver.tell(NodeAdded(node(4)))
    driver.add(*gang("impossible", 9, priority=priority))
    waiting = {f"g{n}": gang(f"g{n}", size) for n, size in enumerate(sizes)}
    driver.add(*(pod for pods in waiting.values() for pod in pods))
    # running pods end when all is idle; in each round at least one gang must have started
    while waiting:
        driver.settle()
        started = [
            name
            for name, pods in waiting.items()
            if all((found := driver.cluster.pod(p.uid)) and found.node_name for p in pods)
        ]
        assert started, f"{list(waiting)} would fit, and none of them started"
        for name in started:
            driver.delete(*(pod.uid for pod in waiting.pop(name)))


@pytest.mark.parametrize("backlog", [5, 40])
def test_one_event_costs_one_try_per_equivalence_class(backlog: int) -> None:
    """F6, F7, KK#141577: capacity for one is added, and many equal ones wait for it."""
    driver = Driver(Policy().make)
    driver.tell(NodeAdded(node(1)))
    driver.add(*(make_pod(f"p{n}", cpu=1) for n in range(backlog)))
    driver.settle()
    (running,) = driver.cluster.pods_on(NodeName("n"))
    driver.decisions = 0
    driver.tell(PodDeleted(running.uid))
    driver.settle()
    # one that goes, one that fails for all that are like it, and looks at an empty queue
    assert driver.decisions <= 6


def test_node_too_small_for_every_pod_requeues_none() -> None:
    driver = Driver(Policy().make)
    driver.add(*gang("g", 3, cpu=2))
    driver.tell(NodeAdded(node(3)))
    driver.settle()
    driver.decisions = 0
    driver.tell(NodeAdded(node(1, "small")))
    driver.settle()
    driver.tell(NodeUpdated(node(3, "small")))  # capacity for two of three
    driver.settle()
    assert driver.decisions == 2, "a look at an empty queue each time, and nothing else"
    driver.tell(NodeAdded(node(2, "enough")))
    driver.settle()
    assert all(pod.node_name for pod in driver.cluster.pods())


@pytest.mark.pod_by_pod("the permit timeout")
@pytest.mark.parametrize("gangs", [2, 4])
def test_gangs_that_never_fit_do_not_hold_a_node_in_turn_for_ever(gangs: int) -> None:
    """The end of each wait frees the node for another gang, which holds it until its deadline."""
    driver = Driver(Policy(when_blocked=WhenBlocked.UNTIL_TIMEOUT).make)
    driver.tell(NodeAdded(node(1_000)))
    for number in range(gangs):
        large = make_pod(f"g{number}-0", group=f"g{number}", min_available=2, cpu=501 + number)
        driver.add(large, make_pod(f"g{number}-1", group=f"g{number}", min_available=2, cpu=501))
    driver.settle()
    assert list(driver.scheduler.waiting) == []


def impossible(world: World, group: int) -> World:
    """Add two members, each of which fits, but not both together: no bound can prove that."""
    return world.live(PutPods(group, 1, 2, cpu=2), PutPods(group, 1, 2, cpu=2, zone="a"))


def rejections(world: World) -> list[GroupRejected]:
    """Return the rejections of groups."""
    effects = (effect for told in world.driver.log for effect in told.effects)
    return [effect for effect in effects if isinstance(effect, GroupRejected)]


@pytest.mark.parametrize("when_blocked", list(WhenBlocked))
def test_rejected_groups_do_not_requeue_each_other_for_ever(when_blocked: WhenBlocked) -> None:
    """Released capacity was free when the other failed before it: no requeueing (F6, F9)."""
    world = Policy(when_blocked=when_blocked).world().live(PutNode(0, cpu=3))
    for group in range(4):
        impossible(world, group)
    world.finish()
    assert len(world.driver.scheduler.queue.unschedulable) == 4
    assert len(rejections(world)) <= 3 * 4


def refused(unit: SchedulingUnit) -> tuple[Driver, FaultyPlugin]:
    """Return a driver with a gang of two that fits, and the plugin that refuses both."""
    driver, faulty = faulty_driver("reserve", unit=unit)
    faulty.answers["reserve"] = Unschedulable("not today")
    driver.add(*members("g", 2, cpu=1))
    return driver, faulty


def rest(driver: Driver) -> None:
    """Let the gang be tried, and its backoff end."""
    driver.drain()
    until = driver.scheduler.next_deadline()
    assert until is not None
    driver.advance(until)


@pytest.mark.once("it decides by both units")
@pytest.mark.parametrize("unit", SchedulingUnit)
def test_backoff_doubles_up_to_the_maximum(unit: SchedulingUnit) -> None:
    """One end of a backoff, one try, one longer backoff: 1, 2, 4, 8, 10, 10 seconds."""
    driver, _faulty = refused(unit)
    for _turn in range(6):
        rest(driver)
    rests = [
        effect.retry_after - call.now
        for call in driver.log
        for effect in call.effects
        if isinstance(effect, GroupRejected)
    ]
    assert rests == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


@pytest.mark.once("it decides by both units")
@pytest.mark.parametrize("unit", SchedulingUnit)
def test_start_ends_the_row_of_failures(unit: SchedulingUnit) -> None:
    """A gang that is refused after it backs off as after a first failure."""
    driver, faulty = refused(unit)
    rest(driver)
    rest(driver)
    del faulty.answers["reserve"]
    driver.settle()
    assert len(driver.scheduler.queue) == 0
    faulty.answers["reserve"] = Unschedulable("not today")
    driver.add(make_pod("g-2", group="g", min_available=2, cpu=1))
    driver.drain()
    (late,) = driver.scheduler.queue.backoff
    assert (late.failures, late.backoff_until) == (1, driver.now + 1.0)


@one_in(4)
@given(policies, histories(chapters=4), steps)
def test_one_more_event_costs_a_few_decisions_per_pod_and_group(
    policy: Policy, history: list[HistoryStep], step: HistoryStep
) -> None:
    """From idle to idle: one try each, requeueing by a rejection, an empty poll per deadline."""
    world = policy.world().live(*history).finish()
    driver = world.driver
    world.do(Catch(late=False))
    driver.decisions = 0
    driver.log.clear()
    world.do(step)
    driver.settle()
    there = sum(1 for _pod in driver.cluster.pods()) + sum(1 for _ in driver.cluster.pod_groups())
    effects = driver.effects()
    failures = sum(isinstance(effect, PodUnschedulable) for effect in effects)
    falls = sum(isinstance(effect, GroupRejected) for effect in effects)
    assert driver.decisions <= 4 * there + 8
    assert failures <= 3 * there
    assert falls <= 3 * there
