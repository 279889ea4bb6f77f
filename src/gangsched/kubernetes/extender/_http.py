"""The verbs over HTTP and HTTPS, on ``aiohttp.web``.

Rules:
  R1  a malformed request is answered with 400, and with the field and the value;
  R2  a replica answers 503 if it does not lead, or has not listed the cluster. kube-scheduler then
      tries the pod again;
  R3  the handler of a client that has left is cancelled, so that a member does not count as
      arrived when kube-scheduler has given up waiting for it;
  R4  an error of a handler is answered with 500 and logged, and the server goes on.
"""

from __future__ import annotations

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
_LARGEST: Final = 256 << 20
"""The most bytes of a request. The names of 100,000 nodes are some 3 MB."""
_CLOSING: Final = 5.0

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
            app, handler_cancellation=True, access_log=None, shutdown_timeout=_CLOSING
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
            status, body = await self._answer(verb, await request.read())
            self._seen(verb, status)
            kind = "application/json" if status == 200 else "text/plain"
            return web.Response(status=status, body=body, content_type=kind)

        return handle

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
