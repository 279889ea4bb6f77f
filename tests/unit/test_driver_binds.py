"""Binds of a driver: concurrent up to ``max_binds``, gathered, reported in order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gangsched import (
    Bind,
    BindFailed,
    Bound,
    Effect,
    Event,
    GroupScheduled,
    InvalidValueError,
    Node,
    NodeAdded,
    NodeName,
    PodAdded,
    presets,
)
from gangsched.drivers import aio
from gangsched.testing import make_pod
from support.patience import HANG
from support.running import on_a_loop, until
from support.shells import SHELLS, Aio, Blocking, Shell, Together

both = pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell.__name__.lower())


def node(cpu: int) -> Event:
    return NodeAdded(Node(name=NodeName("n0"), allocatable={"cpu": cpu}))


def gang(name: str, size: int, cpu: int = 1) -> list[Event]:
    return [
        PodAdded(make_pod(f"{name}-{n:03}", group=name, min_available=size, cpu=cpu))
        for n in range(size)
    ]


class Binds:
    """Binds that end when the test says so, or at once; as an observer, it notes the reports.

    Attributes:
        started: The pods whose binds are under way or have ended, in order.
        reported: The pods whose binds were taken in, in order.
        at_decisions: At each decision to bind, how many binds had begun.
    """

    def __init__(self, *, ends_at_once: bool = False) -> None:
        self.started: list[str] = []
        self.reported: list[str] = []
        self.at_decisions: list[int] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._ends_at_once = ends_at_once

    async def bind(self, bind: Bind) -> None:
        self.started.append(bind.uid)
        if not self._ends_at_once:
            await self._ends.setdefault(bind.uid, asyncio.Event()).wait()

    async def end(self, *names: str) -> None:
        """Let binds end one after the other, and let everything that follows at once happen."""
        for name in names:
            self._ends[f"default/{name}"].set()
            for _ in range(50):
                await asyncio.sleep(0)

    def event(self, event: Event, now: float) -> None:
        if isinstance(event, Bound | BindFailed):
            self.reported.append(event.uid)

    def effects(self, effects: tuple[Effect, ...], now: float) -> None:
        if any(isinstance(effect, Bind) for effect in effects):
            self.at_decisions.append(len(self.started))

    def settled(self, now: float) -> None:
        return


# Concurrency ------------------------------------------------------------------------------------


@both
def test_binds_of_a_gang_are_under_way_at_once(shell: type[Shell]) -> None:
    """Each of 64 binds waits for the 63 others: one at a time, none would ever end."""
    run = shell(bind=Together(shell, 64).meet)
    run.run(node(64), *gang("a", 64))
    assert len(run.placed()) == 64


@both
@pytest.mark.parametrize("most", [1, 3])
def test_no_more_binds_are_under_way_than_max_binds(shell: type[Shell], most: int) -> None:
    under_way, peak, lock = [0], [0], threading.Lock()

    def count(change: int) -> None:
        with lock:
            under_way[0] += change
            peak[0] = max(peak[0], under_way[0])

    # a bind ends once as many are under way as may be
    all_of_them, meeting = threading.Barrier(most, timeout=HANG), asyncio.Barrier(most)

    def blocked(_bind: Bind) -> None:
        count(1)
        all_of_them.wait()
        count(-1)

    async def awaited(_bind: Bind) -> None:
        count(1)
        async with asyncio.timeout(HANG):
            await meeting.wait()
        count(-1)

    bind: Any = blocked if shell is Blocking else awaited
    run = shell(bind=bind, max_binds=most)
    run.run(node(12), *gang("a", 12))
    assert len(run.placed()) == 12
    assert peak == [most]


@both
def test_driver_decides_while_a_bind_is_under_way(shell: type[Shell]) -> None:
    """The bind of the first gang ends only when that of the second is under way."""
    run = shell(bind=Together(shell, 2).meet)
    run.run(node(2), *gang("a", 1), *gang("b", 1))
    started = [effect.group for effect in run.effects if isinstance(effect, GroupScheduled)]
    assert started == ["default/a", "default/b"]
    assert len(run.placed()) == 2


@both
def test_driver_takes_in_events_while_a_bind_is_under_way(shell: type[Shell]) -> None:
    """The bind of the first pod ends only when a pod that arrives meanwhile is being bound."""
    together = Together(shell, 2)

    def bind(effect: Bind) -> Any:
        if effect.uid == "default/a-000":
            run.tell(*gang("b", 1))
            run.driver.stop()
        return together.meet(effect)

    run = shell(bind=bind)
    run.tell(node(2), *gang("a", 1))
    run.run_on()
    assert len(run.placed()) == 2


# Reports ----------------------------------------------------------------------------------------


@both
def test_binds_of_a_gang_are_reported_in_order_however_they_end(shell: type[Shell]) -> None:
    """Each bind of a gang ends after the bind that follows it."""
    over = [threading.Event() for _number in range(9)]
    ended = list[str]()
    over[8].set()

    def end(bind: Bind) -> None:
        ended.append(bind.uid)
        over[int(bind.uid[-1])].set()

    def blocked(bind: Bind) -> None:
        assert over[int(bind.uid[-1]) + 1].wait(HANG)
        end(bind)

    async def awaited(bind: Bind) -> None:
        while not over[int(bind.uid[-1]) + 1].is_set():
            await asyncio.sleep(0)
        end(bind)

    reports = Binds()
    bind: Any = blocked if shell is Blocking else awaited
    run = shell(bind=bind, observers=(reports,))
    run.run(node(8), *gang("a", 8))
    assert ended == sorted(run.placed(), reverse=True)
    assert reports.reported == sorted(run.placed())


@both
def test_every_bind_has_one_report_when_some_fail(shell: type[Shell]) -> None:
    def bind(effect: Bind) -> None:
        if int(effect.uid[-1]) % 3 == 0:
            raise OSError("no route")

    reports = Binds()
    run = shell(presets.gang, bind=bind, observers=(reports,), clock=lambda: 0.0)
    run.run(node(10), *gang("a", 10))
    binds = [effect.uid for effect in run.effects if isinstance(effect, Bind)]
    assert sorted(reports.reported) == sorted(binds)
    assert len(run.placed()) == 6


@both
def test_what_is_placed_does_not_depend_on_max_binds(shell: type[Shell]) -> None:
    sizes = [1 + n * 5 % 6 for n in range(20)]
    events = [node(40), *(pod for n, size in enumerate(sizes) for pod in gang(f"g{n}", size))]
    placed: set[frozenset[str]] = set()
    for most in (1, 2, 64):
        run = shell(max_binds=most)
        run.run(*events)
        placed.add(frozenset(run.placed()))
    (names,) = placed
    assert len(names) <= 40
    for n, size in enumerate(sizes):
        assert len([uid for uid in names if uid.startswith(f"default/g{n}-")]) in (0, size)


def test_binds_that_do_not_wait_are_performed_before_the_next_decision() -> None:
    """As in the simulator: under asyncio such a bind has ended when the driver goes on."""
    seen = list[str]()
    run = Aio(
        bind=lambda bind: seen.append(f"bound {bind.uid}"),
        observe=lambda effect: (
            seen.append(f"started {effect.group}") if isinstance(effect, GroupScheduled) else None
        ),
    )
    run.run(node(3), *gang("a", 2), *gang("b", 1))
    assert seen == [
        "started default/a",
        *("bound default/a-000", "bound default/a-001"),
        *("started default/b", "bound default/b-000"),
    ]


# ``gather`` of the asyncio driver: outcomes are taken in together, unless something waits ---------

FOR_EVER = 3600.0


@asynccontextmanager
async def running(count: int, **given: Any) -> AsyncGenerator[tuple[Aio, Binds]]:
    """Run a driver, with the binds of some pods under way."""
    binds = Binds()
    shell = Aio(bind=binds.bind, observers=(binds,), **given)
    shell.tell(node(64), *(PodAdded(make_pod(f"p{n}", cpu=1)) for n in range(count)))
    run = asyncio.create_task(shell.driver.run())
    await until(lambda: len(binds.started) == min(count, given.get("max_binds", count)))
    try:
        yield shell, binds
    finally:
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)


@pytest.mark.parametrize(
    ("gather", "seconds_of_a_run", "begun"),
    [
        (0.0, FOR_EVER, [0, 1, 2, 3, 4]),
        (60.0, FOR_EVER, [0, 0, 0, 0, 0]),
        (60.0, 0.0, [0, 1, 2, 3, 4]),
    ],
)
@on_a_loop
async def test_binds_begin_after_a_run_of_decisions_where_their_ends_are_gathered(
    gather: float, seconds_of_a_run: float, begun: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aio, "_SLICE", seconds_of_a_run)
    binds = Binds(ends_at_once=True)
    shell = Aio(bind=binds.bind, observers=(binds,), gather=gather)
    shell.tell(node(64), *(PodAdded(make_pod(f"p{n}", cpu=1)) for n in range(5)))
    run = asyncio.create_task(shell.driver.run())
    await until(lambda: len(binds.started) == 5)
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    assert binds.at_decisions == begun


@on_a_loop
async def test_outcome_is_taken_in_at_once_by_default() -> None:
    async with running(2) as (_shell, binds):
        await binds.end("p0")
        assert binds.reported == ["default/p0"]
        await binds.end("p1")
        assert binds.reported == ["default/p0", "default/p1"]


@on_a_loop
async def test_outcomes_of_a_stream_wait_for_an_event() -> None:
    async with running(4, gather=FOR_EVER) as (shell, binds):
        await binds.end("p0", "p1", "p2")
        assert binds.reported == ["default/p0"]
        shell.tell(PodAdded(make_pod("p9", cpu=1)))
        await until(lambda: binds.reported == ["default/p0", "default/p1", "default/p2"])


@on_a_loop
async def test_stream_is_taken_in_without_an_event_too() -> None:
    async with running(2, gather=0.1) as (_shell, binds):
        await binds.end("p0", "p1")
        await until(lambda: binds.reported == ["default/p0", "default/p1"])


@on_a_loop
async def test_outcome_is_taken_in_at_once_if_an_operation_waits_for_its_place() -> None:
    async with running(4, max_binds=2, gather=FOR_EVER) as (_shell, binds):
        await binds.end("p0", "p1")
        assert binds.reported == ["default/p0", "default/p1"]
        assert binds.started == [f"default/p{number}" for number in range(4)]


@on_a_loop
async def test_driver_that_binds_one_by_one_gathers_nothing() -> None:
    async with running(3, max_binds=1, gather=FOR_EVER) as (_shell, binds):
        await binds.end("p0", "p1")
        assert binds.started == ["default/p0", "default/p1", "default/p2"]


@on_a_loop
async def test_end_of_the_run_waits_for_no_gathering() -> None:
    async with running(2, gather=FOR_EVER) as (shell, binds):
        shell.driver.stop()
        await binds.end("p0", "p1")
        assert shell.placed() == {"default/p0": "n0", "default/p1": "n0"}


@on_a_loop
async def test_run_that_was_cancelled_while_it_gathered_gathers_again() -> None:
    async with running(3, gather=FOR_EVER) as (shell, binds):
        await binds.end("p0", "p1")
        assert binds.reported == ["default/p0"]
    again = asyncio.create_task(shell.driver.run())
    shell.tell(*(PodAdded(make_pod(f"q{number}", cpu=1)) for number in range(2)))
    await until(lambda: "default/q1" in binds.started)
    assert binds.reported[:2] == ["default/p0", "default/p1"]
    await binds.end("q0", "q1")
    assert "default/q0" not in binds.reported
    shell.tell(PodAdded(make_pod("r", cpu=1)))
    await until(lambda: binds.reported[-2:] == ["default/q0", "default/q1"])
    again.cancel()
    await asyncio.gather(again, return_exceptions=True)


@both
@pytest.mark.parametrize("value", [0, -1, 1.0, True, None, "8"])
def test_max_binds_that_is_no_count_is_refused(shell: type[Shell], value: Any) -> None:
    with pytest.raises(InvalidValueError) as raised:
        shell(max_binds=value)
    assert (raised.value.field, raised.value.expected) == ("max_binds", "an int >= 1")


@pytest.mark.parametrize("gather", [-0.1, float("nan"), float("inf"), "1", True])
def test_gather_that_is_no_number_of_seconds_is_refused(gather: Any) -> None:
    with pytest.raises(InvalidValueError, match="gather"):
        Aio(gather=gather)
