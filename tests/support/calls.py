"""How much work something is, without a clock: the number of calls that are made for it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

__all__ = ["calls_for"]


def calls_for(what: Callable[[], object]) -> int:
    """Return how many calls, of Python or of C, are made while *what* runs."""
    count = 0

    def watch(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        what()
    finally:
        sys.setprofile(before)
    return count
