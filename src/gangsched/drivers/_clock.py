"""The clock of the drivers: seconds since 1970 that never go back.

Kubernetes objects carry their creation time in seconds since 1970, and the queue compares it with
the instants at which attempts fail. So the drivers count from 1970 too. A clock that counts from
the boot of the machine would put every failed gang before every new one.

Rules:
  R1  a reading is never earlier than the reading before it, whatever happens to the wall clock;
  R2  a reading grows at least as fast as ``time.monotonic``, so a timeout never stalls while the
      wall clock is set back;
  R3  if the wall clock is ahead, the reading follows it: after a suspension of the machine, or a
      correction of its time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, final

__all__ = ["EpochClock", "epoch_seconds"]


@final
class EpochClock:
    """Seconds since 1970 that never go back. Thread-safe; call it to read it.

    Args:
        wall: Seconds since 1970, which may be set back.
        steady: Seconds from any origin, which never go back.

    Example:
        >>> clock = EpochClock(wall=lambda: 1_800_000_000.0, steady=lambda: 5.0)
        >>> clock()
        1800000000.0
    """

    __slots__ = ("_lock", "_read", "_read_at", "_steady", "_wall")

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wall = wall
        self._steady = steady
        self._lock = threading.Lock()
        self._read = wall()
        self._read_at = steady()

    def __call__(self) -> float:
        """Return the current instant."""
        with self._lock:
            at = self._steady()
            read = self._read + (at - self._read_at)
            wall = self._wall()
            self._read = wall if wall > read else read  # max() takes as long as all the rest
            self._read_at = at
            return self._read


epoch_seconds: Final = EpochClock()
"""The clock that drivers and gates read by default: one for the process."""
