"""Failure modes 3.C: members that come late, short waits, flags that stay (F24-F31)."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    ClusterState,
    GroupRejected,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodUpdated,
    PodWaiting,
    Scheduler,
    WhenBlocked,
)
from gangsched.testing import make_pod
from support.driver import Driver
from support.examples import one_in
from support.histories import Policy, policies
from support.units import coscheduling

gangs = policies.filter(lambda policy: policy.gangs)
DAY = 86_400.0


def node(cpu: int, name: str = "n") -> NodeAdded:
    """Return the fact that a node comes."""
    return NodeAdded(Node(name=NodeName(name), allocatable={"cpu": cpu}))


def member(number: int, minimum: int | None = None) -> Pod:
    """Return a member; without a minimum, the specification has to give it."""
    pod = make_pod(f"g-{number}", cpu=1)
    if minimum is None:
        return evolve(pod, pod_group="g")
    return make_pod(f"g-{number}", group="g", min_available=minimum, cpu=1)


def bound(driver: Driver) -> int:
    """Return how many pods are bound."""
    return sum(pod.node_name is not None for pod in driver.cluster.pods())


def falls(driver: Driver) -> list[GroupRejected]:
    """Return the rejections of groups."""
    effects = (effect for told in driver.log for effect in told.effects)
    return [effect for effect in effects if isinstance(effect, GroupRejected)]


arrivals = st.permutations(["node", "group", 0, 1, 2, 3])


@one_in(2)
@given(gangs, arrivals, st.lists(st.sampled_from([0.0, 0.5, 70.0]), min_size=6, max_size=6))
def test_last_arrival_is_the_wake_up_in_any_order(
    policy: Policy, order: list[str | int], pauses: list[float]
) -> None:
    """F24, SP#397, F29: decided in the instant in which the last of them arrives.

    No pod is tried before there is a quorum, and none is tried uselessly before there is a node.
    """
    driver = Driver(policy.make, match=policy.match_policy)
    there: set[str | int] = set()
    for what, pause in zip(order, pauses, strict=True):
        driver.advance(driver.now + pause)
        before = driver.decisions
        began = driver.now
        if what == "node":
            driver.tell(node(4))
        elif what == "group":
            driver.tell(PodGroupAdded(PodGroup(name="g", min_available=4)))
        else:
            driver.add(member(int(what)))
        there.add(what)
        driver.drain()
        if there >= {"group", 0, 1, 2, 3}:
            driver.settle()  # it was tried without a node, and backs off
        else:
            assert driver.decisions == before + 1, "a look at an empty queue, and nobody tried"
            assert driver.scheduler.next_deadline() is None
        assert bound(driver) == (4 if len(there) == 6 else 0)
        if len(there) == 6 and what != "node":
            assert driver.now == began
    assert len(falls(driver)) == (1 if order[-1] == "node" else 0)


@one_in(2)
@given(st.integers(1, 5), st.integers(0, 5))
def test_members_before_their_group_consume_no_cycle(early: int, late: int) -> None:
    """F29: held with a reason, until the group comes, with the minimum that it says."""
    driver = Driver(Policy().make)
    driver.tell(node(10))
    driver.add(*(member(n) for n in range(early)))
    driver.advance(DAY)
    assert driver.drain() == 0
    assert driver.scheduler.next_deadline() is None
    driver.tell(PodGroupAdded(PodGroup(name="g", min_available=early + late)))
    driver.add(*(member(early + n) for n in range(late)))
    driver.drain()
    assert bound(driver) == early + late
    assert driver.now == DAY


@pytest.mark.pod_by_pod("members hold nodes and wait")
def test_two_halves_do_not_swap_between_permit_and_a_parking_place() -> None:
    """F24: six members come by twos, with a minute between; there is one attempt, and it starts."""
    driver = Driver(Policy().make)
    driver.tell(node(6))
    for n in range(6):
        driver.add(member(n, 6))
        driver.settle()
        if n < 5:
            driver.advance(60.0 * (1 + n // 2))
    assert bound(driver) == 6
    assert falls(driver) == []
    effects = [effect for told in driver.log for effect in told.effects]
    waits = {effect.deadline for effect in effects if isinstance(effect, PodWaiting)}
    assert waits == {driver.now + 10.0}, "who waited did so in the last instant alone"


@one_in(2)
@given(st.integers(1, 8), st.integers(0, 3))
def test_lacking_one_member_again_and_again_costs_no_backoff(size: int, gap: int) -> None:
    """F25, SP#450: members come and go; when all are there it starts in that instant."""
    driver = Driver(Policy().make)
    driver.tell(node(size + 1))
    driver.add(*(member(n, size + 1) for n in range(size)))
    for n in range(30):
        driver.advance(driver.now + gap)
        driver.delete(member(n % size).uid)
        driver.drain()
        driver.add(member(n % size, size + 1))
        driver.drain()
    began = driver.now
    driver.add(member(size, size + 1))
    driver.drain()
    assert (bound(driver), driver.now, falls(driver)) == (size + 1, began, [])


