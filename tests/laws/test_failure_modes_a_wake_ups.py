"""Failure modes 3.A, second part: hot loops, storms, lost wake-ups, the order of requeueing."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    GroupRejected,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodGroup,
    PodGroupAdded,
    PodUnschedulable,
)
from gangsched import WhenBlocked as When
from gangsched.testing import make_pod
from support.brute_force import could_start, entities
from support.calls import calls_for
from support.driver import Driver
from support.examples import one_in
from support.histories import Policy, policies

gangs = policies.filter(lambda policy: policy.gangs)
HOUR = 3600


def driven(policy: Policy, *gpus: int) -> Driver:
    """Return a driver with nodes."""
    driver = Driver(policy.make, match=policy.match_policy)
    for index, gpu in enumerate(gpus):
        driver.tell(
            NodeAdded(Node(name=NodeName(f"n{index}"), allocatable={"nvidia.com/gpu": gpu}))
        )
    return driver


def member(name: str, size: int, *, gpu: int, group: str = "g", priority: int = 0) -> Pod:
    """Return a member of a gang that needs *size* members."""
    return make_pod(name, group=group, min_available=size, gpu=gpu, priority=priority)


def falls(driver: Driver) -> int:
    """Return the number of rejected attempts of groups."""
    effects = (effect for told in driver.log for effect in told.effects)
    return sum(isinstance(effect, GroupRejected) for effect in effects)


@pytest.mark.core_lacks("the next attempt is about the whole gang")
@pytest.mark.parametrize("when_blocked", list(When))
def test_three_that_can_never_fit_together_are_tried_once_in_an_hour(when_blocked: When) -> None:
    """F6, SP#429: 6, 2, 2 and 2 GPUs, three members of 4; a pod behind them is not delayed."""
    driver = driven(Policy(when_blocked=when_blocked), 6, 2, 2, 2)
    driver.add(*(member(f"g-{n}", 3, gpu=4) for n in range(3)))
    driver.settle()
    driver.advance(HOUR)
    driver.settle()
    assert falls(driver) == 1
    assert driver.decisions <= 3 + 4, "a turn for each, and a look at an empty queue now and then"
    driver.add(make_pod("plain", gpu=2))
    driver.drain()
    assert [pod.name for pod in driver.cluster.pods() if pod.node_name] == ["plain"]


@pytest.mark.core_lacks("a lack of capacity begins no backoff")
@pytest.mark.parametrize("when_blocked", list(When))
@pytest.mark.parametrize("at_once", [1, 3])
def test_group_whose_members_are_recreated_each_second_backs_off(
    when_blocked: When, at_once: int
) -> None:
    """F6: a controller makes new members for those that it deletes, one or all, for ten minutes."""
    driver = driven(Policy(when_blocked=when_blocked), 6, 2, 2, 2)
    driver.watched = driver.checked = False
    alive = [member(f"g-{n}", 3, gpu=4) for n in range(3)]
    driver.add(*alive)
    for second in range(600):
        driver.advance(float(second))
        driver.drain()
        driver.delete(*(pod.uid for pod in alive[:at_once]))
        fresh = [member(f"g-{second}-{n}", 3, gpu=4) for n in range(at_once)]
        alive = [*alive[at_once:], *fresh]
        driver.add(*fresh)
    # 1, 2, 4, 8 seconds of backoff, then 10 each time
    assert falls(driver) <= 600 // 10 + 5
    assert driver.decisions <= 5 * falls(driver) + 600 + 10


def operations(size: int, what: Callable[[Driver, list[Pod]], object]) -> int:
    """Return how many calls are made while something happens to a gang of *size*."""
    driver = driven(Policy(), size)
    driver.watched = driver.checked = driver.logged = False
    pods = [member(f"g-{n}", size, gpu=1) for n in range(size)]
    return calls_for(lambda: what(driver, pods))


def start(driver: Driver, pods: list[Pod]) -> None:
    """Let a gang arrive and start."""
    driver.add(*pods)
    driver.drain()
    assert all(pod.node_name for pod in driver.cluster.pods())


def fall(driver: Driver, pods: list[Pod]) -> None:
    """Let a gang be tried whose last member fits nowhere, be rejected, and be tried again."""
    driver.add(*pods[:-1], member("g-last", len(pods), gpu=2))
    driver.settle()
    driver.tell(NodeAdded(Node(name=NodeName("more"), allocatable={"nvidia.com/gpu": 2})))
    driver.settle()
    assert all(pod.node_name for pod in driver.cluster.pods())


@pytest.mark.parametrize("story", [start, fall])
def test_gang_of_n_costs_n_calls_not_n_squared(
    story: Callable[[Driver, list[Pod]], None],
) -> None:
    """F7, SP#682, KK#141577: as many for each member, however many siblings it has."""
    operations(20, story)  # what is made once is made
    small, large = operations(20, story), operations(200, story)
    assert large <= 15 * small


