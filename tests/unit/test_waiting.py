"""Compare the waiting map with a list of waiting pods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gangsched._core._waiting import WaitingMap, WaitingPod
from gangsched.errors import InvalidValueError
from gangsched.model import GroupKey, NodeName, PodUID

UIDS = [PodUID(f"uid-{number}") for number in range(6)]
GROUPS = [GroupKey("ns/g"), GroupKey("ns/h")]
NODE = NodeName("n")
uids = st.sampled_from(UIDS)
groups = st.sampled_from(GROUPS)


class WaitingMachine(RuleBasedStateMachine):
    """Every operation, on the map and on a list in order of arrival."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = WaitingMap()
        self.model: list[WaitingPod] = []
        self.now = 0.0

    def find(self, uid: PodUID) -> WaitingPod | None:
        return next((pod for pod in self.model if pod.uid == uid), None)

    def leave(self, gone: list[WaitingPod]) -> tuple[WaitingPod, ...]:
        self.model = [pod for pod in self.model if pod not in gone]
        return tuple(gone)

    @rule(
        uid=uids,
        group=st.none() | groups,
        timeout=st.sampled_from([0, 1, 2, 3]),
        attempt=st.integers(1, 2),
    )
    def wait(self, uid: PodUID, group: GroupKey | None, timeout: float, attempt: int) -> None:
        how: dict[str, Any] = {"node": NODE, "timeout": timeout, "now": self.now}
        if self.find(uid) is not None:
            with pytest.raises(InvalidValueError):
                self.waiting.wait(uid, **how)
            return
        expected = WaitingPod(uid, group, NODE, attempt, self.now, self.now + timeout)
        assert self.waiting.wait(uid, group=group, attempt=attempt, **how) == expected
        self.model.append(expected)

    @rule(timeout=st.sampled_from([-1, float("nan"), float("inf"), None, "1"]))
    def wait_badly(self, timeout: Any) -> None:
        with pytest.raises(InvalidValueError):
            self.waiting.wait(UIDS[0], node=NODE, timeout=timeout, now=self.now)

    @rule(group=groups)
    def allow(self, group: GroupKey) -> None:
        gone = [pod for pod in self.model if pod.group == group]
        assert self.waiting.allow(group) == self.leave(gone)

    @rule(group=groups, attempt=st.none() | st.integers(1, 2))
    def reject(self, group: GroupKey, attempt: int | None) -> None:
        gone = [p for p in self.model if p.group == group and attempt in (None, p.attempt)]
        assert self.waiting.reject(group, attempt=attempt) == self.leave(gone)

    @rule(uid=uids)
    def remove(self, uid: PodUID) -> None:
        found = self.find(uid)
        assert self.waiting.remove(uid) == found
        self.leave([] if found is None else [found])

    @rule(step=st.sampled_from([0.0, 0.5, 1.0, 2.5]))
    def expire(self, step: float) -> None:
        self.now += step
        due = sorted((p for p in self.model if p.deadline <= self.now), key=lambda p: p.deadline)
        assert self.waiting.expire(now=self.now) == self.leave(due)

    @invariant()
    def agrees(self) -> None:
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


def waits(*timeouts: float) -> WaitingMap:
    made = WaitingMap()
    for uid, timeout in zip(UIDS, timeouts, strict=False):
        made.wait(uid, node=NODE, timeout=timeout, now=10.0, group=GROUPS[0])
    return made


def test_pod_expires_at_its_deadline() -> None:
    """The wait ends at the deadline, not after it."""
    waiting = waits(5.0)
    assert waiting.expire(now=14.999) == ()
    assert [pod.uid for pod in waiting.expire(now=15.0)] == UIDS[:1]
    assert len(waiting) == 0


def test_zero_timeout_expires_at_once() -> None:
    """F28."""
    waiting = waits(0)
    assert len(waiting.expire(now=10.0)) == 1


@pytest.mark.parametrize("timeout", [1e300, 10**9, 0, 1e-9])
def test_finite_wait_is_never_shortened(timeout: float) -> None:
    """F27: no silent cap."""
    pod = WaitingMap().wait(UIDS[0], node=NODE, timeout=timeout, now=1.0)
    assert pod.deadline == 1.0 + timeout


