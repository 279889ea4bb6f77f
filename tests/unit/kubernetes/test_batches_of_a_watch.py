"""Events of a watch that come during a pause are told together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("aiohttp", reason="the extra kubernetes is not installed")
pytest.importorskip("httptools", reason="the extra kubernetes-fast is not installed")

from gangsched.kubernetes._decode import PodDecoder
from gangsched.kubernetes._reflector import Delta, Reflector, Resource
from support.api_clients import TRANSPORTS, client_of
from support.api_objects import event_line
from support.running import on_a_loop, until
from support.scripted_api import bookmark, scripted_api, stream


class Paced:
    """What a reflector has told, whose pauses end when the test says so."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.pauses: list[float] = []
        self.go_on = asyncio.Event()

    def sink(self, deltas: list[Delta[Any]]) -> None:
        names = [each.identity.key for each in deltas if each.identity is not None]
        if names:
            self.batches.append(len(names))

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await self.go_on.wait()
        self.go_on.clear()


@asynccontextmanager
async def paced(name: str, events: int, pause: float, pace: float) -> AsyncIterator[Paced]:
    """Run a reflector of a watch with some events, and a pause between each two."""
    found = Paced()
    async with scripted_api() as server, client_of(name, server.access) as client:
        lines = [event_line(number) for number in range(events)]
        server.answers(stream(bookmark("1", ends=True), *lines, ends=False, pause=pause))
        pods = Resource("/api/v1/pods", "Pod")
        reflector: Reflector[Any] = Reflector(
            client, pods, PodDecoder(), found.sink, pace=pace, sleep=found.sleep
        )
        task = asyncio.create_task(reflector.run())
        yield found
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("name", TRANSPORTS)
@on_a_loop
async def test_events_that_come_during_a_pause_are_told_together(name: str) -> None:
    async with paced(name, 5, 0.02, 0.5) as told:
        await until(lambda: told.pauses)  # the listing ended a moment before the first event
        assert told.batches == [1]
        await asyncio.sleep(1.0)  # all five have come
        told.go_on.set()
        await until(lambda: len(told.batches) == 2)
        assert told.batches == [1, 4]
        assert len(told.pauses) == 2
        assert all(0 < pause <= 0.5 for pause in told.pauses)  # until the next beat


@on_a_loop
async def test_lone_events_are_followed_by_no_pause() -> None:
    async with paced("httptools", 2, 0.2, 0.01) as told:
        await until(lambda: len(told.batches) == 2)
        assert not told.pauses
