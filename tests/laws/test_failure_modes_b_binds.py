"""Failure mode 3.B, F18: binds that fail after the release, and reports in flight."""

from __future__ import annotations

import os
from itertools import product

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    Evict,
    GroupScheduled,
    MatchPolicy,
    Pod,
    PodUID,
    PodUpdated,
    WhenBindFails,
    WhenBlocked,
)
from gangsched.testing import make_pod
from support.driver import Driver, Fate
from support.examples import one_in
from support.gangs import members, node
from support.histories import Policy, policies
from support.interleavings import Move, decide, pass_time, report, walk
from support.shown import nothing_is_assumed, shown

gangs = policies.filter(
    lambda policy: (
        policy.gangs
        and policy.match_policy is MatchPolicy.ONCE_SATISFIED
        and policy.when_bind_fails is WhenBindFails.RETRY_MEMBER
    )
)


def let_go(
    size: int, minimum: int, room: int, policy: Policy | None = None
) -> tuple[Driver, list[Bind]]:
    """Return a driver in which a gang was released, with all of its binds under way."""
    driver = Driver((policy or Policy()).make)
    driver.fate = Fate.PENDING
    driver.tell(node("n", room))
    driver.add(*members("g", size, minimum, cpu=1))
    driver.drain()
    return driver, list(driver.under_way)


@pytest.mark.parametrize("fates", list(product([Fate.DONE, Fate.FAILED], repeat=3)))
def test_three_binds_end_in_three_running_pods_whatever_fails(fates: tuple[Fate, ...]) -> None:
    """F18: all eight ways; with every bind failed it is a gang again, and is released as one."""
    driver, binds = let_go(3, 3, 3)
    for bind, fate in zip(binds, fates, strict=True):
        driver.report(bind, fate)
    driver.fate = Fate.DONE
    driver.settle()
    assert len(driver.running()) == 3
    starts = driver.effects(GroupScheduled)
    assert len(starts) == (2 if set(fates) == {Fate.FAILED} else 1)


@one_in(2)
@given(gangs, st.integers(2, 6), st.data())
def test_member_whose_bind_always_fails_blocks_no_other_pod(
    policy: Policy, size: int, data: st.DataObject
) -> None:
    """F18: other entities are decided meanwhile, and the member is tried once per backoff."""
    driver = Driver(policy.make)
    driver.tell(node("n", size + 2))
    driver.fate = Fate.PENDING
    driver.add(*members("g", size, cpu=1))
    driver.drain()
    bad = data.draw(st.sampled_from(driver.under_way)).uid
    failures = 0
    driver.checked = False
    for turn in range(12):
        if turn == 3:
            driver.add(*members("h", 2, cpu=1))
        driver.drain()
        for bind in list(driver.under_way):
            failures += bind.uid == bad
            driver.report(bind, Fate.FAILED if bind.uid == bad else Fate.DONE)
        driver.drain()
        due = driver.scheduler.next_deadline()
        assert due is not None
        driver.advance(due)
    assert len(driver.running()) == size + 1
    assert failures == 12
    assert driver.now >= 12.0


ANEW = Policy(when_bind_fails=WhenBindFails.RELEASE_GROUP)
DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"


def evicted(driver: Driver) -> list[PodUID]:
    """Return whose end was asked for, in order."""
    effects = (effect for told in driver.log for effect in told.effects)
    return [effect.uid for effect in effects if isinstance(effect, Evict)]


@pytest.mark.parametrize("size", [3])
@pytest.mark.parametrize("done_before", [0, 1, 9])
def test_all_siblings_are_evicted_at_once_when_any_bind_fails(size: int, done_before: int) -> None:
    """F18: for every k; whether the siblings' binds are reported before or after."""
    for k in range(size):
        driver, binds = let_go(size, size, size, ANEW)
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
        assert driver.running() == set()
        driver.fate = Fate.DONE
        driver.add(*members("g", size - 1, size, prefix="anew-", cpu=1))
        driver.settle()
        assert len(driver.running()) == size


def test_evicted_pod_stays_evicted_whatever_is_reported_meanwhile() -> None:
    """F18: an update without a deletion, a late report, a listing: the end was asked for."""
    driver, binds = let_go(2, 2, 2, ANEW)
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
    old, fresh = members("g", 2, cpu=1), members("g", 2, prefix="anew-", cpu=1)
    moves = [decide, pass_time, Move("end", ending, lambda d: d.end(0), None)]
    moves += [report(pod.uid, Fate.DONE, None) for pod in (*old, *fresh)]
    moves += [report(pod.uid, Fate.FAILED) for pod in old]
    moves += [recreated(pod, again) for pod, again in zip(old, fresh, strict=True)]

    def whole(here: Driver) -> None:
        assert len(here.running()) == 2
        assert nothing_is_assumed(here.scheduler)
        assert not shown(here.scheduler).evicted

    assert walk(driver, moves, at_rest=whole) > 25


@pytest.mark.parametrize("size", [2, 4])
def test_no_pod_is_ever_evicted_without_the_policy(size: int) -> None:
    """F10, F11, F13: nor as a victim, without preemption.

    More urgent gangs and pods arrive while members wait, are bound or are being bound.
    """
    driver, binds = let_go(size, size, size)
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
