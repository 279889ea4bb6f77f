"""The verbs over HTTP and HTTPS, on ``aiohttp.web``.

Rules:
  R1  a malformed request is answered with 400, and with the field and the value;
  R2  a replica answers 503 if it does not lead, or has not listed the cluster, and closes the
      connection. The next try of kube-scheduler connects anew, and so to the replica that leads.
      A connection that stays open goes to the same replica for ever, whatever the Service says;
  R3  the handler of a client that has left is cancelled, so that a member does not count as
      arrived when kube-scheduler has given up waiting for it;
  R4  an error of a handler is answered with 500 and logged, and the server goes on;
  R5  a request takes a bounded time to read, and a bounded number of bytes.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from typing import Final, final

from gangsched.errors import InvalidValueError
from gangsched.kubernetes._extra import missing
from gangsched.kubernetes.extender._desk import Desk

try:
    from aiohttp import web
except ModuleNotFoundError as error:
    raise missing(error) from error

__all__ = ["VERBS", "VerbServer"]

VERBS: Final = ("filter", "prioritize", "preempt", "bind")
_LARGEST: Final = 64 << 20
"""The most bytes of a request. The names of 100,000 nodes are some 3 MB."""
_READING: Final = 30.0
"""For how many seconds a request is read at most."""
_CLOSING: Final = 5.0
_LINGERING: Final = 1.0
"""For how many seconds the rest of a request is read that is answered already."""
_LEFT: Final = 499
"""What is counted if the client does not wait for the answer; no answer has this status."""
_LAST_OF_A_CONNECTION: Final = frozenset({408, 413, 503})

_log = logging.getLogger("gangsched.kubernetes.extender.http")


@final
class VerbServer:
    """Serves the verbs.

    Args:
        desk: Returns what answers now; None if this replica does not answer.
        seen: Called with the verb and the HTTP status of each answer.
    """

    def __init__(
        self,
        desk: Callable[[], Desk | None],
        seen: Callable[[str, int], object] = lambda _verb, _status: None,
    ) -> None:
        self._desk = desk
        self._seen = seen
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int, context: ssl.SSLContext | None = None) -> int:
        """Begin to listen; return the port, which is a free one if *port* is 0.

        Raises:
            OSError: The address is in use, or is none of this machine.
        """
        app = web.Application(client_max_size=_LARGEST)
        for verb in VERBS:
            app.router.add_post(f"/{verb}", self._handler(verb))
        self._runner = web.AppRunner(
            app,
            handler_cancellation=True,
            access_log=None,
            shutdown_timeout=_CLOSING,
            lingering_time=_LINGERING,
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, ssl_context=context)
        await site.start()
        found: int = self._runner.addresses[0][1]
        return found

    async def stop(self) -> None:
        """Stop listening, and close the connections."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def _handler(self, verb: str) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            try:
                status, body = await self._read(verb, request)
            except asyncio.CancelledError:
                self._seen(verb, _LEFT)
                raise
            self._seen(verb, status)
            kind = "application/json" if status == 200 else "text/plain"
            response = web.Response(status=status, body=body, content_type=kind)
            if status in _LAST_OF_A_CONNECTION:
                response.force_close()
            return response

        return handle

    async def _read(self, verb: str, request: web.Request) -> tuple[int, bytes]:
        try:
            async with asyncio.timeout(_READING):
                raw = await request.read()
        except TimeoutError:
            return 408, f"the request was not read within {_READING:.0f} s\n".encode()
        except web.HTTPRequestEntityTooLarge:
            return 413, f"the request has more than {_LARGEST} bytes\n".encode()
        return await self._answer(verb, raw)

    async def _answer(self, verb: str, raw: bytes) -> tuple[int, bytes]:
        desk = self._desk()
        if desk is None:
            return 503, b"this replica does not lead, or has not listed the cluster yet\n"
        try:
            match verb:
                case "filter":
                    return 200, await desk.filter(raw)
                case "prioritize":
                    return 200, await desk.prioritize(raw)
                case "preempt":
                    return 200, await desk.preempt(raw)
                case _:
                    return 200, await desk.bind(raw)
        except InvalidValueError as error:
            return 400, f"{error}\n".encode()
        except Exception:
            _log.exception("%s failed", verb)
            return 500, b"failed; see the log\n"
