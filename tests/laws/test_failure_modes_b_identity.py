"""Failure modes 3.B: which pods count, under which identity, and what a group knows of itself."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from attrs import define, evolve, field
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    ClusterState,
    Coscheduling,
    Event,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    NodeUpdated,
    Outcome,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodUID,
    PodUpdated,
    Profile,
    Scheduler,
    Success,
)
from gangsched.drivers import blocking
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.protocols import CycleView
from gangsched.testing import make_pod
from support.cores import make_scheduler
from support.driver import Driver
from support.examples import one_in
from support.histories import Policy, histories, policies
from support.history_steps import HistoryStep
from support.patience import HANG
from support.shown import shown
from support.units import coscheduling, current
from support.world import World


def node(cpu: int, name: str = "n") -> NodeAdded:
    """Return the fact that a node comes."""
    return NodeAdded(Node(name=NodeName(name), allocatable={"cpu": cpu}))


def bound(driver: Driver) -> list[Pod]:
    """Return the bound pods."""
    return [pod for pod in driver.cluster.pods() if pod.node_name]


@define
class Ledger:
    """Counts what is taken and given back; knows the scheduler by nothing else."""

    name: str = "Ledger"
    taken: dict[PodUID, NodeName] = field(factory=dict[PodUID, NodeName])

    def reserve(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        """Take, once."""
        assert pod.uid not in self.taken
        self.taken[pod.uid] = node
        return Success()

    def unreserve(
        self, state: CycleView, pod: Pod, node: NodeName, *, cause: str, now: float
    ) -> None:
        """Give back what was taken."""
        assert self.taken.pop(pod.uid) == node

    def post_bind(self, pod: Pod, node: NodeName, *, now: float) -> None:
        """Settle what was taken."""
        assert self.taken.pop(pod.uid) == node


@one_in(4)
@given(policies.filter(lambda p: p.gangs), histories())
def test_every_reserve_is_unreserved_or_bound_exactly_once(
    policy: Policy, steps: list[HistoryStep]
) -> None:
    """F20: in any history with faults, restarts and groups whose specification goes first."""
    ledgers: list[Ledger] = []

    def make(cluster: ClusterState) -> Scheduler:
        ledgers.append(Ledger())
        gang = Coscheduling(order=policy.order, when_blocked=policy.when_blocked)
        profile = Profile(gang, NodeResources(), DefaultBinder(), ledgers[-1])
        return make_scheduler(cluster, profile, unit=policy.unit or current())

    driver = Driver(make, watched=False)
    world = World(driver)
    for step in steps:
        world.do(step)
        # capacity is taken by waiting and binding pods; a restart begins a new ledger
        assert ledgers[-1].taken == shown(driver.scheduler).assumed
    world.clear()
    assert ledgers[-1].taken == {}


@pytest.mark.pod_by_pod("members hold nodes and wait")
def test_after_a_rejection_a_single_member_does_not_meet_the_quorum() -> None:
    """F20: neither when the specification was gone in between, nor when it comes again."""
    driver = Driver(Policy().make)
    group = PodGroup(name="g", min_available=3)
    driver.tell(node(2), PodGroupAdded(group))
    pods = [evolve(make_pod(f"g-{n}", cpu=1), pod_group="g") for n in range(3)]
    driver.add(*pods)
    driver.drain()
    assert len(driver.scheduler.waiting) == 2
    driver.tell(PodGroupDeleted(group.key))
    driver.delete(pods[0].uid, pods[1].uid)
    driver.tell(PodGroupAdded(group))
    driver.settle()
    assert bound(driver) == []
    driver.add(*(evolve(make_pod(f"h-{n}", cpu=1), pod_group="g") for n in range(2)))
    driver.settle()
    assert bound(driver) == []


@pytest.mark.parametrize("order", ["first gone, then there", "first there, then gone"])
def test_pod_that_is_recreated_under_its_name_is_another_member(order: str) -> None:
    """F21: a member of a stateful set returns with its old name, in either order of events."""
    driver = Driver(Policy().make)
    driver.tell(node(3))
    old = [make_pod(f"g-{n}", group="g", min_available=3, cpu=1) for n in range(3)]
    driver.add(*old[:2])
    driver.drain()
    fresh = evolve(old[0], uid=PodUID("another"))
    news: list[Event] = [PodDeleted(old[0].uid), PodAdded(fresh)]
    driver.tell(*(news if order.startswith("first gone") else reversed(news)))
    driver.drain()
    (info,) = driver.scheduler.registry
    assert (info.all, bound(driver)) == (2, [])
    driver.add(old[2])
    driver.drain()
    assert {pod.uid for pod in bound(driver)} == {fresh.uid, old[1].uid, old[2].uid}


def test_two_pods_of_one_name_are_two_members_while_both_are_there() -> None:
    """F21: distinguished by UID alone."""
    driver = Driver(Policy().make)
    driver.tell(node(2))
    pod = make_pod("g-0", group="g", min_available=2, cpu=1)
    driver.add(pod, evolve(pod, uid=PodUID("another")))
    driver.drain()
    assert len(bound(driver)) == 2


def test_members_that_others_bind_are_seen_and_count() -> None:
    """F21: one that was pending here, and one that comes with its node."""
    driver = Driver(Policy().make)
    driver.tell(node(3))
    pods = [make_pod(f"g-{n}", group="g", min_available=3, cpu=1) for n in range(3)]
    driver.add(*pods[:2])
    driver.drain()
    (info,) = driver.scheduler.registry
    driver.tell(PodUpdated(evolve(pods[0], node_name=NodeName("n"))))
    assert (info.scheduled, info.unscheduled) == (1, 1)
    driver.tell(PodAdded(evolve(pods[2], node_name=NodeName("n"))))
    assert (info.scheduled, info.unscheduled) == (2, 1)
    driver.drain()
    assert {pod.uid for pod in bound(driver)} == {pod.uid for pod in pods}


@one_in(2)
@given(st.lists(st.sampled_from(["lower", "raise", "add", "decide"]), max_size=24))
def test_changed_minimum_takes_effect_at_once_and_never_takes_a_node_away(
    story: list[str],
) -> None:
    """F22, SP#49: up and down, with members coming in between; two fit at first."""
    driver = Driver(Policy().make)
    minimum, count, most = 3, 3, 0
    driver.tell(node(8), PodGroupAdded(PodGroup(name="g", min_available=minimum)))
    driver.add(make_pod("full", cpu=6, priority=9))
    driver.drain()
    driver.add(*(evolve(make_pod(f"g-{n}", cpu=1), pod_group="g") for n in range(count)))
    driver.drain()
    for what in story:
        if what == "add":
            count += 1
            driver.add(evolve(make_pod(f"g-{count}", cpu=1), pod_group="g"))
        elif what == "decide":
            driver.drain()
        else:
            minimum = max(1, minimum - 1) if what == "lower" else minimum + 1
            driver.tell(PodGroupUpdated(PodGroup(name="g", min_available=minimum)))
        running = len(bound(driver)) - 1
        assert running >= most, "a member that ran was taken down"
        most = running
        waiting = len(driver.scheduler.waiting)
        assert not waiting or waiting + running < minimum, "a quorum waits"


