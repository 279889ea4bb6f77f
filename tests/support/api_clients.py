"""Clients of a fake API server, with each transport."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from gangsched.kubernetes._client import Client
from gangsched.kubernetes._configuration import Access, Credentials
from gangsched.kubernetes._contact import Contact
from gangsched.kubernetes._transport import DEFAULT_LANES, Transport
from gangsched.kubernetes._transport_aiohttp import AiohttpTransport
from gangsched.kubernetes._transport_httptools import HttptoolsTransport

__all__ = ["TRANSPORTS", "Maker", "client_of"]

Maker = Callable[..., Transport]

TRANSPORTS: Mapping[str, Maker] = {"aiohttp": AiohttpTransport, "httptools": HttptoolsTransport}


@asynccontextmanager
async def client_of(
    name: str,
    access: Access | Callable[[], Access],
    *,
    lanes: Mapping[str, int] = DEFAULT_LANES,
    clock: Callable[[], float] | None = None,
    linger: float = 60.0,
    contact: Contact | None = None,
) -> AsyncIterator[Client]:
    """Open a client, and close it.

    Args:
        name: The transport.
        access: The access, or what reads it again and again.
        lanes: The most connections of each lane.
        clock: The clock of the credentials; by default one that no pause is too long for.
        linger: The seconds for which old connections are kept.
        contact: Told of requests without an answer.
    """
    now = iter(range(0, 10**9, 1000))
    read = access if callable(access) else lambda: access
    credentials = Credentials(read, clock=clock or (lambda: float(next(now))))
    await credentials.load()
    make = TRANSPORTS[name]
    client = Client(
        credentials,
        lambda one: make(one, lanes=lanes),
        random=lambda: 0.0,
        linger=linger,
        contact=contact,
    )
    try:
        yield client
    finally:
        await client.aclose()
