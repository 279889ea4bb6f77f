"""Preemption: which pods are evicted, for which pods, and where those are placed.

See ``support.preemption_laws`` for what the oracle demands of every nomination.
"""

from __future__ import annotations

from typing import TypeVar

import pytest
from attrs import evolve, frozen
from hypothesis import assume, example, given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    ClusterState,
    Effect,
    Evict,
    NodeName,
    Nominated,
    Pod,
    PodAdded,
    PodDeleted,
    PodUID,
    Preemption,
    Scheduler,
    SchedulingUnit,
)
from support.driver import Driver, Fate
from support.examples import one_in
from support.final_checks import no_startable_pod_is_parked
from support.gangs import members, node, where
from support.histories import Policy
from support.history_steps import ChangePod, Decide, PutGroup, PutNode, PutPods, Restart
from support.units import coscheduling

GRACE = 30.0
T = TypeVar("T")


def preempting(cluster: ClusterState) -> Scheduler:
    return coscheduling(cluster, preemption=Preemption(grace=GRACE))


def driver_of(*cpus: int) -> Driver:
    driver = Driver(preempting)
    driver.tell(*[node(f"n{n}", cpu=cpu) for n, cpu in enumerate(cpus)])
    return driver


def gang(
    name: str, count: int, minimum: int | None = None, *, priority: int, cpu: int = 1
) -> list[Pod]:
    return [evolve(pod, priority=priority) for pod in members(name, count, minimum, cpu=cpu)]


def told(driver: Driver, kind: type[T], since: int = 0) -> list[T]:
    effects: list[Effect] = [e for each in driver.log[since:] for e in each.effects]
    return [effect for effect in effects if isinstance(effect, kind)]


def blocked(low: int = 0, *, fate: Fate = Fate.PENDING) -> Driver:
    """Return a driver where a gang of 3 and priority 5 came to nodes that are taken by others."""
    driver = driver_of(2, 2)
    driver.add(*gang("low", 4, priority=low))
    driver.settle()
    driver.fate = fate
    driver.add(*gang("high", 3, priority=5))
    driver.drain()
    return driver


# Victims --------------------------------------------------------------------------------------


@frozen
class Rival:
    """A gang that runs: its members, its minimum, its priority, and what each asks for."""

    count: int
    spare: int
    priority: int
    cpu: int


_rivals = st.builds(
    Rival, st.integers(1, 4), st.integers(0, 2), st.integers(0, 3), st.integers(1, 2)
)


