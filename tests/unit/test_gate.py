"""The gang barrier without a driver: releases, rejections, and memory."""

from __future__ import annotations

import re
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
from gangsched.testing import make_pod

G = GroupKey("default/g")
HERE = NodeName("here")


def member(uid: str, group: str = "g", least: int | None = 3, **more: Any) -> GangMember:
    return GangMember(uid=uid, group=f"default/{group}", min_available=least, place=HERE, **more)


def said(effect: Effect) -> str:
    match effect:
        case PodWaiting():
            return f"{effect.uid} waits until {effect.deadline:g} for {effect.remaining} more"
        case Release():
            return f"release {' '.join(effect.members)}"
        case GroupScheduled():
            return f"start {effect.attempt}: {effect.scheduled} after {effect.waited:g}s"
        case PodRejected():
            return f"reject {effect.uid}"
        case GroupRejected():
            return f"attempt {effect.attempt} rejected: {effect.reason}"
        case _:
            raise AssertionError(effect)


def call(gate: Gate, words: list[str], now: float) -> tuple[Effect, ...]:
    """Do what a line of a script says: ``a,b:g/3 timeout=1``, ``spec g 2 ps=1``, ``leave a``."""
    options = dict(word.split("=") for word in words if "=" in word)
    name, *more = (word for word in words if "=" not in word)
    timeout = float(options.pop("timeout")) if "timeout" in options else None
    if name == "spec":
        roles = {role: int(count) for role, count in options.items()}
        found = PodGroup(
            name=more[0], min_available=int(more[1]), roles=roles, schedule_timeout=timeout
        )
        return gate.set_spec(found, now=now)
    if name == "unspec":
        return gate.delete_spec(f"default/{more[0]}", now=now)
    if name == "advance":
        return gate.advance(now=now)
    if name == "close":
        return gate.close(more[0], now=now)
    if name == "withdraw":
        return gate.withdraw(more[0], now=now, reason=" ".join(more[1:]))
    if name == "leave":
        return gate.leave(more[0], now=now)
    uids, _, claim = name.partition(":")
    group, _, least = claim.partition("/")
    minimum = int(least) if least else None
    effects: tuple[Effect, ...] = ()
    for uid in uids.split(","):
        effects = gate.arrive(member(uid, group, minimum, **options), now=now, timeout=timeout)
    return effects


