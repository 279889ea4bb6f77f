"""Failure modes of other gang schedulers that are not among those of the plugin."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    ClusterState,
    GroupRejected,
    InMemoryCluster,
    MatchPolicy,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    Scheduler,
    SchedulingUnit,
    WhenBlocked,
)
from gangsched.testing import make_pod
from support.driver import Driver, Fate
from support.examples import one_in
from support.histories import Policy
from support.interleavings import Move, decide, pass_time, report, walk
from support.shown import binds, nothing_is_assumed, shown
from support.units import coscheduling, current


def node(cpu: int, name: str = "n") -> NodeAdded:
    """Return the fact that a node comes."""
    return NodeAdded(Node(name=NodeName(name), allocatable={"cpu": cpu}))


def member(group: str, name: str, minimum: int, cpu: int = 1) -> Pod:
    """Return a member."""
    return make_pod(f"{group}-{name}", group=group, min_available=minimum, cpu=cpu)


def bound(driver: Driver) -> set[str]:
    """Return the bound pods."""
    return {pod.name for pod in driver.cluster.pods() if pod.node_name}


@pytest.mark.parametrize("seconds", [0, 5, 4000])
def test_attempt_without_assumed_member_needs_no_timer(seconds: float) -> None:
    """YuniKorn's timer of placeholders: without placeholders it never began.

    Here an attempt that holds nothing ends with its last member's cycle. Only the holding of
    nodes is timed.
    """
    driver = Driver(Policy(when_blocked=WhenBlocked.UNTIL_TIMEOUT).make)
    group = PodGroup(name="g", min_available=2, schedule_timeout=seconds)
    driver.tell(node(1), PodGroupAdded(group))
    driver.add(*(evolve(make_pod(f"g-{n}", cpu=2), pod_group="g") for n in range(2)))
    driver.drain()
    effects = driver.effects()
    assert [e for e in effects if isinstance(e, GroupRejected)]
    assert driver.scheduler.registry.get(group.key) is not None
    assert driver.scheduler.next_deadline() is None
    driver.tell(node(4, "m"))
    driver.settle()
    assert len(bound(driver)) == 2


def lost(pod: Pod) -> Move:
    """A member that was there is lost, as with its node."""

    def may(driver: Driver) -> bool:
        return driver.cluster.pod(pod.uid) is not None

    return Move(f"lose {pod.name}", may, lambda d: d.delete(pod.uid))


def made_anew(pod: Pod, fresh: Pod) -> Move:
    """Its controller recreates it."""

    def may(driver: Driver) -> bool:
        return driver.cluster.pod(pod.uid) is None

    return Move(f"make {fresh.name}", may, lambda d: d.add(fresh))


@pytest.mark.parametrize("match", [MatchPolicy.ONCE_SATISFIED, MatchPolicy.WAITING_AND_RUNNING])
def test_two_failures_in_the_middle_of_each_others_recovery_end_in_a_whole_gang(
    match: MatchPolicy,
) -> None:
    """ray#24875, ray#52202: losses, new members, decisions and binds in every order."""
    driver = Driver(Policy(match_policy=match).make, match=match)
    driver.tell(node(3))
    old = [member("g", str(n), 3) for n in range(3)]
    fresh = [member("g", f"new{n}", 3) for n in range(2)]
    driver.add(*old)
    driver.settle()
    driver.fate, driver.logged = Fate.PENDING, False
    moves = [decide, pass_time, *(lost(pod) for pod in old[:2])]
    moves += [made_anew(pod, again) for pod, again in zip(old[:2], fresh, strict=True)]
    moves += [report(pod.uid, Fate.DONE, None) for pod in fresh]
    moves += [report(pod.uid, Fate.FAILED) for pod in fresh]

    def whole(here: Driver) -> None:
        assert bound(here) == {"g-2", "g-new0", "g-new1"}
        assert nothing_is_assumed(here.scheduler)

    assert walk(driver, moves, at_rest=whole) > 30


