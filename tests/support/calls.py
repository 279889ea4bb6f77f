"""How much work something is, without a clock: the calls that are made for it, or its lines."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

__all__ = ["calls_for", "lines_for"]


def calls_for(what: Callable[[], object]) -> int:
    """Return how many calls, of Python or of C, are made while *what* runs."""
    count = 0

    def watch(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    _watched(what, watch, sys.getprofile(), sys.setprofile)
    return count


def lines_for(what: Callable[[], object]) -> int:
    """Return how many lines of Python are begun while *what* runs, one for each turn of a loop.

    A walk that calls nothing is seen too.
    """
    count = 0

    def watch(_frame: Any, event: str, _argument: Any) -> Any:
        nonlocal count
        if event == "line":
            count += 1
        return watch

    _watched(what, watch, sys.gettrace(), sys.settrace)
    return count


def _watched(
    what: Callable[[], object], watch: Any, before: Any, tell: Callable[[Any], object]
) -> None:
    """Let *watch* be told while *what* runs, and then whoever was told before."""
    tell(watch)
    try:
        what()
    finally:
        tell(before)
