"""What is not a bind gives way to binds.

Rules:
  R1  while binds wait or are under way, an event or a condition waits, until *longest* seconds
      after it was queued. So a burst of binds has the API server for itself, and what is posted is
      late but not lost;
  R2  the limit counts from the instant of queueing. If it counted from the turn of each post, a
      queue behind a constant stream of binds would grow without end;
  R3  what has waited for half of that long goes with it. Behind a constant stream of binds, posts
      then go in bursts: a process that wakes for each of them takes twice the processor time.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Final, final

__all__ = ["GiveWay"]

_LOOK: Final = 0.02
"""Seconds between two looks at the binds. Nothing looks while nothing is to be posted."""


@final
class GiveWay:
    """Waits while binds wait or are under way.

    Args:
        binds: Returns how many binds wait or are under way.
        longest: How many seconds a post waits at most, from the instant at which it was queued.
    """

    def __init__(self, binds: Callable[[], int], *, longest: float = 1.0) -> None:
        self._binds = binds
        self._longest = longest
        self._released = -math.inf

    async def __call__(self, queued_at: float) -> None:
        """Return when there is no bind, or when the post has waited for long enough.

        Args:
            queued_at: When the post was queued, on ``time.monotonic``.
        """
        if queued_at <= self._released:
            return
        until = queued_at + self._longest
        while self._binds() and (left := until - time.monotonic()) > 0:
            await asyncio.sleep(min(_LOOK, left))
        self._released = max(self._released, time.monotonic() - self._longest / 2)
