"""How late the event loop runs what is due: while it computes, nothing else is decided or answered.

Rules:
  R1  a delay of many periods counts once for each of them, as those saw it that were due meanwhile.
      Counted once, a second in which the loop stood still would be one sample of a thousand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

__all__ = ["measured_delays"]

_PERIOD: Final = 0.25


@contextmanager
def measured_delays(observe: Callable[[float], object]) -> Generator[None, None, None]:
    """Tell *observe*, four times a second, by how many seconds the running loop is late."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    timer: asyncio.TimerHandle | None = None

    def tick() -> None:
        nonlocal due, timer
        while (late := loop.time() - due) >= 0.0:
            observe(late)
            due += _PERIOD
        timer = loop.call_at(due, tick)

    tick()
    try:
        yield
    finally:
        if timer is not None:
            timer.cancel()