@pytest.mark.pod_by_pod("the permit timeout")
@pytest.mark.parametrize("seconds", [901.0, 1500.5, 3600.0, 30 * DAY])
@pytest.mark.parametrize("whose", ["policy", "group"])
def test_long_timeout_is_exact_to_the_second(seconds: float, whose: str) -> None:
    """F27, KO#1919: neither 15 minutes nor 1500 seconds are an upper bound; nothing is clamped."""
    policy_timeout = seconds if whose == "policy" else 10.0

    def make(cluster: ClusterState) -> Scheduler:
        return coscheduling(
            cluster, permit_timeout=policy_timeout, when_blocked=Policy().when_blocked
        )

    driver = Driver(make, permit_timeout=policy_timeout)
    own = seconds if whose == "group" else None
    driver.tell(node(1), PodGroupAdded(PodGroup(name="g", min_available=2, schedule_timeout=own)))
    driver.add(member(0), member(1))
    driver.drain()
    assert driver.scheduler.next_deadline() == seconds
    driver.advance(seconds - 0.25)
    assert len(driver.scheduler.waiting) == 1
    driver.advance(seconds)
    assert len(driver.scheduler.waiting) == 0


@pytest.mark.pod_by_pod("the permit timeout")
@pytest.mark.parametrize(("own", "expected"), [(None, 10.0), (0, 0.0), (0.0, 0.0), (3, 3.0)])
def test_no_time_is_not_the_same_as_no_timeout(own: float | None, expected: float) -> None:
    """F28: 0 is a wait of no time, and only None takes the policy's."""
    driver = Driver(Policy().make)
    driver.tell(node(1), PodGroupAdded(PodGroup(name="g", min_available=2, schedule_timeout=own)))
    driver.add(member(0), member(1))
    driver.step()
    (waiting,) = driver.scheduler.waiting
    assert waiting.deadline == expected


def test_hundreds_of_small_jobs_do_not_run_out_of_time_in_the_queue() -> None:
    """F26, SP#722: the time of an attempt begins with its first member that holds a node.

    Half a second a decision, 200 jobs: the last of them waits far longer than one timeout, and no
    attempt is rejected.
    """
    driver = Driver(Policy().make)
    driver.watched = driver.checked = False
    driver.tell(node(400))
    for job in range(200):
        for n in range(2):
            driver.add(make_pod(f"j{job}-{n}", group=f"j{job}", min_available=2, cpu=1))
    for _decision in range(400):
        driver.step()
        driver.advance(driver.now + 0.5)
    assert bound(driver) == 400
    assert falls(driver) == []


@pytest.mark.parametrize("last", ["gate", "member", "minimum", "spelling"])
def test_every_blocked_entity_has_an_event_that_unblocks_it(last: str) -> None:
    """F31, KK#139162: gated, incomplete, refused: each ends in the instant of the fact."""
    driver = Driver(Policy().make)
    driver.tell(node(3), PodGroupAdded(PodGroup(name="g", min_available=3)))
    third = member(2)
    blocked: dict[str, tuple[Pod | None, Pod | None]] = {
        "gate": (evolve(third, scheduling_gates=("quota",)), third),
        "member": (None, third),
        "spelling": (evolve(third, labels={"pod-group/name": "h"}), third),
        "minimum": (third, None),
    }
    before, after = blocked[last]
    if last == "minimum":
        driver.tell(PodGroupUpdated(PodGroup(name="g", min_available=4)))
    driver.add(member(0), member(1), *([] if before is None else [before]))
    driver.settle()
    assert bound(driver) == 0
    driver.advance(500.0)
    if last == "minimum":
        driver.tell(PodGroupUpdated(PodGroup(name="g", min_available=3)))
    else:
        assert after is not None
        driver.tell(PodAdded(after) if before is None else PodUpdated(after))
    driver.drain()
    assert (bound(driver), driver.now) == (3, 500.0)


@pytest.mark.pod_by_pod("members hold nodes and wait")
@pytest.mark.parametrize(("own", "released"), [(None, 0), (2, 2), (3, 0)])
def test_members_of_a_deleted_group_follow_their_own_claims(own: int | None, released: int) -> None:
    """F58: two of three wait; without a minimum they need no quorum, and are released at once."""
    driver = Driver(Policy(when_blocked=WhenBlocked.UNTIL_TIMEOUT).make)
    group = PodGroup(name="g", min_available=3)
    driver.tell(node(2), PodGroupAdded(group))
    labels = {"pod-group/name": "g"} | (
        {} if own is None else {"pod-group/min-available": str(own)}
    )
    driver.add(*(evolve(make_pod(f"g-{n}", cpu=1), labels=labels) for n in range(3)))
    driver.drain()
    assert len(driver.scheduler.waiting) == 2
    driver.tell(PodGroupDeleted(group.key))
    assert bound(driver) == released
    assert len(driver.scheduler.waiting) == (2 if own == 3 else 0)
    if own is None:
        assert len(falls(driver)) == 1
        driver.settle()
        assert driver.scheduler.next_deadline() is None
        driver.tell(PodGroupAdded(PodGroup(name="g", min_available=2)))
        driver.settle()
        assert bound(driver) == 2
