"""The fast transport: what it leaves in the kernel, reads late, closes and frees."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest
from attrs import evolve

pytest.importorskip("httptools", reason="the extra kubernetes-fast is not installed")

from gangsched.drivers._beat import until_beat
from gangsched.kubernetes import _connection, _transport_httptools
from gangsched.kubernetes._api import ConnectionLost, Response
from gangsched.kubernetes._connection import Connection
from gangsched.kubernetes._counted import close_stream
from gangsched.kubernetes._self_signed import self_signed_context
from gangsched.kubernetes._sockets import keep_alive, keep_bytes, tell_bytes
from gangsched.kubernetes._transport_httptools import HttptoolsTransport
from support.running import on_a_loop, until
from support.scripted_api import Answer, ScriptedApi, abort, event, reply, scripted_api, stream


@asynccontextmanager
async def transport_to(
    server: ScriptedApi, *, most: int = 4, gather: float = 60.0
) -> AsyncGenerator[HttptoolsTransport]:
    lanes = {"binds": most, "default": most}
    made = HttptoolsTransport(server.access, lanes=lanes, gather={"binds": gather})
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


async def get(transport: HttptoolsTransport) -> Response:
    return await transport.exchange("GET", "/one", {}, None, timeout=5.0, lane="default")


# Answers that nothing waits for stay in the kernel until they are read together -----------------


def _keeps_bytes() -> bool:
    with socket.socket() as made:
        return keep_bytes(made)


keeps_bytes = pytest.mark.skipif(not _keeps_bytes(), reason="the kernel tells every byte")


@pytest.fixture(autouse=True)
def _no_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    """No beat comes by itself: what waits for one waits until something else ends the wait."""
    monkeypatch.setattr(_transport_httptools, "until_beat", lambda _period: 3600.0)


def has_had(server: ScriptedApi, count: int) -> bool:
    return len(server.requests) == count


@keeps_bytes
@on_a_loop
async def test_answers_of_a_stream_wait_while_half_of_the_connections_are_left() -> None:
    async with scripted_api() as server, transport_to(server) as transport:
        server.answers(reply(201))
        await post(transport)  # it comes alone
        tasks: list[asyncio.Task[Response]] = []
        for count in (2, 3):
            tasks.append(post(transport))
            await until(partial(has_had, server, count))
            await asyncio.sleep(0.1)
            assert not any(each.done() for each in tasks)
        tasks.append(post(transport))  # takes the third connection of four
        assert [each.status for each in await asyncio.gather(*tasks)] == [201, 201, 201]


@keeps_bytes
@pytest.mark.parametrize(
    ("lane", "gather", "pause"), [("default", 60.0, 0.0), ("binds", 0.02, 0.06)]
)
@on_a_loop
async def test_answers_of_other_lanes_or_of_requests_far_apart_are_read_at_once(
    lane: str, gather: float, pause: float
) -> None:
    async with scripted_api() as server, transport_to(server, gather=gather) as transport:
        server.answers(reply(201))
        for _ in range(3):
            assert (await post(transport, lane=lane)).status == 201
            await asyncio.sleep(pause)


@keeps_bytes
@on_a_loop
async def test_beat_releases_all_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_transport_httptools, "until_beat", lambda _period: 0.3)
    async with scripted_api() as server, transport_to(server) as transport:
        server.answers(reply(201))
        for _round in range(2):
            tasks = [post(transport), post(transport)]
            assert [each.status for each in await asyncio.gather(*tasks)] == [201, 201]


@keeps_bytes
@on_a_loop
async def test_wait_for_an_answer_ends_with_its_connection_its_time_or_its_transport() -> None:
    async with scripted_api() as server, transport_to(server) as transport:
        server.answers(reply(201), abort(), reply(201))
        await post(transport)
        with pytest.raises(ConnectionLost) as raised:
            await post(transport)
        assert raised.value.sent
        with pytest.raises(ConnectionLost, match="no answer within"):
            await post(transport, timeout=0.2)
        waiting = post(transport)
        await until(lambda: len(server.requests) == 4)
        await transport.aclose()
        with pytest.raises(ConnectionLost):
            await waiting


@keeps_bytes
@on_a_loop
async def test_answer_that_is_larger_than_what_is_kept_is_read() -> None:
    async with scripted_api() as server, transport_to(server) as transport:
        server.answers(reply(201), reply(409, b"x" * 1_000_000))
        await post(transport)
        assert len((await post(transport)).body) == 1_000_000


@keeps_bytes
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


def test_pauses_that_begin_at_different_instants_end_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for period in (0.002, 0.02, 0.5):
        assert all(0 < until_beat(period) <= period for _ in range(100))
    assert [until_beat(period) for period in (0.0, 0.0004, 0.0014)] == [0.0, 0.0004, 0.0014]
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    for now in (100.0001, 100.0049, 100.0199):
        assert int(now * 1000) + round(1000 * until_beat(0.02)) == 100_020


# Sockets ----------------------------------------------------------------------------------------


def test_connection_asks_whether_its_peer_is_there() -> None:
    with socket.socket() as one:
        keep_alive(one)
        assert one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if hasattr(socket, "TCP_KEEPIDLE"):
            assert one.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 15


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

    async with scripted_api() as server, transport_to(server, most=1) as transport:
        with monkeypatch.context() as patched:
            patched.setattr(_transport_httptools._Lane, "sends", fails)
            with pytest.raises(ValueError, match="negative"):
                await get(transport)
        server.answers(reply(200, {}))
        await get(transport)


FINAL = b"HTTP/1.1 404 Not Found\r\nRetry-After: 3\r\nX-Seen: final\r\nContent-Length: 2\r\n\r\n{}"
EARLY = b"HTTP/1.1 103 Early Hints\r\nX-Seen: early\r\nX-Early: 1\r\n\r\n"


@pytest.mark.parametrize(
    "parts", [(FINAL[:30], FINAL[30:70], FINAL[70:]), (EARLY + FINAL,), (EARLY, FINAL)]
)
@on_a_loop
async def test_headers_are_those_of_the_final_answer_however_it_comes(
    parts: tuple[bytes, ...],
) -> None:
    async def write(writer: asyncio.StreamWriter) -> bool:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.02)
        return True

    async with scripted_api() as server, transport_to(server) as transport:
        server.answers(write)
        for _ in range(2):  # the second answer on one connection, too
            answer = await get(transport)
            assert (answer.status, answer.body, answer.retry_after) == (404, b"{}", 3.0)
            headers = {"retry-after": "3", "x-seen": "final", "content-length": "2"}
            assert dict(answer.headers) == headers


@on_a_loop
async def test_reader_that_is_behind_stops_the_server() -> None:
    sent = 0

    async def write(writer: asyncio.StreamWriter) -> bool:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while sent < 200:
            writer.write(b"f4240\r\n%s\r\n" % (b"x" * 999_999 + b"\n"))
            await writer.drain()
            sent += 1
        writer.write(b"0\r\n\r\n")
        return False

    handler: Answer = write
    async with scripted_api() as server, transport_to(server) as transport:
        server.answers(handler)
        batches = transport.stream("/w", {}, timeout=5.0)
        await anext(batches)
        await asyncio.sleep(0.5)
        assert sent < 50  # megabytes: what sockets and the parser hold, and not all of them
        await close_stream(batches)


# Connections that are not used any more are closed, and freed without the collector of Python


@pytest.fixture
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


freed = pytest.mark.usefixtures("_no_collector")


def connections() -> int:
    """Return how many connections exist, open or not."""
    return sum(type(each) is Connection for each in gc.get_objects())


@freed
@on_a_loop
async def test_connections_that_a_burst_needed_are_closed_and_freed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with scripted_api() as server, transport_to(server) as transport:
        server.answers(reply(200, {}))

        async def burst() -> None:
            await asyncio.gather(*(get(transport) for _ in range(4)))
            assert connections() == 4

        await burst()
        monkeypatch.setattr(_transport_httptools, "IDLE_SECONDS", 0.0)
        await asyncio.sleep(0.01)
        monkeypatch.setattr(_transport_httptools, "IDLE_SECONDS", 0.005)
        await get(transport)
        await asyncio.sleep(0.01)
        assert (connections(), server.connections) == (1, 5)
        monkeypatch.setattr(_transport_httptools, "IDLE_SECONDS", 30.0)
        await burst()  # places of closed connections are free again
        await transport.aclose()
        await asyncio.sleep(0.01)
        assert connections() == 0


@freed
@on_a_loop
async def test_connection_that_the_server_cuts_is_freed() -> None:
    async with scripted_api() as server, transport_to(server) as transport:
        server.answers(abort(), stream(b"{}\n"))
        with pytest.raises(ConnectionLost):
            await get(transport)
        async for _lines in transport.stream("/watch", {}, timeout=5.0):
            pass
        await asyncio.sleep(0.01)
        assert connections() == 0


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
