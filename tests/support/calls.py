"""Measure work without a clock, as the number of calls or lines."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

__all__ = ["calls_for", "lines_for"]


def calls_for(what: Callable[[], object]) -> int:
    """Return the number of calls, of Python or C functions, while *what* runs."""
    count = 0

    def watch(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    _watched(what, watch, sys.getprofile(), sys.setprofile)
    return count


def lines_for(what: Callable[[], object]) -> int:
    """Return the number of lines of Python that run in *what*, one for each turn of a loop.

    So loops that call nothing are counted, too.
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
    """Install *watch* as the trace or profile function while *what* runs; restore *before*."""
    tell(watch)
    try:
        what()
    finally:
        tell(before)
