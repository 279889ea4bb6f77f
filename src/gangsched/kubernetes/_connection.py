"""One HTTP/1.1 connection on the event loop, with the parser of httptools.

Theory of operation. A connection is *idle* or has one request under way; nothing is pipelined. The
parser calls back while bytes are fed to it. A request ends when its answer is complete, when the
connection is lost, or when its time is over. Then the connection is closed, because a late answer
would be taken for that of the next request. A watch is a request whose answer does not end:
its body is handed over as it arrives.

Rules:
  R1  a request that was not written was certainly not sent. One that was written may have been
      carried out, even if the connection is lost at once;
  R2  reading pauses while the reader of a watch is behind, so that the API server waits, or drops
      the watch, instead of filling the memory of this process;
  R3  a connection that is lost refers neither to its transport nor to its parser. Each of them
      refers to the connection, and a TLS transport has a buffer of 256 KiB, which would be freed
      only when Python's collector looks at all old objects;
  R4  between ``hold`` and ``release`` the kernel keeps what arrives, and does not wake the process
      for it. The loss of the connection and the end of the time for an answer come through.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast, final

from gangsched.kubernetes._api import Response
from gangsched.kubernetes._extra import missing
from gangsched.kubernetes._sockets import keep_bytes, tell_bytes
from gangsched.values.seconds import format_duration

try:
    import httptools
except ModuleNotFoundError as error:
    raise missing(error, extra="kubernetes-fast") from error

__all__ = ["Connection", "Dropped"]

_MOST_BUFFERED: Final = 4 * 1024 * 1024
_FIRST_FINAL_STATUS: Final = 200


@final
class Dropped(Exception):
    """The connection was lost, or is of no more use."""


@final
class _Headers(Mapping[str, str]):
    """Headers, parsed when they are read: of most answers none is.

    Args:
        raw: The bytes of the answer up to the end of its head at least, as they came.
    """

    __slots__ = ("_raw", "_read")

    def __init__(self, raw: list[bytes]) -> None:
        self._raw = raw
        self._read: dict[str, str] | None = None

    def _parsed(self) -> dict[str, str]:
        if self._read is None:
            reader = _HeaderReader()
            reader.parser.feed_data(b"".join(self._raw))
            reader.parser = None  # it refers to the reader
            self._read = reader.headers
        return self._read

    def __getitem__(self, key: str) -> str:
        return self._parsed()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parsed())

    def __len__(self) -> int:
        return len(self._parsed())


@final
class _HeaderReader:
    """Reads the headers of the first answer that is not informational."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.parser: Any = cast("Any", httptools).HttpResponseParser(self)
        self._is_read = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._is_read:
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self.parser.get_status_code() < _FIRST_FINAL_STATUS:
            self.headers.clear()
        else:
            self._is_read = True


