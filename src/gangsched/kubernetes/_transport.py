"""The port below ``Api``: one exchange over HTTP, without any repetition.

Rules:
  R1  a transport connects, sends and receives. Credentials, 401, 429 and repetition are
      ``_client``'s, so that they are the same with each transport;
  R2  ``ConnectionLost.sent`` is as in ``_api``: False only if it is certain.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from gangsched.kubernetes._api import Response
from gangsched.kubernetes._configuration import Access

__all__ = [
    "BATCH_SECONDS",
    "DEFAULT_LANES",
    "IDLE_SECONDS",
    "Lines",
    "NO_GATHER",
    "Transport",
    "WATCH_ANSWER_SECONDS",
    "proxy_of",
]

DEFAULT_LANES: Final[Mapping[str, int]] = {"default": 4, "binds": 16, "events": 4}
"""The most connections of each lane."""

BATCH_SECONDS: Final = 0.02
"""Seconds between two batches of a stream: of events of pods, and of answers.

To wake up for each of them would cost as much processor time as the rest of the work for a pod.
"""

NO_GATHER: Final[Mapping[str, float]] = MappingProxyType({})
"""Every answer is read when it comes."""

IDLE_SECONDS: Final = 30.0
"""A connection that was idle for longer is not used again. The API server closes it after 90 s, and
a load balancer in front may do so after 60 s."""

WATCH_ANSWER_SECONDS: Final = 15.0
"""How long the head of the answer to a watch is awaited. An API server sends it at once.

A server that is ending may take the request and never answer. Without this bound, nothing would be
heard of the resource until the watch should have ended, minutes later.
"""


def proxy_of(access: Access) -> str | None:
    """Return the proxy that the kubeconfig or the environment names; None for none.

    As in client-go, the kubeconfig precedes the environment.
    """
    if access.proxy:
        return access.proxy
    parts = urlsplit(access.server)
    if proxy_bypass(parts.hostname or ""):
        return None
    return getproxies().get(parts.scheme)


class Lines:
    """Splits chunks of bytes into lines. What follows the last line end is kept for the next."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> Sequence[bytes]:
        """Return the lines that *chunk* completes, without their line ends.

        Runtime complexity: O(chunk), also if a line comes in many chunks.
        """
        lines = chunk.split(b"\n")
        if len(lines) == 1:
            self._rest.append(chunk)
            return ()
        if self._rest:
            self._rest.append(lines[0])
            lines[0] = b"".join(self._rest)
        last = lines.pop()
        self._rest = [last] if last else []
        return lines


class Transport(Protocol):
    """Connections to one API server."""

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
        """Return the answer to one request.

        Raises:
            ConnectionLost: There is no answer.
        """
        ...

    def stream(
        self, path: str, headers: Mapping[str, str], *, timeout: float
    ) -> AsyncIterator[Sequence[bytes]]:
        """Yield the lines of the answer to a GET as they arrive, and first no lines when it begins.

        Raises:
            WatchRefused: The status is not 200.
            ConnectionLost: The connection was lost, or nothing came for *timeout* seconds.
        """
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...
