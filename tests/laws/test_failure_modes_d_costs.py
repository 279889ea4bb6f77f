"""Failure modes 3.D, first part: what a decision costs (F32-F34, F37), counted and not timed."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import pytest
from hypothesis import given

from gangsched import (
    ClusterState,
    Coscheduling,
    GroupKey,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodGroup,
    PodGroupAdded,
    PodGroupUpdated,
    PodUID,
    Profile,
    Scheduler,
)
from gangsched.coscheduling import WhenBlocked
from gangsched.plugins import (
    DefaultBinder,
    NodeAffinity,
    NodeResources,
    NodeUnschedulable,
    TaintToleration,
)
from gangsched.primitives.waiting import WaitingMap
from gangsched.protocols import EntityView, QueueSortKey
from gangsched.testing import make_pod
from support.calls import calls_for, lines_for
from support.driver import Driver
from support.examples import one_in
from support.histories import Policy, histories, policies
from support.history_steps import HistoryStep
from support.units import current

PLACEMENT = (
    NodeUnschedulable(),
    TaintToleration(),
    NodeAffinity(),
    NodeResources(),
    DefaultBinder(),
)


def busy(bound: int, pending: int, nodes: int = 4) -> Driver:
    """Return a driver with many pods that run, and many gangs that can never start."""
    driver = Driver(Policy().make, watched=False, checked=False, logged=False)
    for n in range(nodes):
        offers = {"cpu": 4 + bound // nodes, "gpu": 2}
        driver.tell(NodeAdded(Node(name=NodeName(f"n{n}"), allocatable=offers)))
    driver.add(*(make_pod(f"r{n}", cpu=1) for n in range(bound)))
    for n in range(pending // 2):
        for k in range(2):
            pod = make_pod(f"w{n}-{k}", group=f"w{n}", min_available=2, requests={"tpu": 1})
            driver.add(pod)
    driver.settle()
    return driver


def member(name: str, minimum: int) -> Pod:
    """Return a member of the gang that is looked at."""
    return make_pod(name, group="g", min_available=minimum, cpu=1)


def cost_of_a_turn(driver: Driver, minimum: int) -> tuple[int, int]:
    """Return the calls for a member that waits, and for the member that completes its gang."""
    for n in range(minimum):
        driver.add(member(f"g-{n}", minimum))
    for _turn in range(minimum - 2):
        driver.step()
    waits, goes = calls_for(driver.step), calls_for(driver.step)
    assert len([pod for pod in driver.cluster.pods() if pod.name[0] == "g" and pod.node_name])
    return waits, goes


def test_permit_costs_the_same_beside_a_thousand_pods_as_beside_ten() -> None:
    """F32, SP#707: the members that hold nodes are counted as they come, never looked for."""
    few, many = cost_of_a_turn(busy(8, 8), 3), cost_of_a_turn(busy(1000, 400), 3)
    assert many[0] <= few[0] * 1.3
    # the end of a bind rereads its node; only that grows with the pods on the node
    assert many[1] <= few[1] + 3 * 3 * 1010


def test_cycle_of_a_member_costs_the_same_in_gangs_of_4_and_400() -> None:
    """F32, F33: neither the siblings that wait nor those to come are walked."""
    small, large = busy(0, 0, 200), busy(0, 0, 200)
    waits, _goes = cost_of_a_turn(small, 4)
    again, _goes = cost_of_a_turn(large, 400)
    assert again <= waits * 1.3


def test_cost_of_an_arrival_is_independent_of_other_pods_of_the_namespace() -> None:
    """F33, SP#931: its siblings are found by the group."""
    few, many = busy(8, 8), busy(1000, 400)
    costs = [lines_for(partial(d.add, member("g-0", 3))) for d in (few, many)]
    assert costs[1] <= costs[0] * 1.3