SCRIPTS = {
    "last member releases all in order of arrival": """
        1 a:g/3 -> a waits until 11 for 2 more
        2 b:g/3 -> b waits until 11 for 1 more
        3 c:g/3 -> release a b c; start 1: 3 after 2s""",
    "minimum of one": "0 a:g/1 -> release a; start 1: 1 after 0s",
    "specification sets minimum, roles and timeout": """
        0 spec g 2 ps=1 timeout=3
        0 w0:g role=worker -> w0 waits until 3 for 1 more
        1 w1:g role=worker -> w1 waits until 3 for 1 more
        2 s:g role=ps -> release w0 w1 s; start 1: 3 after 2s""",
    "members wait until a minimum is declared": """
        0 a:g -> a waits until 10 for 0 more
        1 spec g 2
        2 spec g 1 -> release a; start 1: 1 after 2s
        3 spec g 1""",
    "minimum of members without the specification": """
        0 spec g 3
        0 a:g/1 -> a waits until 10 for 2 more
        1 unspec g -> release a; start 1: 1 after 1s""",
    "late member while a sibling runs, and after all left": """
        0 a,b,c:g/3 -> release a b c; start 1: 3 after 0s
        5 d:g/3 -> release d
        6 leave a
        6 leave b
        6 leave c
        6 leave d
        7 e:g/3 -> e waits until 17 for 2 more""",
    "deadline rejects the whole attempt": """
        0 a:g/3 -> a waits until 10 for 2 more
        8 b:g/3 -> b waits until 10 for 1 more
        9.5 advance
        10 advance -> reject a; reject b
         -> attempt 1 rejected: timed out after 10s: 2 of 3 members held a place""",
    "timeout without a minimum names an unknown number": """
        5 a:g -> a waits until 15 for 0 more
        15 advance -> reject a
    -> attempt 1 rejected: timed out after 10s: 1 of an unknown number of members held a place""",
    "shorter timeout of one member ends the attempt, a longer one is cut": """
        0 a:g/3 timeout=100 -> a waits until 10 for 2 more
        0 b:g/3 timeout=1 -> b waits until 1 for 1 more
        1 advance -> reject b; reject a
         -> attempt 1 rejected: timed out after 1s: 2 of 3 members held a place""",
    "member at the deadline begins a new attempt": """
        0 a:g/3 -> a waits until 10 for 2 more
        10 b:g/3 -> reject a
         -> attempt 1 rejected: timed out after 10s: 1 of 3 members held a place
         -> b waits until 20 for 2 more""",
    "zero timeout expires when time passes": """
        0 a:g/2 timeout=0 -> a waits until 0 for 1 more
        0 b:g/2 timeout=0 -> release a b; start 1: 2 after 0s
        0 c:h/2 timeout=0 -> c waits until 0 for 1 more
        0 advance -> reject c
         -> attempt 1 rejected: timed out after 0s: 1 of 2 members held a place""",
    "withdrawal rejects the own gang only": """
        0 a,b:g/3 -> b waits until 10 for 1 more
        0 x:h/3 -> x waits until 10 for 2 more
        1 withdraw b not wanted -> reject b; reject a
         -> attempt 1 rejected: member b withdrew: not wanted
        2 leave x -> reject x; attempt 1 rejected: member x withdrew: it left
        3 y:h/3 -> y waits until 13 for 2 more
        3 z:i/3 -> z waits until 13 for 2 more
        4 close over -> reject y; attempt 1 rejected: over; reject z; attempt 1 rejected: over""",
    "late withdrawal changes nothing": """
        0 a,b,c:g/3 -> release a b c; start 1: 3 after 0s
        0 withdraw a
        0 withdraw nobody
        1 d:g/3 -> release d""",
    "each attempt has its number and full timeout": """
        0 spec g 2
        20 a:g -> a waits until 30 for 1 more
        30 advance -> reject a
         -> attempt 1 rejected: timed out after 10s: 1 of 2 members held a place
        40 a:g -> a waits until 50 for 1 more
        50 advance -> reject a
         -> attempt 2 rejected: timed out after 10s: 1 of 2 members held a place
        60 a,b:g -> release a b; start 3: 2 after 0s""",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_gate_answers_calls_as_in_the_script(name: str) -> None:
    gate = Gate(timeout=10)
    script = re.sub(r"\n *->", ";", SCRIPTS[name])
    for line in filter(None, map(str.strip, script.splitlines())):
        done, _, expected = line.partition(" -> ")
        now, *words = done.split()
        effects = "; ".join(map(said, call(gate, words, float(now))))
        gate._check()
        assert effects == expected.replace(" ;", ";"), line


def test_effects_name_group_place_and_reason() -> None:
    gate = Gate(timeout=10)
    assert gate.arrive(member("a"), now=1) == (PodWaiting(PodUID("a"), HERE, 11, 2),)
    assert gate.next_deadline() == 11
    assert gate.withdraw("a", now=2, reason="gone") == (
        PodRejected(PodUID("a"), HERE, "member a withdrew: gone"),
        GroupRejected(G, 1, "member a withdrew: gone", 2),
    )
    assert len(gate) == len(gate.groups) == 0
    assert gate.next_deadline() is None
    gate.arrive(member("a", least=2), now=3)
    info = gate.groups.get(G)
    assert info is not None
    assert info.members.state(PodUID("a")) is MemberState.WAITING
    assert gate.arrive(member("b", least=2), now=3) == (
        Release(G, (PodUID("a"), PodUID("b"))),
        GroupScheduled(G, 1, 2, 0),
    )
    assert info.members.state(PodUID("a")) is MemberState.ASSIGNED


def test_pod_is_a_member_of_the_group_of_its_labels() -> None:
    gate = Gate()
    assert gate.arrive(make_pod("alone"), now=0) == ()
    assert len(gate) == 0
    pods = [make_pod(f"p{n}", group="g", min_available=2, priority=7) for n in range(2)]
    (waits,) = gate.arrive(pods[0], now=0)
    assert waits == PodWaiting(pods[0].uid, NodeName(""), 60, 1)
    assert gate.arrive(member("task", least=2), now=0)[0] == Release(
        G, (pods[0].uid, PodUID("task"))
    ), "a task has the priority of its gang"


@pytest.mark.parametrize(
    ("policy", "effect"),
    [
        (MatchPolicy.ONCE_SATISFIED, "release d"),
        (MatchPolicy.WAITING_AND_RUNNING, "release d; start 2: 3 after 0s"),
        (MatchPolicy.ONLY_WAITING, "d waits until 12 for 2 more"),
    ],
)
def test_match_policy_selects_members_that_count(policy: MatchPolicy, effect: str) -> None:
    gate = Gate(timeout=10, match_policy=policy)
    call(gate, ["a,b,c:g/3"], 0)
    gate.leave("a", now=1)
    assert "; ".join(map(said, call(gate, ["d:g/3"], 2))) == effect
    if policy is MatchPolicy.ONLY_WAITING:
        assert said(gate.advance(now=12)[-1]).endswith("1 of 3 members held a place")


# What is refused --------------------------------------------------------------------------------

NOBODY: Any = 5
FINITE = "a finite number of seconds >= 0"
TEXT = "a non-empty string"
GANG = {"uid": "a", "group": "g"}
BAD: dict[str, tuple[Callable[[Gate], object], str]] = {
    "no member": (
        lambda gate: gate.arrive(NOBODY, now=1),
        "member must be a Pod or a GangMember, got 5",
    ),
    "twice": (
        lambda gate: gate.arrive(member("a"), now=1),
        "uid must be the UID of a member that is not at the gate, got 'a'",
    ),
    "time goes back": (
        lambda gate: gate.advance(now=-1),
        "now must be an instant not before 0, got -1",
    ),
    "no time": (
        lambda gate: gate.advance(now=float("nan")),
        "now must be a finite number of seconds, got nan",
    ),
    "no timeout": (
        lambda gate: gate.arrive(member("b"), now=1, timeout=-1),
        f"timeout must be {FINITE} or None, got -1",
    ),
    "another minimum": (
        lambda gate: gate.arrive(member("b", least=4), now=1),
        "pod default/b: min_available must be 3, the value of the first member of default/g, got 4",
    ),
    "malformed pod": (
        lambda gate: gate.arrive(make_pod("p", group="x", min_available=0), now=1),
        "pod default/p: pod-group.scheduling.sigs.k8s.io/min-available"
        " must be an int >= 1, got '0'",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_refused_call_adds_nothing_and_the_next_returns_what_was_due(name: str) -> None:
    gate = Gate(timeout=10)
    bad, message = BAD[name]
    gate.arrive(member("a"), now=0)
    with pytest.raises((InvalidValueError, InvalidPodGroupError)) as raised:
        bad(gate)
    assert str(raised.value) == message
    assert [wait.uid for wait in gate.waiting] == ["a"]
    gate._check()
    with pytest.raises(InvalidValueError):
        gate.arrive(NOBODY, now=11)
    assert said(gate.advance(now=11)[0]) == "reject a"


def test_infinite_deadline_is_refused_before_the_member_is_added() -> None:
    gate = Gate(timeout=1.7e308)
    with pytest.raises(
        InvalidValueError, match=r"whose sum with now=1.7e\+308 is finite, got 1.7e"
    ):
        gate.arrive(member("a"), now=1.7e308)
    assert len(gate) == len(gate.groups) == 0


@pytest.mark.parametrize(
    ("make", "field", "value", "expected"),
    [
        (Gate, "timeout", -1, FINITE),
        (Gate, "timeout", float("inf"), FINITE),
        (Gate, "match_policy", "never", "one of once_satisfied, waiting_and_running, only_waiting"),
        (GangMember, "uid", "", TEXT),
        (GangMember, "group", 3, TEXT),
        (GangMember, "min_available", 0, "an int >= 1 or None"),
        (GangMember, "min_available", True, "an int >= 1 or None"),
        (GangMember, "role", "", TEXT),
    ],
)
def test_invalid_argument_is_named(make: Any, field: str, value: Any, expected: str) -> None:
    with pytest.raises(InvalidValueError) as raised:
        make(**{**(GANG if make is GangMember else {}), field: value})
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
                assert effect.deadline <= began[waits[effect.uid]] + 4
            elif isinstance(effect, GroupRejected):
                assert effect.group not in waits.values(), "a member waits on"

    for name, number, which, passed, timeout in calls:
        now += passed
        uid, group = f"m{number}", f"default/g{which}"
        take(gate.advance(now=now))
        if name == "arrive" and uid not in waits and uid not in runs:
            waits[uid] = group
            began.setdefault(group, now)
            arrives = member(uid, f"g{which}", least[group])
            take(gate.arrive(arrives, now=now, timeout=timeout))
        elif name == "withdraw":
            take(gate.withdraw(uid, now=now))
        elif name == "leave":
            take(gate.leave(uid, now=now))
            runs.pop(uid, None)
        elif name == "set_spec":
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
