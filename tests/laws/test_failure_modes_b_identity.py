"""Failure modes 3.B: which pods count, under which identity, and what a group knows of itself."""

from __future__ import annotations

import threading
from typing import Any

from attrs import define, evolve, field
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    ClusterState,
    Coscheduling,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    NodeUpdated,
    Outcome,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodGroupUpdated,
    PodUID,
    Profile,
    Scheduler,
    Success,
)
from gangsched.drivers import blocking
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.protocols import CycleView
from gangsched.testing import make_pod
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
        return Scheduler(cluster, profile, unit=policy.unit or current())

    driver = Driver(make, watched=False)
    world = World(driver)
    for step in steps:
        world.do(step)
        # capacity is taken by waiting and binding pods; a restart begins a new ledger
        assert ledgers[-1].taken == shown(driver.scheduler).assumed
    world.clear()
    assert ledgers[-1].taken == {}


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
