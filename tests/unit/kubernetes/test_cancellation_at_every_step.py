"""A replica that is cancelled ends at once, whichever step of its loop it is at."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from gangsched.kubernetes._api import ConnectionLost
from gangsched.kubernetes._discovery import discover, watch_dialects
from gangsched.kubernetes._tasks import Tasks, end, together
from support.cancelled_replicas import Faults, Kind, steps_until, survivors
from support.memory_api import Fault, MemoryApi, lost_before, refused
from support.running import on_a_loop
from support.stepped_loop import HungError, run_stepped

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

LOST_AT = 1.0


def loses_its_lease(method: str, path: str, seconds: float) -> Fault | None:
    return refused(403) if "leases" in path and method == "PUT" and seconds > LOST_AT else None


def one_is_out_of_reach(_method: str, path: str, _seconds: float = 0.0) -> Fault | None:
    # only one fails: the other requests are still under way then
    return lost_before() if path == "/apis/scheduling.volcano.sh" else None


@pytest.mark.parametrize("kind", ["scheduler", "extender"])
@pytest.mark.parametrize(
    ("faults", "since", "until"),
    [
        (None, 0.0, 1.0),
        (loses_its_lease, 9.0, 14.0),
        (one_is_out_of_reach, 0.0, 0.4),
    ],
    ids=["quiet", "lost-lease", "lost-discovery"],
)
def test_replica_that_is_cancelled_at_any_step_ends(
    kind: Kind, faults: Faults | None, since: float, until: float
) -> None:
    first = steps_until(kind, since, faults) if since else 1
    last = steps_until(kind, until, faults)
    assert last > first + 10
    assert survivors(kind, range(first, last + 1), faults) == []


def test_leader_that_lost_its_lease_and_is_cancelled_twice_ends() -> None:
    first, last = (steps_until("scheduler", at, loses_its_lease) for at in (9.0, 14.0))
    assert survivors("scheduler", range(first, last), loses_its_lease, again_after=1) == []


async def looks_for_apis(look: Callable[[MemoryApi], Awaitable[object]]) -> None:
    await look(MemoryApi(delay=0.003, fault=one_is_out_of_reach))


async def at_the_start(api: MemoryApi) -> None:
    while True:
        with pytest.raises(ConnectionLost):
            await discover(api)
        await asyncio.sleep(0.1)


async def again_and_again(api: MemoryApi) -> None:
    async def changed(_dialects: object) -> None:
        raise AssertionError

    await watch_dialects(api, (), changed, interval=0.1)


@pytest.mark.parametrize("look", [at_the_start, again_and_again])
@pytest.mark.parametrize("step", range(1, 40))
def test_look_for_apis_that_fails_while_it_is_cancelled_ends(
    look: Callable[[MemoryApi], Awaitable[object]], step: int
) -> None:
    run_stepped(looks_for_apis(look), step)


# The tools --------------------------------------------------------------------------------------


async def forever(steps: int = 0) -> None:
    """Run until cancelled, and need some steps to end."""
    try:
        await asyncio.Event().wait()
    finally:
        for _ in range(steps):
            await asyncio.sleep(0)


async def ends_a_task() -> None:
    task = asyncio.create_task(forever(5))
    try:
        await asyncio.sleep(0)
    finally:
        await end(task)
    assert task.done()
    while True:  # a caller whose cancellation was lost would stay here
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("step", range(1, 15))
def test_caller_of_end_that_is_cancelled_at_any_step_ends(step: int) -> None:
    run_stepped(ends_a_task(), step)


async def asks_together() -> None:
    async def fails(steps: int) -> None:
        for _ in range(steps):
            await asyncio.sleep(0)
        raise ConnectionError

    while True:
        with pytest.raises(ConnectionError):
            await together(fails(2), fails(5), forever_for(9))
        await asyncio.sleep(1.0)


async def forever_for(steps: int) -> None:
    for _ in range(steps):
        await asyncio.sleep(0)


@pytest.mark.parametrize("step", range(1, 30))
def test_cancellation_precedes_the_failure_of_one_of_many(step: int) -> None:
    run_stepped(asks_together(), step)


@on_a_loop
async def test_what_runs_together_is_returned_in_order() -> None:
    async def after(steps: int) -> int:
        await forever_for(steps)
        return steps

    assert await together(after(5), after(0), after(2)) == [5, 0, 2]
    assert await together() == []


@on_a_loop
async def test_task_that_swallows_its_cancellation_is_cancelled_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def swallows() -> None:
        for _ in range(2):
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    task = asyncio.create_task(swallows())
    await asyncio.sleep(0)
    with caplog.at_level(logging.WARNING, "gangsched.kubernetes"):
        await end(task)
    assert task.done()
    assert [each.getMessage()[:38] for each in caplog.records] == [
        "a task that was cancelled goes on, and"
    ]


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
    async def swallows() -> None:
        for _ in range(15):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.1)

    async def waits() -> Any:
        return await asyncio.Event().wait()

    with pytest.raises(HungError, match="have gone by"):
        run_stepped(swallows(), 3)
    with pytest.raises(HungError, match="no timer"):
        run_stepped(waits())
