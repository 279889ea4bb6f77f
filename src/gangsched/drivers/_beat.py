"""Pauses that end together.

What pauses for a moment to be done in batches wakes the process when it goes on. Pauses of one
length that begin at different instants would wake it for each. These end at common instants, the
beats, so one wake-up serves all of them.

Rule: a pause is never longer than its period. The beats are whole multiples of the period on
``time.monotonic``, in milliseconds: timers of libuv, and so of uvloop, have no finer steps.
"""

from __future__ import annotations

import time

__all__ = ["until_beat"]


def until_beat(period: float) -> float:
    """Return the seconds until the next beat: at most *period*, and more than 0 if that is.

    Args:
        period: The seconds between two beats. One below 2 ms is returned as it is.
    """
    steps = int(1000 * period + 0.5)
    if steps < 2:
        return period
    return min((steps - int(time.monotonic() * 1000) % steps) / 1000, period)
