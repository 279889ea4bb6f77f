"""Instants as the API server writes them."""

from __future__ import annotations

import time
from datetime import UTC, datetime

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
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