@final
class Connection(asyncio.Protocol):
    """A connection to an API server.

    Attributes:
        is_open: Whether another request may be sent.
        idle_since: The time of the loop at which the last request ended.
    """

    __slots__ = (
        "_answer",
        "_body",
        "_buffered",
        "_head",
        "_in_head",
        "_is_held",
        "_loop",
        "_parser",
        "_problem",
        "_socket",
        "_status",
        "_stream",
        "_transport",
        "idle_since",
        "is_open",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._parser: Any = cast("Any", httptools).HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Response] | None = None
        self._stream: asyncio.Future[None] | None = None
        self._head: list[bytes] = []
        self._in_head = True
        self._body: list[bytes] = []
        self._buffered = 0
        self._status = 0
        self._problem = ""
        self._socket: Any = None
        self._is_held = False
        self.is_open = False
        self.idle_since = 0.0

    # Requests

    async def request(self, data: bytes, timeout: float) -> Response:
        """Return the answer to a request, given as the bytes to send.

        Raises:
            Dropped: There is no answer.
        """
        answer = self._send(data)
        timer = self._loop.call_later(timeout, self._late, "no answer within", timeout)
        try:
            return await answer
        except asyncio.CancelledError:
            self.drop("cancelled")
            raise
        finally:
            timer.cancel()
            # the traceback of a failure refers to this frame
            self._answer = None
            del answer

    def _send(self, data: bytes) -> asyncio.Future[Response]:
        if self._transport is None or not self.is_open:
            raise Dropped(self._problem or "closed")
        self._head, self._body, self._buffered = [], [], 0
        self._in_head = True
        self._answer = self._loop.create_future()
        self._transport.write(data)
        return self._answer

    async def begin(self, data: bytes, timeout: float) -> Response | None:
        """Send the request of a watch; return its answer if that is not a success.

        Raises:
            Dropped: There is no answer.
        """
        self._stream = self._loop.create_future()
        answer = self._send(data)
        stream = self._stream
        timer = self._loop.call_later(timeout, self._late, "no answer within", timeout)
        try:
            await asyncio.wait((answer, stream), return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
        if self._status == _FIRST_FINAL_STATUS:
            return None
        return await answer

    async def chunk(self, timeout: float) -> bytes:
        """Return what has arrived of a watch since the last call; empty at its end.

        Raises:
            Dropped: The connection was lost, or nothing arrived for *timeout* seconds.
        """
        while not self._body:
            answer = self._answer
            if answer is None or answer.done():
                if answer is not None and not answer.cancelled() and answer.exception():
                    raise Dropped(self._problem)
                return b""
            self._stream = self._loop.create_future()
            timer = self._loop.call_later(timeout, self._late, "nothing came for", timeout)
            try:
                await self._stream
            finally:
                timer.cancel()
        data = b"".join(self._body)
        self._body.clear()
        if self._buffered > _MOST_BUFFERED and self._transport is not None and self.is_open:
            self._transport.resume_reading()
        self._buffered = 0
        return data

    def hold(self) -> None:
        """Let the kernel keep what arrives, until ``release``."""
        if self.is_open and self._socket is not None and not self._is_held:
            self._is_held = keep_bytes(self._socket)

    def release(self) -> None:
        """Read what arrives, and what has arrived since ``hold``."""
        if self._is_held:
            self._is_held = False
            if self.is_open:  # otherwise its number may be that of another socket
                tell_bytes(self._socket)

    def drop(self, problem: str) -> None:
        """Close the connection; the request that is under way gets no answer."""
        self.is_open = False
        self._problem = self._problem or problem
        if self._transport is not None:
            self._transport.abort()
        self._fail()

    def _late(self, problem: str, timeout: float) -> None:
        # the text is made when it is needed: that costs more than the timer, for each request
        self.drop(f"{problem} {format_duration(timeout)} s")

    def _fail(self) -> None:
        answer = self._answer
        if answer is not None and not answer.done():
            answer.set_exception(Dropped(self._problem))
            answer.exception()  # a watch that nothing waits for any more must not be reported
        self._wake()

    def _wake(self) -> None:
        if self._stream is not None and not self._stream.done():
            self._stream.set_result(None)

    # Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._socket = transport.get_extra_info("socket")
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():
            # nothing was asked: a server that gives up an idle connection may say so
            self.drop("bytes that nothing asked for")
            return
        if self._in_head:
            self._head.append(data)
        try:
            self._parser.feed_data(data)
        except cast("Any", httptools).HttpParserError as error:
            self.drop(f"malformed answer: {error}")

    def eof_received(self) -> bool:
        self.is_open = False
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._problem = self._problem or (str(exc) if exc else "closed by the server")
        self._fail()
        self._transport = self._socket = self._parser = None  # R3

    # Parser

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        if self._status < _FIRST_FINAL_STATUS:
            return
        self._in_head = False
        if self._stream is not None:
            self._wake()

    def on_body(self, data: bytes) -> None:
        self._body.append(data)
        if self._stream is not None:
            self._buffered += len(data)
            if self._buffered > _MOST_BUFFERED and self._transport is not None:
                self._transport.pause_reading()
            self._wake()

    def on_message_complete(self) -> None:
        if self._status < _FIRST_FINAL_STATUS:
            return
        if not self._parser.should_keep_alive():
            self.is_open = False
        answer = self._answer
        if answer is None or answer.done():
            return
        is_watch = self._stream is not None and self._status == _FIRST_FINAL_STATUS
        body = b"" if is_watch else b"".join(self._body)
        answer.set_result(Response(self._status, _Headers(self._head), body))
        self.idle_since = self._loop.time()
        self._wake()
