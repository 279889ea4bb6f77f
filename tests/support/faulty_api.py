"""A real API server with faults in between, inside of the process of the scheduler.

Unlike a proxy it breaks exactly the request that a test names, before it is sent or after it was
answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from attrs import define, field

from gangsched.kubernetes._api import Api, ConnectionLost, Response
from support.memory_api import Fault

__all__ = ["FaultyApi"]


@define(eq=False)
class FaultyApi:
    """An ``Api`` over another one.

    Attributes:
        below: The true API server.
        fault: Called with method and path of each request; returns what goes wrong, or None.
        held: While it is cleared, binds wait.
        requests: Method and path of every request.
    """

    below: Api
    fault: Callable[[str, str], Fault | None] = lambda _method, _path: None
    held: asyncio.Event = field(factory=asyncio.Event)
    requests: list[tuple[str, str]] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.held.set()

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float = 30.0,
        lane: str = "default",
    ) -> Response:
        self.requests.append((method, path))
        if path.endswith("/binding"):
            await self.held.wait()
        fault = self.fault(method, path)
        if fault is not None and not fault.done:
            if fault.response is None:
                raise ConnectionLost(method, path, "cut off before", sent=True)
            return fault.response
        response = await self.below.request(
            method, path, body=body, content_type=content_type, timeout=timeout, lane=lane
        )
        if fault is None:
            return response
        if fault.response is None:
            raise ConnectionLost(method, path, "cut off after", sent=True)
        return fault.response

    async def watch(self, path: str, *, timeout: float) -> AsyncIterator[Sequence[bytes]]:
        async for lines in self.below.watch(path, timeout=timeout):
            yield lines

    async def aclose(self) -> None:
        await self.below.aclose()
