"""Guessed run times: a few right, most wrong, some unknown."""

from __future__ import annotations

from typing import final
from zlib import crc32

from attrs import frozen

from gangsched import Pod

__all__ = ["LONGEST", "Estimates"]

LONGEST = 20.0
"""The longest guess, in seconds."""


@final
@frozen
class Estimates:
    """Estimates the run time of a pod from its name, or returns that it is unknown."""

    def expected_end(self, pod: Pod, *, started_at: float | None, now: float) -> float | None:
        """Return the guess; see ``gangsched.RunTimes``."""
        seconds = crc32(pod.name.encode()) % 24
        if seconds > LONGEST:
            return None
        return (now if started_at is None else started_at) + seconds
