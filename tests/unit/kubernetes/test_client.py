"""The client, with each transport, against a server that fails in the ways of real ones."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

pytest.importorskip("aiohttp", reason="the extra kubernetes is not installed")
pytest.importorskip("httptools", reason="the extra kubernetes-fast is not installed")
pytest.importorskip("kubernetes_asyncio", reason="the extra kubernetes is not installed")

from gangsched.errors import InvalidValueError
from gangsched.kubernetes import LeaderElection, Settings
from gangsched.kubernetes._api import Api, ConnectionLost, Response, WatchRefused
from gangsched.kubernetes._client import Client, TransportName, connect, connect_client
from gangsched.kubernetes._configuration import Access, ConfigurationError, Credentials
from gangsched.kubernetes._contact import Contact
from gangsched.kubernetes._counted import CountedApi, close_stream
from gangsched.kubernetes._measure import Measures
from support.api_clients import TRANSPORTS, client_of
from support.cluster_objects import NODES, PODS, node_json, pod_json
from support.memory_api import MemoryApi, refused
from support.patience import HANG
from support.running import on_a_loop, running, until
from support.scripted_api import (
    Answer,
    Request,
    ScriptedApi,
    abort,
    event,
    reply,
    scripted_api,
    stream,
)

each_transport = pytest.mark.parametrize("name", TRANSPORTS)

BIND = "/api/v1/namespaces/team/pods/w-0/binding"
WATCH = "/api/v1/pods?watch=true"


@asynccontextmanager
async def serving(
    name: str, *answers: Answer, **named: Any
) -> AsyncIterator[tuple[ScriptedApi, Client]]:
    """Run a server with some answers, and a client of it."""
    async with scripted_api() as server, client_of(name, server.access, **named) as client:
        if answers:
            server.answers(*answers)
        yield server, client


async def collect(batches: AsyncIterator[Sequence[bytes]]) -> list[bytes]:
    return [line async for lines in batches for line in lines]


# Requests ---------------------------------------------------------------------------------------


@each_transport
@on_a_loop
async def test_request_carries_body_headers_and_query_to_the_base_path(name: str) -> None:
    async with scripted_api() as server:
        url = f"{server.access.server}/k8s/clusters/c1"
        async with client_of(name, Access(url, authorization="Bearer t")) as client:
            server.answers(reply(201, {"kind": "Status"}, {"X-One": "two"}))
            path = "/api/v1/pods?labelSelector=a%3Db%2Cc&limit=5"
            answer = await client.request("POST", path, body=b"{}", content_type="text/x")
        assert (answer.status, answer.body) == (201, b'{"kind": "Status"}')
        assert answer.headers["x-one"] == "two"
        (request,) = server.requests
        assert (request.method, request.path) == ("POST", "/k8s/clusters/c1/api/v1/pods")
        assert request.query == {"labelSelector": "a=b,c", "limit": "5"}
        assert request.body == b"{}"
        assert request.headers["content-type"] == "text/x"
        assert request.headers["authorization"] == "Bearer t"


@each_transport
@on_a_loop
async def test_status_is_an_answer_and_not_an_error_and_is_not_followed(name: str) -> None:
    statuses = [201, 302, 400, 403, 404, 409, 500]
    answers = [reply(status, {}, {"Location": "/elsewhere"}) for status in statuses]
    async with serving(name, *answers) as (server, client):
        seen = [(await client.request("POST", BIND, body=b"{}")).status for _ in statuses]
        assert seen == statuses
        assert (len(server.requests), server.connections) == (len(statuses), 1)


@each_transport
@pytest.mark.parametrize("part", [b"", b"HTTP/1.1 201 Created\r\nContent-Length: 9\r\n\r\n{"])
@on_a_loop
async def test_write_whose_answer_is_lost_is_not_repeated(name: str, part: bytes) -> None:
    async with serving(name, abort(part)) as (server, client):
        with pytest.raises(ConnectionLost) as lost:
            await client.request("POST", BIND, body=b"{}")
        assert lost.value.sent
        assert lost.value.path == BIND
        assert len(server.requests) == 1


@each_transport
@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
@on_a_loop
async def test_no_write_is_repeated_on_a_connection_that_was_idle(name: str, method: str) -> None:
    async with serving(name, reply(200, {}), abort(), reply(200, {})) as (server, client):
        await client.request("GET", "/version")
        with pytest.raises(ConnectionLost) as lost:
            await client.request(method, "/x", body=b"{}")
        assert lost.value.sent
        assert server.paths() == ["GET /version", f"{method} /x"]


@each_transport
@on_a_loop
async def test_read_whose_answer_is_lost_is_repeated_and_noted_meanwhile(name: str) -> None:
    contact = Contact()
    answers = (abort(), abort(b"HTTP/1.1 200 OK\r\n"), abort(), reply(200, {"a": 1}))
    async with serving(name, *answers, contact=contact) as (server, client):
        task = asyncio.create_task(client.request("GET", "/version", timeout=HANG))
        await until(lambda: contact.problem or task.done())
        assert contact.problem
        assert (await task).body == b'{"a": 1}'
        assert (contact.problem, len(server.requests)) == ("", 4)


@each_transport
@on_a_loop
async def test_write_goes_out_when_the_server_closed_the_idle_connection_before(name: str) -> None:
    async with serving(name, reply(201, {}), reply(201, {}, {"Connection": "close"})) as (
        server,
        client,
    ):
        assert (await client.request("POST", BIND, body=b"{}")).status == 201
        await server.close_connections()
        for _ in range(3):  # each answer says that the server will close the connection
            assert (await client.request("POST", BIND, body=b"{}")).status == 201
        assert server.connections == 4


@each_transport
@on_a_loop
async def test_request_that_finds_no_server_was_not_sent(name: str) -> None:
    async with scripted_api() as server:
        access = server.access
    async with client_of(name, access) as client:
        with pytest.raises(ConnectionLost) as lost:
            await client.request("POST", BIND, body=b"{}", timeout=0.3)
        assert not lost.value.sent


@each_transport
@on_a_loop
async def test_write_waits_for_a_server_that_starts(name: str) -> None:
    async with scripted_api() as server:
        port, access = server.port, server.access
    async with client_of(name, access) as client:
        asking = asyncio.ensure_future(client.request("POST", BIND, body=b"{}", timeout=HANG))
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


@each_transport
@on_a_loop
async def test_first_problem_is_told_when_the_time_is_over(name: str) -> None:
    async with serving(name) as (server, client):

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


@each_transport
@on_a_loop
async def test_timeout_loses_the_answer_and_the_connection(name: str) -> None:
    async with serving(name) as (server, client):
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
        assert (await client.request("GET", "/next")).body == b'{"path": "/next"}'


@each_transport
@on_a_loop
async def test_cancelled_request_leaves_no_answer_for_the_next(name: str) -> None:
    async with serving(name, lanes={"default": 1}) as (server, client):

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
        assert (await client.request("GET", "/next")).body == b'{"path": "/next"}'


@each_transport
@on_a_loop
async def test_too_many_requests_waits_and_repeats(name: str) -> None:
    async with serving(name) as (server, client):
        for headers, least in (({"Retry-After": "0.2"}, 0.2), ({}, 1.0)):
            server.answers(reply(429, {}, headers), reply(201, {}))
            began = time.monotonic()
            assert (await client.request("POST", BIND, body=b"{}")).status == 201
            assert time.monotonic() - began >= least
        server.answers(reply(429, {}, {"Retry-After": "60"}))
        answer = await client.request("POST", BIND, body=b"{}", timeout=1.0)
        assert (answer.status, answer.retry_after) == (429, 60.0)


@each_transport
@on_a_loop
async def test_unavailable_is_repeated_only_with_retry_after(name: str) -> None:
    answers = (reply(503, {}, {"Retry-After": "0"}), reply(201, {}), reply(503, {}))
    async with serving(name, *answers) as (server, client):
        for status in (201, 503):
            assert (await client.request("POST", BIND, body=b"{}")).status == status
        assert len(server.requests) == 3


def test_retry_after_may_be_a_date() -> None:
    later, date = "Sat, 31 Jan 2026 12:00:07 GMT", "Sat, 31 Jan 2026 12:00:00 GMT"
    assert Response(429, {"retry-after": later, "date": date}).retry_after == 7.0
    for malformed in ("soon", "nan", "inf", "", later):
        assert Response(429, {"retry-after": malformed}).retry_after is None


@each_transport
@on_a_loop
async def test_expired_token_is_read_again_once_and_writes_and_watches_repeated(name: str) -> None:
    async with scripted_api() as server:
        tokens = iter(["Bearer old", "Bearer new", "Bearer newer", "Bearer never"])
        good = "Bearer new"

        def handler(request: Request) -> Answer:
            if request.headers["authorization"] != good:
                return reply(401, {})
            return stream(event("ADDED", {})) if "watch" in request.query else reply(201, {})

        server.handler = handler
        read = lambda: evolve(server.access, authorization=next(tokens))  # noqa: E731
        async with client_of(name, read) as client:
            answers = await asyncio.gather(
                *(client.request("POST", BIND, body=b"{}") for _ in range(8))
            )
            assert [each.status for each in answers] == [201] * 8
            good = "Bearer newer"
            assert len(await collect(client.watch(WATCH, timeout=5.0))) == 1
            assert next(tokens) == "Bearer never"  # one reading served all of them


@each_transport
@on_a_loop
async def test_refused_token_that_stays_the_same_is_an_answer(name: str) -> None:
    async with serving(name, reply(401, {})) as (server, client):
        for _ in range(3):
            assert (await client.request("POST", BIND, body=b"{}")).status == 401
        assert len(server.requests) == 3


@each_transport
@on_a_loop
async def test_malformed_answer_is_no_answer(name: str) -> None:
    async with serving(name, abort(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")) as (_server, client):
        with pytest.raises(ConnectionLost) as lost:
            await client.request("POST", BIND, body=b"{}")
        assert lost.value.sent


@each_transport
@on_a_loop
async def test_full_lane_does_not_delay_another_and_opens_no_more_connections(name: str) -> None:
    async with serving(name, lanes={"events": 1, "binds": 3}) as (server, client):

        async def slowly(request: Request) -> Answer:
            if request.path == "/events":
                await asyncio.Event().wait()
            await asyncio.sleep(0.01)
            return reply(201, {})

        server.handler = slowly
        events = [
            asyncio.ensure_future(client.request("POST", "/events", body=b"", lane="events"))
            for _ in range(3)
        ]
        await asyncio.sleep(0.05)
        answers = await asyncio.gather(
            *(client.request("POST", BIND, body=b"", lane="binds") for _ in range(20))
        )
        assert [each.status for each in answers] == [201] * 20
        assert server.connections == 4
        for each in events:
            each.cancel()
        await asyncio.gather(*events, return_exceptions=True)


# Watches ----------------------------------------------------------------------------------------


@each_transport
@on_a_loop
async def test_watch_yields_lines_in_batches_across_chunks(name: str) -> None:
    chunks = (b'{"a":1}\n{"b":', b"2}\n", b"\n", b"x" * 300_000, b"y\n", b"z")
    async with serving(name, stream(*chunks)) as (_server, client):
        lines = await collect(client.watch(WATCH, timeout=5.0))
        assert lines == [b'{"a":1}', b'{"b":2}', b"", b"x" * 300_000 + b"y"]


@each_transport
@on_a_loop
async def test_watch_that_is_refused_says_with_which_answer(name: str) -> None:
    async with serving(name, reply(410, {"reason": "Expired"})) as (_server, client):
        with pytest.raises(WatchRefused) as caught:
            await collect(client.watch(WATCH, timeout=5.0))
        assert caught.value.response.status == 410
        assert b"Expired" in caught.value.response.body


@each_transport
@on_a_loop
async def test_watch_that_is_cut_is_lost_after_its_events(name: str) -> None:
    answer = stream(event("ADDED", {}), abort=True, pause=0.05)
    async with serving(name, answer) as (_server, client):
        seen: list[bytes] = []

        async def look() -> None:
            async for lines in client.watch(WATCH, timeout=5.0):
                seen.extend(lines)

        with pytest.raises(ConnectionLost):
            await look()
        assert len(seen) == 1


@each_transport
@on_a_loop
async def test_silent_watch_is_lost_after_its_time(name: str) -> None:
    async with serving(name, stream(event("ADDED", {}), ends=False)) as (_server, client):
        with pytest.raises(ConnectionLost):
            await collect(client.watch(WATCH, timeout=0.3))


@each_transport
@on_a_loop
async def test_watch_without_an_answer_is_lost_long_before_its_time(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = f"gangsched.kubernetes._transport_{name}.WATCH_ANSWER_SECONDS"
    monkeypatch.setattr(where, 0.1)
    async with serving(name) as (server, client):

        async def never(_request: Request) -> Answer:
            await asyncio.sleep(30.0)
            return stream(event("ADDED", {}))

        server.handler = never
        async with asyncio.timeout(HANG):
            with pytest.raises(ConnectionLost) as lost:
                await collect(client.watch(WATCH, timeout=2 * HANG))
        assert lost.value.sent


@each_transport
@on_a_loop
async def test_watch_that_is_left_closes_its_connection(name: str) -> None:
    async with serving(name, stream(event("ADDED", {}), ends=False)) as (server, client):
        batches = client.watch(WATCH, timeout=5.0)
        await anext(batches)
        await close_stream(batches)
        await asyncio.sleep(0.05)
        server.answers(reply(200, {}))
        assert (await client.request("GET", "/version")).status == 200


@each_transport
@on_a_loop
async def test_watch_waits_for_its_reader_and_loses_nothing(name: str) -> None:
    chunk = b"".join(b"%07d\n" % number for number in range(125_000))
    async with serving(name, stream(*[chunk] * 6)) as (_server, client):
        count = 0
        async for lines in client.watch("/w", timeout=HANG):
            if count == 0:
                await asyncio.sleep(0.3)
            count += len(lines)
        assert count == 6 * 125_000


# Every request is counted -----------------------------------------------------------------------

Counts = Counter[tuple[str, int]]


def counted(counts: Counts, method: str, status: int) -> None:
    counts[method, status] += 1


@each_transport
@on_a_loop
async def test_repetition_and_watch_without_events_are_counted(name: TransportName) -> None:
    counts = Counts()
    async with scripted_api() as server:
        client = await connect_client(
            transport=name,
            credentials=Credentials(lambda: server.access),
            seen=lambda *given: counted(counts, *given),
        )
        server.answers(reply(429, {}, {"Retry-After": "0"}), reply(200, {}))
        assert (await client.request("PUT", "/x", body=b"{}")).status == 200
        assert counts == {("PUT", 429): 1, ("PUT", 200): 1}
        server.answers(stream(ends=False))
        first = asyncio.ensure_future(anext(client.watch(WATCH, timeout=60.0)))
        await until(lambda: counts["GET", 200])
        assert not first.done(), "the beginning of an answer is no batch"
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        server.answers(reply(410, {}))
        with pytest.raises(WatchRefused):
            await anext(client.watch(WATCH, timeout=60.0))
        assert counts["GET", 410] == 1
        await client.aclose()


class CutOff(Api):
    """An API server that is never reached."""

    async def request(self, method: str, path: str, **_named: Any) -> Response:
        raise ConnectionLost(method, path, "cut off", sent=False)

    async def watch(self, path: str, *, timeout: float) -> AsyncIterator[Sequence[bytes]]:
        yield (str(await self.request("GET", path)).encode(),)

    async def aclose(self) -> None:
        pass


@on_a_loop
async def test_request_that_is_cut_off_is_counted_as_an_error() -> None:
    counts = Counts()
    api = CountedApi(CutOff(), lambda *given: counted(counts, *given))
    with pytest.raises(ConnectionLost):
        await collect(api.watch(WATCH, timeout=1.0))
    with pytest.raises(ConnectionLost):
        await api.request("PATCH", PODS)
    assert counts == {("GET", 0): 1, ("PATCH", 0): 1}


@pytest.mark.once("makes schedulers that decide about whole gangs")
@on_a_loop
async def test_list_watch_and_lease_requests_of_a_scheduler_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts, api = Counts(), MemoryApi()
    monkeypatch.setattr(Measures, "request", lambda _self, *given: counted(counts, *given))
    api.put(NODES, node_json("n"))
    api.put(PODS, pod_json("p"))
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    elected = Settings(leader_election=LeaderElection(resource_namespace="kube-system"))
    async with running(api, elected):
        await until(lambda: api.pods()["default/p"])
        await until(lambda: counts["POST", 201])
    assert counts["GET", 404] >= 1, "the Lease that does not exist yet, and APIs"
    assert counts["GET", 200] >= 8, "a watch of each kind"
    sent = Counter(method for method, _path in api.requests)
    for method in ("POST", "PUT", "PATCH"):
        found = sum(n for (each, _status), n in counts.items() if each == method)
        assert found == sent[method], method
    assert any(method == "POST" and path.startswith(leases) for method, path in api.requests)


@pytest.mark.once("makes schedulers that decide about whole gangs")
@on_a_loop
async def test_refused_watch_of_nodes_is_counted_with_its_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts, api = Counts(), MemoryApi()
    monkeypatch.setattr(Measures, "request", lambda _self, *given: counted(counts, *given))
    api.fault = lambda _method, path: refused(403, "no") if path.startswith(NODES) else None
    async with running(api):
        await until(lambda: counts["GET", 403] >= 2)


def test_requests_are_shown_by_method_and_status() -> None:
    pytest.importorskip("prometheus_client", reason="the extra metrics is not installed")
    measures = Measures(Settings())
    for method, status in (("POST", 201), ("POST", 201), ("GET", 404), ("POST", 0)):
        measures.request(method, status)
    text = measures.pages(list)["/metrics"]().body.decode()
    assert sorted(line for line in text.splitlines() if line.startswith("rest_client")) == [
        'rest_client_requests_total{code="201",method="POST"} 2.0',
        'rest_client_requests_total{code="404",method="GET"} 1.0',
        'rest_client_requests_total{code="<error>",method="POST"} 1.0',
    ]
    assert "# TYPE rest_client_requests_total counter" in text


# From a kubeconfig to a client, and what is said without the extra ------------------------------


def kubeconfig(folder: Path, server: str, proxy: str = "") -> str:
    path = folder / "config"
    more = f", proxy-url: {proxy}" if proxy else ""
    path.write_text(
        f"""
