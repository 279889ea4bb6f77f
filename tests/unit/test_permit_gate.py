"""``PermitGate`` on threads and on asyncio: the same gate, and every wait ends."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from functools import partial
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gangsched import (
    Effect,
    GangMember,
    GangRejectedError,
    Gate,
    InvalidPodGroupError,
    InvalidValueError,
    PodGroup,
    PodWaiting,
    Release,
)
from gangsched.drivers import aio, blocking
from gangsched.testing import make_pod
from support.gates import SHELLS, Book, Tasks, Threads

AnyShell = type[Threads] | type[Tasks]
both = pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell.__name__.lower())
LEAST = {f"g{n}": n + 1 for n in range(20)} | {"g": 3}


def member(uid: str, group: str = "g") -> GangMember:
    return GangMember(uid=uid, group=group, min_available=LEAST[group])


# One gate ---------------------------------------------------------------------------------------

_steps = st.lists(
    st.tuples(
        st.sampled_from(["wait"] * 5 + ["cancel", "leave", "set_spec", "close"]),
        st.integers(0, 6),
        st.integers(0, 3),
    ),
    max_size=25,
)


def in_shell(shell: AnyShell, steps: list[Any]) -> tuple[list[Effect], dict[str, str]]:
    run = shell(Book(LEAST), clock=lambda: 0.0)
    for step, who, which in steps:
        uid, group = f"m{who}", f"g{which}"
        if step == "wait" and uid not in run.gate._gate._at_gate:
            run.begin(member(uid, group))
        elif step == "cancel":
            if uid in run.gate._waits:
                run.interrupt(uid)
        elif step == "leave":
            run.call(partial(run.gate.leave, uid))
            run.book.runs.discard(uid)
        elif step == "set_spec":
            spec = PodGroup(name=group, min_available=which + 1)
            run.call(partial(run.gate.set_spec, spec))
    run.call(run.gate.close)
    run.finish()
    assert run.book.problems == []
    return run.book.effects, run.results


def alone(steps: list[Any]) -> list[Effect]:
    gate, effects = Gate(), list[Effect]()
    for step, who, which in steps:
        uid, group = f"m{who}", f"g{which}"
        if step == "wait" and uid not in gate._at_gate:
            effects += gate.arrive(member(uid, group), now=0)
        elif step == "cancel":
            effects += gate.withdraw(uid, now=0)
        elif step == "leave":
            effects += gate.leave(uid, now=0)
        elif step == "set_spec":
            effects += gate.set_spec(PodGroup(name=group, min_available=which + 1), now=0)
    return effects + list(gate.close("the gate is closed", now=0))


@settings(max_examples=30)
@given(_steps)
def test_both_permit_gates_return_the_effects_of_the_gate(steps: list[Any]) -> None:
    steps = [step for step in steps if step[0] != "close"]
    threads, tasks = in_shell(Threads, steps), in_shell(Tasks, steps)
    assert threads[0] == tasks[0] == alone(steps)
    assert threads[1] == tasks[1]
    book = Book(LEAST)
    book.effects = threads[0]
    assert book.ends() == threads[1]


# Waiting ----------------------------------------------------------------------------------------


@both
def test_complete_gang_is_released_and_forgotten_when_it_leaves(shell: AnyShell) -> None:
    run = shell(Book(LEAST))
    for uid in "abc":
        run.begin(member(uid))
    run.finish()
    assert run.results == {"a": "went", "b": "went", "c": "went"}
    assert len(run.gate) == 3
    for uid in "abc":
        run.gate.leave(uid)
    assert len(run.gate) == 0


@both
def test_deadline_ends_all_waits_of_a_gang_at_once(shell: AnyShell) -> None:
    now = [0.0]
    run = shell(Book(LEAST), timeout=0.05, clock=lambda: now[0])
    run.begin(member("a"))
    run.begin(member("b"))
    now[0] = 0.05
    run.finish()
    assert {reason[:20] for reason in run.results.values()} == {"timed out after 0.05"}
    assert len(run.results) == 2
    first, second = run.book.effects[:2]
    assert isinstance(first, PodWaiting)
    assert isinstance(second, PodWaiting)
    assert first.deadline == second.deadline
    assert len(run.gate) == 0


@both
def test_closed_gate_rejects_all_members(shell: AnyShell) -> None:
    run = shell(Book(LEAST))
    run.begin(member("a"))
    run.call(lambda: run.gate.close("shutting down"))
    run.begin(member("b"))
    run.finish()
    assert run.results == {"a": "shutting down", "b": "shutting down"}


@both
def test_rejected_gang_may_enter_again(shell: AnyShell) -> None:
    run = shell(Book(LEAST))
    run.begin(member("a"))
    run.interrupt("a")
    for uid in "abc":
        run.begin(member(uid))
    run.finish()
    assert set(run.results.values()) == {"went"}


def test_refused_member_gets_the_error_and_no_gang_is_rejected() -> None:
    threads = blocking.PermitGate()
    threads.wait(make_pod("alone"))
    threads.wait(GangMember(uid="a", group="g", min_available=1))
    with pytest.raises(InvalidValueError, match="not at the gate"):
        threads.wait(GangMember(uid="a", group="g", min_available=1))
    with pytest.raises(InvalidPodGroupError, match="min_available"):
        threads.wait(GangMember(uid="b", group="g", min_available=2))

    async def awaited() -> None:
        gate = aio.PermitGate()
        await gate.wait(make_pod("alone"))
        await gate.wait(GangMember(uid="a", group="g", min_available=1))
        with pytest.raises(InvalidValueError, match="not at the gate"):
            await gate.wait(GangMember(uid="a", group="g", min_available=1))

    asyncio.run(awaited())


def test_expired_waits_end_when_a_new_member_is_refused() -> None:
    now, nobody = [0.0], cast("Any", 5)
    run = Threads(Book(LEAST), clock=lambda: now[0], timeout=1000)
    run.begin(member("a"))
    now[0] = 2000.0
    with pytest.raises(InvalidValueError):
        run.gate.wait(nobody)
    run.finish()
    assert run.results["a"].startswith("timed out")


def test_error_names_the_member_and_the_reason() -> None:
    gate = blocking.PermitGate()
    gate.close("shutting down")
    with pytest.raises(GangRejectedError) as raised:
        gate.wait(GangMember(uid="a", group="g", min_available=1))
    assert (raised.value.uid, raised.value.reason) == ("a", "shutting down")
    assert str(raised.value) == "a must not start: shutting down"


# Cancellation -----------------------------------------------------------------------------------


def test_cancelled_task_rejects_its_gang() -> None:
    run = Tasks(Book(LEAST))
    run.begin(member("a"))
    run.begin(member("b"))
    run.call(run._tasks["b"].cancel)
    run.finish()
    assert run._tasks["b"].cancelled()
    assert run.results == {"a": "member b withdrew: it left"}
    assert len(run.gate) == 0


def test_task_cancelled_after_the_release_leaves_alone() -> None:
    """Law 2: the cancellation is late, since the gate has released the member."""
    run = Tasks(Book(LEAST))
    run.begin(member("a"))
    run.begin(member("b"))
    run.start(member("c"))
    run._tasks["c"].add_done_callback(lambda _task: None)

    async def cancel_at_once() -> None:
        while "a" in run.gate._waits:
            await asyncio.sleep(0)
            if "a" not in run.gate._waits:
                run._tasks["a"].cancel()

    run.loop.run_until_complete(cancel_at_once())
    run.finish()
    if run._tasks["a"].cancelled():
        assert "a" not in run.gate._gate._at_gate
    assert (run.results["b"], run.results["c"]) == ("went", "went")
    assert run.book.problems == []


def test_exception_in_a_waiting_thread_rejects_its_gang(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Threads(Book(LEAST))
    run.begin(member("a"))

    class Interrupted(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            raise KeyboardInterrupt

    monkeypatch.setattr("gangsched.drivers._blocking_gate.threading.Event", Interrupted)
    run.book.group_of["b"] = "g"
    with pytest.raises(KeyboardInterrupt):
        run.gate.wait(member("b"))
    run.finish()
    assert run.results == {"a": "member b withdrew: it left"}
    assert len(run.gate) == 0


# Observers --------------------------------------------------------------------------------------


@both
def test_gang_starts_whole_when_observe_raises(
    shell: AnyShell, caplog: pytest.LogCaptureFixture
) -> None:
    """The waits of the others end with the release, so the last member must go as well."""
    run = shell(Book(LEAST))
    see = run.gate._observe

    def observe(effect: Effect) -> None:
        if isinstance(effect, Release):
            raise RuntimeError("disk full")
        assert see is not None
        see(effect)

    run.gate._observe = observe
    for uid in "abc":
        run.begin(member(uid))
    run.finish()
    assert run.results == {"a": "went", "b": "went", "c": "went"}
    assert "observe raised for Release" in caplog.text
    assert "disk full" in caplog.text
    for uid in "abc":
        run.gate.leave(uid)
    assert len(run.gate) == 0


def test_interruption_of_observe_takes_the_member_out_of_the_gate() -> None:
    def observe(_effect: Effect) -> None:
        if not raised:
            raised.append(True)
            raise KeyboardInterrupt

    raised: list[bool] = []
    gate = blocking.PermitGate(observe=observe)
    with pytest.raises(KeyboardInterrupt):
        gate.wait(member("a"))
    assert len(gate) == 0
    raised.clear()
    awaited = aio.PermitGate(observe=observe)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(awaited.wait(member("a")))
    assert len(awaited) == 0


# Many at once -----------------------------------------------------------------------------------


@both
def test_hundred_waits_of_twenty_gangs_are_all_released(shell: AnyShell) -> None:
    least = {f"g{n}": 5 for n in range(20)}
    run = shell(Book(least))
    members = [
        GangMember(uid=f"g{n}-{i}", group=f"g{n}", min_available=5)
        for n in range(20)
        for i in range(5)
    ]
    random.Random(1).shuffle(members)
    for each in members:
        run.start(each)
    run.finish()
    assert run.book.problems == []
    assert sorted(run.results) == sorted(each.uid for each in members)
    assert set(run.results.values()) == {"went"}
    assert sum(isinstance(effect, Release) for effect in run.book.effects) == 20


@both
@pytest.mark.parametrize("seed", range(4))
def test_waits_that_are_cancelled_expire_and_return_match_the_gate(
    shell: AnyShell, seed: int
) -> None:
    draw = random.Random(seed)
    least = {f"g{n}": draw.randint(1, 6) for n in range(20)}
    run = shell(Book(least), timeout=0.3)
    uids = [(f"g{n}-{i}", f"g{n}") for n in range(20) for i in range(5)]
    for turn in range(2):
        draw.shuffle(uids)
        for uid, group in uids:
            if uid in run.gate._gate._at_gate or (turn and uid not in run.results):
                continue
            given = GangMember(uid=uid, group=group, min_available=least[group])
            run.start(given, draw.choice([None, None, 0.0, 0.01, 0.05]))
            if draw.random() < 0.2:
                other = draw.choice(uids)[0]
                run.call(partial(run.gate.cancel, other, "drawn"))
            if isinstance(run, Tasks) and draw.random() < 0.1:
                run._tasks[uid].cancel()
        run.call(lambda: time.sleep(0.02))
    run.finish()
    assert run.book.problems == []
    run.gate._gate._check()
    ends = run.book.ends()
    for uid, result in run.results.items():
        assert ends[uid] == result
    assert not run.gate._waits
    assert len(run.gate._gate.waiting) == 0
    for uid, _group in uids:
        run.gate.leave(uid)
    assert len(run.gate) == len(run.gate._gate.groups) == 0
