"""The server between a client and an API server, in a thread of its own.

Rules:
  R1  what no fault concerns passes unchanged;
  R2  a connection of the client has one to the API server, and both end together;
  R3  events keep their order about one object: no API server breaks that.
"""

from __future__ import annotations

import asyncio
import json
import selectors
import ssl
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final
from urllib.parse import urlsplit

from support.fault_proxy.faults import Fault, Order, Plan, Rates, Request
from support.fault_proxy.http1 import (
    Message,
    chunk,
    chunks,
    read_body,
    read_message,
    refusal,
    write_message,
)

__all__ = ["FaultProxy"]

_LIMIT: Final = 1 << 26
_HANDSHAKE: Final = 20.0
"""Seconds that a TLS handshake with a client may take."""
_LAST: Final = 30.0
"""Seconds in which the last connections are closed at the end; a handshake ends by then."""
_REFUSALS: Final = {
    Fault.CONFLICT: (409, "Conflict", "the object has been modified; please apply your changes"),
    Fault.TOO_MANY_REQUESTS: (429, "TooManyRequests", "please try again later"),
    Fault.INTERNAL_ERROR: (500, "InternalError", "an error on the server"),
    Fault.UNAVAILABLE: (503, "ServiceUnavailable", "apiserver is shutting down"),
    Fault.LATE_ERROR: (504, "Timeout", "request did not complete within the allotted timeout"),
    Fault.GONE: (410, "Expired", "too old resource version"),
}


class _Cut(Exception):
    """The connection of the client ends here."""


