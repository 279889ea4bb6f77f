"""The waiting map, beside a list of waiting pods, and one rule in each test."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from attrs import evolve
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gangsched import GroupKey, InvalidValueError, NodeName, PodUID, WaitingMap, WaitingPod
from support.fingerprint import fingerprint

UIDS = [PodUID(f"uid-{number}") for number in range(6)]
G, H = GROUPS = [GroupKey("ns/g"), GroupKey("ns/h")]
NODE = NodeName("n")
uids, groups, attempts = st.sampled_from(UIDS), st.sampled_from(GROUPS), st.integers(1, 2)


def put(waiting: WaitingMap, number: int, timeout: Any, now: float = 0.0, **how: Any) -> WaitingPod:
    return waiting.wait(UIDS[number], node=NODE, timeout=timeout, now=now, **how)


class WaitingMachine(RuleBasedStateMachine):
    """Every operation, on the map and on a list in order of arrival."""

    @initialize(start=st.sampled_from([0.0, -5.0, 1e9, 1e18]))
    def begin(self, start: float) -> None:
        self.waiting, self.model, self.now = WaitingMap(), list[WaitingPod](), start

    def find(self, uid: PodUID) -> WaitingPod | None:
        return next((pod for pod in self.model if pod.uid == uid), None)

    def leave(self, gone: list[WaitingPod]) -> tuple[WaitingPod, ...]:
        self.model = [pod for pod in self.model if pod not in gone]
        return tuple(gone)

    @rule(
        uid=uids,
        group=st.none() | groups,
        timeout=st.sampled_from([0, 1e-9, 0.5, 1, 2, 600, 1e18]),
        attempt=attempts,
    )
    def wait(self, uid: PodUID, group: GroupKey | None, timeout: float, attempt: int) -> None:
        how: dict[str, Any] = {"node": NODE, "timeout": timeout, "now": self.now}
        if self.find(uid) is not None:
            with pytest.raises(InvalidValueError, match="uid"):
                self.waiting.wait(uid, **how)
            return
        expected = WaitingPod(uid, group, NODE, attempt, self.now, self.now + timeout)
        assert self.waiting.wait(uid, group=group, attempt=attempt, **how) == expected
        self.model.append(expected)

    @rule(uid=uids, seconds=st.sampled_from([0.0, 1.0, 5.0]))
    def postpone(self, uid: PodUID, seconds: float) -> None:
        if (pod := self.find(uid)) is not None:
            later = evolve(pod, deadline=self.now + seconds, pending_plugins=("P",))
            self.waiting.replace(later)
            self.model[self.model.index(pod)] = later

    @rule(group=groups)
    def allow(self, group: GroupKey) -> None:
        gone = [pod for pod in self.model if pod.group == group]
        assert self.waiting.allow(group) == self.leave(gone)

    @rule(group=groups, attempt=st.none() | attempts)
    def reject(self, group: GroupKey, attempt: int | None) -> None:
        gone = [p for p in self.model if p.group == group and attempt in (None, p.attempt)]
        assert self.waiting.reject(group, attempt=attempt) == self.leave(gone)

    @rule(uid=uids)
    def remove(self, uid: PodUID) -> None:
        found = self.find(uid)
        assert self.waiting.remove(uid) == found
        self.leave([] if found is None else [found])

    @rule(step=st.sampled_from([0.0, 1e-9, 0.5, 1.0, 2.5, 1e9]), passing=st.booleans())
    def expire(self, step: float, passing: bool) -> None:
        self.now += step
        begun_before = math.inf if passing else self.now
        due = [pod for pod in self.model if pod.deadline <= self.now and pod.since < begun_before]
        due.sort(key=lambda pod: pod.deadline)  # stable: then by arrival
        assert self.waiting.expire(now=self.now, begun_before=begun_before) == self.leave(due)

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "waiting"):
            return
        self.waiting._check()
        assert list(self.waiting) == self.model
        assert len(self.waiting) == len(self.model)
        assert self.waiting.next_deadline() == min((p.deadline for p in self.model), default=None)
        for uid in UIDS:
            assert self.waiting.get(uid) == self.find(uid)
            assert (uid in self.waiting) is (self.find(uid) is not None)
        for group in GROUPS:
            assert self.waiting.of(group) == tuple(p for p in self.model if p.group == group)
        assert set(self.waiting.groups()) == {p.group for p in self.model if p.group}


TestWaitingMachine = WaitingMachine.TestCase


@pytest.mark.parametrize("timeout", [1e300, 10**18, 0, -0.0, 1e-9])
def test_finite_wait_is_never_shortened(timeout: float) -> None:
    """F27, F28: no silent cap, and zero is no wait."""
    waiting = WaitingMap()
    pod = put(waiting, 0, timeout, now=1.0)
    assert pod.deadline == 1.0 + timeout
    assert waiting.expire(now=math.nextafter(pod.deadline, -1)) == ()
    assert waiting.expire(now=pod.deadline) == (pod,)


@pytest.mark.parametrize(
    ("now", "timeout"), [(1e18, 1.0), (1e18, 1e-9), (2.0**53, 1.0), (1e9, 1e-9)]
)
def test_timeout_below_clock_resolution_is_rounded_and_never_negative(
    now: float, timeout: float
) -> None:
    pod = put(WaitingMap(), 0, timeout, now=now)
    assert pod.deadline >= now
    exact = Fraction(now) + Fraction(timeout)
    assert abs(Fraction(pod.deadline) - exact) <= Fraction(math.ulp(now + timeout)) / 2


@pytest.mark.parametrize(
    "timeout", [-1, -1e-9, math.nan, math.inf, -math.inf, 10**400, None, True, "5"]
)
def test_invalid_timeout_is_refused(timeout: Any) -> None:
    """F28: there is no default timeout, and no wait ends before it begins."""
    waiting = WaitingMap()
    put(waiting, 0, 5.0, group=G)
    before = fingerprint(waiting)
    with pytest.raises(InvalidValueError) as caught:
        put(waiting, 1, timeout, group=H)
    assert caught.value.field == "timeout"
    assert repr(caught.value.value) == repr(timeout)
    assert fingerprint(waiting) == before


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        (lambda _pod: None, "pod", None),
        (lambda pod: evolve(pod, uid=UIDS[5]), "uid", UIDS[5]),
        (lambda pod: evolve(pod, group=H), "group", H),
        (lambda pod: evolve(pod, pending_plugins="P"), "pending_plugins", "P"),
        (lambda pod: evolve(pod, pending_plugins=("P", 3)), "pending_plugins", ("P", 3)),
    ],
)
def test_pod_is_replaced_by_its_own_valid_entry_only(
    change: Callable[[WaitingPod], Any], field: str, value: object
) -> None:
    waiting = WaitingMap()
    before = put(waiting, 0, 5.0, group=G)
    with pytest.raises(InvalidValueError) as caught:
        waiting.replace(change(before))
    assert (caught.value.field, caught.value.value) == (field, value)
    assert list(waiting) == [before]


def test_reject_of_an_old_attempt_keeps_the_new_one() -> None:
    """F14."""
    waiting = WaitingMap()
    for attempt in (1, 2):
        put(waiting, attempt, 5, group=G, attempt=attempt)
    assert [pod.uid for pod in waiting.reject(G, attempt=1)] == [UIDS[1]]
    assert [pod.uid for pod in waiting] == [UIDS[2]]
    assert waiting.reject(G, attempt=1) == ()


def test_query_of_unknown_group_creates_nothing() -> None:
    """F41."""
    waiting = WaitingMap()
    put(waiting, 1, 5, group=H)
    before = fingerprint(waiting)
    assert waiting.of(G) == waiting.allow(G) == waiting.reject(G) == ()
    assert fingerprint(waiting) == before


def test_deadlines_of_pods_that_wait_no_more_are_dropped() -> None:
    """F38: the heap of deadlines drops entries late, but drops them."""
    waiting = WaitingMap()
    for n in range(1000):
        waiting.wait(PodUID(f"p{n}"), node=NODE, timeout=600.0, now=0.0)
    for n in range(999):
        waiting.remove(PodUID(f"p{n}"))
    assert len(waiting._deadlines) < 100
    waiting.expire(now=600.0)
    assert [len(part) for part in (waiting._pods, waiting._groups, waiting._deadlines)] == [0] * 3


def test_pods_expire_in_order_after_the_deadlines_of_others_are_dropped() -> None:
    waiting = WaitingMap()
    timeouts = [n * 7919 % 1000 for n in range(1000)]
    for n, timeout in enumerate(timeouts):
        waiting.wait(PodUID(f"p{n}"), node=NODE, timeout=timeout, now=0.0)
    for n in range(1000):
        if n % 50:
            waiting.remove(PodUID(f"p{n}"))
    expired = waiting.expire(now=1000.0)
    assert [pod.deadline for pod in expired] == sorted(timeouts[::50])
