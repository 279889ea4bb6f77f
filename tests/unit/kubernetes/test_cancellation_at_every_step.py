"""A replica that is cancelled ends at once, whichever step of its loop it is at."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from gangsched.kubernetes._api import ConnectionLost
from gangsched.kubernetes._discovery import discover, watch_dialects
from gangsched.kubernetes._tasks import Tasks, end, together
from support.cancelled_replicas import Faults, Kind, steps_until, survivors
from support.memory_api import Fault, MemoryApi, lost_before, refused
from support.running import on_a_loop
from support.stepped_loop import HungError, on_a_stepped_loop, run_stepped

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")


def loses_its_lease(method: str, path: str, seconds: float) -> Fault | None:
    return refused(403) if "leases" in path and method == "PUT" and seconds > 1.0 else None


def one_is_out_of_reach(_method: str, path: str, _seconds: float = 0.0) -> Fault | None:
    # only one fails: the other requests are still under way then
    return lost_before() if path == "/apis/scheduling.volcano.sh" else None


@pytest.mark.parametrize(
    ("kind", "faults", "since", "until", "again_after"),
    [
        ("scheduler", None, 0.0, 1.0, None),
        ("extender", None, 0.0, 1.0, None),
        ("scheduler", loses_its_lease, 9.0, 14.0, None),
        ("extender", loses_its_lease, 9.0, 14.0, None),
        ("scheduler", loses_its_lease, 9.0, 14.0, 1),
        ("scheduler", one_is_out_of_reach, 0.0, 0.4, None),
        ("extender", one_is_out_of_reach, 0.0, 0.4, None),
    ],
)
def test_replica_that_is_cancelled_at_any_step_ends(
    kind: Kind, faults: Faults | None, since: float, until: float, again_after: int | None
) -> None:
    first = steps_until(kind, since, faults) if since else 1
    last = steps_until(kind, until, faults)
    assert last > first + 10
    assert survivors(kind, range(first, last + 1), faults, again_after=again_after) == []


# The tools --------------------------------------------------------------------------------------


async def steps(number: int) -> int:
    for _ in range(number):
        await asyncio.sleep(0)
    return number


async def forever(ends_after: int = 0) -> None:
    """Run until cancelled, and need some steps to end."""
    try:
        await asyncio.Event().wait()
    finally:
        await steps(ends_after)


async def looks_for_apis() -> None:
    api = MemoryApi(delay=0.003, fault=one_is_out_of_reach)
    while True:
        with pytest.raises(ConnectionLost):
            await discover(api)
        await asyncio.sleep(0.1)


async def watches_apis() -> None:
    async def changed(_dialects: object) -> None:
        raise AssertionError

    api = MemoryApi(delay=0.003, fault=one_is_out_of_reach)
    await watch_dialects(api, (), changed, interval=0.1)


async def ends_a_task() -> None:
    task = asyncio.create_task(forever(5))
    try:
        await asyncio.sleep(0)
    finally:
        await end(task)
    assert task.done()
    while True:  # a caller whose cancellation was lost would stay here
        await asyncio.sleep(0.01)


async def asks_together() -> None:
    async def fails(after: int) -> None:
        await steps(after)
        raise ConnectionError

    while True:
        with pytest.raises(ConnectionError):
            await together(fails(2), fails(5), steps(9))
        await asyncio.sleep(1.0)


@pytest.mark.parametrize(
    ("program", "last"),
    [(looks_for_apis, 40), (watches_apis, 40), (ends_a_task, 15), (asks_together, 30)],
)
def test_program_that_is_cancelled_at_any_step_ends(
    program: Callable[[], Coroutine[Any, Any, None]], last: int
) -> None:
    for step in range(1, last):
        run_stepped(program(), step)


@on_a_loop
async def test_what_runs_together_is_returned_in_order() -> None:
    assert await together(steps(5), steps(0), steps(2)) == [5, 0, 2]
    assert await together() == []


async def swallows(times: int) -> None:
    for _ in range(times):
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60.0)


@on_a_stepped_loop
async def test_task_that_swallows_its_cancellation_is_cancelled_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    task = asyncio.create_task(swallows(2))
    await asyncio.sleep(0)
    with caplog.at_level(logging.WARNING, "gangsched.kubernetes"):
        await end(task)
    assert task.done()
    (record,) = caplog.records
    assert record.getMessage().startswith("a task that was cancelled goes on, and")


@on_a_loop
async def test_failure_of_a_task_ends_the_term() -> None:
    async def fails() -> None:
        raise ValueError("wrong")

    tasks = Tasks()
    tasks.start(fails())
    tasks.start(forever())
    with pytest.raises(ValueError, match="wrong"):
        await tasks.until(asyncio.Event().wait(), asyncio.Event())
    await tasks.cancel()


def test_program_that_never_ends_is_seen() -> None:
    with pytest.raises(HungError, match="have gone by"):
        run_stepped(swallows(2), 3)
    with pytest.raises(HungError, match="no timer"):
        run_stepped(forever())
