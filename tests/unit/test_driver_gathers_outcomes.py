"""``gather`` of the asyncio driver: outcomes are taken in together, unless something waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gangsched import (
    Bind,
    Bound,
    Effect,
    Event,
    InvalidValueError,
    Node,
    NodeAdded,
    NodeName,
    PodAdded,
)
from gangsched.testing import make_pod
from support.running import on_a_loop, until
from support.shells import Aio

FOR_EVER = 3600.0


class Binds:
    """Binds that end when the test says so.

    Attributes:
        started: The pods whose binds are under way or have ended, in order.
        reported: The pods whose binds were taken in, in order.
    """

    def __init__(self) -> None:
        self.started: list[str] = []
        self.reported: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}

    async def bind(self, bind: Bind) -> None:
        self.started.append(bind.uid)
        await self._ends.setdefault(bind.uid, asyncio.Event()).wait()

    async def end(self, name: str) -> None:
        """Let a bind end, and let everything that follows at once happen."""
        self._ends[f"default/{name}"].set()
        for _ in range(50):
            await asyncio.sleep(0)

    # as an observer

    def event(self, event: Event, now: float) -> None:
        if isinstance(event, Bound):
            self.reported.append(event.uid)

    def effects(self, effects: tuple[Effect, ...], now: float) -> None:
        return

    def settled(self, now: float) -> None:
        return


@asynccontextmanager
async def running(count: int, **given: Any) -> AsyncGenerator[tuple[Aio, Binds]]:
    """Run a driver, with the binds of some pods under way."""
    binds = Binds()
    shell = Aio(bind=binds.bind, observers=(binds,), **given)
    shell.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 64})))
    shell.tell(*(PodAdded(make_pod(f"p{n}", cpu=1)) for n in range(count)))
    run = asyncio.create_task(shell.driver.run())
    await until(lambda: len(binds.started) == min(count, given.get("max_binds", count)))
    try:
        yield shell, binds
    finally:
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)


@on_a_loop
async def test_outcome_is_taken_in_at_once_by_default() -> None:
    async with running(2) as (_shell, binds):
        await binds.end("p0")
        assert binds.reported == ["default/p0"]
        await binds.end("p1")
        assert binds.reported == ["default/p0", "default/p1"]


@on_a_loop
async def test_lone_outcome_is_taken_in_at_once() -> None:
    async with running(2, gather=0.02) as (_shell, binds):
        await binds.end("p0")
        assert binds.reported == ["default/p0"]
        await asyncio.sleep(0.05)
        await binds.end("p1")
        assert binds.reported == ["default/p0", "default/p1"]


def beat(shell: Aio) -> None:
    """Let the timer end now that gathers outcomes; on the clock, it may end at any instant."""
    timer = shell.driver._gathering
    assert timer is not None
    timer.cancel()
    shell.driver._gathered()


@on_a_loop
async def test_outcomes_of_a_stream_wait_for_each_other() -> None:
    async with running(4, gather=FOR_EVER) as (shell, binds):
        await binds.end("p0")
        await binds.end("p1")
        await binds.end("p2")
        assert binds.reported == ["default/p0"]
        beat(shell)
        await until(lambda: len(binds.reported) > 1)
        assert binds.reported == ["default/p0", "default/p1", "default/p2"]
        await binds.end("p3")
        assert len(binds.reported) == 3
        beat(shell)
        await until(lambda: len(binds.reported) == 4)


@on_a_loop
async def test_stream_is_taken_in_without_a_further_event() -> None:
    async with running(2, gather=0.1) as (_shell, binds):
        await binds.end("p0")
        await binds.end("p1")
        await until(lambda: binds.reported == ["default/p0", "default/p1"])


@on_a_loop
async def test_event_takes_in_the_outcomes_that_wait() -> None:
    async with running(2, gather=FOR_EVER) as (shell, binds):
        await binds.end("p0")
        await binds.end("p1")
        assert binds.reported == ["default/p0"]
        shell.tell(PodAdded(make_pod("p9", cpu=1)))
        await until(lambda: binds.reported == ["default/p0", "default/p1"])


@on_a_loop
async def test_outcome_is_taken_in_at_once_if_an_operation_waits_for_its_place() -> None:
    async with running(4, max_binds=2, gather=FOR_EVER) as (_shell, binds):
        await binds.end("p0")
        await binds.end("p1")
        assert binds.reported == ["default/p0", "default/p1"]
        assert binds.started == [f"default/p{number}" for number in range(4)]


@on_a_loop
async def test_driver_that_binds_one_by_one_gathers_nothing() -> None:
    async with running(3, max_binds=1, gather=FOR_EVER) as (_shell, binds):
        for name in ("p0", "p1"):
            await binds.end(name)
        assert binds.started == ["default/p0", "default/p1", "default/p2"]


@on_a_loop
async def test_end_of_the_run_waits_for_no_gathering() -> None:
    async with running(2, gather=FOR_EVER) as (shell, binds):
        shell.driver.stop()
        await binds.end("p0")
        await binds.end("p1")
        assert shell.placed() == {"default/p0": "n", "default/p1": "n"}


@on_a_loop
async def test_run_that_was_cancelled_while_it_gathered_gathers_again() -> None:
    async with running(3, gather=FOR_EVER) as (shell, binds):
        await binds.end("p0")
        await binds.end("p1")
        assert binds.reported == ["default/p0"]
    again = asyncio.create_task(shell.driver.run())
    shell.tell(*(PodAdded(make_pod(f"q{number}", cpu=1)) for number in range(2)))
    await until(lambda: "default/q1" in binds.started)
    assert binds.reported[:2] == ["default/p0", "default/p1"]
    await binds.end("q0")
    await binds.end("q1")
    assert "default/q0" not in binds.reported
    beat(shell)
    await until(lambda: binds.reported[-2:] == ["default/q0", "default/q1"])
    again.cancel()
    await asyncio.gather(again, return_exceptions=True)


@pytest.mark.parametrize("gather", [-0.1, float("nan"), float("inf"), "1", True])
def test_gather_that_is_no_number_of_seconds_is_refused(gather: Any) -> None:
    with pytest.raises(InvalidValueError, match="gather"):
        Aio(gather=gather)
