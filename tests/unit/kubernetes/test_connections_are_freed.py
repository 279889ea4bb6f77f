"""Connections that are not used any more are closed, and freed without the collector of Python."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Iterator

import pytest
from attrs import evolve

pytest.importorskip("httptools", reason="the extra kubernetes-fast is not installed")

from gangsched.kubernetes import _transport_httptools
from gangsched.kubernetes._api import ConnectionLost, Response
from gangsched.kubernetes._connection import Connection
from gangsched.kubernetes._self_signed import self_signed_context
from gangsched.kubernetes._transport_httptools import HttptoolsTransport
from support.running import on_a_loop
from support.scripted_api import ScriptedApi, abort, reply, scripted_api, stream


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def connections() -> int:
    """Return how many connections exist, open or not."""
    return sum(type(each) is Connection for each in gc.get_objects())


async def get(transport: HttptoolsTransport, path: str = "/one") -> Response:
    return await transport.exchange("GET", path, {}, None, timeout=5.0, lane="default")


async def burst(transport: HttptoolsTransport, server: ScriptedApi, size: int = 4) -> None:
    for _ in range(size):
        server.answers(reply(200, {}, {"Retry-After": "1"}))
    answers = await asyncio.gather(*(get(transport) for _ in range(size)))
    assert [answer.headers["retry-after"] for answer in answers] == ["1"] * size


@on_a_loop
async def test_connections_that_a_burst_needed_are_closed_and_freed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with scripted_api() as server:
        transport = HttptoolsTransport(server.access, lanes={"default": 4})
        await burst(transport, server)
        assert connections() == 4
        monkeypatch.setattr(_transport_httptools, "IDLE_SECONDS", 0.0)
        await asyncio.sleep(0.01)
        monkeypatch.setattr(_transport_httptools, "IDLE_SECONDS", 0.005)
        server.answers(reply(200, {}))
        await get(transport)
        await asyncio.sleep(0.01)
        assert connections() == 1
        assert transport._lanes["default"].open == 1
        # places of closed connections are free again
        monkeypatch.setattr(_transport_httptools, "IDLE_SECONDS", 30.0)
        await burst(transport, server)
        assert transport._lanes["default"].open == 4
        await transport.aclose()
        await asyncio.sleep(0.01)
        assert connections() == 0


@on_a_loop
async def test_connection_that_the_server_cuts_is_freed() -> None:
    async with scripted_api() as server:
        transport = HttptoolsTransport(server.access, lanes={"default": 4})
        server.answers(abort())
        with pytest.raises(ConnectionLost):
            await get(transport)
        server.answers(stream(b"{}\n"))
        async for _lines in transport.stream("/watch", {}, timeout=5.0):
            pass
        await asyncio.sleep(0.01)
        assert connections() == 0
        await transport.aclose()


@on_a_loop
async def test_connection_is_closed_of_a_request_that_is_cancelled_as_it_opens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with scripted_api(self_signed_context(["127.0.0.1"])) as server:
        transport = HttptoolsTransport(evolve(server.access, verify=False))
        asked = asyncio.create_task(get(transport))
        opened: list[socket.socket] = []

        def cancelled(connection: Connection, below: asyncio.BaseTransport) -> None:
            made(connection, below)
            opened.append(below.get_extra_info("socket"))
            asked.cancel()

        made = Connection.connection_made
        monkeypatch.setattr(Connection, "connection_made", cancelled)
        with pytest.raises(asyncio.CancelledError):
            await asked
        await transport.aclose()
        # not when the server has said that it closes, too
        assert [each.fileno() for each in opened] == [-1]
