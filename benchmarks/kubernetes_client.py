"""What does a bind cost, and an event of a watch, against the clients and readers that exist?

A bind is the POST of a Binding over TLS to a server in another process that answers at once, so
that the figures are of the client alone: processor time of this process for each request. An event
is a pod of 1.7 kB in a watch, from the socket to the `Pod`. We would act if the default transport
cost more than half of `kubernetes_asyncio`'s, the fast one more than 0.3 of the default one, or an
event more than a fifth of what `json.loads` and `read_event` cost without any transport.

    python benchmarks/kubernetes_client.py [--rounds 5] [--binds 1000] [--events 5000]

Needs the extra `kubernetes-fast` and the dependency group `test`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import ssl
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any, Final

import httptools
import trustme
import uvloop

sys.path.insert(0, os.fspath(Path(__file__).parent.parent / "tests"))

from gangsched.kubernetes import read_event
from gangsched.kubernetes._api import Api
from gangsched.kubernetes._client import Client
from gangsched.kubernetes._configuration import Access, Credentials
from gangsched.kubernetes._decode import PodDecoder, PodFacts
from gangsched.kubernetes._events import identity_of, read_event_line
from gangsched.kubernetes._known import Identity
from gangsched.kubernetes._reflector import Delta, Reflector, Resource
from gangsched.kubernetes._transport_aiohttp import AiohttpTransport
from gangsched.kubernetes._transport_httptools import HttptoolsTransport
from support.api_objects import event_line

CONNECTIONS: Final = 8
ANSWER: Final = json.dumps(
    {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
).encode()
HEADERS: Final = (
    b"Audit-Id: 2c43ffdd-4661-430c-a422-0f89566a004f\r\nCache-Control: no-cache, private\r\n"
    b"Content-Type: application/json\r\nDate: Mon, 23 Nov 2026 00:10:56 GMT\r\n"
    b"X-Kubernetes-Pf-Flowschema-Uid: 39a97b03-8fa5-4a64-8afa-bcf3c5cad4a0\r\n"
    b"X-Kubernetes-Pf-Prioritylevel-Uid: 32bd86b8-cf31-419b-b457-373733f7675a\r\n"
)


class Server(asyncio.Protocol):
    """Answers each request: a watch with events, anything else with 201."""

    def __init__(self, events: int) -> None:
        self._events = events

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._url = url

    def on_message_complete(self) -> None:
        if b"watch=true" in self._url:
            self._watching = asyncio.ensure_future(self._watch())
            return
        head = b"HTTP/1.1 201 Created\r\n%sContent-Length: %d\r\n\r\n" % (HEADERS, len(ANSWER))
        self._transport.write(head + ANSWER)

    async def _watch(self) -> None:
        self._transport.write(b"HTTP/1.1 200 OK\r\n%sTransfer-Encoding: chunked\r\n\r\n" % HEADERS)
        for number in range(self._events):
            line = event_line(number)
            # as an API server does: each event is a chunk, and a TLS record, of its own
            self._transport.write(b"%x\r\n%s\r\n" % (len(line), line))
            if number % 16 == 15:
                await asyncio.sleep(0)
        end = {"resourceVersion": "9999999", "annotations": {"k8s.io/initial-events-end": "true"}}
        line = json.dumps({"type": "BOOKMARK", "object": {"metadata": end}}).encode() + b"\n"
        self._transport.write(b"%x\r\n%s\r\n" % (len(line), line))


def serve(folder: str, events: int, ready: Connection) -> None:
    """Run the server, in a process of its own."""

    async def main() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{folder}/server.pem")
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Server(events), "127.0.0.1", 0, ssl=context)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


async def client(access: Access, transport: Callable[..., Any]) -> Client:
    credentials = Credentials(lambda: access)
    await credentials.load()
    return Client(credentials, lambda one: transport(one, lanes={"binds": CONNECTIONS}))


async def many(count: int, bind: Callable[[int], Awaitable[None]]) -> float:
    """Return the microseconds of processor time of each of *count* binds."""
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await bind(number)

    begun = time.process_time()
    await asyncio.gather(*(worker() for _ in range(CONNECTIONS)))
    return 1e6 * (time.process_time() - begun) / count


def binding(number: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": f"w-{number}", "namespace": "team", "uid": f"uid-{number}"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }


async def ours(access: Access, transport: Callable[..., Any], count: int) -> float:
    api: Api = await client(access, transport)

    async def bind(number: int) -> None:
        path = f"/api/v1/namespaces/team/pods/w-{number}/binding"
        body = json.dumps(binding(number)).encode()
        answer = await api.request("POST", path, body=body, lane="binds")
        assert answer.status == 201

    try:
        await many(CONNECTIONS, bind)
        return await many(count, bind)
    finally:
        await api.aclose()


async def theirs(access: Access, count: int, authority: str) -> float:
    from kubernetes_asyncio import client as package

    module: Any = package
    configuration = module.Configuration(host=access.server)
    configuration.ssl_ca_cert = authority
    configuration.connection_pool_maxsize = CONNECTIONS
    async with module.ApiClient(configuration) as api:
        core = module.CoreV1Api(api)

        async def bind(number: int) -> None:
            body = module.V1Binding(
                metadata=module.V1ObjectMeta(name=f"w-{number}", uid=f"uid-{number}"),
                target=module.V1ObjectReference(kind="Node", name="n1"),
            )
            await core.create_namespaced_binding("team", body, _preload_content=False)

        await many(CONNECTIONS, bind)
        return await many(count, bind)


class Named:
    """An object of which only the identity is read."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity


