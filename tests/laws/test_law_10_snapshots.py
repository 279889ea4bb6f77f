"""Law 10, kept: a snapshot that is taken at any step and restored elsewhere goes on identically."""

from __future__ import annotations

import copy
import pickle
from typing import cast

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    ClusterState,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    Profile,
    Scheduler,
    presets,
)
from gangsched.protocols import CycleView, NodeView
from gangsched.testing import make_pod
from support.cores import make_scheduler
from support.driver import Driver, Fate
from support.examples import one_in
from support.histories import Policy, all_policies, histories
from support.history_steps import HistoryStep
from support.restored import Passing, Twins, posted, restored, state_of
from support.units import current
from support.world import World


def world_of(policy: Policy, made: type[Passing] | type[Twins]) -> World:
    world = policy.world()
    driver = world.driver
    world.driver = Driver(
        made.maker(policy.make), grouped=driver.grouped, match=driver.match, checked=True
    )
    return world


@one_in(4)
@given(all_policies, histories())
def test_scheduler_restored_at_every_call_decides_as_the_original(
    policy: Policy, steps: list[HistoryStep]
) -> None:
    plain = policy.world().live(*steps).finish().driver.log
    assert repr(world_of(policy, Passing).live(*steps).finish().driver.log) == repr(plain)


@one_in(4)
@given(all_policies, histories(), st.lists(st.integers(0, 40), min_size=1, max_size=3))
def test_scheduler_restored_from_a_snapshot_answers_all_calls_alike(
    policy: Policy, steps: list[HistoryStep], at: list[int]
) -> None:
    world = world_of(policy, Twins)
    for number, step in enumerate(steps):
        twins = cast("Twins", world.driver.scheduler)
        if number in at:
            twins.part()
        world.do(step)
        twins.compare()
    world.finish()
    cast("Twins", world.driver.scheduler).compare()


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
@one_in(8)
@given(histories(), st.integers(0, 30))
def test_restored_scheduler_decides_alike_when_plugins_have_no_signature(
    plugin: type[Unsigned], steps: list[HistoryStep], at: int
) -> None:
    def make(cluster: ClusterState) -> Scheduler:
        profile = Profile(*presets.coscheduling_profile().plugins, plugin())
        return make_scheduler(cluster, profile, unit=current())

    plain = World(Driver(make)).live(*steps).finish().driver.log
    passing = World(Driver(Passing.maker(make))).live(*steps).finish().driver.log
    assert repr(passing) == repr(plain)
    world = World(Driver(Twins.maker(make), checked=False))
    for number, step in enumerate(steps):
        if number == at:
            cast("Twins", world.driver.scheduler).part()
        world.do(step)
    world.finish()
    cast("Twins", world.driver.scheduler).compare()


@one_in(4)
@given(all_policies, histories())
def test_taking_a_snapshot_changes_nothing(policy: Policy, steps: list[HistoryStep]) -> None:
    driver = policy.world().live(*steps).driver
    before = state_of(driver.scheduler)
    driver.scheduler.snapshot()
    assert state_of(driver.scheduler) == before


@one_in(4)
@given(all_policies, histories())
def test_scheduler_is_pickled_and_copied_as_it_is(policy: Policy, steps: list[HistoryStep]) -> None:
    driver = policy.world().live(*steps).driver
    for other in (
        pickle.loads(pickle.dumps(driver.scheduler)),
        copy.deepcopy(driver.scheduler),
    ):
        assert state_of(other) == state_of(driver.scheduler)


def test_waiting_gang_goes_on_after_a_restart() -> None:
    """F42: no pod is placed twice, and an attempt is finished with its first deadline."""
    driver = Driver(fate=Fate.PENDING)
    driver.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 4})))
    driver.add(*(make_pod(f"g-{n}", group="g", min_available=3, cpu=1) for n in range(3)))
    driver.step()
    data = posted(driver.scheduler.snapshot())
    driver.scheduler = restored(driver.make(driver.cluster), data)
    driver.drain()
    binds = [e for told in driver.log for e in told.effects if isinstance(e, Bind)]
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