@pytest.mark.parametrize(
    "timeout", [-1, -1e-9, float("nan"), float("inf"), float("-inf"), 10**400, None, "5"]
)
def test_invalid_timeout_is_refused(timeout: Any) -> None:
    waiting = waits(5.0)
    with pytest.raises(InvalidValueError) as caught:
        waiting.wait(UIDS[1], node=NODE, timeout=timeout, now=10.0, group=GROUPS[1])
    assert caught.value.field == "timeout"
    assert repr(caught.value.value) == repr(timeout)
    assert UIDS[1] not in waiting
    assert list(waiting.groups()) == GROUPS[:1]
    waiting._check()


def test_pod_may_wait_without_group() -> None:
    pod = WaitingMap().wait(UIDS[0], node=NODE, timeout=1, now=2)
    assert pod == WaitingPod(UIDS[0], None, NODE, attempt=1, since=2, deadline=3)


def test_pod_waits_only_once() -> None:
    waiting = waits(5.0)
    with pytest.raises(InvalidValueError) as caught:
        waiting.wait(UIDS[0], node=NODE, timeout=9.0, now=10.0, group=GROUPS[1])
    assert (caught.value.field, caught.value.value) == ("uid", UIDS[0])
    assert waiting.next_deadline() == 15.0
    waiting._check()


def test_replaced_pod_keeps_its_place_and_gets_its_new_deadline() -> None:
    waiting = waits(5.0, 7.0)
    first, second = waiting
    waiting.replace(evolve(first, deadline=second.deadline + 1, pending_plugins=("P",)))
    assert [pod.uid for pod in waiting] == [first.uid, second.uid]
    assert waiting.next_deadline() == second.deadline
    waiting._check()


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        (lambda _pod: None, "pod", None),
        (lambda pod: evolve(pod, uid=UIDS[5]), "uid", UIDS[5]),
        (lambda pod: evolve(pod, group=GROUPS[1]), "group", GROUPS[1]),
    ],
)
def test_pod_is_replaced_by_its_own_entry_only(
    change: Callable[[WaitingPod], Any], field: str, value: object
) -> None:
    waiting = waits(5.0)
    (before,) = waiting
    with pytest.raises(InvalidValueError) as caught:
        waiting.replace(change(before))
    assert (caught.value.field, caught.value.value) == (field, value)
    assert list(waiting) == [before]
    waiting._check()


@pytest.mark.parametrize("names", ["P", ("P", 3), None])
def test_pending_plugins_are_a_tuple_of_names(names: Any) -> None:
    (before,) = waits(5.0)
    with pytest.raises(InvalidValueError, match="pending_plugins"):
        evolve(before, pending_plugins=names)


def test_reject_of_an_old_attempt_keeps_the_new_one() -> None:
    """F14."""
    waiting = WaitingMap()
    for attempt, uid in enumerate(UIDS[:2], start=1):
        waiting.wait(uid, node=NODE, timeout=5, now=0, group=GROUPS[0], attempt=attempt)
    assert [pod.uid for pod in waiting.reject(GROUPS[0], attempt=1)] == [UIDS[0]]
    assert [pod.uid for pod in waiting] == [UIDS[1]]
    assert waiting.reject(GROUPS[0], attempt=1) == ()


@given(st.lists(st.integers(0, 3), max_size=6), st.integers(0, 4))
def test_pods_expire_by_deadline_then_arrival(timeouts: list[int], later: int) -> None:
    waiting = waits(*timeouts)
    due = sorted((timeout, uid) for uid, timeout in zip(UIDS, timeouts, strict=False))
    expected = [uid for timeout, uid in due if timeout <= later]
    assert [pod.uid for pod in waiting.expire(now=10.0 + later)] == expected


@given(st.lists(st.integers(0, 3), max_size=6))
def test_allow_removes_all_members_of_a_group(timeouts: list[int]) -> None:
    waiting = waits(*timeouts)
    waiting.wait(PodUID("other"), node=NODE, timeout=1, now=10.0, group=GROUPS[1])
    assert [pod.uid for pod in waiting.allow(GROUPS[0])] == UIDS[: len(timeouts)]
    assert [pod.uid for pod in waiting] == ["other"]
    assert list(waiting.groups()) == GROUPS[1:]


def test_empty_map_keeps_nothing() -> None:
    """F38."""
    waiting = waits(1, 2, 3)
    waiting.expire(now=99.0)
    assert [len(part) for part in (waiting._pods, waiting._groups, waiting._deadlines)] == [0] * 3
