"""Instants as the API server writes them."""

from __future__ import annotations

import time
from functools import lru_cache

__all__ = ["micro_time", "whole_seconds"]


def whole_seconds(at: float | None = None) -> str:
    """Return an instant as ``metav1.Time``: in UTC, in whole seconds.

    Args:
        at: Seconds since 1970; None for now.
    """
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def micro_time(at: float) -> str:
    """Return an instant as ``metav1.MicroTime``: in UTC, in microseconds.

    Args:
        at: Seconds since 1970.
    """
    microseconds = round(at * 1_000_000)
    return f"{_second(microseconds // 1_000_000)}.{microseconds % 1_000_000:06d}Z"


@lru_cache(maxsize=8)
def _second(at: int) -> str:
    """Return a whole second; a burst of events shares it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at))
