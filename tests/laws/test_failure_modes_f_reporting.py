"""Failure modes 3.F: what is said, what is wired, and what a failure leaves behind (F52-F61)."""

from __future__ import annotations

import re

import pytest
from attrs import define, evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    ClusterState,
    Coscheduling,
    Effect,
    GroupRejected,
    GroupScheduled,
    HoldGroup,
    Node,
    NodeAdded,
    NodeName,
    Outcome,
    Pod,
    PodGroup,
    PodGroupAdded,
    PodRejected,
    PodUID,
    PodWaiting,
    Profile,
    RejectGroup,
    Release,
    Scheduler,
    Skip,
    Success,
    Unschedulable,
    WhenBlocked,
)
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.protocols import CycleView
from gangsched.testing import make_pod
from support.driver import Driver
from support.examples import one_in
from support.histories import Policy, policies
from support.views import FakeGroup, cycle

gangs = policies.filter(lambda policy: policy.gangs)


def node(cpu: int) -> NodeAdded:
    """Return the fact that a node comes."""
    return NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": cpu}))


def effects(driver: Driver) -> list[Effect]:
    """Return all notices."""
    return driver.effects()


def bound(driver: Driver) -> set[str]:
    """Return the bound pods."""
    return {pod.key for pod in driver.cluster.pods() if pod.node_name}


def in_namespace(namespace: str, number: int) -> Pod:
    """Return a member of the group ``g`` of a namespace; the same name in each of them."""
    pod = make_pod(f"g-{number}", group="g", cpu=1)
    return evolve(pod, namespace=namespace, uid=PodUID(f"{namespace}-{number}"))


