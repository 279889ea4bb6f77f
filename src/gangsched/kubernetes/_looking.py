"""Look for ever whether what is not watched has changed, such as which APIs are served."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from gangsched.errors import GangschedError

__all__ = ["keep_looking"]

T = TypeVar("T")


async def keep_looking(
    look: Callable[[], Awaitable[T]],
    known: T,
    changed: Callable[[T], Awaitable[None]],
    *,
    errors: tuple[type[GangschedError], ...],
    interval: float,
    on_problem: Callable[[GangschedError], None] = lambda _error: None,
) -> None:
    """Look whether something is other than before, for ever.

    Args:
        look: Returns how it is.
        known: How it was.
        changed: Called with how it is when it is other than before.
        errors: What *look* may raise; what was known stays then.
        interval: The seconds between two looks.
        on_problem: Called with what *look* raised.
    """
    while True:
        await asyncio.sleep(interval)
        try:
            found = await look()
        except errors as error:
            on_problem(error)
            continue
        if found != known:
            known = found
            await changed(found)