def test_member_with_another_priority_than_its_group_is_refused_when_priorities_are_strict() -> (
    None
):
    """F23: members never stand apart in the queue."""
    driver = Driver(Policy(strict_priorities=True).make)
    driver.tell(node(2))
    driver.add(make_pod("g-0", group="g", min_available=2, cpu=1, priority=5))
    driver.add(make_pod("g-1", group="g", min_available=2, cpu=1, priority=7))
    driver.drain()
    assert bound(driver) == []
    driver.add(make_pod("g-2", group="g", min_available=2, cpu=1, priority=5))
    driver.drain()
    assert {pod.name for pod in bound(driver)} == {"g-0", "g-2"}
    (info,) = driver.scheduler.registry
    assert info.priority == 5


def test_priority_of_the_specification_binds_all_members_in_any_order_when_strict() -> None:
    """F23: the arrival order does not matter where the group says its priority."""
    for first, second in ((5, 7), (7, 5)):
        driver = Driver(Policy(strict_priorities=True).make)
        driver.tell(node(1), PodGroupAdded(PodGroup(name="g", min_available=1, priority=7)))
        for n, priority in enumerate((first, second)):
            pod = make_pod(f"g-{n}", cpu=1, priority=priority)
            driver.add(evolve(pod, pod_group="g"))
        driver.drain()
        assert [pod.priority for pod in bound(driver)] == [7]


def test_members_with_other_priorities_than_their_group_start_with_it() -> None:
    """F23: the priority of the group decides, so members never stand apart."""
    driver = Driver(Policy().make)
    driver.tell(node(2))
    for n, priority in enumerate((5, 7)):
        driver.add(make_pod(f"g-{n}", group="g", min_available=2, cpu=1, priority=priority))
    driver.drain()
    assert {pod.name for pod in bound(driver)} == {"g-0", "g-1"}
    (info,) = driver.scheduler.registry
    assert info.priority == 5


def test_events_from_many_threads_are_taken_in_one_by_one() -> None:
    """F19, SP#957: the loop for threads serialises; quorum and release stay one step."""
    cluster = InMemoryCluster()
    scheduler = coscheduling(cluster)
    binds: list[Bind] = []
    driver: Any = blocking.Driver(
        scheduler,
        apply=cluster.apply,
        bind=binds.append,
        observe=lambda _e: scheduler._check(),
        max_binds=1,  # else the binds of two gangs may be under way at once, in any order
    )
    driver.tell(node(64))

    def tell(lane: int) -> None:
        for n in range(16):
            pod = make_pod(f"g{n}-{lane}", group=f"g{n}", min_available=4, cpu=1)
            driver.tell(PodAdded(pod))
            if n % 4 == 3:
                # not an update of the pod: it would show the pod without its node after the bind
                driver.tell(NodeUpdated(node(64).node))

    loop = threading.Thread(target=driver.run)
    tellers = [threading.Thread(target=tell, args=(lane,)) for lane in range(4)]
    loop.start()
    for teller in tellers:
        teller.start()
    for teller in tellers:
        teller.join(HANG)
    driver.stop()
    loop.join(HANG)
    assert not loop.is_alive()
    groups = [bind.uid.split("-")[0] for bind in binds]
    assert len(binds) == 64
    assert all(len(set(groups[at : at + 4])) == 1 for at in range(0, 64, 4)), "a gang in one step"
