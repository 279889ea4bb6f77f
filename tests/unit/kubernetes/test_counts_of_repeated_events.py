"""The counts of repeated events are written although no further repeat comes, and at the end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from attrs import evolve

from gangsched.kubernetes import _recorder
from gangsched.kubernetes._api import Response
from gangsched.kubernetes._recorder import EventRecorder, Regarding
from gangsched.kubernetes._requests import Requests
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.memory_api import Fault, MemoryApi
from support.running import ALONE, on_a_loop, running, until
from support.stepped_loop import on_a_stepped_loop

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

EVENTS = "/apis/events.k8s.io/v1/events"
POD = Regarding("v1", "Pod", "default", "p", "uid-p")


class SlowToCreate(MemoryApi):
    """An API server whose creations take longer than its patches."""

    async def request(self, method: str, path: str, **named: Any) -> Response:
        self.delay = 0.2 if method == "POST" else 0.0
        return await super().request(method, path, **named)


def counts(api: MemoryApi, reason: str) -> list[int]:
    """Return how often each Event of a reason happened, as the API server has it."""
    found = [each for each in api.objects.get(EVENTS, {}).values() if each["reason"] == reason]
    return [each.get("series", {}).get("count", 1) for each in found]


def recorder(api: MemoryApi, clock: Any = None) -> EventRecorder:
    async def at_once(queued_at: float) -> None:
        await asyncio.sleep(0)

    loop = asyncio.get_running_loop()
    return EventRecorder(
        Requests(api), at_once, controller="gangsched", clock=clock or loop.time, workers=2
    )


def record(events: EventRecorder) -> None:
    events.record(POD, "Warning", "FailedScheduling", "Scheduling", "no node")


@on_a_stepped_loop
async def test_group_that_falls_three_times_is_counted_three_times_at_the_end() -> None:
    api = MemoryApi()
    api.put(NODES, node_json("n"))
    api.put(GROUPS, group_json("g", 2))
    for n in range(2):
        api.put(PODS, pod_json(f"g-{n}", group="g"))
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
async def test_count_is_written_after_a_pause_without_a_further_repeat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_recorder, "_FIRST_PAUSE", 0.3)
    api = MemoryApi()
    events = recorder(api)
    work = asyncio.create_task(events.run())
    for _ in range(4):
        record(events)
        await until(lambda: not len(events))
    assert counts(api, "FailedScheduling") == [2]
    await until(lambda: counts(api, "FailedScheduling") == [4])
    work.cancel()


@on_a_loop
async def test_series_that_repeats_for_ever_is_written_ever_more_rarely() -> None:
    api, now = MemoryApi(), [1_800_000_000.0]
    events = recorder(api, lambda: now[0])
    work = asyncio.create_task(events.run())
    written: list[float] = []
    for second in range(300):
        record(events)
        await until(lambda: not len(events))
        if counts(api, "FailedScheduling") == [second + 1]:
            written.append(second)
        now[0] += 1.0
    assert written == [0, 1, 6, 16, 36, 76, 136, 196, 256]
    events.flush()
    await until(lambda: counts(api, "FailedScheduling") == [300])
    work.cancel()


@on_a_loop
async def test_repeat_during_the_creation_of_its_event_is_patched_after_it() -> None:
    api = SlowToCreate()
    events = recorder(api)
    work = asyncio.create_task(events.run())
    record(events)
    await until(lambda: bool(api.requests))
    record(events)
    await until(lambda: not len(events))
    assert [method for method, _ in api.requests] == ["POST", "PATCH"]
    assert counts(api, "FailedScheduling") == [2]
    work.cancel()


@on_a_loop
async def test_event_that_was_refused_is_not_repeated_without_a_new_cause() -> None:
    api = MemoryApi()
    api.fault = lambda _method, _path: Fault(Response(422, body=b"{}"))
    events = recorder(api)
    work = asyncio.create_task(events.run())
    record(events)
    await until(lambda: events.dropped == 1)
    events.flush()
    await asyncio.sleep(0.1)
    assert (len(events), len(api.requests)) == (0, 1)
    work.cancel()
