"""What is made cheap by doing it in batches: events of a watch, and posts behind binds."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

pytest.importorskip("aiohttp", reason="the extra kubernetes is not installed")
pytest.importorskip("httptools", reason="the extra kubernetes-fast is not installed")

from gangsched.kubernetes._decode import PodDecoder
from gangsched.kubernetes._give_way import GiveWay
from gangsched.kubernetes._recorder import EventRecorder, Regarding
from gangsched.kubernetes._reflector import Delta, Reflector, Resource
from gangsched.kubernetes._requests import Requests
from support.api_clients import TRANSPORTS, client_of
from support.api_objects import event_line
from support.memory_api import MemoryApi
from support.running import on_a_loop, until
from support.scripted_api import bookmark, scripted_api, stream
from support.stepped_loop import on_a_stepped_loop

EVENTS = "/apis/events.k8s.io/v1/events"


def pod_line(number: int) -> bytes:
    return event_line(number).rstrip() + b"\n"


# Watches ------------------------------------------------------------------------------------


class Paced:
    """A reflector whose pauses end when the test says so."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.pauses: list[float] = []
        self.go_on = asyncio.Event()

    def sink(self, deltas: list[Delta[Any]]) -> None:
        names = [each.identity.key for each in deltas if each.identity is not None]
        if names:
            self.batches.append(names)

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await self.go_on.wait()
        self.go_on.clear()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_events_that_come_during_a_pause_are_told_together(transport: str) -> None:
    @on_a_loop
    async def story() -> None:
        paced = Paced()
        async with scripted_api() as server, client_of(transport, server.access) as client:
            lines = [pod_line(number) for number in range(5)]
            server.answers(stream(bookmark("1", ends=True), *lines, ends=False, pause=0.02))
            reflector: Reflector[Any] = Reflector(
                client,
                Resource("/api/v1/pods", "Pod"),
                PodDecoder(),
                paced.sink,
                pace=0.5,
                sleep=paced.sleep,
            )
            task = asyncio.create_task(reflector.run())
            await until(lambda: paced.pauses)  # the listing ended a moment before the first event
            assert [len(batch) for batch in paced.batches] == [1]
            await asyncio.sleep(1.0)  # all five have come
            paced.go_on.set()
            await until(lambda: len(paced.batches) == 2)
            assert [len(batch) for batch in paced.batches] == [1, 4]
            assert len(paced.pauses) == 2
            assert all(0 < pause <= 0.5 for pause in paced.pauses)  # until the next beat
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    story()


def test_lone_events_are_followed_by_no_pause() -> None:
    @on_a_loop
    async def story() -> None:
        paced = Paced()
        async with scripted_api() as server, client_of("httptools", server.access) as client:
            lines = [pod_line(1), pod_line(2)]
            server.answers(stream(bookmark("1", ends=True), *lines, ends=False, pause=0.2))
            reflector: Reflector[Any] = Reflector(
                client,
                Resource("/api/v1/pods", "Pod"),
                PodDecoder(),
                paced.sink,
                pace=0.01,
                sleep=paced.sleep,
            )
            task = asyncio.create_task(reflector.run())
            await until(lambda: len(paced.batches) == 2)
            assert not paced.pauses
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    story()


# Posts --------------------------------------------------------------------------------------


@on_a_stepped_loop
async def test_posts_that_waited_half_as_long_go_with_the_first() -> None:
    give_way = GiveWay(lambda: 1, longest=0.4)
    began = time.monotonic()
    await give_way(began)
    waited = time.monotonic() - began
    assert waited >= 0.38
    began = time.monotonic()
    await give_way(began - 0.25)  # queued half of the limit ago
    assert time.monotonic() - began < 0.1
    await give_way(began)
    assert time.monotonic() - began >= 0.38


@on_a_loop
async def test_one_worker_looks_at_the_binds_and_the_others_wait_for_it() -> None:
    api, looking, most = MemoryApi(), [0], [0]
    may_go = asyncio.Event()

    async def give_way(_queued_at: float) -> None:
        looking[0] += 1
        most[0] = max(most[0], looking[0])
        await may_go.wait()
        looking[0] -= 1

    events = EventRecorder(
        Requests(api), give_way, controller="gangsched", clock=lambda: 1.8e9, workers=4
    )
    work = asyncio.create_task(events.run())
    pod = Regarding("v1", "Pod", "default", "p", "p-uid")
    for number in range(8):
        events.record(pod, "Normal", "Scheduled", "Binding", f"note {number}")
    await until(lambda: looking[0])
    await asyncio.sleep(0.02)
    may_go.set()
    await until(lambda: len(api.objects.get(EVENTS, {})) == 8)
    work.cancel()
    assert most == [1]
