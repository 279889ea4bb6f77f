"""How much Python a call executes: counted, so that it does not depend on the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["executed_calls", "executed_lines"]


def executed_calls(run: Callable[[], object]) -> int:
    """Return how many functions in Python are called. Generators count each time they go on."""
    count = 0

    def note(_frame: FrameType, event: str, _arg: Any) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count


def executed_lines(run: Callable[[], object]) -> int:
    """Return how many lines are executed."""
    count = 0

    def note(_frame: FrameType, event: str, _arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return note

    before = sys.gettrace()
    sys.settrace(note)
    try:
        run()
    finally:
        sys.settrace(before)
    return count
