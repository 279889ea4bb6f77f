"""The gang barrier without a driver: releases, rejections, and memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Effect,
    GangMember,
    Gate,
    GroupKey,
    GroupRejected,
    GroupScheduled,
    InvalidPodGroupError,
    InvalidValueError,
    MatchPolicy,
    MemberState,
    NodeName,
    PodGroup,
    PodRejected,
    PodUID,
    PodWaiting,
    Release,
)
from gangsched.errors import InternalError
from gangsched.testing import make_pod
from support.fingerprint import fingerprint


def member(
    uid: str, group: str = "g", least: int | None = 3, role: str | None = None
) -> GangMember:
    return GangMember(uid=uid, group=group, min_available=least, role=role, place="here")


G = GroupKey("g")
HERE = NodeName("here")


def uids(*given: str) -> tuple[PodUID, ...]:
    return tuple(map(PodUID, given))


def gone(effects: tuple[Effect, ...]) -> list[str]:
    return [uid for effect in effects if isinstance(effect, Release) for uid in effect.members]


def fell(effects: tuple[Effect, ...]) -> list[str]:
    return [effect.uid for effect in effects if isinstance(effect, PodRejected)]


# Going ------------------------------------------------------------------------------------------


def test_last_member_releases_all_in_order_of_arrival() -> None:
    gate = Gate(timeout=10)
    (waits,) = gate.arrive(member("a"), now=1)
    assert waits == PodWaiting(PodUID("a"), HERE, 11, 2)
    gate.arrive(member("b"), now=2)
    release, scheduled = gate.arrive(member("c"), now=3)
    assert release == Release(G, uids("a", "b", "c"))
    assert scheduled == GroupScheduled(G, 1, 3, 2)
    assert gate.next_deadline() is None


def test_pod_without_group_does_not_wait() -> None:
    gate = Gate()
    assert gate.arrive(make_pod("p"), now=0) == ()
    assert len(gate) == 0


def test_group_of_a_pod_is_read_from_its_labels() -> None:
    gate = Gate()
    for n in range(2):
        effects = gate.arrive(make_pod(f"p{n}", group="g", min_available=2), now=0)
    assert gone(effects) == ["default/p0", "default/p1"]


def test_minimum_of_one_is_released_at_once() -> None:
    assert gone(Gate().arrive(member("a", least=1), now=0)) == ["a"]


def test_specification_sets_minimum_and_roles() -> None:
    gate = Gate()
    spec = PodGroup(name="g", min_available=2, roles={"ps": 1}, schedule_timeout=3)
    gate.set_spec(spec, now=0)
    gate.arrive(member("default-w0", "default/g", None, "worker"), now=0)
    assert gone(gate.arrive(member("w1", "default/g", None, "worker"), now=1)) == []
    assert gate.next_deadline() == 3
    assert len(gone(gate.arrive(member("s", "default/g", None, "ps"), now=2))) == 3


def test_waiting_members_are_released_when_a_minimum_is_declared() -> None:
    gate = Gate()
    gate.arrive(member("a", "default/g", None), now=0)
    assert gone(gate.set_spec(PodGroup(name="g", min_available=1), now=1)) == ["a"]


def test_specification_above_waiting_members_releases_none() -> None:
    gate = Gate()
    gate.arrive(member("a", "default/g", None), now=0)
    assert gate.set_spec(PodGroup(name="g", min_available=2), now=1) == ()
    assert [wait.uid for wait in gate.waiting] == ["a"]


def test_specification_of_a_released_gang_releases_none() -> None:
    gate = Gate()
    gate.arrive(member("a", "default/g", 1), now=0)
    assert gate.set_spec(PodGroup(name="g", min_available=1), now=1) == ()


def test_undeclare_leaves_the_minimum_of_members() -> None:
    gate = Gate()
    gate.set_spec(PodGroup(name="g", min_available=3), now=0)
    gate.arrive(member("a", "default/g", 1), now=0)
    assert gone(gate.delete_spec("default/g", now=1)) == ["a"]


def test_late_member_is_released_at_once_while_a_sibling_runs() -> None:
    gate = Gate()
    for uid in "abc":
        gate.arrive(member(uid), now=0)
    assert gate.arrive(member("d"), now=5) == (Release(G, uids("d")),)
    for uid in "abcd":
        gate.leave(uid, now=6)
    assert gone(gate.arrive(member("e"), now=7)) == []


@pytest.mark.parametrize(
    ("policy", "goes"),
    [
        (MatchPolicy.ONCE_SATISFIED, True),
        (MatchPolicy.WAITING_AND_RUNNING, True),
        (MatchPolicy.ONLY_WAITING, False),
    ],
)
def test_match_policy_selects_members_that_count(policy: MatchPolicy, goes: bool) -> None:
    gate = Gate(match_policy=policy)
    for uid in "abc":
        gate.arrive(member(uid), now=0)
    gate.leave("a", now=1)
    assert bool(gone(gate.arrive(member("d"), now=2))) is goes


@pytest.mark.parametrize("priority", [0, 7])
def test_task_has_the_priority_of_its_gang(priority: int) -> None:
    gate = Gate()
    gate.arrive(make_pod("p", group="g", min_available=2, priority=priority), now=0)
    assert len(gone(gate.arrive(member("a", "default/g", 2), now=0))) == 2
    gate.set_spec(PodGroup(name="h", min_available=1, priority=priority), now=0)
    assert gone(gate.arrive(member("b", "default/h", None), now=0)) == ["b"]
    gate.arrive(member("c", "default/i"), now=0)
    alone = gate.groups.get(GroupKey("default/i"))
    assert alone is not None
    assert alone.priority == 0


# Rejection --------------------------------------------------------------------------------------


def test_deadline_rejects_the_whole_attempt() -> None:
    """Laws 2 and 6: members that arrive one after another share one deadline."""
    gate = Gate(timeout=10)
    gate.arrive(member("a"), now=0)
    gate.arrive(member("b"), now=8)
    assert gate.advance(now=9.5) == ()
    effects = gate.advance(now=10)
    assert fell(effects) == ["a", "b"]
    assert effects[-1] == GroupRejected(
        G, 1, "timed out after 10s: 2 of 3 members held a place", 10
    )
    assert len(gate) == len(gate.groups) == 0


@pytest.mark.parametrize(("given", "seconds"), [({}, 60), ({"timeout": 0}, 0), ({"timeout": 1}, 1)])
def test_default_timeout_is_one_minute(given: dict[str, Any], seconds: float) -> None:
    gate = Gate(**given)
    assert gate.arrive(member("a"), now=7) == (PodWaiting(PodUID("a"), HERE, 7 + seconds, 2),)


def test_shorter_timeout_of_one_member_ends_the_attempt() -> None:
    gate = Gate(timeout=10)
    gate.arrive(member("a"), now=0)
    gate.arrive(member("b"), now=0, timeout=1)
    assert gate.next_deadline() == 1
    assert sorted(fell(gate.advance(now=1))) == ["a", "b"]


def test_longer_timeout_of_one_member_is_cut_to_the_attempt() -> None:
    gate = Gate(timeout=10)
    gate.arrive(member("a"), now=0)
    (waits,) = gate.arrive(member("b"), now=9, timeout=100)
    assert waits == PodWaiting(PodUID("b"), HERE, 10, 1)
    assert gate.next_deadline() == 10


def test_member_at_the_deadline_begins_a_new_attempt() -> None:
    gate = Gate(timeout=10)
    gate.arrive(member("a"), now=0)
    gate.arrive(member("b"), now=0)
    effects = gate.arrive(member("c"), now=10)
    assert fell(effects) == ["a", "b"]
    assert effects[-1] == PodWaiting(PodUID("c"), HERE, 20, 2)


def test_zero_timeout_expires_when_time_passes() -> None:
    gate = Gate()
    gate.arrive(member("a", least=2), now=0, timeout=0)
    assert gone(gate.arrive(member("b", least=2), now=0, timeout=0)) == ["a", "b"]
    gate.arrive(member("c", "h"), now=0, timeout=0)
    assert fell(gate.advance(now=0)) == ["c"]


def test_withdraw_rejects_only_the_gang_of_the_member() -> None:
    gate = Gate()
    for uid, group in (("a", "g"), ("b", "g"), ("x", "h")):
        gate.arrive(member(uid, group), now=0)
    effects = gate.withdraw("b", now=1, reason="no longer wanted")
    assert sorted(fell(effects)) == ["a", "b"]
    assert {e.reason for e in effects if isinstance(e, PodRejected)} == {
        "member b withdrew: no longer wanted"
    }
    assert [wait.uid for wait in gate.waiting] == ["x"]


def test_late_withdraw_changes_nothing() -> None:
    """Law 2: a released member cannot reject its gang."""
    gate = Gate()
    for uid in "abc":
        gate.arrive(member(uid), now=0)
    before = fingerprint(gate)
    assert gate.withdraw("a", now=0) == gate.withdraw("nobody", now=0) == ()
    assert fingerprint(gate) == before


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda gate: gate.withdraw("a", now=1), "member a withdrew"),
        (lambda gate: gate.leave("a", now=1), "member a withdrew: it left"),
        (lambda gate: gate.close("over", now=1), "over"),
    ],
    ids=["withdraw", "leave", "close"],
)
def test_rejection_names_place_and_reason(
    call: Callable[[Gate], tuple[Effect, ...]], reason: str
) -> None:
    gate = Gate()
    gate.arrive(member("a"), now=0)
    assert call(gate) == (
        PodRejected(PodUID("a"), HERE, reason),
        GroupRejected(G, 1, reason, 1),
    )


def test_timeout_without_minimum_names_an_unknown_number() -> None:
    gate = Gate(timeout=10)
    nowhere = NodeName("")
    pod = make_pod("p", group="g")
    assert gate.arrive(pod, now=5) == (PodWaiting(pod.uid, nowhere, 15, 0),)
    reason = "timed out after 10s: 1 of an unknown number of members held a place"
    assert gate.advance(now=15)[0] == PodRejected(pod.uid, nowhere, reason)


def test_only_waiting_does_not_count_released_members() -> None:
    gate = Gate(timeout=10, match_policy=MatchPolicy.ONLY_WAITING)
    for uid in "abc":
        gate.arrive(member(uid), now=0)
    assert gate.arrive(member("d"), now=1) == (PodWaiting(PodUID("d"), HERE, 11, 2),)
    assert gate.advance(now=11)[-1] == GroupRejected(
        G, 2, "timed out after 10s: 1 of 3 members held a place", 11
    )
    assert gate.arrive(member("e"), now=12) == (PodWaiting(PodUID("e"), HERE, 22, 2),)


def test_each_attempt_has_its_number_and_full_timeout() -> None:
    gate = Gate(timeout=10)
    gate.set_spec(PodGroup(name="g", min_available=2), now=0)
    key = GroupKey("default/g")
    for attempt in (1, 2, 3):
        now = 20 * attempt
        (waits,) = gate.arrive(member("a", "default/g", None), now=now)
        assert waits == PodWaiting(PodUID("a"), HERE, now + 10, 1)
        assert [wait.attempt for wait in gate.waiting] == [attempt]
        assert gate.advance(now=now + 10)[-1] == GroupRejected(
            key, attempt, "timed out after 10s: 1 of 2 members held a place", now + 10
        )
    assert gate.delete_spec("default/g", now=80) == ()
    assert len(gate.groups) == 0


def test_close_rejects_every_gang() -> None:
    gate = Gate()
    for uid, group in (("a", "g"), ("x", "h")):
        gate.arrive(member(uid, group), now=0)
    assert fell(gate.close("over", now=1)) == ["a", "x"]


# What is refused --------------------------------------------------------------------------------

NOBODY: Any = 5
FINITE = "a finite number of seconds >= 0"
BAD: list[tuple[str, Any, str]] = [
    (
        "no-member",
        lambda gate: gate.arrive(NOBODY, now=1),
        "member must be a Pod or a GangMember, got 5",
    ),
    (
        "twice",
        lambda gate: gate.arrive(member("a"), now=1),
        "uid must be the UID of a member that is not at the gate, got 'a'",
    ),
    (
        "time-back",
        lambda gate: gate.advance(now=-1),
        "now must be an instant not before 0, got -1",
    ),
    (
        "no-time",
        lambda gate: gate.advance(now=float("nan")),
        "now must be a finite number of seconds, got nan",
    ),
    (
        "no-timeout",
        lambda gate: gate.arrive(member("b"), now=1, timeout=-1),
        f"timeout must be {FINITE} or None, got -1",
    ),
    (
        "another-minimum",
        lambda gate: gate.arrive(member("b", least=4), now=1),
        "pod default/b: min_available must be 3, the value of the first member of g, got 4",
    ),
    (
        "malformed-pod",
        lambda gate: gate.arrive(make_pod("p", group="x", min_available=0), now=1),
        "pod default/p: pod-group.scheduling.sigs.k8s.io/min-available"
        " must be an int >= 1, got '0'",
    ),
]


@pytest.mark.parametrize(("call", "message"), [row[1:] for row in BAD], ids=[r[0] for r in BAD])
def test_refused_call_changes_nothing(call: Any, message: str) -> None:
    gate = Gate(timeout=10)
    gate.arrive(member("a"), now=0)
    with pytest.raises((InvalidValueError, InvalidPodGroupError)) as raised:
        call(gate)
    assert str(raised.value) == message
    assert [wait.uid for wait in gate.waiting] == ["a"]
    gate._check()
    with pytest.raises(InvalidValueError, match="now must be an instant not before"):
        gate.advance(now=-1)
    assert gate.arrive(member("b"), now=1)[0] == PodWaiting(PodUID("b"), HERE, 10, 1)


def test_infinite_deadline_is_refused_before_the_member_is_added() -> None:
    gate = Gate(timeout=1.7e308)
    with pytest.raises(InvalidValueError) as raised:
        gate.arrive(member("a"), now=1.7e308)
    says = "timeout must be a number of seconds whose sum with now=1.7e+308 is finite, got 1.7e+308"
    assert str(raised.value) == says
    assert len(gate) == len(gate.groups) == 0


def test_rejections_before_a_refused_call_are_returned_by_the_next() -> None:
    gate = Gate(timeout=10)
    gate.arrive(member("a"), now=0)
    with pytest.raises(InvalidValueError):
        gate.arrive(NOBODY, now=11)
    assert fell(gate.advance(now=11)) == ["a"]


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("timeout", -1, FINITE),
        ("timeout", float("inf"), FINITE),
        ("match_policy", "never", "one of once_satisfied, waiting_and_running, only_waiting"),
    ],
)
def test_gate_refuses_invalid_arguments(field: str, value: Any, expected: str) -> None:
    with pytest.raises(InvalidValueError) as raised:
        Gate(**{field: value})
    assert str(raised.value) == f"{field} must be {expected}, got {value!r}"


TEXT = "a non-empty string"


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("uid", "", TEXT),
        ("uid", 3, TEXT),
        ("group", "", TEXT),
        ("min_available", 0, "an int >= 1 or None"),
        ("min_available", True, "an int >= 1 or None"),
        ("role", "", TEXT),
        ("role", 5, TEXT),
    ],
)
def test_gang_member_refuses_invalid_arguments(field: str, value: Any, expected: str) -> None:
    with pytest.raises(InvalidValueError) as raised:
        GangMember(**{"uid": "a", "group": "g", field: value})
    assert str(raised.value) == f"{field} must be {expected}, got {value!r}"


# In any order -----------------------------------------------------------------------------------

_calls = st.lists(
    st.tuples(
        st.sampled_from(["arrive"] * 5 + ["withdraw", "leave", "leave", "advance", "set_spec"]),
        st.integers(0, 5),
        st.integers(0, 2),
        st.sampled_from([0, 0, 0.5, 1, 3]),
        st.sampled_from([None, None, None, 0, 2]),
    ),
    max_size=60,
)


@given(_calls, st.sampled_from(MatchPolicy))
def test_gangs_are_released_and_rejected_whole(calls: Any, policy: MatchPolicy) -> None:
    """Laws 1, 2, 6, 7 and 8, checked against an independent model."""
    gate, now = Gate(timeout=4, match_policy=policy), 0.0
    waits: dict[str, str] = {}
    runs: dict[str, str] = {}
    began: dict[str, float] = {}
    least = {"default/g0": 1, "default/g1": 2, "default/g2": 3}

    def take(effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            if isinstance(effect, Release):
                together = {uid for uid, group in waits.items() if group == effect.group}
                assert together == set(effect.members)
                running = sum(group == effect.group for group in runs.values())
                later = policy is MatchPolicy.ONCE_SATISFIED and running
                held = len(together) + running * (policy is not MatchPolicy.ONLY_WAITING)
                assert held >= least[effect.group] or later
                runs.update({uid: waits.pop(uid) for uid in effect.members})
                began.pop(effect.group, None)
            elif isinstance(effect, PodRejected):
                began.pop(waits.pop(effect.uid), None)
            elif isinstance(effect, PodWaiting):
                group = waits[effect.uid]
                assert effect.deadline <= began[group] + 4
            elif isinstance(effect, GroupRejected):
                assert effect.group not in waits.values(), "somebody waits on"

    for call, who, which, passed, timeout in calls:
        now += passed
        uid, group = f"m{who}", f"default/g{which}"
        take(gate.advance(now=now))
        if call == "arrive" and uid not in waits and uid not in runs:
            waits[uid] = group
            began.setdefault(group, now)
            take(gate.arrive(member(uid, group, least[group]), now=now, timeout=timeout))
        elif call == "withdraw":
            take(gate.withdraw(uid, now=now))
        elif call == "leave":
            take(gate.leave(uid, now=now))
            runs.pop(uid, None)
        elif call == "set_spec":
            take(gate.set_spec(PodGroup(name=f"g{which}", min_available=which + 1), now=now))
        gate._check()
        assert {wait.uid for wait in gate.waiting} == set(waits)
        assert all(now < began[group] + 4 or timeout == 0 for group in waits.values())
        assert len(gate) == len(waits) + len(runs)
    take(gate.advance(now=now + 4))
    assert not waits
    for uid in list(runs):
        gate.leave(uid, now=now + 4)
    for key in least:
        gate.delete_spec(key, now=now + 4)
    assert len(gate) == len(gate.groups) == len(gate.waiting) == 0


def test_member_states_are_those_of_a_scheduler() -> None:
    gate = Gate()
    gate.arrive(member("a", least=2), now=0)
    info = gate.groups.get(G)
    assert info is not None
    assert info.members.state(PodUID("a")) is MemberState.WAITING
    gate.arrive(member("b", least=2), now=0)
    assert info.members.state(PodUID("a")) is MemberState.ASSIGNED


# What disagrees -------------------------------------------------------------------------------


def forget_one_at_the_gate(gate: Gate) -> None:
    del gate._at_gate[PodUID("a")]


def let_one_wait_no_more(gate: Gate) -> None:
    gate._waiting.remove(PodUID("a"))


def let_a_member_take_it_for_gone(gate: Gate) -> None:
    info = gate.groups.get(GroupKey("default/g"))
    assert info is not None
    info.members.set(PodUID("a"), MemberState.ASSIGNED)


def need_less_and_say_so_to_nobody(gate: Gate) -> None:
    gate._groups.set_spec(PodGroup(name="g", min_available=2))


@pytest.mark.parametrize(
    ("sabotage", "says"),
    [
        (forget_one_at_the_gate, "the members at the gate differ from those of the registry"),
        (let_one_wait_no_more, "a: its state and the waiting map differ"),
        (let_a_member_take_it_for_gone, "a: its state and the waiting map differ"),
        (need_less_and_say_so_to_nobody, "default/g waits although it has its quorum"),
    ],
)
def test_check_reports_broken_invariant_of_gate(
    sabotage: Callable[[Gate], None], says: str
) -> None:
    gate = Gate()
    gate.arrive(member("a", "default/g"), now=0)
    gate.arrive(member("b", "default/g"), now=0)
    gate._check()
    sabotage(gate)
    with pytest.raises(InternalError) as caught:
        gate._check()
    assert caught.value.invariant == says