clusters: [{{name: c, cluster: {{server: '{server}'{more}}}}}]
users: [{{name: u, user: {{token: secret}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
""",
        encoding="utf-8",
    )
    return str(path)


@pytest.mark.parametrize("with_proxy", [False, True])
@on_a_loop
async def test_client_of_a_kubeconfig_asks_with_its_token_and_by_its_proxy(
    with_proxy: bool, tmp_path: Path
) -> None:
    async with scripted_api() as server:
        server.answers(reply(200, {}))
        url = server.access.server
        given = ("http://no.such.host.invalid", url) if with_proxy else (url, "")
        client = await connect(kubeconfig=kubeconfig(tmp_path, *given))
        try:
            assert (await client.request("GET", "/version")).status == 200
        finally:
            await client.aclose()
        assert server.requests[0].headers["authorization"] == "Bearer secret"


def test_transport_that_is_unknown_or_has_no_proxies_is_refused(tmp_path: Path) -> None:
    path, unknown = kubeconfig(tmp_path, "http://api", "http://proxy:3128"), "pycurl"
    with pytest.raises(ConfigurationError, match="proxy:3128"):
        asyncio.run(connect(kubeconfig=path, transport="httptools"))
    transport: Any = unknown
    with pytest.raises(InvalidValueError, match="pycurl"):
        asyncio.run(connect(kubeconfig=path, transport=transport))


def output(program: str) -> str:
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_missing_extra_is_named() -> None:
    found = output(
        """
import importlib, sys
for module, name in (
    ("_api", "msgspec"),
    ("_decode", "msgspec"),
    ("_transport_aiohttp", "aiohttp"),
    ("_transport_httptools", "httptools"),
):
    sys.modules[name] = None
    try:
        importlib.import_module(f"gangsched.kubernetes.{module}")
    except ModuleNotFoundError as error:
        print(error)
    del sys.modules[name]
"""
    )
    lines = found.splitlines()
    for line, extra in zip(lines, (*["kubernetes"] * 3, "kubernetes-fast"), strict=True):
        assert f"pip install 'gangsched[{extra}]'" in line


def test_no_more_of_the_extra_is_loaded_than_is_used(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "http://127.0.0.1:1")
    assert output(
        f"""
import asyncio, sys, gangsched.kubernetes
EXTRA = ("aiohttp", "kubernetes_asyncio", "msgspec", "httptools", "uvloop")
print([name for name in EXTRA if name in sys.modules])
from gangsched.kubernetes._client import connect
async def main():
    await (await connect(kubeconfig={path!r})).aclose()
asyncio.run(main())
print([name for name in EXTRA[:2] if name in sys.modules])
"""
    ).splitlines() == ["[]", "[]"]