def free_without(driver: Driver, gone: set[PodUID]) -> dict[NodeName, int]:
    free = {n.name: n.allocatable.amount("cpu") // 1000 for n in driver.cluster.nodes()}
    for pod in driver.cluster.pods():
        if pod.node_name is not None and pod.uid not in gone:
            free[pod.node_name] -= pod.requests.amount("cpu") // 1000
    return free


@one_in(2)
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
    st.lists(_rivals, min_size=1, max_size=4),
    st.integers(1, 5),
    st.integers(1, 2),
)
def test_every_victim_is_needed_and_the_highest_is_as_low_as_possible(
    cpus: list[int], rivals: list[Rival], need: int, cpu: int
) -> None:
    driver = driver_of(*cpus)
    for number, rival in enumerate(rivals):
        count = rival.count + rival.spare
        driver.add(*gang(f"r{number}", count, rival.count, priority=rival.priority, cpu=rival.cpu))
        driver.settle()
    running = {pod.uid: pod for pod in driver.cluster.pods() if pod.node_name}
    driver.tell(*[PodDeleted(p.uid) for p in driver.cluster.pods() if p.uid not in running])
    since = len(driver.log)
    driver.fate = Fate.PENDING
    driver.add(*gang("high", need, priority=2, cpu=cpu))
    driver.drain()
    victims = {effect.uid for effect in told(driver, Evict, since)}
    nominated = told(driver, Nominated, since)

    def fits(gone: set[PodUID]) -> bool:
        return sum(n // cpu for n in free_without(driver, gone).values() if n > 0) >= need

    def below(priority: int) -> set[PodUID]:
        return {uid for uid, pod in running.items() if pod.priority <= priority}

    if fits(set()):
        assert not victims
        return
    levels = [p for p in (0, 1) if fits(below(p))]
    assert bool(victims) == bool(levels)
    assert bool(nominated) == bool(levels)
    if not levels:
        return
    assert max(running[uid].priority for uid in victims) == levels[0], "as low as can be"
    of_gang: dict[str, set[PodUID]] = {}
    for uid in running:
        of_gang.setdefault(uid.rpartition("-")[0], set()).add(uid)
    whole = [pods for pods in of_gang.values() if pods <= victims]
    single = victims - {uid for pods in whole for uid in pods}
    for pods in whole:
        assert not fits(victims - pods), "a gang could be spared"
    for uid in single:
        assert not fits(victims - {uid}), "a pod could be spared"
    candidates = [p for p in of_gang.values() if running[min(p)].priority <= levels[0]]
    if any(fits(pods) for pods in candidates):
        assert len(whole) <= 1, "one gang is enough"


# Pods that must not be victims ----------------------------------------------------------------


def test_regular_pod_preempts_and_is_preempted_as_a_gang_of_one() -> None:
    driver = driver_of(1)
    for number, priority in enumerate((0, 1, 2)):
        driver.add(Pod(name=f"p{number}", priority=priority, requests={"cpu": 1}))
        driver.settle()
    assert where(driver) == {"p2": "n0"}
    assert [e.uid for e in told(driver, Evict)] == ["default/p0", "default/p1"]


# The reserved capacity ------------------------------------------------------------------------


@one_in(2)
@given(st.lists(st.integers(0, 4), max_size=6), st.permutations(range(4)))
@example(
    [0, 0, 0, 1], [3, 1, 2, 0]
)  # capacity is reserved beside it for an entity that waits for another one
def test_preemptor_starts_in_its_capacity_whatever_arrives_meanwhile(
    comers: list[int], order: list[int]
) -> None:
    """F11: the capacity is reserved until the whole gang is placed."""
    driver = blocked()
    (nominated,) = told(driver, Nominated)
    for number, priority in enumerate(comers):
        driver.add(*gang(f"c{number}", 1, priority=priority))
        driver.drain()
        if number < len(order) and driver.dying:
            driver.end(order[number] % len(driver.dying))
            driver.drain()
    while driver.dying:
        driver.end(0)
        driver.drain()
    binds = [(b.uid, b.node) for b in told(driver, Bind) if "high" in b.uid]
    assert binds == list(nominated.places)


def test_terminating_member_is_waited_for_after_a_restart() -> None:
    driver = driver_of(2, 2, 2)
    driver.add(*gang("low", 4, priority=0), *gang("also", 2, priority=0))
    driver.settle()
    driver.tell(*_terminating(driver, "low"))
    driver.restart(lambda _bind: False)
    driver.fate = Fate.PENDING
    driver.add(*gang("high", 3, priority=5))
    driver.drain()
    (nominated,) = told(driver, Nominated)
    assert nominated.victims == ()
    for number in range(4):
        driver.delete(f"default/low-{number}")
    driver.fate = Fate.DONE
    driver.drain()
    assert len([b for b in told(driver, Bind) if "high" in b.uid]) == 3


def _terminating(driver: Driver, group: str) -> list[PodAdded]:
    pods = [pod for pod in driver.cluster.pods() if pod.name.startswith(group)]
    return [PodAdded(evolve(pod, deleted_at=driver.now)) for pod in pods]


def test_recreated_victims_do_not_preempt_their_preemptor() -> None:
    """F11, SP#431."""
    driver = blocked(fate=Fate.DONE)
    for round_ in range(5):
        gone = [pod for pod in gang("low", 4, priority=0) if pod.name not in where(driver)]
        driver.add(*[evolve(pod, uid=PodUID(f"{pod.uid}~{round_}")) for pod in gone])
        driver.settle()
    assert len(told(driver, Evict)) == 4
    assert len(told(driver, Nominated)) == 1


# When the reservation ends --------------------------------------------------------------------


@one_in(2)
@given(st.permutations(range(6)), st.lists(st.integers(0, 3), min_size=6, max_size=6))
def test_gangs_of_highest_priority_run_in_the_end_in_any_order(
    order: list[int], priorities: list[int]
) -> None:
    driver = driver_of(2, 2)
    for number in order:
        driver.add(*gang(f"g{number}", 2, priority=priorities[number]))
        driver.settle()
    assume(len(set(priorities)) > 1)
    running = {name.partition("-")[0] for name in where(driver)}
    ranks = sorted((priorities[int(name[1:])] for name in running), reverse=True)
    assert ranks == sorted(priorities, reverse=True)[:2]
    assert len(told(driver, Nominated)) <= len(order)


# Histories that broke a law -------------------------------------------------------------------


@pytest.mark.once("the unit is the policy's")
@pytest.mark.parametrize("priorities", [(1, 1), (1, 2), (2, 1)])
def test_one_of_two_nominated_pods_uses_a_node_that_shrank(
    priorities: tuple[int, int],
) -> None:
    first, second = (PutPods(count=1, priority=priority) for priority in priorities)
    world = Policy(gangs=False, preemption=Preemption()).world()
    world.live(PutNode(0, cpu=2), PutPods(count=2), Decide(), first, second)
    world.live(Decide(2, Fate.PENDING), PutNode(0, cpu=1)).finish()
    on_it = [pod.priority for pod in world.driver.cluster.pods() if pod.node_name]
    assert on_it == [max(priorities)]


@pytest.mark.once("the unit is the policy's")
@pytest.mark.parametrize("unit", SchedulingUnit)
def test_pod_that_requests_nothing_reserved_uses_the_reserved_node(unit: SchedulingUnit) -> None:
    world = Policy(unit=unit, preemption=Preemption()).world()
    world.live(PutNode(0, cpu=1), PutPods(count=1), PutPods(1, 1, priority=1), Decide())
    world.live(PutPods(count=1, cpu=0), PutGroup(1, 1), Decide(fate=Fate.PENDING)).finish()
    assert sum(pod.node_name is not None for pod in world.driver.cluster.pods()) == 2


@pytest.mark.once("the unit is the policy's")
@pytest.mark.parametrize("restarts", [False, True])
def test_running_member_has_the_priority_of_a_pending_one_of_its_group(restarts: bool) -> None:
    """It came to a group with a member of a higher priority, which does not run."""
    policy = Policy(unit=SchedulingUnit.GROUP, preemption=Preemption())
    world = policy.world()
    elder = PutPods(2, 1, 1, cpu=0, zone="b", priority=1)
    world.live(elder, PutPods(0, 1, 1, cpu=1), PutNode(0, cpu=1, zone="a"), Decide())
    world.live(ChangePod(1, "relabel", 2), *([Restart(0)] if restarts else []))
    world.live(PutPods(count=1, cpu=1, priority=1))
    world.finish()
    on_it = [pod.priority for pod in world.driver.cluster.pods() if pod.node_name]
    assert on_it == [0]
    no_startable_pod_is_parked(world, policy)
