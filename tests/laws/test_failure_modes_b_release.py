"""Failure mode 3.B, F18, with ``when_bind_fails=release_group``."""

from __future__ import annotations

import os

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    Evict,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodUID,
    PodUpdated,
    WhenBindFails,
    WhenBlocked,
)
from gangsched.testing import make_pod
from support.driver import Driver, Fate
from support.histories import Policy
from support.interleavings import Move, decide, pass_time, report, walk
from support.shown import nothing_is_assumed, shown

ANEW = Policy(when_bind_fails=WhenBindFails.RELEASE_GROUP)
DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"


def members(size: int, minimum: int, generation: str = "g") -> list[Pod]:
    """Return members; those of a later generation were recreated by a controller."""
    return [
        make_pod(f"{generation}-{n}", group="g", min_available=minimum, cpu=1) for n in range(size)
    ]


def let_go(size: int, minimum: int, room: int, policy: Policy = ANEW) -> tuple[Driver, list[Bind]]:
    """Return a driver in which a gang was released, with all of its binds under way."""
    driver = Driver(policy.make)
    driver.fate = Fate.PENDING
    driver.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": room})))
    driver.add(*members(size, minimum))
    driver.drain()
    return driver, list(driver.under_way)


def evicted(driver: Driver) -> list[PodUID]:
    """Return whose end was asked for, in order."""
    effects = (effect for told in driver.log for effect in told.effects)
    return [effect.uid for effect in effects if isinstance(effect, Evict)]


def bound(driver: Driver) -> set[str]:
    """Return the bound pods."""
    return {pod.name for pod in driver.cluster.pods() if pod.node_name}


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("done_before", [0, 1, 9])
def test_all_siblings_are_evicted_at_once_when_any_bind_fails(size: int, done_before: int) -> None:
    """F18: for every k; whether the siblings' binds are reported before or after."""
    for k in range(size):
        driver, binds = let_go(size, size, size)
        failing = binds[k]
        others = [bind for bind in binds if bind is not failing]
        for bind in others[:done_before]:
            driver.report(bind, Fate.DONE)
        driver.report(failing, Fate.FAILED)
        assert evicted(driver) == [bind.uid for bind in others[:done_before]]
        for bind in others[done_before:]:
            driver.report(bind, Fate.DONE)
        assert evicted(driver) == [bind.uid for bind in others], "each once, when it is bound"
        # until the last of them is gone, and a whole gang is recreated, no pod is placed
        while driver.dying:
            assert driver.drain() == 0
            driver.end(0)
        driver.settle()
        assert bound(driver) == set()
        driver.fate = Fate.DONE
        driver.add(*members(size - 1, size, "anew"))
        driver.settle()
        assert len(bound(driver)) == size


def test_no_member_is_evicted_while_a_quorum_is_left() -> None:
    """F18: an elastic member's bind fails; the others are enough, and it is tried again alone."""
    driver, binds = let_go(3, 3, 9)
    for bind in binds:
        driver.report(bind, Fate.DONE)
    driver.fate = Fate.FAILED
    driver.add(make_pod("spare", group="g", min_available=3, cpu=1))
    driver.drain()
    assert evicted(driver) == []
    driver.fate = Fate.DONE
    driver.settle()
    assert bound(driver) == {"g-0", "g-1", "g-2", "spare"}


@pytest.mark.parametrize("fresh", [1, 2])
def test_terminating_members_count_for_no_quorum(fresh: int) -> None:
    """F18: new members arrive before the old ones are gone, with capacity for all."""
    driver, binds = let_go(3, 3, 9)
    driver.report(binds[0], Fate.DONE)
    driver.report(binds[1], Fate.DONE)
    driver.report(binds[2], Fate.FAILED)
    driver.add(*members(fresh, 3, "anew"))
    driver.settle()
    started = fresh == 2  # with the member whose bind failed they are three
    assert (len(bound(driver)) + len(driver.under_way) - 2 == 3) is started
    assert len(bound(driver)) == 2


def test_evicted_pod_stays_evicted_whatever_is_reported_meanwhile() -> None:
    """F18: an update without a deletion, a late report, a listing: the end was asked for."""
    driver, binds = let_go(2, 2, 2)
    driver.report(binds[0], Fate.DONE)
    driver.report(binds[1], Fate.FAILED)
    sibling = driver.cluster.pod(binds[0].uid)
    assert sibling is not None
    (info,) = driver.scheduler.registry
    for _turn in range(2):
        driver.tell(PodUpdated(evolve(sibling, annotations={"seen": "yes"})))
        driver.rebuild()
        assert info.scheduled == 0
    assert evicted(driver) == [sibling.uid]
    driver.end(0)
    assert not shown(driver.scheduler).evicted


def recreated(pod: Pod, fresh: Pod) -> Move:
    """A controller recreates a member when the old one is gone."""

    def may(driver: Driver) -> bool:
        return driver.cluster.pod(pod.uid) is None

    return Move(f"recreate {pod.name}", may, lambda d: d.add(fresh))


def ending(driver: Driver) -> bool:
    """Return whether an eviction was requested and has not happened."""
    return bool(driver.dying)


@pytest.mark.parametrize("when_blocked", list(WhenBlocked) if DEEP else [WhenBlocked.AT_ONCE])
def test_binds_ends_and_recreations_in_every_order_lead_to_a_whole_gang(
    when_blocked: WhenBlocked,
) -> None:
    """F18: either bind may fail, the sibling ends at any time, and is recreated at any time."""
    policy = evolve(ANEW, when_blocked=when_blocked)
    driver, _binds = let_go(2, 2, 2, policy)
    driver.logged = False
    old, fresh = members(2, 2), members(2, 2, "anew")
    moves = [decide, pass_time, Move("end", ending, lambda d: d.end(0), None)]
    moves += [report(pod.uid, Fate.DONE, None) for pod in (*old, *fresh)]
    moves += [report(pod.uid, Fate.FAILED) for pod in old]
    moves += [recreated(pod, again) for pod, again in zip(old, fresh, strict=True)]

    def whole(here: Driver) -> None:
        assert len(bound(here)) == 2
        assert nothing_is_assumed(here.scheduler)
        assert not shown(here.scheduler).evicted

    assert walk(driver, moves, at_rest=whole) > 25


@pytest.mark.parametrize("size", [2, 4])
def test_no_pod_is_ever_evicted_without_the_policy(size: int) -> None:
    """F10, F11, F13: nor as a victim, without preemption.

    More urgent gangs and pods arrive while members wait, are bound or are being bound.
    """
    driver, binds = let_go(size, size, size, Policy())
    for number, bind in enumerate(binds):
        urgent = make_pod(f"u-{number}", group="u", min_available=2, cpu=1, priority=number + 1)
        driver.add(evolve(urgent, priority=9))
        driver.settle()
        driver.report(bind, Fate.FAILED if number == 0 else Fate.DONE)
    driver.fate = Fate.DONE
    driver.settle()
    assert evicted(driver) == []
    assert {bind.uid for bind in binds[1:]} <= {
        pod.uid for pod in driver.cluster.pods() if pod.node_name
    }
