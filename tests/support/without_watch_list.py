"""An API server that cannot stream its listings, so that the right to list is used."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from gangsched.kubernetes._api import Api, Response, WatchRefused

__all__ = ["WithoutWatchList"]


class WithoutWatchList:
    """An API server that does not stream its listings, as before 1.34: so they are listed."""

    def __init__(self, below: Api) -> None:
        self._below = below

    async def request(self, method: str, path: str, **named: Any) -> Response:
        return await self._below.request(method, path, **named)

    async def watch(self, path: str, *, timeout: float) -> AsyncIterator[Sequence[bytes]]:
        if "sendInitialEvents" in path:
            raise WatchRefused(path, Response(422))
        async for lines in self._below.watch(path, timeout=timeout):
            yield lines

    async def aclose(self) -> None:
        await self._below.aclose()
