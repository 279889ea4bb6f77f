"""Law 10: a scheduler that is rebuilt or restored loses and doubles nothing, and goes on alike."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from functools import partial
from typing import cast

import pytest
from attrs import evolve
from hypothesis import assume, given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    ClusterState,
    Node,
    NodeAdded,
    NodeName,
    Order,
    Pod,
    PodUID,
    Profile,
    Quota,
    Scheduler,
    WhenBindFails,
    presets,
)
from gangsched.protocols import CycleView, NodeView
from gangsched.testing import make_pod
from support.driver import Driver, Fate
from support.examples import one_in
from support.gangs import members, node
from support.histories import (
    Policy,
    all_policies,
    decisions,
    histories,
    policies,
    reports,
    steady_policies,
)
from support.history_steps import (
    ChangePod,
    HistoryStep,
    Pass,
    PutGroup,
    PutNode,
    PutPods,
    Rebuild,
    Restart,
)
from support.restored import Passing, Twins, knows_the_nodes, posted, restored, state_of
from support.units import coscheduling, current
from support.world import World


@one_in(2)
@given(steady_policies, st.integers(0, 30), st.integers(1, 3), st.integers(2, 5))
def test_restart_during_a_gang_starts_every_gang_whole_and_once(
    policy: Policy, at: int, every: int, size: int
) -> None:
    """F42: the cluster fits all of them; the scheduler dies at some step, binds under way."""
    world = policy.world()
    driver = world.driver
    driver.tell(node("n", 3 * size))
    for gang in range(3):
        for n in range(size):
            driver.add(make_pod(f"g{gang}-{n}", group=f"g{gang}", min_available=size, cpu=1))
    driver.fate = Fate.PENDING
    for _step in range(at):
        driver.step()
    world.do(Restart(every=every))
    world.finish()
    assert all(pod.node_name == "n" for pod in driver.cluster.pods())


def test_scheduler_that_starts_late_takes_in_what_is_there() -> None:
    driver = Driver(Policy().make)
    for name in ("a", "b"):
        driver.cluster.apply(NodeAdded(Node(name=NodeName(name), allocatable={"cpu": 1})))
    driver.restart(lambda _bind: True)
    driver.add(*members("g", 2, cpu=1))
    driver.drain()
    assert {pod.node_name for pod in driver.cluster.pods()} == {"a", "b"}


@pytest.mark.parametrize("limits", [[], [Quota(name="q", namespaces=["default"], hard={"cpu": 1})]])
def test_listing_repeats_no_reason_why_a_gang_is_not_admitted(limits: list[Quota]) -> None:
    """A gang that is incomplete, and one that a quota keeps waiting."""
    driver = Driver(partial(coscheduling, quotas=limits))
    driver.tell(node("n", 9))
    driver.add(make_pod("lonely", group="incomplete", min_available=2, cpu=1))
    driver.add(*members("g", 2, cpu=1))
    driver.settle()
    driver.log.clear()
    driver.rebuild()
    assert driver.effects() == []


arrivals = st.builds(
    PutPods,
    group=st.sampled_from([None, 0, 1, 2]),
    count=st.integers(1, 3),
    minimum=st.just(3),
)
specifications = st.lists(st.builds(PutGroup, st.integers(0, 2), st.integers(2, 5)), max_size=2)
keeping = policies.filter(lambda policy: policy.when_bind_fails is WhenBindFails.RETRY_MEMBER)
restarts = st.one_of(st.builds(Restart, st.integers(1, 3)), st.just(Rebuild()))
story = st.lists(
    st.one_of(arrivals, arrivals, decisions, decisions, reports, st.just(Pass())),
    max_size=20,
)


def bound(world: World) -> set[PodUID]:
    """Return the pods that have a node."""
    return {pod.uid for pod in world.driver.cluster.pods() if pod.node_name}


@one_in(2)
@given(
    keeping, specifications, story, st.lists(st.tuples(st.integers(0, 20), restarts), max_size=4)
)
def test_same_pods_run_with_and_without_restarts_when_all_fit(
    policy: Policy,
    said: list[HistoryStep],
    steps: list[HistoryStep],
    breaks: list[tuple[int, HistoryStep]],
) -> None:
    """Binds fail, hang, get lost and arrive late before, during and after each restart.

    Minima are stated beforehand: a minimum that is raised when half of a gang is bound finds a
    scheduler that released it, or a new one. No pod is evicted: evicted pods do not return
    here, and a new scheduler, which knows of no backoff, may try during the faults, and evict
    others.
    """
    room = (PutNode(0, cpu=1_000), *said)
    with_restarts = list(steps)
    for at, restart in breaks:
        with_restarts.insert(at, restart)
    calm = policy.world().live(*room, *steps).finish()
    broken = policy.world().live(*room, *with_restarts).finish()
    assert bound(broken) == bound(calm)


_ANOTHER = frozenset({"relabel", "reclaim", "recast", "seize"})
"""These make a pod another one, which arrives anew."""


def stays(_driver: Driver) -> None:
    """Leave a scheduler as it is."""


def is_restored(driver: Driver) -> None:
    """Replace a scheduler by one that has the listing and the snapshot."""
    data = posted(driver.scheduler.snapshot())
    driver.scheduler = restored(driver.make(driver.cluster), data)


def placed(
    policy: Policy, steps: list[HistoryStep], becomes: Callable[[Driver], None]
) -> dict[PodUID, NodeName | None]:
    """Return where pods run after capacity was added to a scheduler at rest."""
    world = policy.world().live(*steps).finish()
    driver = world.driver
    becomes(driver)
    driver.settle()
    driver.advance(driver.now + 100)
    for number, cpu in enumerate((1, 3, 8)):
        world.do(PutNode(6 + number, cpu=cpu, gpu=1, zone="ab"[number % 2]))
        driver.settle()
    return {pod.uid: pod.node_name for pod in driver.cluster.pods()}


@one_in(4)
@given(policies, histories())
def test_scheduler_at_rest_decides_as_a_restored_one(
    policy: Policy, steps: list[HistoryStep]
) -> None:
    plain = evolve(policy, order=Order.CREATION, backfill=None)
    kept = [s for s in steps if not isinstance(s, ChangePod) or s.how not in _ANOTHER]
    live = placed(plain, kept, stays)
    assert placed(plain, kept, is_restored) == live


def world_of(policy: Policy, made: type[Passing] | type[Twins]) -> World:
    driver = policy.world().driver
    make = made.maker(policy.make)
    made_alike = Driver(make, grouped=driver.grouped, match=driver.match, check_each=8)
    made_alike.together = driver.together
    return World(made_alike)


@one_in(4)
@given(
    all_policies,
    histories(chapters=3),
    st.lists(st.integers(0, 20), min_size=1, max_size=3),
)
def test_scheduler_restored_from_a_snapshot_decides_as_the_original(
    policy: Policy, steps: list[HistoryStep], at: list[int]
) -> None:
    """At every call, and at some steps of a twin; no copy and no snapshot changes anything."""
    plain = policy.world().live(*steps).finish().driver.log
    assert repr(world_of(policy, Passing).live(*steps).finish().driver.log) == repr(plain)
    world = world_of(policy, Twins)
    for number, step in enumerate(steps):
        twins = cast("Twins", world.driver.scheduler)
        if number in at:
            twins.part()
        world.do(step)
        if number % 4 == 0:
            twins.compare()
    world.finish()
    cast("Twins", world.driver.scheduler).compare()


@one_in(4)
@given(all_policies, histories())
def test_scheduler_is_pickled_and_copied_as_it_is(policy: Policy, steps: list[HistoryStep]) -> None:
    driver = policy.world().live(*steps).driver

    def shown(scheduler: Scheduler) -> object:
        data, places, reasons, deadline = cast("tuple[object, ...]", state_of(scheduler))
        # a copy posts binds and evictions under way again, and what it expects of them is its own
        evicts = any(reason.startswith("Terminating") for reason in cast("list[str]", reasons))
        return data, places, scheduler.binding() or evicts or reasons, deadline

    before = shown(driver.scheduler)
    driver.scheduler.snapshot()
    assert shown(driver.scheduler) == before
    assume(knows_the_nodes(driver.scheduler, driver.cluster))  # a copy reads them
    assert shown(pickle.loads(pickle.dumps(driver.scheduler))) == before
    assert shown(copy.deepcopy(driver.scheduler)) == before


class Unsigned:
    """A plugin that says nothing of what it reads: pods and nodes are evaluated one by one."""

    name = "Unsigned"

    def score(self, state: CycleView, pod: Pod, node: NodeView) -> int:
        return node.pod_count


class SignedForPods(Unsigned):
    """Says what it reads of a pod, and not what of a node: each node stands alone."""

    def pod_signature(self, pod: Pod) -> object:
        return None


@pytest.mark.parametrize("plugin", [Unsigned, SignedForPods])
@one_in(10, at_least=8)
@given(histories(chapters=2), st.integers(0, 12))
def test_restored_scheduler_decides_alike_when_plugins_have_no_signature(
    plugin: type[Unsigned], steps: list[HistoryStep], at: int
) -> None:
    def make(cluster: ClusterState) -> Scheduler:
        profile = Profile(*presets.coscheduling_profile().plugins, plugin())
        return Scheduler(cluster, profile, unit=current())

    plain = World(Driver(make, checked=False)).live(*steps).finish().driver.log
    passing = World(Driver(Passing.maker(make), checked=False)).live(*steps).finish().driver.log
    assert repr(passing) == repr(plain)
    world = World(Driver(Twins.maker(make), checked=False))
    for number, step in enumerate(steps):
        if number == at:
            cast("Twins", world.driver.scheduler).part()
        world.do(step)
    world.finish()
    cast("Twins", world.driver.scheduler).compare()


def test_waiting_gang_goes_on_after_a_restart() -> None:
    """F42: no pod is placed twice, and an attempt is finished with its first deadline."""
    driver = Driver(fate=Fate.PENDING)
    driver.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 4})))
    driver.add(*members("g", 3, cpu=1))
    driver.step()
    data = posted(driver.scheduler.snapshot())
    driver.scheduler = restored(driver.make(driver.cluster), data)
    driver.drain()
    binds = driver.effects(Bind)
    assert sorted(bind.uid for bind in binds) == [f"default/g-{n}" for n in range(3)]


def test_cluster_that_changed_meanwhile_is_listed_by_rebuild() -> None:
    driver = Driver()
    driver.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 1})))
    driver.add(make_pod("a", cpu=4))
    driver.drain()
    data = posted(driver.scheduler.snapshot())
    node = driver.cluster.node(NodeName("n"))
    assert node is not None
    driver.cluster.apply(NodeAdded(evolve(node, allocatable={"cpu": 4})))
    driver.scheduler = driver.make(driver.cluster)
    driver.scheduler.restore(data)
    driver.rebuild()
    driver.settle()
    assert [pod.node_name for pod in driver.cluster.pods()] == ["n"]