async def receive(
    access: Access, transport: Callable[..., Any], count: int, decode: Callable[[Any], Any]
) -> float:
    """Return the microseconds of each event, from the socket to the value."""
    api = await client(access, transport)
    synced = asyncio.Event()

    def sink(deltas: list[Delta[Any]]) -> None:
        if deltas[-1].kind == "synced":
            synced.set()

    reflector: Reflector[Any] = Reflector(api, Resource("/api/v1/pods", "Pod"), decode, sink)
    begun = time.process_time()
    task = asyncio.ensure_future(reflector.run())
    await synced.wait()
    used = time.process_time() - begun
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await api.aclose()
    assert len(reflector) == count
    return 1e6 * used / count


def reading(count: int, read: Callable[[bytes], object]) -> float:
    lines = [event_line(number).rstrip() for number in range(count)]
    begun = time.process_time()
    for line in lines:
        read(line)
    return 1e6 * (time.process_time() - begun) / count


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the rounds and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--binds", type=int, default=1000)
    parser.add_argument("--events", type=int, default=5000)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        authority = trustme.CA()
        authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(
            f"{folder}/server.pem"
        )
        authority.cert_pem.write_to_path(f"{folder}/ca.pem")
        here, there = multiprocessing.Pipe()
        server = multiprocessing.get_context("spawn").Process(
            target=serve, args=(folder, options.events, there), daemon=True
        )
        server.start()
        pem = authority.cert_pem.bytes().decode()
        access = Access(f"https://127.0.0.1:{here.recv()}", authority=pem, authorization="Bearer t")
        try:
            measure(access, f"{folder}/ca.pem", options)
        finally:
            server.terminate()
            server.join()


def measure(access: Access, authority: str, options: argparse.Namespace) -> None:
    loops = {"asyncio": None, "uvloop": uvloop.new_event_loop}
    transports = {"aiohttp": AiohttpTransport, "httptools": HttptoolsTransport}
    binds: dict[str, list[float]] = {}
    events: dict[str, list[float]] = {}

    def run(loop: str, work: Any) -> float:
        with asyncio.Runner(loop_factory=loops[loop]) as runner:
            return float(runner.run(work))

    def add(to: dict[str, list[float]], name: str, figure: float) -> None:
        to.setdefault(name, []).append(figure)

    decode: dict[str, Callable[[], Callable[[Any], Any]]] = {
        "the identity": lambda: lambda raw: Named(identity_of(raw)),
        "the pod": PodDecoder,
    }
    for _ in range(options.rounds):
        add(
            binds,
            "kubernetes_asyncio, uvloop",
            run("uvloop", theirs(access, options.binds, authority)),
        )
        for name, transport in transports.items():
            for loop in loops:
                figure = run(loop, ours(access, transport, options.binds))
                add(binds, f"{name}, {loop}", figure)
                for what, made in decode.items():
                    figure = run(loop, receive(access, transport, options.events, made()))
                    add(events, f"{name}, {loop}, {what}", figure)
        few = max(options.events // 5, 1)
        add(events, "json.loads and read_event", reading(few, _slowly))
        add(events, "PodDecoder", reading(options.events, partial(_quickly, PodDecoder())))
    table("us of processor time a bind", binds, "kubernetes_asyncio, uvloop")
    table("us of processor time an event", events, "json.loads and read_event")


def _slowly(line: bytes) -> object:
    return read_event(json.loads(line))


def _quickly(decode: PodDecoder, line: bytes) -> PodFacts:
    return decode(read_event_line(line).object)


def table(title: str, figures: dict[str, list[float]], base: str) -> None:
    print(f"\n| {title} | min | median | max | ratio |\n|---|---|---|---|---|")
    for name, values in figures.items():
        ratios = [one / other for one, other in zip(values, figures[base], strict=True)]
        print(
            f"| {name} | {min(values):.0f} | {median(values):.0f} | {max(values):.0f} "
            f"| {median(ratios):.2f} |"
        )


if __name__ == "__main__":
    main()
