"""``/healthz``, ``/livez``, ``/readyz``, ``/metrics`` and answers of the scheduler over HTTP.

Rules:
  R1  one request a connection, at most 16 KiB and 5 s for a request with its handshake. Kubelets
      and Prometheus need no more, and nothing else may cost much. If there are more than 64
      connections, the oldest is closed: it has had the most time;
  R2  ``/healthz`` is about the process, ``/readyz`` about what it needs. A replica that waits for
      the lease is ready. These three paths are open to all, as those of kube-scheduler: a kubelet
      has no token;
  R3  with *reviews*, every other path needs a token. It is in the header ``Authorization``, or in
      the body of a POST: the API server takes this header out of what it passes on to a pod. A
      token in the URL would be in its audit log;
  R4  without *reviews*, only GET. All that is served changes nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final, TypeAlias, cast, final
from urllib.parse import parse_qsl

from attrs import field, frozen

from gangsched.kubernetes._reviews import (
    EVERYTHING,
    Asker,
    NotReviewedError,
    Reviews,
    UnknownAskerError,
)

__all__ = ["OPEN", "Answer", "Page", "Server"]

OPEN: Final = frozenset({"/healthz", "/livez", "/readyz"})
"""The paths that need no token."""

_LIMIT: Final = 16_384
_SECONDS: Final = 5.0
_CLOSING: Final = 1.0
_MOST_AT_ONCE: Final = 64
_PAUSE: Final = 0.1

_log = logging.getLogger("gangsched.kubernetes.server")


@final
@frozen
class Page:
    """What a path returns."""

    body: bytes
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"


_Pages: TypeAlias = Mapping[str, Callable[[], Page]]

Answer: TypeAlias = Callable[[Mapping[str, str], Asker], Awaitable[Page]]
"""Makes a page that takes its time, from the query of the request and from who sends it."""


@final
@frozen
class _Request:
    """A request.

    Attributes:
        method: The method.
        target: The path with its query.
        headers: The headers, with keys in lower case.
        body: The body.
    """

    method: str
    target: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(default=b"", repr=False)

    def token(self) -> str:
        """Return the token; empty if there is none."""
        scheme, _, found = self.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return found.strip()
        with suppress(ValueError, RecursionError):
            given: Any = json.loads(self.body) if self.body else None
            if isinstance(given, dict):
                token = cast("dict[str, Any]", given).get("token")
                return token if isinstance(token, str) else ""
        return ""


@final
class Server:
    """Serves pages.

    Args:
        pages: By path, what makes its page.
        answers: By path, what makes a page that takes its time.
        reviews: Says who may read what; None to let everything be read.
    """

    def __init__(
        self,
        pages: _Pages,
        answers: Mapping[str, Answer] | None = None,
        reviews: Reviews | None = None,
    ) -> None:
        self._pages = pages
        self._answers = dict(answers or {})
        self._reviews = reviews
        self._listening: socket.socket | None = None
        self._accepts: asyncio.Task[None] | None = None
        self._connections: dict[asyncio.Task[None], None] = {}

    async def start(self, host: str, port: int, context: ssl.SSLContext | None = None) -> int:
        """Begin to listen; return the port, which is a free one if *port* is 0.

        Args:
            host: A name or an address of this machine; empty for all of IPv4.
            port: The port.
            context: The TLS context; None for plain HTTP.

        Raises:
            OSError: The address is in use, or is none of this machine.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listening = socket.create_server((host, port), family=family, backlog=_MOST_AT_ONCE)
        self._listening.setblocking(False)
        found: int = self._listening.getsockname()[1]
        self._accepts = asyncio.create_task(self._accept(self._listening, context))
        return found

    async def stop(self) -> None:
        """Stop listening, and close the connections."""
        tasks = [*self._connections, *((self._accepts,) if self._accepts else ())]
        self._accepts = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._listening is not None:
            self._listening.close()
            self._listening = None
        # a connection that was aborted is closed by the loop's next step
        await asyncio.sleep(0)

    async def _accept(self, listening: socket.socket, context: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError:  # it has left again, or this process has too many files open
                await asyncio.sleep(_PAUSE)
                continue
            task = loop.create_task(self._serve(accepted, context))
            self._connections[task] = None
            task.add_done_callback(self._connections.pop)
            # begin it: one that is cancelled before would leave its socket open
            await asyncio.sleep(0)
            if len(self._connections) > _MOST_AT_ONCE:
                # the oldest has had its time, and a kubelet must not be kept out by those that wait
                oldest = next(iter(self._connections))
                oldest.cancel()
                # a connection that waits costs 256 KiB with TLS, so none is accepted before
                await asyncio.wait((oldest,), timeout=_CLOSING)

    async def _serve(self, accepted: socket.socket, context: ssl.SSLContext | None) -> None:
        """Answer one connection; its handshake is counted among its seconds."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_LIMIT)
        protocol = asyncio.StreamReaderProtocol(reader)
        times: dict[str, Any] = {}
        if context is not None:
            times = {"ssl_handshake_timeout": _SECONDS, "ssl_shutdown_timeout": _CLOSING}
        try:
            async with asyncio.timeout(_SECONDS):
                transport, _ = await loop.connect_accepted_socket(
                    lambda: protocol, accepted, ssl=context, **times
                )
                writer = asyncio.StreamWriter(transport, protocol, reader, loop)
                try:
                    found = await _read(reader)
                    page = found if isinstance(found, Page) else await self._page(found)
                    writer.write(_response(page))
                    await writer.drain()
                    writer.close()
                    await writer.wait_closed()
                finally:
                    transport.abort()  # does nothing if it is closed
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # it left, or was too slow, or sent too much

    async def _page(self, request: _Request) -> Page:
        path, _, query = request.target.partition("?")
        make, answer = self._pages.get(path), self._answers.get(path)
        if make is None and answer is None:
            return Page(b"not found\n", 404)
        if request.method != "GET" and (request.method != "POST" or self._reviews is None):
            return Page(b"only GET\n", 405)
        try:
            asker = EVERYTHING
            if self._reviews is not None and path not in OPEN:
                asker = await self._reviews.asker(request.token())
            if answer is not None:
                return await answer(dict(parse_qsl(query)), asker)
            assert make is not None
            if path not in OPEN and not await asker.may_get(path):
                said = f"{asker.name} may not get the path {path}, which is no resource\n"
                return Page(said.encode(), 403)
            return make()
        except UnknownAskerError as error:
            return Page(f"{error}\n".encode(), 401)
        except NotReviewedError as error:
            return Page(f"{error}\n".encode(), 503)
        except Exception:
            _log.exception("%s failed", path)
            return Page(b"failed\n", 500)


async def _read(reader: asyncio.StreamReader) -> _Request | Page:
    """Return a request; what to answer if it is malformed."""
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3:
        return Page(b"bad request\n", 400)
    headers = dict[str, str]()
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    size = headers.get("content-length", "0")
    if not (size.isascii() and size.isdigit()) or "transfer-encoding" in headers:
        return Page(b"expected a Content-Length\n", 400)
    if len(size) > len(str(_LIMIT)) or int(size) > _LIMIT:
        return Page(f"the body has more than {_LIMIT} bytes\n".encode(), 413)
    body = await reader.readexactly(int(size)) if int(size) else b""
    return _Request(parts[0], parts[1], headers, body)


def _response(page: Page) -> bytes:
    more = "WWW-Authenticate: Bearer\r\n" if page.status == 401 else ""
    head = (
        f"HTTP/1.1 {page.status} {HTTPStatus(page.status).phrase}\r\n"
        f"Content-Type: {page.content_type}\r\n{more}"
        f"Content-Length: {len(page.body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("latin-1") + page.body
