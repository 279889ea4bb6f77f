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
    GroupKey,
    NodeDeleted,
    NodeName,
    NodeUpdated,
    Nominated,
    NominationLapsed,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupUpdated,
    PodUID,
    Preemption,
    PreemptionPolicy,
    Scheduler,
    SchedulingUnit,
)
from support.driver import Driver, Fate
from support.examples import one_in
from support.final_checks import no_startable_pod_is_parked
from support.gangs import members, node, where
from support.histories import Policy
from support.history_steps import ChangePod, Decide, PutGroup, PutNode, PutPods, Restart
from support.shown import shown
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


def end_all(driver: Driver) -> None:
    driver.fate = Fate.DONE
    while driver.dying:
        driver.end(0)
    driver.drain()


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


def test_lowest_priority_is_evicted_first_then_the_fewest_gangs() -> None:
    driver = driver_of(4, 4, 4)
    driver.add(*gang("a", 2, priority=1), *gang("b", 2, priority=1))
    driver.add(*gang("c", 4, priority=1), *gang("d", 4, priority=2))
    driver.settle()
    driver.fate = Fate.PENDING
    driver.add(*gang("high", 4, priority=5))
    driver.drain()
    assert {e.uid for e in told(driver, Evict)} == {f"default/c-{n}" for n in range(4)}


def test_one_sufficient_gang_is_evicted_though_another_has_lower_priority() -> None:
    """Without it two would: the lowest, and one of the next priority for what is lacking then."""
    driver = driver_of(4)
    driver.add(*gang("lowest", 1, priority=0), *gang("small", 1, priority=1))
    driver.add(*gang("enough", 2, priority=1))
    driver.settle()
    driver.fate = Fate.PENDING
    driver.add(*gang("high", 2, priority=5))
    driver.drain()
    assert {e.uid for e in told(driver, Evict)} == {"default/enough-0", "default/enough-1"}


def test_elastic_members_are_evicted_before_another_gang() -> None:
    driver = driver_of(2, 2, 2)
    driver.add(*gang("wide", 4, 2, priority=0), *gang("tight", 2, priority=0))
    driver.settle()
    driver.fate = Fate.PENDING
    driver.add(*gang("high", 2, priority=5))
    driver.drain()
    assert {e.uid for e in told(driver, Evict)} == {"default/wide-2", "default/wide-3"}


# Pods that must not be victims ----------------------------------------------------------------


@pytest.mark.parametrize("low", [5, 6])
def test_pod_of_equal_priority_evicts_no_pod(low: int) -> None:
    assert not told(blocked(low), Evict)


def test_regular_pod_does_not_preempt_a_pod_of_its_priority() -> None:
    driver = driver_of(1)
    driver.add(Pod(name="first", priority=1, requests={"cpu": 1}))
    driver.add(Pod(name="lower", priority=0))
    driver.settle()
    driver.add(Pod(name="second", priority=1, requests={"cpu": 1}))
    driver.settle()
    assert where(driver) == {"first": "n0", "lower": "n0"}
    assert not told(driver, Evict)


def test_no_pod_is_evicted_where_it_would_not_be_enough() -> None:
    """F11."""
    driver = driver_of(2, 2)
    driver.add(*gang("low", 2, priority=0), *gang("peer", 2, priority=5))
    driver.settle()
    driver.add(*gang("high", 3, priority=5))
    driver.settle()
    assert not told(driver, Evict)
    assert not told(driver, Nominated)


def test_incomplete_gang_evicts_no_pod() -> None:
    driver = driver_of(2, 2)
    driver.add(*gang("low", 4, priority=0))
    driver.settle()
    driver.add(*gang("high", 2, 3, priority=5))
    driver.settle()
    assert not told(driver, Evict)


def test_pod_with_preemption_policy_never_evicts_no_pod() -> None:
    driver = driver_of(2, 2)
    driver.add(*gang("low", 4, priority=0))
    driver.settle()
    never = PreemptionPolicy.NEVER
    driver.tell(PodGroupAdded(PodGroup(name="high", min_available=2, preemption_policy=never)))
    driver.add(*gang("high", 2, priority=5))
    driver.add(evolve(gang("one", 1, priority=5)[0], labels={}, preemption_policy="Never"))
    driver.settle()
    assert not told(driver, Evict)


def test_no_pod_is_evicted_without_preemption() -> None:
    """F10, F11, F13."""
    driver = Driver(coscheduling)
    driver.tell(node("n0", cpu=2))
    driver.add(*gang("low", 2, priority=0))
    driver.settle()
    driver.add(*gang("high", 2, priority=5))
    driver.settle()
    assert not told(driver, Evict)


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


def test_preemption_happens_once_and_evicts_no_pod_again() -> None:
    """F11."""
    driver = blocked()
    first = told(driver, Evict)
    driver.add(*gang("more", 1, priority=5))
    driver.advance(GRACE / 2)
    driver.drain()
    assert told(driver, Evict) == first
    end_all(driver)
    assert {name for name in where(driver) if "high" in name} == {"high-0", "high-1", "high-2"}


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


def test_entity_of_still_higher_priority_takes_the_nomination_over() -> None:
    driver = blocked()
    driver.add(*gang("top", 4, priority=9))
    driver.drain()
    assert [lapsed.group for lapsed in told(driver, NominationLapsed)] == ["default/high"]
    assert len(told(driver, Evict)) == 4
    end_all(driver)
    driver.settle()
    assert set(where(driver)) == {f"top-{number}" for number in range(4)}


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