class FaultProxy:
    """A proxy in front of the API server at *upstream*; also a context manager.

    Args:
        upstream: The address of the API server.
        ca: The file with its certificate; None if it speaks plain HTTP.
        seed: The seed of the faults.
        rates: How likely faults are; none by default.
        key: The key of the certificate in *ca*, to listen with TLS; None for plain HTTP.

    Attributes:
        url: The address of the proxy, while it runs.
    """

    def __init__(
        self,
        upstream: str,
        ca: Path | None = None,
        *,
        seed: int = 0,
        rates: Rates | None = None,
        key: Path | None = None,
    ) -> None:
        self.url = ""
        self.plan: Final = Plan(seed, rates or Rates())
        self._upstream: Final = urlsplit(upstream)
        self._context: ssl.SSLContext | None = None
        if ca is not None:
            self._context = ssl.create_default_context(cafile=str(ca))
            self._context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        self._own: ssl.SSLContext | None = None
        if ca is not None and key is not None:
            self._own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._own.load_cert_chain(ca, key)
        self._selector: Final = selectors.DefaultSelector()
        self._loop: Final = asyncio.SelectorEventLoop(self._selector)
        self._thread: Final = threading.Thread(target=self._run, name="fault-proxy", daemon=True)
        self._started: Final = threading.Event()
        self._open: Final[set[asyncio.StreamWriter]] = set()
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._passable: asyncio.Event
        self._end: asyncio.Event

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def order(self, order: Order) -> None:
        """Let a fault happen to the next requests that match."""
        self.plan.order(order)

    def calm(self) -> None:
        """Let no further fault happen; what is under way ends as it was planned."""
        self.plan.rates = Rates()

    def sever(self) -> None:
        """End every connection now."""
        self._loop.call_soon_threadsafe(self._sever)

    def partition(self) -> None:
        """Let nothing pass until ``heal``; connections stay open, and new ones are accepted."""
        self._loop.call_soon_threadsafe(self._passable.clear)

    def heal(self) -> None:
        """End a partition."""
        self._loop.call_soon_threadsafe(self._passable.set)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        self._passable, self._end = asyncio.Event(), asyncio.Event()
        self._passable.set()
        server = await asyncio.start_server(
            self._accept,
            "127.0.0.1",
            0,
            ssl=self._own,
            limit=_LIMIT,
            ssl_handshake_timeout=_HANDSHAKE if self._own else None,
        )
        scheme = "https" if self._own else "http"
        self.url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._started.set()
        await self._end.wait()
        server.close()
        self._sever()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # a TLS handshake under way gives one more connection; one socket is the loop's own
        until = self._loop.time() + _LAST
        while len(self._selector.get_map()) > 1 and self._loop.time() < until:
            self._sever()
            await asyncio.sleep(0.01)
        for _ in range(5):  # an aborted connection is closed by a later turn of the loop, TLS first
            await asyncio.sleep(0)

    def _sever(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        task = self._loop.create_task(self._connection(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self._upstream.hostname, self._upstream.port
        opening = self._loop.create_task(
            asyncio.open_connection(host, port, ssl=self._context, limit=_LIMIT)
        )
        try:
            # asyncio leaves the socket of a TLS handshake that is cancelled open for a while
            answers, behind = await asyncio.shield(opening)
            self._open.add(behind)
            while (message := await read_message(reader)) is not None:
                body = await read_body(reader, message)
                if not await self._exchange(message, body, reader, answers, behind, writer):
                    break
        except (_Cut, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client sees that its connection ended
        finally:
            ends = [writer]
            with suppress(OSError):
                ends.append((await opening)[1])
            for end in ends:
                self._open.discard(end)
                end.transport.abort()

    async def _exchange(
        self,
        message: Message,
        body: bytes,
        reader: asyncio.StreamReader,
        answers: asyncio.StreamReader,
        behind: asyncio.StreamWriter,
        writer: asyncio.StreamWriter,
    ) -> bool:
        """Pass one request and its answer; return whether the connection goes on."""
        method, target, _version = message.start.split(" ", 2)
        path, _mark, query = target.partition("?")
        request = Request(method, path, query)
        await self._passable.wait()
        fault, delay = self.plan.for_request(request)
        if fault is Fault.CUT:
            raise _Cut
        if fault is Fault.DELAY:
            await asyncio.sleep(delay)
        if fault in _REFUSALS and fault is not Fault.LATE_ERROR:
            write_message(writer, *refusal(*_REFUSALS[fault]))
            await writer.drain()
            return True
        write_message(behind, message, body)
        answer = await read_message(answers)
        if answer is None:
            raise _Cut
        if request.is_watch and answer.is_chunked and fault in (None, Fault.DELAY):
            # the client sends nothing more: what can be read from it is the end of the connection
            watching = self._loop.create_task(_abort_at_end(reader, behind))
            try:
                await self._stream(request, answer, answers, writer)
            finally:
                watching.cancel()
            return False
        # of a watch this is silence until the client gives it up: its body does not end
        content = await read_body(answers, answer)
        await self._passable.wait()
        if fault is Fault.LOST_ANSWER:
            raise _Cut
        if fault is Fault.LATE_ERROR:
            answer, content = refusal(*_REFUSALS[fault])
        write_message(writer, answer, content)
        await writer.drain()
        return not (answer.closes or message.closes)

    async def _stream(
        self,
        request: Request,
        answer: Message,
        answers: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Pass the events of a watch, with their faults."""
        writer.write(answer.encoded())
        if not answer.header("content-type").startswith("application/json"):
            async for piece in chunks(answers):
                writer.write(chunk(piece))
                await writer.drain()
            writer.write(chunk(b""))
            return
        events: asyncio.Queue[bytes] = asyncio.Queue()
        reading = self._loop.create_task(_read_lines(answers, events))
        try:
            while line := await events.get():
                await self._passable.wait()
                if await self._event(request, line, events, writer):
                    break
            writer.write(chunk(b""))
            await writer.drain()
        finally:
            reading.cancel()

    async def _event(
        self,
        request: Request,
        line: bytes,
        events: asyncio.Queue[bytes],
        writer: asyncio.StreamWriter,
    ) -> bool:
        """Pass one event, or two in another order; return whether the watch ends."""
        fault, delay = self.plan.for_event(request)
        match fault:
            case Fault.WATCH_CUT:
                writer.write(chunk(line[: len(line) // 2]))
                await writer.drain()
                raise _Cut
            case Fault.GONE:
                _head, status = refusal(*_REFUSALS[fault])
                writer.write(chunk(b'{"type":"ERROR","object":' + status + b"}\n"))
                return True
            case Fault.STALL:
                await asyncio.sleep(delay)
            case Fault.DUPLICATE:
                writer.write(chunk(line))
            case Fault.REORDER:
                try:
                    following = await asyncio.wait_for(events.get(), delay)
                except TimeoutError:
                    following = None
                if following is not None:
                    swapped = _may_swap(line, following)
                    # in one piece: a client that saw the later event alone would lose the other
                    line = following + line if swapped else line + following
                    if not following:
                        writer.write(chunk(line))
                        return True
        writer.write(chunk(line))
        await writer.drain()
        return False


async def _abort_at_end(reader: asyncio.StreamReader, behind: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        await reader.read(1)
    behind.transport.abort()


async def _read_lines(reader: asyncio.StreamReader, events: asyncio.Queue[bytes]) -> None:
    """Put the lines of a body into a queue, and at its end, an empty one."""
    rest = b""
    try:
        async for piece in chunks(reader):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                events.put_nowait(line + b"\n")
    except (OSError, asyncio.IncompleteReadError):
        pass  # the API server is gone: the watch ends as if it had timed out
    events.put_nowait(b"")


def _may_swap(first: bytes, second: bytes) -> bool:
    """Return whether two events are about different objects, and neither is a bookmark."""
    try:
        events: list[dict[str, Any]] = [json.loads(first), json.loads(second)]
    except ValueError:
        return False
    if any(event["type"] in ("BOOKMARK", "ERROR") for event in events):
        return False
    with suppress(KeyError):
        one, other = (event["object"]["metadata"] for event in events)
        return bool(one["uid"] != other["uid"])
    return False
