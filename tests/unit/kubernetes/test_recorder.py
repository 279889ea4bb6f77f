"""Events: counts of repeats, one flooded namespace, and posts that give way to binds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from attrs import evolve

from gangsched.kubernetes import _recorder
from gangsched.kubernetes._api import Response
from gangsched.kubernetes._give_way import GiveWay
from gangsched.kubernetes._recorder import EventRecorder, Regarding
from gangsched.kubernetes._requests import Requests
from support.cluster_objects import NODES, PODS, node_json, pod_json, put_gang
from support.memory_api import Fault, MemoryApi
from support.running import ALONE, on_a_loop, running, until
from support.stepped_loop import on_a_stepped_loop

EVENTS = "/apis/events.k8s.io/v1/events"


async def at_once(_queued_at: float) -> None:
    await asyncio.sleep(0)


@asynccontextmanager
async def recording(
    api: MemoryApi, clock: Callable[[], float] | None = None, give_way: Any = at_once, **named: int
) -> AsyncIterator[EventRecorder]:
    """Run a recorder; it begins when the body waits."""
    clock = clock or asyncio.get_running_loop().time
    workers: dict[str, Any] = {"workers": 2, **named}
    made = EventRecorder(Requests(api), give_way, controller="gangsched", clock=clock, **workers)
    work = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


def record(events: EventRecorder, note: str = "no node", namespace: str = "default") -> None:
    pod = Regarding("v1", "Pod", namespace, "p", f"uid-{namespace}")
    events.record(pod, "Warning", "FailedScheduling", "Scheduling", note)


def counts(api: MemoryApi, reason: str = "FailedScheduling") -> list[int]:
    """Return how often each Event of a reason happened, as the API server has it."""
    found = [each for each in api.objects.get(EVENTS, {}).values() if each["reason"] == reason]
    return [each.get("series", {}).get("count", 1) for each in found]


@pytest.mark.once("makes schedulers that decide about whole gangs")
@on_a_stepped_loop
async def test_group_that_falls_three_times_is_counted_three_times_at_the_end() -> None:
    api = MemoryApi()
    api.put(NODES, node_json("n"))
    put_gang(api, "g", 2)
    async with running(api, evolve(ALONE, write_group_status=False)):
        for n in range(3):
            await until(lambda: all(api.pods().values()))
            await asyncio.sleep(0.3)
            api.remove(PODS, f"default/g-{n}")
            await asyncio.sleep(1.3)
            api.put(PODS, pod_json(f"g-{n + 2}", group="g"))
        assert counts(api, "BelowMinimum")[0] < 3, "the pause of the series is not over"
    assert counts(api, "BelowMinimum") == [3]


@on_a_stepped_loop
async def test_count_is_written_after_a_pause_without_a_further_repeat() -> None:
    api = MemoryApi()
    async with recording(api) as events:
        for _ in range(4):
            record(events)
            await until(lambda: not len(events))
        assert counts(api) == [2]
        await until(lambda: counts(api) == [4])


@on_a_stepped_loop
async def test_series_that_repeats_for_ever_is_written_ever_more_rarely() -> None:
    api, now = MemoryApi(), 1_800_000_000.0
    written: list[int] = []
    async with recording(api, lambda: now) as events:
        for second in range(300):
            record(events)
            await until(lambda: not len(events))
            if counts(api) == [second + 1]:
                written.append(second)
            now += 1.0
        assert written == [0, 1, 6, 16, 36, 76, 136, 196, 256]
        events.flush()
        await until(lambda: counts(api) == [300])


class SlowToCreate(MemoryApi):
    """An API server whose creations take longer than its patches."""

    async def request(self, method: str, path: str, **named: Any) -> Response:
        self.delay = 0.2 if method == "POST" else 0.0
        return await super().request(method, path, **named)


@on_a_stepped_loop
async def test_repeat_during_the_creation_of_its_event_is_patched_after_it() -> None:
    api = SlowToCreate()
    async with recording(api) as events:
        record(events)
        await until(lambda: bool(api.requests))
        record(events)
        await until(lambda: not len(events))
        assert [method for method, _ in api.requests] == ["POST", "PATCH"]
        assert counts(api) == [2]


@on_a_stepped_loop
async def test_event_that_was_refused_is_not_repeated_without_a_new_cause() -> None:
    api = MemoryApi()
    api.fault = lambda _method, _path: Fault(Response(422, body=b"{}"))
    async with recording(api) as events:
        record(events)
        await until(lambda: events.dropped == 1)
        events.flush()
        await asyncio.sleep(10 * _recorder._FIRST_PAUSE)
        assert (len(events), len(api.requests)) == (0, 1)


@on_a_stepped_loop
async def test_only_events_of_the_flooded_namespace_are_dropped_and_they_are_counted() -> None:
    api = MemoryApi()
    async with recording(api, limit=50, workers=1) as events:
        record(events, "first", "quiet")
        for n in range(200):
            record(events, f"of {n}", "flood")
        record(events, "first", "quiet")  # before it is created
        assert (len(events), events.dropped) == (50, 151)
        await until(lambda: not len(events))
    created = [path.split("/")[5] for method, path in api.requests if method == "POST"]
    assert len(created) == 50
    assert "quiet" in created[:2]
    assert sorted(counts(api))[-2:] == [1, 2]


# Posts give way to binds ------------------------------------------------------------------------


@on_a_stepped_loop
async def test_posts_that_waited_half_as_long_go_with_the_first() -> None:
    give_way = GiveWay(lambda: 1, longest=0.4)
    began = time.monotonic()
    await give_way(began)
    assert time.monotonic() - began >= 0.38
    began = time.monotonic()
    await give_way(began - 0.25)  # queued half of the limit ago
    assert time.monotonic() - began < 0.1
    await give_way(began)
    assert time.monotonic() - began >= 0.38


@on_a_loop
async def test_one_worker_looks_at_the_binds_and_the_others_wait_for_it() -> None:
    api, looking, most = MemoryApi(), 0, 0
    may_go = asyncio.Event()

    async def give_way(_queued_at: float) -> None:
        nonlocal looking, most
        looking += 1
        most = max(most, looking)
        await may_go.wait()
        looking -= 1

    async with recording(api, lambda: 1.8e9, give_way, workers=4) as events:
        for number in range(8):
            record(events, f"note {number}")
        await until(lambda: looking)
        await asyncio.sleep(0.02)
        may_go.set()
        await until(lambda: len(api.objects.get(EVENTS, {})) == 8)
    assert most == 1
