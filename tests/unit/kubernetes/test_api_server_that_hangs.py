"""What a leader says while its API server does not answer: the cause, once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from gangsched.kubernetes._api import ConnectionLost
from support.control_plane.processes import free_ports
from support.memory_api import MemoryApi
from support.patience import HANG
from support.running import ALONE, on_a_loop, running
from support.scraping import fetch

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")


class Hanging(MemoryApi):
    """An API server that answers everything but watches of the cluster."""

    async def watch(self, path: str, *, timeout: float) -> AsyncIterator[Sequence[bytes]]:
        raise ConnectionLost("GET", path, "TimeoutError", sent=True)
        yield ()


@on_a_loop
async def test_lost_connections_of_all_kinds_are_one_sentence_without_their_paths() -> None:
    (port,) = free_ports(1)
    text = ""
    async with running(Hanging(), ALONE, serve=("127.0.0.1", port)):
        async with asyncio.timeout(HANG):
            while ": no answer: TimeoutError" not in text:
                await asyncio.sleep(0.05)
                text = await asyncio.to_thread(fetch, port, "/readyz")
            while "are not listed yet\n" in text:  # a watch that has not failed yet
                await asyncio.sleep(0.05)
                text = await asyncio.to_thread(fetch, port, "/readyz")
    (line,) = text.splitlines()
    assert line.count("are not listed yet") == line.count("TimeoutError") == 1
    assert line.count(",") >= 10
    assert "watch" not in line
