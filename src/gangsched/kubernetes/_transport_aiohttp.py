"""The default transport: aiohttp, with a pool of connections for each lane.

Rules:
  R1  aiohttp repeats some requests by itself; it is told not to (``_client`` does);
  R2  redirects are not followed: they would carry the credentials elsewhere.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, final

from gangsched.kubernetes._api import ConnectionLost, Response, WatchRefused
from gangsched.kubernetes._configuration import Access
from gangsched.kubernetes._extra import missing
from gangsched.kubernetes._sockets import keep_alive
from gangsched.kubernetes._tls import tls_context
from gangsched.kubernetes._transport import (
    DEFAULT_LANES,
    IDLE_SECONDS,
    WATCH_ANSWER_SECONDS,
    Lines,
    proxy_of,
)

try:
    import aiohttp
    from yarl import URL
except ModuleNotFoundError as error:
    raise missing(error) from error

__all__ = ["AiohttpTransport"]

_NOT_SENT = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientHttpProxyError,
)

_CHUNK = 256 * 1024
_WATCHES = "watches"


@final
class AiohttpTransport:
    """Connections to one API server by aiohttp.

    Args:
        access: Where the API server is. Credentials in headers come with each request.
        lanes: The most connections of each lane.
    """

    def __init__(self, access: Access, *, lanes: Mapping[str, int] = DEFAULT_LANES) -> None:
        self._server = access.server
        # aiohttp would look at the environment, and for a .netrc, with each request
        self._proxy = proxy_of(access)
        self._tls: ssl.SSLContext | bool = tls_context(access) or True
        self._server_name = access.server_name
        self._lanes = dict(lanes)
        self._sessions: dict[str, aiohttp.ClientSession] = {}

    async def exchange(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        timeout: float,
        lane: str,
    ) -> Response:
        session = self._session(lane)
        try:
            async with asyncio.timeout(timeout):
                async with session.request(
                    method, self._url(path), data=body, headers=headers, **self._options()
                ) as answer:
                    return Response(answer.status, _lower(answer.headers), await answer.read())
        except _NOT_SENT as error:
            raise ConnectionLost(method, path, _text(error), sent=False) from error
        except (aiohttp.ClientError, OSError) as error:
            raise ConnectionLost(method, path, _text(error), sent=True) from error

    async def stream(
        self, path: str, headers: Mapping[str, str], *, timeout: float
    ) -> AsyncIterator[Sequence[bytes]]:
        session = self._session(_WATCHES)
        lines = Lines()
        limits = aiohttp.ClientTimeout(total=None, sock_connect=30.0, sock_read=timeout)
        try:
            async with asyncio.timeout(min(timeout, WATCH_ANSWER_SECONDS)):
                begun = await session.get(
                    self._url(path), headers=headers, timeout=limits, **self._options()
                )
            async with begun as answer:
                if answer.status != 200:
                    body = await answer.read()
                    raise WatchRefused(path, Response(answer.status, _lower(answer.headers), body))
                try:
                    yield ()
                    async for chunk in answer.content.iter_any():
                        found = lines.feed(chunk)
                        if found:
                            yield found
                finally:
                    _abort(answer)
        except _NOT_SENT as error:
            raise ConnectionLost("GET", path, _text(error), sent=False) from error
        except (aiohttp.ClientError, OSError) as error:
            raise ConnectionLost("GET", path, _text(error), sent=True) from error

    async def aclose(self) -> None:
        sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            await session.close()

    def _url(self, path: str) -> URL:
        # the path is encoded already: a label selector must not be encoded twice
        return URL(self._server + path, encoded=True)

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"allow_redirects": False, "ssl": self._tls}
        if self._server_name:
            options["server_hostname"] = self._server_name
        if self._proxy:
            options["proxy"] = self._proxy
        return options

    def _session(self, lane: str) -> aiohttp.ClientSession:
        session = self._sessions.get(lane)
        if session is None:
            most = 0 if lane == _WATCHES else self._lanes.get(lane, 4)
            session = self._sessions[lane] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=most, keepalive_timeout=IDLE_SECONDS, socket_factory=_socket
                ),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=30.0),
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=_CHUNK,
            )
            # R1: it would repeat PUT and DELETE, which may have been carried out
            session._retry_connection = False
        return session


def _socket(address: Any) -> socket.socket:
    made = socket.socket(*address[:3])
    made.setblocking(False)
    keep_alive(made)
    return made


def _abort(answer: aiohttp.ClientResponse) -> None:
    """Cut the connection of a watch that has not ended.

    Closing it would wait for the other side, and a process that ends would leave it open.
    """
    connection = answer.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {key.lower(): value for key, value in headers.items()}


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
