"""Whatever is not a bind gives way to binds.

Rules:
  R1  while binds wait for a connection, events and conditions wait too, each for at most *longest*
      seconds. So a burst of binds is not slowed down, and events are late but not lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, final

__all__ = ["GiveWay"]

_LOOK: Final = 0.02
"""Seconds between two looks at the binds. Only while there are some does anything look."""


@final
class GiveWay:
    """Waits while binds wait for a connection.

    Args:
        waiting: Returns how many binds wait.
        longest: How many seconds one wait takes at most.
    """

    def __init__(self, waiting: Callable[[], int], *, longest: float = 1.0) -> None:
        self._waiting = waiting
        self._longest = longest

    async def __call__(self) -> None:
        """Return when no bind waits, or after the longest wait."""
        looks = int(self._longest / _LOOK)
        while self._waiting() and looks > 0:
            looks -= 1
            await asyncio.sleep(_LOOK)
