"""The end of a term of a leader, from the instant at which *stop* is set.

::

    stop --> no more decisions --> binds end --> drained --> events are written --> the term ends
             at once               drainSeconds  the lease   a moment
                                                 is given up

Rules:
  R1  the driver is stopped by a task that waits for nothing but *stop*, so that no event and no
      other task of the term delays it;
  R2  what is written after the binds has what they have left of the drain, but not more than
      3 s and not less than 0.3 s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from gangsched.drivers.aio import Driver

__all__ = ["stop_at", "wait_until_written"]

_FLUSH: Final = 3.0
_LEAST: Final = 0.3
_LOOK: Final = 0.02


async def stop_at(stop: asyncio.Event, driver: Driver) -> None:
    """Stop a driver at once when *stop* is set."""
    await stop.wait()
    driver.stop(at_once=True)


async def wait_until_written(waiting: Callable[[], int], seconds: float) -> None:
    """Wait until nothing is to be written any more, or the time is over.

    Args:
        waiting: Returns how much waits, or is being written.
        seconds: The seconds that are left of the drain.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(max(_LEAST, min(_FLUSH, seconds))):
            while waiting():
                await asyncio.sleep(_LOOK)