@pytest.mark.core_lacks("a gang is ranked once a member")
@pytest.mark.pod_by_pod("one turn a member")
def test_gang_is_ranked_a_few_times_an_attempt_not_once_a_member() -> None:
    """F7: an attempt leaves the queue as it is until it ends."""
    driver = driven(Policy(), 100)
    driver.tell(PodGroupAdded(PodGroup(name="g", min_available=100)))
    driver.add(*(member(f"g-{n}", 100, gpu=1) for n in range(100)))
    (entity,) = driver.scheduler.queue.active
    rank = entity.sort_key
    for _turn in range(99):
        driver.step()
        assert entity.sort_key is rank
    driver.step()
    assert len(driver.scheduler.queue) == 0


priorities = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 3), st.integers(1, 2)), min_size=2, max_size=7
)


@one_in(2)
@given(gangs, priorities, st.integers(1, 4))
def test_freed_capacity_goes_to_the_first_entity_that_could_start(
    policy: Policy, waiting: list[tuple[int, int, int]], room: int
) -> None:
    """F9, SP#983: by brute force, no entity of a higher priority could have started.

    Gangs of several priorities and sizes wait while one pod fills the node, and the pod ends.
    """
    driver = driven(policy, room)
    driver.add(make_pod("first", gpu=room, priority=9))
    driver.drain()
    for number, (priority, size, gpu) in enumerate(waiting):
        for n in range(size):
            pod = member(f"g{number}-{n}", size, gpu=gpu, group=f"g{number}", priority=priority)
            driver.add(pod)
    driver.settle()
    driver.advance(driver.now + 60)  # the backoff of each failed entity has ended
    driver.log.clear()
    driver.delete(make_pod("first").uid)
    pending = entities(driver.cluster)
    before = deepcopy(driver.cluster)
    driver.settle()
    effects = [effect for told in driver.log for effect in told.effects]
    binds = [effect.uid for effect in effects if isinstance(effect, Bind)]
    urgency = {pod.uid: pod.priority for pod in before.pods()}
    fitting = [e for e in pending if could_start(policy.make, before, e)]
    assert bool(binds) is bool(fitting)
    if binds:
        assert urgency[binds[0]] == max(urgency[entity[0]] for entity in fitting)


@pytest.mark.pod_by_pod("the permit timeout")
@pytest.mark.parametrize("when_blocked", list(When))
def test_capacity_released_at_a_timeout_goes_to_the_more_urgent_waiter(
    when_blocked: When,
) -> None:
    """F9, rows 79 and 80 under load: the releasing group is not the first to be placed again."""
    driver = driven(Policy(when_blocked=when_blocked), 6)
    driver.add(*(member(f"g-{n}", 8, gpu=1) for n in range(8)))
    driver.drain()
    assert len(driver.scheduler.waiting) == (0 if when_blocked is When.AT_ONCE else 6)
    crowd = [member(f"c{n}-{k}", 3, gpu=1, group=f"c{n}") for n in range(20) for k in range(3)]
    urgent = [member(f"u-{n}", 3, gpu=2, group="u", priority=100) for n in range(3)]
    plain = [make_pod(f"plain-{n}", gpu=2, priority=50) for n in range(3)]
    driver.add(*crowd, *plain, *urgent)
    driver.settle()
    order = [e.uid for t in driver.log for e in t.effects if isinstance(e, Bind)]
    assert order[:3] == [pod.uid for pod in urgent]
    driver.delete(*order)
    driver.settle()
    order = [e.uid for t in driver.log for e in t.effects if isinstance(e, Bind)]
    assert set(order[3:6]) == {pod.uid for pod in plain}


@one_in(2)
@given(st.sampled_from(When), st.permutations(range(6)))
def test_more_urgent_of_two_alternating_gangs_starts(when_blocked: When, order: list[int]) -> None:
    """F9, row 79: three members each, in any order of arrival, decided when all are there."""
    driver = driven(Policy(when_blocked=when_blocked), 3)
    mid = [member(f"mid-{n}", 3, gpu=1, group="mid", priority=100) for n in range(3)]
    high = [member(f"high-{n}", 3, gpu=1, group="high", priority=1000) for n in range(3)]
    driver.add(*([*mid, *high][n] for n in order))
    driver.settle()
    assert {p.name[:4] for p in driver.cluster.pods() if p.node_name} == {"high"}
    effects = [effect for told in driver.log for effect in told.effects]
    told = [e for e in effects if isinstance(e, PodUnschedulable)]
    refusals = [each for each in told if "incomplete" not in each.reason]
    assert all(refusal.uid.startswith("default/mid") for refusal in refusals)
