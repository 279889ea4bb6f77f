"""Every request to the API server is counted, by its method and the status of its answer.

A transport is counted rather than an ``Api``, because a client repeats requests: a 429 that was
repeated is seen, too, as by the metrics of client-go. An ``Api`` that a program passes to ``run``
has no transport that is known here, so it is counted itself.

Rules:
  R1  a request is counted once: with the status of its answer, or with 0 if there is none;
  R2  a watch is counted when its answer begins, not when it ends.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from typing import TypeAlias, final

from gangsched.kubernetes._api import (
    DEFAULT_LANE,
    JSON,
    Api,
    ConnectionLost,
    Response,
    WatchRefused,
)
from gangsched.kubernetes._transport import Transport

__all__ = ["CountedApi", "CountedTransport", "Seen", "close_stream"]

Seen: TypeAlias = Callable[[str, int], object]
"""Called with the method and the status of each answer; 0 for a lost connection."""


@final
class CountedTransport:
    """A transport whose exchanges are counted.

    Args:
        transport: Connects, sends and receives.
        seen: Counts.
    """

    def __init__(self, transport: Transport, seen: Seen) -> None:
        self._transport = transport
        self._seen = seen

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
        """See ``Transport.exchange``."""
        try:
            response = await self._transport.exchange(
                method, path, headers, body, timeout=timeout, lane=lane
            )
        except ConnectionLost:
            self._seen(method, 0)
            raise
        self._seen(method, response.status)
        return response

    def stream(
        self, path: str, headers: Mapping[str, str], *, timeout: float
    ) -> AsyncIterator[Sequence[bytes]]:
        """See ``Transport.stream``."""
        return _counted(self._transport.stream(path, headers, timeout=timeout), self._seen)

    async def aclose(self) -> None:
        """See ``Transport.aclose``."""
        await self._transport.aclose()


@final
class CountedApi:
    """An API server whose requests are counted, without the repetitions that it makes itself.

    Args:
        api: The API server.
        seen: Counts.
    """

    def __init__(self, api: Api, seen: Seen) -> None:
        self._api = api
        self._seen = seen

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str = JSON,
        timeout: float = 30.0,
        lane: str = DEFAULT_LANE,
    ) -> Response:
        """See ``Api.request``."""
        try:
            response = await self._api.request(
                method, path, body=body, content_type=content_type, timeout=timeout, lane=lane
            )
        except ConnectionLost:
            self._seen(method, 0)
            raise
        self._seen(method, response.status)
        return response

    def watch(self, path: str, *, timeout: float) -> AsyncIterator[Sequence[bytes]]:
        """See ``Api.watch``; it is counted with its first lines, or when it ends without any."""
        return _counted(self._api.watch(path, timeout=timeout), self._seen)

    async def aclose(self) -> None:
        """See ``Api.aclose``."""
        await self._api.aclose()


async def _counted(
    batches: AsyncIterator[Sequence[bytes]], seen: Seen
) -> AsyncGenerator[Sequence[bytes], None]:
    has_begun = False
    try:
        async for lines in batches:
            if not has_begun:
                has_begun = True
                seen("GET", 200)
            yield lines
        if not has_begun:
            seen("GET", 200)
    except WatchRefused as refused:
        seen("GET", refused.response.status)
        raise
    except ConnectionLost:
        if not has_begun:
            seen("GET", 0)
        raise
    finally:
        await close_stream(batches)


async def close_stream(batches: AsyncIterator[Sequence[bytes]]) -> None:
    """Close what yields the lines of a watch: it keeps its connection until then."""
    if isinstance(batches, AsyncGenerator):
        await batches.aclose()