def lapse_of(driver: Driver) -> str:
    (lapsed,) = told(driver, NominationLapsed)
    assert not shown(driver.scheduler).nominations
    return lapsed.reason


def test_nomination_lapses_when_the_victims_are_not_gone_in_time() -> None:
    driver = blocked()
    assert driver.scheduler.next_deadline() == GRACE
    driver.advance(GRACE)
    assert "did not terminate in time" in lapse_of(driver)
    driver.settle()
    assert len(told(driver, Evict)) == 4, "nobody is counted on twice"


def test_nomination_lapses_when_too_few_members_are_left() -> None:
    driver = blocked()
    driver.delete("default/high-1")
    assert "too few" in lapse_of(driver)


def test_nomination_lapses_when_a_node_is_deleted() -> None:
    driver = blocked()
    driver.tell(NodeDeleted(NodeName("n0")))
    assert "too few nominated" in lapse_of(driver)


def test_nomination_lapses_when_the_specification_changes() -> None:
    driver = driver_of(2, 2)
    driver.add(*gang("low", 4, priority=0))
    driver.settle()
    driver.fate = Fate.PENDING
    spec = PodGroup(name="high", min_available=2)
    driver.tell(PodGroupAdded(spec))
    driver.add(*gang("high", 3, priority=5))
    driver.drain()
    driver.tell(PodGroupUpdated(evolve(spec, min_available=3)))
    assert "specification" in lapse_of(driver)


def test_preemptor_that_cannot_use_its_nodes_preempts_elsewhere_at_once() -> None:
    driver = driver_of(2, 2)
    driver.add(*gang("low", 2, priority=0))
    driver.settle()
    driver.add(*gang("also", 2, priority=1))
    driver.settle()
    driver.fate = Fate.PENDING
    driver.add(*gang("high", 2, priority=5))
    driver.drain()
    assert {e.uid for e in told(driver, Evict)} == {"default/low-0", "default/low-1"}
    name = told(driver, Nominated)[0].places[0][1]
    driver.fate = Fate.DONE
    while driver.dying:
        driver.end(0)
    shown = driver.cluster.node(name)
    assert shown is not None
    driver.tell(NodeUpdated(evolve(shown, unschedulable=True)))
    driver.settle()
    assert {n for n in where(driver) if n.startswith("high")} == {"high-0", "high-1"}
    assert told(driver, NominationLapsed)


def test_member_of_higher_priority_protects_its_group_from_preemption() -> None:
    driver = driver_of(2)
    driver.add(*gang("mixed", 2, priority=3), Pod(name="lower"))
    driver.settle()
    driver.tell(PodGroupAdded(PodGroup(name="mixed", min_available=2, priority=0)))
    driver.add(*gang("high", 2, priority=2))
    driver.settle()
    assert not told(driver, Evict)


def test_insufficient_added_capacity_requeues_a_preemptor() -> None:
    driver = driver_of(2, 1)
    driver.add(*gang("low", 2, priority=0), *gang("peer", 1, priority=5))
    driver.settle()
    driver.add(*gang("high", 3, priority=5))
    driver.settle()
    assert not told(driver, Evict)
    driver.tell(node("more", cpu=1))
    driver.settle()
    assert {n for n in where(driver) if "high" in n} == {"high-0", "high-1", "high-2"}


def test_why_names_the_pods_that_are_waited_for() -> None:
    why = blocked().scheduler.why(GroupKey("default/high"))
    assert "2 nodes are nominated, waiting for 4 pods to terminate" in str(why)


def test_bundle_is_rejected_as_a_whole() -> None:
    driver = driver_of(2, 2)
    both = (GroupKey("default/a"), GroupKey("default/b"))
    for name in "ab":
        driver.tell(PodGroupAdded(PodGroup(name=name, min_available=2, bundle=both)))
        driver.add(*gang(name, 2, priority=0))
    driver.settle()
    assert len(where(driver)) == 4
    driver.fate = Fate.PENDING
    driver.add(*gang("high", 1, priority=5))
    driver.drain()
    assert len(told(driver, Evict)) == 4


def test_bundle_preempts_as_a_whole() -> None:
    driver = driver_of(2, 2)
    driver.add(*gang("low", 4, priority=0))
    driver.settle()
    both = (GroupKey("default/a"), GroupKey("default/b"))
    for name in "ab":
        driver.tell(PodGroupAdded(PodGroup(name=name, min_available=2, bundle=both)))
    driver.add(*gang("a", 2, priority=5), *gang("b", 2, priority=5))
    driver.settle()
    assert set(where(driver)) == {"a-0", "a-1", "b-0", "b-1"}


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
def test_running_group_may_have_the_rank_of_a_pending_member(restarts: bool) -> None:
    """It came to a group whose first member ranks higher; after a restart it is seen first."""
    policy = Policy(unit=SchedulingUnit.GROUP, preemption=Preemption())
    world = policy.world()
    elder = PutPods(2, 1, 1, cpu=0, zone="b", priority=1)
    world.live(elder, PutPods(0, 1, 1, cpu=1), PutNode(0, cpu=1, zone="a"), Decide())
    world.live(ChangePod(1, "relabel", 2), *([Restart(0)] if restarts else []))
    world.live(PutPods(count=1, cpu=1, priority=1))
    world.finish()
    on_it = [pod.priority for pod in world.driver.cluster.pods() if pod.node_name]
    assert on_it == [1 if restarts else 0]
    no_startable_pod_is_parked(world, policy)
