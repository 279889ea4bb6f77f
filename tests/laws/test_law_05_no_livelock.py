"""Law 5: no livelock, no starvation, no polling.

That decisions and deadlines without a fact are bounded is asserted by the driver in every test:
``Driver.drain`` and ``Driver.settle`` raise when there are more than eight for each pod and group.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    ClusterState,
    GroupRejected,
    Node,
    NodeAdded,
    NodeName,
    NodeUpdated,
    Pod,
    PodDeleted,
    Scheduler,
    WhenBlocked,
)
from gangsched.testing import make_pod
from support.driver import Driver
from support.examples import one_in
from support.histories import Policy, policies
from support.units import coscheduling


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


@pytest.mark.pod_by_pod("members hold nodes and wait")
def test_nine_of_ten_waiting_members_starve_no_other_entity() -> None:
    """F5: nine hold nodes, the tenth does not fit; a plain pod goes all the same."""
    driver = Driver(Policy().make)
    driver.tell(NodeAdded(node(9)))
    driver.add(*gang("ten", 10))
    driver.drain()
    assert len(driver.scheduler.waiting) == 9
    driver.add(make_pod("plain", cpu=1))
    driver.drain()
    plain = driver.cluster.pod(make_pod("plain").uid)
    assert plain is not None
    assert plain.node_name == "n"


def test_gangs_that_hold_half_of_the_cluster_each_do_not_wait_for_each_other() -> None:
    """F1, SP#114: two gangs, members arriving alternately, capacity for one."""
    driver = Driver(lambda cluster: coscheduling(cluster, when_blocked="until_timeout"))
    driver.tell(NodeAdded(node(4)))
    pairs = zip(gang("a", 4), gang("b", 4), strict=True)
    driver.add(*(pod for pair in pairs for pod in pair))
    driver.settle()
    bound = {pod.name[0] for pod in driver.cluster.pods() if pod.node_name}
    assert len(bound) == 1
    driver.delete(*(pod.uid for pod in driver.cluster.pods() if pod.node_name))
    driver.settle()
    assert all(pod.node_name for pod in driver.cluster.pods())


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


def test_backoff_of_a_rejected_group_grows_up_to_the_maximum() -> None:
    driver = Driver(Policy().make)
    driver.add(*gang("g", 2, cpu=2))
    rests = []
    for n in range(8):
        # cpu for one member, on ever another node: it may always fit, and never does
        driver.tell(NodeAdded(Node(name=NodeName(f"n{n}"), allocatable={"cpu": 2, "pods": 1})))
        driver.tell(NodeAdded(Node(name=NodeName(f"n{n}"), allocatable={"cpu": 1, "pods": 1})))
        driver.settle()
    for told in driver.log:
        rests += [e.retry_after - told.now for e in told.effects if isinstance(e, GroupRejected)]
    assert rests == sorted(rests)
    assert all(rest <= 10.0 for rest in rests)


def test_scheduler_with_nothing_to_do_has_no_deadline() -> None:
    def make(cluster: ClusterState) -> Scheduler:
        return coscheduling(cluster)

    driver = Driver(make)
    assert driver.scheduler.next_deadline() is None
    driver.add(*gang("g", 3))
    driver.tell(NodeAdded(node(2)))
    driver.settle()
    assert driver.scheduler.next_deadline() is None
    assert not [e for t in driver.log for e in t.effects if isinstance(e, Bind)]


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
