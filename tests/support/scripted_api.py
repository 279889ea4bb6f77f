"""An API server in this process: plain HTTP over a socket, with answers that a test writes.

It speaks HTTP/1.1 itself, so that a test can do what a real server does when it fails: close a
connection between two requests, in the middle of an answer, or after it has carried a request out.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from attrs import field, frozen, mutable

from gangsched.kubernetes._configuration import Access
from support.patience import STEPS

__all__ = [
    "ScriptedApi",
    "Request",
    "abort",
    "bookmark",
    "event",
    "scripted_api",
    "reply",
    "run",
    "stream",
]

T = TypeVar("T")


@frozen
class Request:
    """A request as it came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    connection: int


Answer = Callable[[asyncio.StreamWriter], Awaitable[bool]]
"""Writes an answer; returns whether the connection stays open."""

Handler = Callable[[Request], Answer | Awaitable[Answer]]


def reply(status: int = 200, body: object = None, headers: dict[str, str] | None = None) -> Answer:
    """Return an answer with a JSON body."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def write(writer: asyncio.StreamWriter) -> bool:
        writer.write(_head(status, {"Content-Length": str(len(data)), **(headers or {})}) + data)
        await writer.drain()
        return (headers or {}).get("Connection") != "close"

    return write


def stream(*chunks: object, ends: bool = True, abort: bool = False, pause: float = 0.0) -> Answer:
    """Return an answer in chunks: events of a watch as mappings, or bytes as they are.

    Args:
        chunks: The chunks; each is sent at once.
        ends: Whether the answer ends; otherwise it stays open until the connection is closed.
        abort: Whether the connection is cut instead of ending the answer.
        pause: The seconds between two chunks.
    """

    async def write(writer: asyncio.StreamWriter) -> bool:
        writer.write(_head(200, {"Transfer-Encoding": "chunked"}))
        for chunk in chunks:
            data = chunk if isinstance(chunk, bytes) else _line(chunk)
            writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            await writer.drain()
            await asyncio.sleep(pause)
        if abort:
            await _cut(writer)
            return False
        if not ends:
            await asyncio.Event().wait()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    return write


def abort(part: bytes = b"") -> Answer:
    """Return an answer that is cut after *part* of it."""

    async def write(writer: asyncio.StreamWriter) -> bool:
        writer.write(part)
        await writer.drain()
        await _cut(writer)
        return False

    return write


def event(kind: str, document: object) -> dict[str, object]:
    """Return an event of a watch."""
    return {"type": kind, "object": document}


def bookmark(version: str, *, ends: bool = False) -> dict[str, object]:
    """Return a bookmark; one that *ends* the initial events, if asked."""
    annotations = {"k8s.io/initial-events-end": "true"} if ends else {}
    return event("BOOKMARK", {"metadata": {"resourceVersion": version, "annotations": annotations}})


@mutable
class ScriptedApi:
    """The server: what it was asked, and how it answers.

    Attributes:
        handler: Answers a request.
        requests: The requests that came, in order.
        connections: The number of connections that were opened.
    """

    handler: Handler = field(default=lambda _request: reply(404, {}))
    requests: list[Request] = field(factory=list[Request])
    connections: int = 0
    port: int = 0
    scheme: str = "http"
    _writers: set[asyncio.StreamWriter] = field(factory=set[asyncio.StreamWriter])

    @property
    def access(self) -> Access:
        """How to reach it."""
        return Access(f"{self.scheme}://127.0.0.1:{self.port}")

    def answers(self, *answers: Answer | Iterable[Answer]) -> None:
        """Give these answers in order, and the last one from then on."""
        waiting = list(answers)

        def handler(_request: Request) -> Answer:
            one = waiting.pop(0) if len(waiting) > 1 else waiting[0]
            assert callable(one)
            return one

        self.handler = handler

    def paths(self) -> list[str]:
        """Return method and path of each request."""
        return [f"{each.method} {each.path}" for each in self.requests]

    async def close_connections(self) -> None:
        """Close the connections that are open, as a server does with idle ones."""
        for writer in list(self._writers):
            writer.close()
        await asyncio.sleep(0.05)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        self._writers.add(writer)
        try:
            while (request := await _read(reader, number)) is not None:
                self.requests.append(request)
                answer = self.handler(request)
                if not callable(answer):
                    answer = await answer
                if not await answer(writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()


@asynccontextmanager
async def scripted_api(tls: ssl.SSLContext | None = None) -> AsyncIterator[ScriptedApi]:
    """Run a server on a free port."""
    fake = ScriptedApi(scheme="https" if tls else "http")
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(fake.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    fake.port = server.sockets[0].getsockname()[1]
    try:
        yield fake
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a loop of its own; it fails if it hangs."""

    async def bounded() -> T:
        async with asyncio.timeout(STEPS):
            return await work

    return asyncio.run(bounded())


async def _read(reader: asyncio.StreamReader, connection: int) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.rstrip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {key.lower(): value for key, value in (line.split(": ", 1) for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    parts = urlsplit(target)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    return Request(method, unquote(parts.path), query, headers, body, connection)


async def _cut(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    await asyncio.sleep(0)


def _line(chunk: object) -> bytes:
    return json.dumps(chunk, separators=(",", ":")).encode() + b"\n"


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} X", *(f"{key}: {value}" for key, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()
