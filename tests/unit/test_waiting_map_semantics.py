"""The waiting map: timeouts, instants, attempts and orders, one rule in each test.

``test_waiting.py`` compares the map with a list. The model here is a list too, but with
instants of any size.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gangsched import GroupKey, InvalidValueError, NodeName, PodUID, WaitingMap, WaitingPod
from support.fingerprint import fingerprint

NODE = NodeName("n")
G, H = GroupKey("ns/g"), GroupKey("ns/h")


def uid(number: int) -> PodUID:
    return PodUID(f"uid-{number}")


def waits(waiting: WaitingMap, number: int, timeout: Any, now: float = 0.0, **how: Any) -> Any:
    return waiting.wait(uid(number), node=NODE, timeout=timeout, now=now, **how)


# Timeouts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [None, -0.5, -1e18, math.nan, math.inf, -math.inf, True, "0"])
def test_none_negative_and_nan_are_no_timeouts(timeout: Any) -> None:
    """F28: there is no default timeout, and no wait ends before it begins."""
    waiting = WaitingMap()
    waits(waiting, 1, 5.0)
    before = fingerprint(waiting)
    with pytest.raises(InvalidValueError) as caught:
        waits(waiting, 2, timeout)
    assert caught.value.field == "timeout"
    assert repr(caught.value.value) == repr(timeout)
    assert fingerprint(waiting) == before


def test_minus_zero_timeout_is_zero() -> None:
    assert waits(WaitingMap(), 1, -0.0, now=3.0).deadline == 3.0


def test_zero_timeout_expires_at_its_start_and_not_before() -> None:
    """F28: ``begun_before`` excludes waits that began at that instant."""
    waiting = WaitingMap()
    pod = waits(waiting, 1, 0, now=7.0)
    assert (pod.since, pod.deadline, waiting.next_deadline()) == (7.0, 7.0, 7.0)
    assert waiting.expire(now=6.999) == ()
    assert waiting.expire(now=7.0, begun_before=7.0) == ()
    assert waiting.expire(now=7.0, begun_before=7.5) == (pod,)


@pytest.mark.parametrize("timeout", [1e9, 1e18, 1e300, 10**18])
def test_huge_timeout_is_exact(timeout: float) -> None:
    """F27: no timeout is cut to fifteen minutes."""
    waiting = WaitingMap()
    pod = waits(waiting, 1, timeout, now=5.0)
    assert pod.deadline == 5.0 + timeout
    assert waiting.expire(now=math.nextafter(pod.deadline, 0)) == ()
    assert waiting.expire(now=pod.deadline) == (pod,)


@pytest.mark.parametrize(
    ("now", "timeout"), [(1e18, 1.0), (1e18, 1e-9), (2.0**53, 1.0), (1e9, 1e-9)]
)
def test_timeout_below_clock_resolution_expires_at_the_nearest_instant(
    now: float, timeout: float
) -> None:
    """A deadline beyond float precision is rounded, but never to before the start."""
    waiting = WaitingMap()
    pod = waits(waiting, 1, timeout, now=now)
    assert now <= pod.deadline <= math.nextafter(now + timeout, math.inf)
    exact = Fraction(now) + Fraction(timeout)
    assert abs(Fraction(pod.deadline) - exact) <= Fraction(math.ulp(now + timeout)) / 2
    assert waiting.expire(now=pod.deadline) == (pod,)


seconds = st.floats(min_value=0, max_value=1e18) | st.integers(0, 10**18)
instants = st.floats(min_value=-1e18, max_value=1e18)


@given(st.lists(st.tuples(instants, seconds), max_size=8), instants)
def test_expire_returns_exactly_the_due_pods(
    waits_: list[tuple[float, float]], until: float
) -> None:
    waiting = WaitingMap()
    pods = [waits(waiting, n, timeout, now=now) for n, (now, timeout) in enumerate(waits_)]
    assert all(pod.deadline >= pod.since for pod in pods)
    assert waiting.next_deadline() == min((pod.deadline for pod in pods), default=None)
    due = [pod for pod in pods if pod.deadline <= until]
    assert list(waiting.expire(now=until)) == sorted(due, key=lambda pod: pod.deadline)
    assert list(waiting) == [pod for pod in pods if pod not in due]
    waiting._check()


# Identity -------------------------------------------------------------------------------------


def test_pod_is_found_by_uid_only() -> None:
    """F21: two pods with the same name are different pods."""
    waiting = WaitingMap()
    first = waits(waiting, 1, 5, group=G)
    second = waits(waiting, 2, 5, group=G)
    assert (waiting.get(uid(1)), waiting.get(uid(2))) == (first, second)
    assert waiting.get(PodUID("ns/p")) is None
    assert uid(1) in waiting
    assert first not in waiting
    assert None not in waiting
    assert waiting.remove(uid(1)) is first
    assert waiting.get(uid(1)) is None
    assert waiting.remove(uid(1)) is None
    assert waiting.get(uid(2)) is second


def test_removed_pod_may_wait_again_as_last() -> None:
    waiting = WaitingMap()
    for number in range(3):
        waits(waiting, number, 5, group=G)
    waiting.remove(uid(0))
    waits(waiting, 0, 5, group=G, attempt=2)
    assert [pod.uid for pod in waiting.of(G)] == [uid(1), uid(2), uid(0)]
    assert [pod.uid for pod in waiting] == [uid(1), uid(2), uid(0)]
    assert [pod.uid for pod in waiting.expire(now=5.0)] == [uid(1), uid(2), uid(0)]


@given(st.lists(st.sampled_from([G, H, None]), max_size=9))
def test_group_lists_members_in_order_of_arrival(
    groups: list[GroupKey | None],
) -> None:
    waiting = WaitingMap()
    for number, group in enumerate(groups):
        waits(waiting, number, 9 - number, group=group)
    for group in (G, H):
        expected = [uid(n) for n, one in enumerate(groups) if one == group]
        assert [pod.uid for pod in waiting.of(group)] == expected
        assert [pod.uid for pod in waiting.allow(group)] == expected
    assert [pod.uid for pod in waiting] == [uid(n) for n, one in enumerate(groups) if one is None]


def test_query_of_unknown_group_creates_nothing() -> None:
    """F41."""
    waiting = WaitingMap()
    waits(waiting, 1, 5, group=H)
    before = fingerprint(waiting)
    assert (waiting.of(G), waiting.allow(G), waiting.reject(G), waiting.reject(G, attempt=1)) == (
        (),
        (),
        (),
        (),
    )
    assert list(waiting.groups()) == [H]
    assert fingerprint(waiting) == before


def test_pod_without_group_is_not_released_with_a_group() -> None:
    waiting = WaitingMap()
    waits(waiting, 1, 5)
    assert list(waiting.groups()) == []
    assert waiting.remove(uid(1)) is not None
    assert len(waiting) == 0


# Attempts -------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.sampled_from([G, H]), st.integers(1, 3)), max_size=8), st.integers(1, 3)
)
def test_reject_affects_only_its_group_and_attempt(
    members: list[tuple[GroupKey, int]], attempt: int
) -> None:
    """F14: each group numbers its own attempts."""
    waiting = WaitingMap()
    for number, (group, own) in enumerate(members):
        waits(waiting, number, 5, group=group, attempt=own)
    expected = [uid(n) for n, member in enumerate(members) if member == (G, attempt)]
    assert [pod.uid for pod in waiting.reject(G, attempt=attempt)] == expected
    assert len(waiting) == len(members) - len(expected)
    assert waiting.reject(G, attempt=attempt) == ()
    waiting._check()
    rest = [uid(n) for n, (group, own) in enumerate(members) if group == G and own != attempt]
    assert [pod.uid for pod in waiting.reject(G)] == rest


# All of it together ---------------------------------------------------------------------------


class MeaningMachine(RuleBasedStateMachine):
    """The map and a list of waiting pods, with a clock that makes steps of any size."""

    @initialize(start=st.sampled_from([0.0, -5.0, 1e9, 1e18]))
    def begin(self, start: float) -> None:
        self.waiting = WaitingMap()
        self.model: list[WaitingPod] = []
        self.now = start
        self.number = 0

    def leave(self, gone: list[WaitingPod]) -> tuple[WaitingPod, ...]:
        self.model = [pod for pod in self.model if pod not in gone]
        return tuple(gone)

    @rule(
        group=st.sampled_from([G, H, None]),
        timeout=st.sampled_from([0, 1e-9, 0.5, 1, 600, 1e18]),
        attempt=st.integers(1, 2),
    )
    def wait(self, group: GroupKey | None, timeout: float, attempt: int) -> None:
        self.number += 1
        pod = waits(self.waiting, self.number, timeout, self.now, group=group, attempt=attempt)
        assert pod == WaitingPod(
            uid(self.number), group, NODE, attempt, self.now, self.now + timeout
        )
        self.model.append(pod)

    @rule(step=st.sampled_from([0.0, 1e-9, 0.5, 1.0, 1e9]), passing=st.booleans())
    def expire(self, step: float, passing: bool) -> None:
        self.now += step
        begun_before = math.inf if passing else self.now
        due = [pod for pod in self.model if pod.deadline <= self.now and pod.since < begun_before]
        due.sort(key=lambda pod: pod.deadline)  # stable: then by arrival
        assert self.waiting.expire(now=self.now, begun_before=begun_before) == self.leave(due)

    @rule(group=st.sampled_from([G, H]), attempt=st.none() | st.integers(1, 2))
    def reject(self, group: GroupKey, attempt: int | None) -> None:
        gone = [p for p in self.model if p.group == group and attempt in (None, p.attempt)]
        assert self.waiting.reject(group, attempt=attempt) == self.leave(gone)

    @rule(group=st.sampled_from([G, H]))
    def allow(self, group: GroupKey) -> None:
        gone = [pod for pod in self.model if pod.group == group]
        assert self.waiting.allow(group) == self.leave(gone)

    @rule(back=st.integers(0, 5))
    def remove(self, back: int) -> None:
        wanted = uid(self.number - back)
        found = next((pod for pod in self.model if pod.uid == wanted), None)
        assert self.waiting.remove(wanted) == found
        self.leave([] if found is None else [found])

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "waiting"):
            return
        self.waiting._check()
        assert list(self.waiting) == self.model
        assert self.waiting.next_deadline() == min((p.deadline for p in self.model), default=None)
        for group in (G, H):
            assert list(self.waiting.of(group)) == [p for p in self.model if p.group == group]
        assert {p.group for p in self.model if p.group} == set(self.waiting.groups())


TestMeaningMachine = MeaningMachine.TestCase
