"""``/healthz``, ``/livez``, ``/readyz``, ``/metrics`` and answers of the scheduler over HTTP.

Rules:
  R1  only GET, one request a connection, at most 8 KiB and 5 s for a request. Kubelets and
      Prometheus need no more, and nothing else may cost much. An answer that takes longer has to
      end by itself: the connection is closed without a word;
  R2  ``/healthz`` is about the process, ``/readyz`` about what it needs. A replica that waits for
      the lease is ready.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final, TypeAlias, final
from urllib.parse import parse_qsl

from attrs import frozen

__all__ = ["Answer", "Page", "Server"]

_LIMIT: Final = 8192
_SECONDS: Final = 5.0
_REASONS: Final = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed"}
_REASONS_OF_FAILURE: Final = {500: "Internal Server Error", 503: "Service Unavailable"}

_log = logging.getLogger("gangsched.kubernetes.server")


@final
@frozen
class Page:
    """What a path returns."""

    body: bytes
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"


_Pages: TypeAlias = Mapping[str, Callable[[], Page]]

Answer: TypeAlias = Callable[[Mapping[str, str]], Awaitable[Page]]
"""Makes a page that takes its time, from the query of the request."""


@final
class Server:
    """Serves pages.

    Args:
        pages: By path, what makes its page.
        answers: By path, what makes a page that takes its time.
    """

    def __init__(self, pages: _Pages, answers: Mapping[str, Answer] | None = None) -> None:
        self._pages = pages
        self._answers = dict(answers or {})
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Begin to listen; return the port, which is a free one if *port* is 0.

        Raises:
            OSError: The address is in use, or is none of this machine.
        """
        self._server = await asyncio.start_server(self._serve, host, port, limit=_LIMIT)
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            try:
                async with asyncio.timeout(_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(_response(await self._page(head)))
                    await writer.drain()
            except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                pass
            finally:
                writer.close()

    async def _page(self, head: bytes) -> Page:
        parts = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(parts) != 3:
            return Page(b"bad request\n", 400)
        method, target, _version = parts
        path, _, query = target.partition("?")
        make, answer = self._pages.get(path), self._answers.get(path)
        if make is None and answer is None:
            return Page(b"not found\n", 404)
        if method != "GET":
            return Page(b"only GET\n", 405)
        try:
            if answer is not None:
                return await answer(dict(parse_qsl(query)))
            assert make is not None
            return make()
        except Exception:
            _log.exception("%s failed", target)
            return Page(b"failed\n", 500)


def _response(page: Page) -> bytes:
    reason = _REASONS.get(page.status) or _REASONS_OF_FAILURE.get(page.status, "")
    head = (
        f"HTTP/1.1 {page.status} {reason}\r\nContent-Type: {page.content_type}\r\n"
        f"Content-Length: {len(page.body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("latin-1") + page.body
