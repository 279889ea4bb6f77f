"""The client, with each transport, against a server that fails in the ways of real ones."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Sequence

import pytest

pytest.importorskip("aiohttp", reason="the extra kubernetes is not installed")
pytest.importorskip("httptools", reason="the extra kubernetes-fast is not installed")

from attrs import evolve

from gangsched.kubernetes._api import ConnectionLost, Response, WatchRefused
from gangsched.kubernetes._configuration import Access
from gangsched.kubernetes._counted import close_stream
from gangsched.kubernetes._sockets import keep_alive
from support.api_clients import TRANSPORTS, client_of
from support.patience import HANG
from support.scripted_api import (
    Answer,
    Request,
    ScriptedApi,
    abort,
    event,
    reply,
    run,
    scripted_api,
    stream,
)

each_transport = pytest.mark.parametrize("name", TRANSPORTS)

BIND = "/api/v1/namespaces/team/pods/w-0/binding"


async def collect(batches: AsyncIterator[Sequence[bytes]]) -> list[bytes]:
    return [line async for lines in batches for line in lines]


@each_transport
def test_request_carries_body_headers_and_query(name: str) -> None:
    async def story() -> None:
        async with (
            scripted_api() as server,
            client_of(name, evolve(server.access, authorization="Bearer t")) as client,
        ):
            server.answers(reply(201, {"kind": "Status"}, {"X-One": "two"}))
            path = "/api/v1/pods?labelSelector=a%3Db%2Cc&limit=5"
            answer = await client.request("POST", path, body=b"{}", content_type="text/x")
            assert (answer.status, answer.body) == (201, b'{"kind": "Status"}')
            assert answer.headers["x-one"] == "two"
            (request,) = server.requests
            assert request.method == "POST"
            assert request.query == {"labelSelector": "a=b,c", "limit": "5"}
            assert request.body == b"{}"
            assert request.headers["content-type"] == "text/x"
            assert request.headers["authorization"] == "Bearer t"

    run(story())


@each_transport
def test_connection_is_used_again(name: str) -> None:
    async def story() -> None:
        async with scripted_api() as server, client_of(name, server.access) as client:
            server.answers(reply(200, {}))
            for _ in range(5):
                await client.request("GET", "/version")
            assert server.connections == 1

    run(story())


@each_transport
@pytest.mark.parametrize("status", [201, 400, 403, 404, 409, 500])
def test_status_is_an_answer_and_not_an_error(name: str, status: int) -> None:
    async def story() -> None:
        async with scripted_api() as server, client_of(name, server.access) as client:
            server.answers(reply(status, {"code": status}))
            answer = await client.request("POST", BIND, body=b"{}")
            assert answer.status == status
            assert len(server.requests) == 1

    run(story())


@each_transport
def test_redirect_is_not_followed(name: str) -> None:
    async def story() -> None:
        async with scripted_api() as server, client_of(name, server.access) as client:
            server.answers(reply(302, {}, {"Location": "/elsewhere"}))
            assert (await client.request("GET", "/version")).status == 302
            assert len(server.requests) == 1

    run(story())


@each_transport
@pytest.mark.parametrize("part", [b"", b"HTTP/1.1 201 Created\r\nContent-Length: 9\r\n\r\n{"])
def test_write_whose_answer_is_lost_is_not_repeated(name: str, part: bytes) -> None:
    async def story() -> None:
        async with scripted_api() as server, client_of(name, server.access) as client:
            server.answers(abort(part))
            with pytest.raises(ConnectionLost) as lost:
                await client.request("POST", BIND, body=b"{}")
            assert lost.value.sent
            assert lost.value.path == BIND
            assert len(server.requests) == 1

    run(story())


@each_transport
@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_no_write_is_repeated_on_a_connection_that_was_idle(name: str, method: str) -> None:
    async def story() -> None:
        async with scripted_api() as server, client_of(name, server.access) as client:
            server.answers(reply(200, {}), abort(), reply(200, {}))
            await client.request("GET", "/version")
            with pytest.raises(ConnectionLost) as lost:
                await client.request(method, "/x", body=b"{}")
            assert lost.value.sent
            assert server.paths() == ["GET /version", f"{method} /x"]

    run(story())


@each_transport
def test_read_whose_answer_is_lost_is_repeated(name: str) -> None:
    async def story() -> None:
        async with scripted_api() as server, client_of(name, server.access) as client:
            server.answers(abort(), abort(b"HTTP/1.1 200 OK\r\n"), reply(200, {"a": 1}))
            answer = await client.request("GET", "/version")
            assert answer.body == b'{"a": 1}'
            assert len(server.requests) == 3

    run(story())


@each_transport
def test_write_goes_out_when_the_server_closed_the_idle_connection_before(name: str) -> None:
    async def story() -> None:
        async with scripted_api() as server, client_of(name, server.access) as client:
            server.answers(reply(201, {}))
            await client.request("POST", BIND, body=b"{}")
            await server.close_connections()
            answer = await client.request("POST", BIND, body=b"{}")
            assert answer.status == 201
            assert server.connections == 2

    run(story())


@each_transport
def test_connection_that_the_server_will_close_is_not_used_again(name: str) -> None:
    async def story() -> None:
        async with scripted_api() as server, client_of(name, server.access) as client:
            server.answers(reply(201, {}, {"Connection": "close"}))
            for _ in range(3):
                assert (await client.request("POST", BIND, body=b"{}")).status == 201
            assert server.connections == 3

    run(story())


@each_transport
def test_request_that_finds_no_server_was_not_sent(name: str) -> None:
    async def story() -> None:
        async with scripted_api() as server:
            access = server.access
        async with client_of(name, access) as client:
            with pytest.raises(ConnectionLost) as lost:
                await client.request("POST", BIND, body=b"{}", timeout=0.3)
            assert not lost.value.sent

    run(story())


@each_transport
def test_first_problem_is_told_when_the_time_is_over(name: str) -> None:
    async def story() -> None:
        async with scripted_api() as server, client_of(name, server.access) as client:

            async def slowly(_request: Request) -> Answer:
                if len(server.requests) > 1:
                    await asyncio.sleep(5.0)
                return abort(b"nonsense\r\n\r\n")

            server.handler = slowly
            with pytest.raises(ConnectionLost) as lost:
                await client.request("GET", "/version", timeout=0.4)
            assert len(server.requests) == 2
            assert "within" not in lost.value.problem
            assert "Timeout" not in lost.value.problem

    run(story())


@each_transport
def test_write_waits_for_a_server_that_starts(name: str) -> None:
    async def story() -> None:
        async with scripted_api() as server:
            port, access = server.port, server.access
        async with client_of(name, access) as client:
            asking = asyncio.ensure_future(client.request("POST", BIND, body=b"{}", timeout=10.0))
            await asyncio.sleep(0.2)
            late = ScriptedApi()
            late.answers(reply(201, {}))
            started = await asyncio.start_server(late.serve, "127.0.0.1", port)
            try:
                assert (await asking).status == 201
                assert len(late.requests) == 1
            finally:
                started.close()
                await client.aclose()
                await asyncio.sleep(0.05)

    run(story())


@each_transport
def test_timeout_loses_the_answer_and_the_connection(name: str) -> None:
    async def story() -> None:
        async with scripted_api() as server, client_of(name, server.access) as client:
            given_up = asyncio.Event()

            async def slowly(request: Request) -> Answer:
                if request.path == "/slow":
                    await given_up.wait()
                return reply(200, {"path": request.path})

            server.handler = slowly
            with pytest.raises(ConnectionLost) as lost:
                await client.request("POST", "/slow", body=b"", timeout=0.1)
            assert lost.value.sent
            given_up.set()
            # the late answer is not taken for that of the next request
            answer = await client.request("GET", "/next")
            assert answer.body == b'{"path": "/next"}'

    run(story())


@each_transport
def test_cancelled_request_leaves_no_answer_for_the_next(name: str) -> None:
    async def story() -> None:
        lanes = {"default": 1}
        async with scripted_api() as server, client_of(name, server.access, lanes=lanes) as client:

            async def slowly(request: Request) -> Answer:
                await asyncio.sleep(0.2 if request.path == "/slow" else 0.0)
                return reply(200, {"path": request.path})

            server.handler = slowly
            first = asyncio.ensure_future(client.request("GET", "/slow"))
            await asyncio.sleep(0.05)
            waiting = asyncio.ensure_future(client.request("GET", "/waiting"))
            await asyncio.sleep(0.05)
            waiting.cancel()
            first.cancel()
            await asyncio.gather(first, waiting, return_exceptions=True)
            answer = await client.request("GET", "/next")
            assert answer.body == b'{"path": "/next"}'

    run(story())


@each_transport
@pytest.mark.parametrize("headers", [{"Retry-After": "0.2"}, {}])
def test_too_many_requests_waits_and_repeats(name: str, headers: dict[str, str]) -> None:
    async def story() -> None:
        async with scripted_api() as server, client_of(name, server.access) as client:
            server.answers(reply(429, {}, headers), reply(201, {}))
            begun = time.monotonic()
            answer = await client.request("POST", BIND, body=b"{}")
            assert answer.status == 201
            assert time.monotonic() - begun >= (0.2 if headers else 1.0)

    run(story())


@each_transport
def test_unavailable_is_repeated_only_with_retry_after(name: str) -> None:
    async def story() -> None:
        async with scripted_api() as server, client_of(name, server.access) as client:
            server.answers(reply(503, {}, {"Retry-After": "0"}), reply(201, {}))
            assert (await client.request("POST", BIND, body=b"{}")).status == 201
            server.answers(reply(503, {}))
            assert (await client.request("POST", BIND, body=b"{}")).status == 503
            assert len(server.requests) == 3

    run(story())


@each_transport
def test_too_many_requests_is_returned_when_the_time_is_over(name: str) -> None:
    async def story() -> None:
        async with scripted_api() as server, client_of(name, server.access) as client:
            server.answers(reply(429, {}, {"Retry-After": "60"}))
            answer = await client.request("POST", BIND, body=b"{}", timeout=1.0)
            assert answer.status == 429
            assert answer.retry_after == 60.0

    run(story())


@each_transport
def test_expired_token_is_read_again_and_the_write_repeated(name: str) -> None:
    async def story() -> None:
        async with scripted_api() as server:
            tokens = iter(["Bearer old", "Bearer new", "Bearer never"])

            def read() -> Access:
                return evolve(server.access, authorization=next(tokens))

            def handler(request: Request) -> Answer:
                good = request.headers["authorization"] == "Bearer new"
                return reply(201 if good else 401, {})

            server.handler = handler
            async with client_of(name, read) as client:
                answers = await asyncio.gather(
                    *(client.request("POST", BIND, body=b"{}") for _ in range(8))
                )
                assert [each.status for each in answers] == [201] * 8
                assert next(tokens) == "Bearer never"  # one reading served all of them

    run(story())


@each_transport
def test_refused_token_is_an_answer_after_one_repetition(name: str) -> None:
    async def story() -> None:
        async with scripted_api() as server:
            reads = 0

            def read() -> Access:
                nonlocal reads
                reads += 1
                return evolve(server.access, authorization="Bearer same")

            server.answers(reply(401, {}))
            async with client_of(name, read) as client:
                for _ in range(3):
                    assert (await client.request("POST", BIND, body=b"{}")).status == 401
            assert len(server.requests) == 3

    run(story())


@each_transport
def test_watch_yields_lines_in_batches_across_chunks(name: str) -> None:
    async def story() -> None:
        async with scripted_api() as server, client_of(name, server.access) as client:
            server.answers(stream(b'{"a":1}\n{"b":', b"2}\n", b"\n", b"x" * 300_000, b"y\n", b"z"))
            lines = await collect(client.watch("/api/v1/pods?watch=true", timeout=5.0))
            assert lines == [b'{"a":1}', b'{"b":2}', b"", b"x" * 300_000 + b"y"]

    run(story())


@each_transport
def test_watch_that_is_refused_says_with_which_answer(name: str) -> None:
    async def story() -> None:
        async with scripted_api() as server, client_of(name, server.access) as client:
            server.answers(reply(410, {"reason": "Expired"}))
            with pytest.raises(WatchRefused) as refused:
                await collect(client.watch("/api/v1/pods?watch=true", timeout=5.0))
            assert refused.value.response.status == 410
            assert b"Expired" in refused.value.response.body

    run(story())


@each_transport
def test_watch_begins_with_new_credentials_after_401(name: str) -> None:
    async def story() -> None:
        async with scripted_api() as server:
            tokens = iter(["Bearer old", "Bearer new"])

            def handler(request: Request) -> Answer:
                good = request.headers["authorization"] == "Bearer new"
                return stream(event("ADDED", {})) if good else reply(401, {})

            server.handler = handler
            async with client_of(
                name, lambda: evolve(server.access, authorization=next(tokens))
            ) as client:
                assert len(await collect(client.watch("/w?watch=true", timeout=5.0))) == 1

    run(story())


@each_transport
def test_watch_that_is_cut_is_lost(name: str) -> None:
    async def story() -> None:
        async with scripted_api() as server, client_of(name, server.access) as client:
            server.answers(stream(event("ADDED", {}), abort=True, pause=0.05))
            seen: list[bytes] = []

            async def look() -> None:
                async for lines in client.watch("/api/v1/pods?watch=true", timeout=5.0):
                    seen.extend(lines)

            with pytest.raises(ConnectionLost):
                await look()
            assert len(seen) == 1

    run(story())


@each_transport
def test_silent_watch_is_lost_after_its_time(name: str) -> None:
    async def story() -> None:
        async with scripted_api() as server, client_of(name, server.access) as client:
            server.answers(stream(event("ADDED", {}), ends=False))
            with pytest.raises(ConnectionLost):
                await collect(client.watch("/api/v1/pods?watch=true", timeout=0.3))

    run(story())


@each_transport
def test_watch_without_an_answer_is_lost_long_before_its_time(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("aiohttp", "httptools"):
        where = f"gangsched.kubernetes._transport_{module}.WATCH_ANSWER_SECONDS"
        monkeypatch.setattr(where, 0.1)

    async def story() -> None:
        async with scripted_api() as server, client_of(name, server.access) as client:

            async def never(_request: Request) -> Answer:
                await asyncio.sleep(30.0)
                return stream(event("ADDED", {}))

            server.handler = never
            async with asyncio.timeout(HANG):
                with pytest.raises(ConnectionLost) as lost:
                    await collect(client.watch("/api/v1/pods?watch=true", timeout=300.0))
            assert lost.value.sent

    run(story())


@each_transport
def test_watch_that_is_left_closes_its_connection(name: str) -> None:
    async def story() -> None:
        async with scripted_api() as server, client_of(name, server.access) as client:
            server.answers(stream(event("ADDED", {}), ends=False))
            batches = client.watch("/api/v1/pods?watch=true", timeout=5.0)
            async for _ in batches:
                break
            await close_stream(batches)
            await asyncio.sleep(0.05)
            server.answers(reply(200, {}))
            assert (await client.request("GET", "/version")).status == 200

    run(story())


@each_transport
def test_watch_waits_for_its_reader_and_loses_nothing(name: str) -> None:
    async def story() -> None:
        async with scripted_api() as server, client_of(name, server.access) as client:
            chunk = b"".join(b"%07d\n" % number for number in range(125_000))
            server.answers(stream(*[chunk] * 16))
            count = 0
            async for lines in client.watch("/w", timeout=5.0):
                if count == 0:
                    await asyncio.sleep(0.3)
                count += len(lines)
            assert count == 16 * 125_000

    run(story())


def test_reader_that_is_behind_stops_the_server() -> None:
    async def story() -> None:
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

        async with (
            scripted_api() as server,
            client_of("httptools", server.access) as client,
        ):
            server.answers(write)
            batches = client.watch("/w", timeout=5.0)
            await anext(batches)
            await asyncio.sleep(0.5)
            assert sent < 50  # megabytes: what sockets and the parser hold, and not all of them
            await close_stream(batches)

    run(story())


@each_transport
def test_interim_answer_is_not_the_answer(name: str) -> None:
    async def story() -> None:
        async with scripted_api() as server, client_of(name, server.access) as client:
            final = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"

            async def write(writer: asyncio.StreamWriter) -> bool:
                writer.write(b"HTTP/1.1 103 Early Hints\r\nX-A: b\r\n\r\n" + final)
                await writer.drain()
                return True

            server.answers(write)
            for _ in range(2):
                answer = await client.request("POST", BIND, body=b"{}")
                assert (answer.status, answer.body) == (201, b"{}")

    run(story())


@each_transport
def test_malformed_answer_is_no_answer(name: str) -> None:
    async def story() -> None:
        async with scripted_api() as server, client_of(name, server.access) as client:

            async def write(writer: asyncio.StreamWriter) -> bool:
                writer.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
                await writer.drain()
                return False

            server.answers(write)
            with pytest.raises(ConnectionLost) as lost:
                await client.request("POST", BIND, body=b"{}")
            assert lost.value.sent

    run(story())


def test_connection_asks_whether_its_peer_is_there() -> None:
    with socket.socket() as one:
        keep_alive(one)
        assert one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if hasattr(socket, "TCP_KEEPIDLE"):
            assert one.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 15


def test_connection_that_was_idle_for_long_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gangsched.kubernetes._transport_httptools.IDLE_SECONDS", 0.05)

    async def story() -> None:
        async with (
            scripted_api() as server,
            client_of("httptools", server.access) as client,
        ):
            server.answers(reply(201, {}))
            for _ in range(2):
                assert (await client.request("POST", BIND, body=b"{}")).status == 201
                await asyncio.sleep(0.2)
            assert server.connections == 2

    run(story())


@each_transport
def test_a_full_lane_does_not_delay_another(name: str) -> None:
    async def story() -> None:
        lanes = {"events": 1, "binds": 1}
        async with scripted_api() as server, client_of(name, server.access, lanes=lanes) as client:

            async def slowly(request: Request) -> Answer:
                if request.path == "/events":
                    await asyncio.Event().wait()
                return reply(201, {})

            server.handler = slowly
            events = [
                asyncio.ensure_future(client.request("POST", "/events", body=b"", lane="events"))
                for _ in range(3)
            ]
            await asyncio.sleep(0.05)
            await client.request("POST", BIND, body=b"", lane="binds")
            for each in events:
                each.cancel()
            await asyncio.gather(*events, return_exceptions=True)

    run(story())


@each_transport
def test_a_lane_opens_no_more_connections_than_it_may(name: str) -> None:
    async def story() -> None:
        lanes = {"binds": 3}
        async with scripted_api() as server, client_of(name, server.access, lanes=lanes) as client:

            async def slowly(_request: Request) -> Answer:
                await asyncio.sleep(0.01)
                return reply(201, {})

            server.handler = slowly
            answers = await asyncio.gather(
                *(client.request("POST", BIND, body=b"", lane="binds") for _ in range(20))
            )
            assert [each.status for each in answers] == [201] * 20
            assert server.connections == 3

    run(story())


@each_transport
def test_base_path_of_the_server_precedes_each_path(name: str) -> None:
    async def story() -> None:
        async with scripted_api() as server:
            access = evolve(server.access, server=f"{server.access.server}/k8s/clusters/c1")
            async with client_of(name, access) as client:
                server.answers(reply(200, {}))
                await client.request("GET", "/version")
            assert server.paths() == ["GET /k8s/clusters/c1/version"]

    run(story())


def test_retry_after_may_be_a_date() -> None:
    headers = {
        "retry-after": "Sat, 31 Jan 2026 12:00:07 GMT",
        "date": "Sat, 31 Jan 2026 12:00:00 GMT",
    }
    assert Response(429, headers).retry_after == 7.0


@pytest.mark.parametrize("text", ["soon", "nan", "inf", "", "Sat, 31 Jan 2026 12:00:07 GMT"])
def test_malformed_retry_after_is_absent(text: str) -> None:
    assert Response(429, {"retry-after": text}).retry_after is None