def test_cost_of_a_changed_specification_is_independent_of_other_pods() -> None:
    """F33: the group lists the affected members, and no other pod is visited."""

    def cost(driver: Driver) -> int:
        driver.tell(PodGroupAdded(PodGroup(name="g", min_available=9)))
        driver.add(*(make_pod(f"g-{n}", group="g", cpu=1) for n in range(3)))
        later = PodGroupUpdated(PodGroup(name="g", min_available=8))
        return lines_for(lambda: driver.tell(later))

    assert cost(busy(1000, 400)) <= cost(busy(8, 8)) * 1.3


def test_cost_of_a_rejection_depends_on_the_members_of_the_group_only() -> None:
    """F37, SP#75: waiting members are found by the group; the others are not looked at."""

    def fill(others: int) -> WaitingMap:
        waiting = WaitingMap()
        for n in range(others):
            group = GroupKey(f"ns/o{n % 40}")
            waiting.wait(PodUID(f"o{n}"), node=NodeName("n"), timeout=9, now=0, group=group)
        for n in range(5):
            group = GroupKey("ns/g")
            waiting.wait(PodUID(f"g{n}"), node=NodeName("n"), timeout=9, now=0, group=group)
        return waiting

    few, many = fill(40), fill(4000)
    for named in ("of", "reject"):
        costs = [lines_for(partial(getattr(w, named), GroupKey("ns/g"))) for w in (few, many)]
        # a step or two more in the sorted deadlines
        assert costs[1] <= costs[0] * 1.5


@pytest.mark.pod_by_pod("members hold nodes and wait")
@pytest.mark.parametrize("end", ["at its deadline", "with its node"])
def test_rejection_of_n_members_costs_o_n(end: str) -> None:
    """F37: one pass over the group; the end of a pod begins no other pass."""

    def cost(size: int) -> int:
        driver = Driver(Policy(when_blocked=WhenBlocked.UNTIL_TIMEOUT).make)
        driver.watched = driver.checked = driver.logged = False
        node = Node(name=NodeName("n"), allocatable={"cpu": size - 1})
        driver.tell(NodeAdded(node))
        driver.add(*(member(f"g-{n}", size) for n in range(size)))
        driver.drain()
        assert len(driver.scheduler.waiting) == size - 1
        if end == "at its deadline":
            return lines_for(lambda: driver.advance(10.0))
        return lines_for(lambda: driver.delete("default/g-0"))

    assert cost(400) <= 14 * cost(40)


class Guarded:
    """A cluster that may not be read while entities are compared or sorted."""

    def __init__(self, inner: InMemoryCluster) -> None:
        self.inner = inner
        self.closed = False
        self.reads = 0

    def __getattr__(self, name: str) -> Any:
        assert not self.closed, "the cluster state was read while the queue was put in order"
        self.reads += 1
        return getattr(self.inner, name)


class Sorting:
    """The gang policy, with the cluster shut while it ranks."""

    def __init__(self, policy: Coscheduling, cluster: Guarded) -> None:
        self._policy = policy
        self.cluster = cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def queue_sort(self, entity: EntityView) -> QueueSortKey:
        """Make the key with the cluster shut."""
        self.cluster.closed = True
        key = self._policy.queue_sort(entity)
        self.cluster.closed = False
        assert all(type(part) in (int, float) for part in key), "a comparison runs no code of ours"
        return key


@one_in(4)
@given(policies.filter(lambda p: p.gangs), histories())
def test_neither_ranking_nor_comparing_reads_the_cluster(
    policy: Policy, steps: list[HistoryStep]
) -> None:
    """F34, SP#896: a key is made from what the scheduler has, and is five numbers ever after."""
    sorts: list[Sorting] = []

    def make(cluster: ClusterState) -> Scheduler:
        assert isinstance(cluster, InMemoryCluster)
        guarded = Guarded(cluster)
        sorts.append(Sorting(Coscheduling(order=policy.order), guarded))
        profile = Profile(sorts[-1], *PLACEMENT)
        return Scheduler(cast("ClusterState", guarded), profile, unit=policy.unit or current())

    world = Policy().world()
    world.driver = Driver(make)
    world.live(*steps).finish()
    assert sum(sort.cluster.reads for sort in sorts) > 0