@one_in(2)
@given(gangs, st.integers(1, 4), st.integers(1, 4), st.permutations(range(8)))
def test_two_groups_of_one_name_in_two_namespaces_have_nothing_in_common(
    policy: Policy, first: int, second: int, order: list[int]
) -> None:
    """F52: members, minima and releases are kept apart in any order of arrival."""
    driver = Driver(policy.make, match=policy.match_policy)
    minima = {"a": first, "b": second}
    driver.tell(node(8))
    for name, minimum in minima.items():
        driver.tell(PodGroupAdded(PodGroup(name="g", namespace=name, min_available=minimum)))
    there = {"a": 0, "b": 0}
    for n in order:
        name = "ab"[n % 2]
        driver.add(in_namespace(name, n // 2))
        there[name] += 1
        driver.settle()
        for each, minimum in minima.items():
            running = sum(key.startswith(f"{each}/") for key in bound(driver))
            if there[each] < minimum:
                assert running == 0, f"{each} started with the members of the other"
            else:
                assert running >= minimum
    for release in (effect for effect in effects(driver) if isinstance(effect, Release)):
        name = release.group.split("/")[0]
        assert all(uid.startswith(f"{name}-") for uid in release.members)


counts = st.integers(0, 4)


@pytest.mark.once("makes no scheduler")
@one_in(2)
@given(
    st.sampled_from(WhenBlocked),
    st.integers(0, 100),
    st.none() | st.integers(1, 6),
    st.tuples(counts, counts, counts, counts),
    st.booleans(),
)
def test_after_a_failed_member_the_policy_never_answers_with_success(
    when_blocked: WhenBlocked,
    percentage: int,
    minimum: int | None,
    members: tuple[int, int, int, int],
    was_scheduled: bool,
) -> None:
    """F55, SP#126: whatever the group's counts are."""
    waiting, assigned, untried, unscheduled = members
    group = FakeGroup(
        min_available=minimum,
        waiting=waiting,
        assigned=assigned,
        untried=untried,
        unscheduled=unscheduled + untried,
        was_scheduled=was_scheduled,
    )
    policy = Coscheduling(when_blocked=when_blocked, reject_percentage=percentage)
    for view in (group, None):
        answer = policy.post_filter(cycle(view), Pod(name="p"), "full", now=0.0)
        assert isinstance(answer, Unschedulable | RejectGroup | HoldGroup | Skip)


@define
class Shy:
    """Refuse one pod before any node is visited."""

    name: str = "Shy"

    def pre_filter(self, state: CycleView, pod: Pod, *, now: float) -> Outcome:
        """Refuse the last member."""
        return Unschedulable("not today") if pod.name == "g-2" else Success()


@pytest.mark.pod_by_pod("members hold nodes and wait")
@pytest.mark.parametrize("when_blocked", list(WhenBlocked))
def test_member_refused_before_filter_leaves_no_member_waiting(
    when_blocked: WhenBlocked,
) -> None:
    """F55, SP#307: two hold nodes, the third is refused early; both are unassumed in time."""

    def make(cluster: ClusterState) -> Scheduler:
        policy = Coscheduling(when_blocked=when_blocked)
        return Scheduler(cluster, Profile(policy, Shy(), NodeResources(), DefaultBinder()))

    driver = Driver(make)
    driver.tell(node(3))
    driver.add(*(make_pod(f"g-{n}", group="g", min_available=3, cpu=1) for n in range(3)))
    for _turn in range(3):
        driver.step()
    if when_blocked is not WhenBlocked.AT_ONCE:
        driver.add(make_pod("other", cpu=2))
        driver.step()
        driver.advance(10.0)
    assert len(driver.scheduler.waiting) == 0
    (fall, *_later) = (e for e in effects(driver) if isinstance(e, GroupRejected))
    given_back = [e for e in effects(driver) if isinstance(e, PodRejected)]
    assert len(given_back) == 2
    if when_blocked is not WhenBlocked.UNTIL_TIMEOUT:
        assert fall.reason == "pod g-2 cannot be placed: not today"


timeouts = st.floats(0.25, 5000.0).map(lambda seconds: round(seconds, 2))


@pytest.mark.pod_by_pod("the permit timeout")
@one_in(2)
@given(timeouts, st.booleans(), st.integers(2, 9))
def test_message_about_a_time_is_made_of_the_time_that_was_used(
    seconds: float, own: bool, size: int
) -> None:
    """F61: the wait, the deadline, the numbers of members and the backoff, each as it was."""
    timeout = None if own else seconds

    def make(cluster: ClusterState) -> Scheduler:
        policy = Coscheduling(
            permit_timeout=10.0 if timeout is None else timeout,
            when_blocked=WhenBlocked.UNTIL_TIMEOUT,
        )
        return Scheduler(cluster, Profile(policy, NodeResources(), DefaultBinder()))

    driver = Driver(make, permit_timeout=10.0 if timeout is None else timeout)
    spec = PodGroup(name="g", min_available=size, schedule_timeout=seconds if own else None)
    driver.tell(node(size - 1), PodGroupAdded(spec))
    driver.add(*(evolve(make_pod(f"g-{n}", cpu=1), pod_group="g") for n in range(size)))
    driver.drain()
    waits = [effect for effect in effects(driver) if isinstance(effect, PodWaiting)]
    assert [wait.remaining for wait in waits] == list(range(size - 1, 0, -1))
    assert {wait.deadline for wait in waits} == {seconds}
    driver.advance(seconds)
    rejected = [effect for effect in effects(driver) if isinstance(effect, PodRejected)]
    assert len(rejected) == size - 1
    for each in rejected:
        (told,) = re.findall(r"after waiting ([\d.e+]+)s on permit", each.reason)
        assert float(told) == pytest.approx(seconds, rel=1e-5)
    (fall,) = (effect for effect in effects(driver) if isinstance(effect, GroupRejected))
    assert fall.reason == f"timed out waiting on permit: {size - 1} of {size} members held a node"
    assert fall.retry_after == seconds, "no time helps a gang that lacks a node"
    assert driver.scheduler.next_deadline() is None
    driver.tell(node(size))
    driver.drain()
    (start,) = (effect for effect in effects(driver) if isinstance(effect, GroupScheduled))
    assert (start.attempt, start.scheduled) == (2, size)
