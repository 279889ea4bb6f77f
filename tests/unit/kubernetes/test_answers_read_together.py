"""Answers that nothing waits for stay in the kernel until they are read together."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import Mock

import pytest

pytest.importorskip("httptools", reason="the extra kubernetes-fast is not installed")

from gangsched.drivers._beat import until_beat
from gangsched.kubernetes import _connection, _transport_httptools
from gangsched.kubernetes._api import ConnectionLost, Response
from gangsched.kubernetes._sockets import keep_alive, keep_bytes, tell_bytes
from gangsched.kubernetes._transport_httptools import HttptoolsTransport
from support.running import on_a_loop, until
from support.scripted_api import ScriptedApi, abort, event, reply, scripted_api, stream

FOR_EVER = 3600.0


def _keeps_bytes() -> bool:
    with socket.socket() as made:
        return keep_bytes(made)


pytestmark = pytest.mark.skipif(not _keeps_bytes(), reason="the kernel tells every byte")


def _never(_period: float) -> float:
    return FOR_EVER


def _soon(_period: float) -> float:
    return 0.3


@pytest.fixture(autouse=True)
def _no_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    """No beat comes by itself: what waits for one waits until something else ends the wait."""
    monkeypatch.setattr(_transport_httptools, "until_beat", _never)


@asynccontextmanager
async def transport_to(
    server: ScriptedApi, *, most: int = 4, gather: float = 60.0
) -> AsyncGenerator[HttptoolsTransport]:
    made = HttptoolsTransport(
        server.access, lanes={"binds": most, "other": most}, gather={"binds": gather}
    )
    try:
        yield made
    finally:
        await made.aclose()


def post(
    transport: HttptoolsTransport, *, lane: str = "binds", timeout: float = 30.0
) -> asyncio.Task[Response]:
    return asyncio.create_task(
        transport.exchange("POST", "/x", {}, b"{}", timeout=timeout, lane=lane)
    )


async def answered(server: ScriptedApi, count: int) -> None:
    """Wait until the server has had some requests, and a moment for its answers to arrive."""
    await until(lambda: len(server.requests) == count)
    await asyncio.sleep(0.1)


@on_a_loop
async def test_answer_that_comes_alone_is_read_at_once() -> None:
    async with scripted_api() as server, transport_to(server) as transport:
        server.answers(reply(201))
        assert (await post(transport)).status == 201


@on_a_loop
async def test_answers_of_a_stream_wait_while_half_of_the_connections_are_left() -> None:
    async with scripted_api() as server, transport_to(server) as transport:
        server.answers(reply(201))
        await post(transport)
        second = post(transport)
        await answered(server, 2)
        assert not second.done()
        third = post(transport)
        await answered(server, 3)
        assert [each.done() for each in (second, third)] == [False, False]
        fourth = post(transport)  # takes the third connection of four
        done = await asyncio.gather(second, third, fourth)
        assert [each.status for each in done] == [201, 201, 201]


@on_a_loop
async def test_answers_of_other_lanes_are_read_at_once() -> None:
    async with scripted_api() as server, transport_to(server) as transport:
        server.answers(reply(201))
        for _ in range(3):
            assert (await post(transport, lane="other")).status == 201


@on_a_loop
async def test_requests_that_are_far_apart_are_no_stream() -> None:
    async with scripted_api() as server, transport_to(server, gather=0.02) as transport:
        server.answers(reply(201))
        for _ in range(3):
            assert (await post(transport)).status == 201
            await asyncio.sleep(0.06)


@on_a_loop
async def test_beat_releases_all_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_transport_httptools, "until_beat", _soon)
    async with scripted_api() as server, transport_to(server) as transport:
        server.answers(reply(201))
        for _round in range(2):
            tasks = [post(transport), post(transport)]
            assert [each.status for each in await asyncio.gather(*tasks)] == [201, 201]


@on_a_loop
async def test_lost_connection_is_told_although_its_answer_would_wait() -> None:
    async with scripted_api() as server, transport_to(server) as transport:
        server.answers(reply(201), abort())
        await post(transport)
        with pytest.raises(ConnectionLost) as raised:
            await post(transport)
        assert raised.value.sent


@on_a_loop
async def test_timeout_ends_the_wait_for_an_answer() -> None:
    async with scripted_api() as server, transport_to(server) as transport:
        server.answers(reply(201))
        await post(transport)
        with pytest.raises(ConnectionLost, match="no answer within"):
            await post(transport, timeout=0.2)


@on_a_loop
async def test_answer_that_is_larger_than_what_is_kept_is_read() -> None:
    async with scripted_api() as server, transport_to(server) as transport:
        server.answers(reply(201), reply(409, b"x" * 1_000_000))
        await post(transport)
        assert len((await post(transport)).body) == 1_000_000


@on_a_loop
async def test_answers_that_wait_end_when_the_transport_is_closed() -> None:
    async with scripted_api() as server, transport_to(server) as transport:
        server.answers(reply(201))
        await post(transport)
        waiting = post(transport)
        await answered(server, 2)
        await transport.aclose()
        with pytest.raises(ConnectionLost):
            await waiting


@on_a_loop
async def test_lines_that_come_while_the_reader_is_busy_are_one_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    received: list[int] = []
    inner = _connection.Connection.data_received

    def data_received(self: Any, data: bytes) -> None:
        received.append(len(data))
        inner(self, data)

    monkeypatch.setattr(_connection.Connection, "data_received", data_received)
    async with scripted_api() as server, transport_to(server) as transport:
        lines = [event("ADDED", {"number": number}) for number in range(6)]
        server.answers(stream(*lines, ends=False, pause=0.02))
        batches: list[int] = []
        async for found in transport.stream("/x", {}, timeout=30.0):
            if not found:
                continue
            batches.append(len(found))
            if len(batches) == 1:
                before = len(received)
                await asyncio.sleep(0.4)  # all have come
                assert len(received) == before  # and none of them woke the process
            if sum(batches) == 6:
                break
        assert batches == [1, 5]


@pytest.mark.parametrize("period", [0.002, 0.02, 0.5])
def test_pause_until_a_beat_is_at_most_its_period(period: float) -> None:
    assert all(0 < until_beat(period) <= period for _ in range(100))


def test_pauses_that_begin_at_different_instants_end_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    for now in (100.0001, 100.0049, 100.0199):
        assert int(now * 1000) + round(1000 * until_beat(0.02)) == 100_020


def test_periods_below_two_milliseconds_have_no_beats() -> None:
    assert [until_beat(period) for period in (0.0, 0.0004, 0.0014)] == [0.0, 0.0004, 0.0014]


def test_closed_socket_keeps_nothing_whatever_it_raises() -> None:
    """The loop of uvloop raises ValueError for a socket that is closed before that is told."""
    for error in (OSError("closed"), ValueError("negative file descriptor")):
        closed = Mock(**{"setsockopt.side_effect": error})
        assert not keep_bytes(closed)
        tell_bytes(closed)
        keep_alive(closed)
        assert closed.setsockopt.called


@on_a_loop
async def test_request_that_cannot_be_sent_gives_its_connection_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_given: object) -> None:
        raise ValueError("negative file descriptor")

    async with scripted_api() as server:
        transport = HttptoolsTransport(server.access, lanes={"default": 1})
        with monkeypatch.context() as patched:
            patched.setattr(_transport_httptools._Lane, "sends", fails)
            with pytest.raises(ValueError, match="negative"):
                await transport.exchange("GET", "/a", {}, None, timeout=5.0, lane="default")
        server.answers(reply(200, {}))
        await transport.exchange("GET", "/b", {}, None, timeout=5.0, lane="default")
        await transport.aclose()