@one_in(4)
@given(st.permutations(["a-x", "a-y", "b-x", "b-y"]), st.lists(st.booleans(), min_size=4))
def test_two_gangs_that_lost_half_do_not_split_the_capacity(
    order: list[str], between: list[bool]
) -> None:
    """ray#65147: where the quorum is asked for each time, one of them recovers as a whole."""
    match = MatchPolicy.WAITING_AND_RUNNING
    driver = Driver(Policy(match_policy=match).make, match=match)
    driver.tell(node(6))
    driver.add(*(member("a", str(n), 3) for n in range(3)))
    driver.add(*(member("b", str(n), 3) for n in range(3)))
    driver.settle()
    driver.delete(*(make_pod(f"{group}-{n}").uid for group in "ab" for n in (0, 1)))
    driver.add(make_pod("other-0", cpu=1), make_pod("other-1", cpu=1))
    driver.settle()
    assert len(bound(driver)) == 4
    for name, decides in zip(order, between, strict=False):
        driver.add(member(name[0], name[2:], 3))
        if decides:
            driver.step()
    driver.settle()
    recovered = {name for name in bound(driver) if name in order}
    assert recovered in ({"a-x", "a-y"}, {"b-x", "b-y"})
    driver.delete(*(make_pod(name).uid for name in ("other-0", "other-1")))
    driver.settle()
    assert len(bound(driver)) == 6


@pytest.mark.parametrize("match", list(MatchPolicy))
def test_member_that_cannot_be_scheduled_starves_no_other_pod(match: MatchPolicy) -> None:
    """ray#65970: it is tried when it may fit, and all others go about their business."""
    driver = Driver(Policy(match_policy=match).make, match=match)
    driver.tell(node(4))
    driver.add(member("g", "0", 2, cpu=1), member("g", "1", 2, cpu=1))
    driver.settle()
    driver.delete(make_pod("g-0").uid)
    driver.add(member("g", "big", 2, cpu=64))
    driver.settle()
    driver.decisions = 0
    for n in range(50):
        driver.add(make_pod(f"p{n}", cpu=3))
        driver.settle()
        assert f"p{n}" in bound(driver)
        driver.delete(make_pod(f"p{n}").uid)
    assert driver.decisions <= 50 * 4


@one_in(4)
@given(
    st.sampled_from(WhenBlocked),
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=5),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
)
def test_try_that_fails_leaves_every_node_as_it_was(
    when_blocked: WhenBlocked, gangs: list[tuple[int, int]], nodes: list[int]
) -> None:
    """KAI 0.17's leak of a rolled-back try; and whatever is free is free for the next."""
    driver = Driver(Policy(when_blocked=when_blocked).make)
    driver.tell(*(node(cpu, f"n{index}") for index, cpu in enumerate(nodes)))
    for number, (size, cpu) in enumerate(gangs):
        driver.add(*(member(f"g{number}", str(n), size + 1, cpu=cpu) for n in range(size)))
        driver.add(member(f"g{number}", "never", size + 1, cpu=99))
    driver.settle()
    driver.advance(driver.now + 60)
    assert nothing_is_assumed(driver.scheduler)
    largest = sorted(nodes, reverse=True)
    driver.add(*(make_pod(f"fills-{n}", cpu=cpu, priority=9) for n, cpu in enumerate(largest)))
    driver.settle()
    assert bound(driver) == {f"fills-{n}" for n in range(len(nodes))}


def test_first_call_takes_in_all_that_is_there_before_it_decides() -> None:
    """volcano#4261: a session before the caches are full; here what runs is counted at once."""

    def late(cluster: ClusterState) -> Scheduler:
        return coscheduling(cluster)

    cluster = InMemoryCluster()
    cluster.apply(node(3))
    cluster.apply(PodAdded(evolve(make_pod("runs", cpu=2), node_name=NodeName("n"))))
    for n in range(2):
        cluster.apply(PodAdded(member("g", str(n), 2)))
    scheduler = late(cluster)
    first = scheduler.schedule_one(now=0.0)
    assert first is not None
    held = {SchedulingUnit.POD: 1, SchedulingUnit.GROUP: 0}[current()]
    assert len(shown(scheduler).assumed) == held
    assert not binds(scheduler, make_pod("large", cpu=2, priority=9)), "what runs is counted"
    scheduler.schedule_one(now=0.0)
    assert len(scheduler.waiting) <= 1, "one fits beside what runs"
