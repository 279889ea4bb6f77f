"""How tests wait: until a condition holds, with one limit that only a hang reaches.

Rules:
  R1  a wait ends when its condition holds, however slow the machine is. The limit is for programs
      that hang; no test measures time by it;
  R2  the limit is below five minutes. After that time kube-scheduler and watches repeat what was
      missed, so a lost wake-up reaches the limit;
  R3  a wait that fails names its condition, the last value of it, and what was last seen: clients
      report their answers to ``saw``, and the report has those to the last evaluation.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final, Generic, TypeVar

__all__ = ["HANG", "STEPS", "eventually", "saw", "until", "until_on_loop"]

T = TypeVar("T")

HANG: Final = 240.0
"""Seconds after which a wait for one condition fails."""
STEPS: Final = 4 * HANG
"""Seconds after which a test or a command of many waits fails."""
_LONGEST: Final = 2000
"""Characters of an answer that a report has."""

_answers: Final[ContextVar[list[Callable[[], str]] | None]] = ContextVar("answers", default=None)


def until(
    true: Callable[[], T], shown: Callable[[], object] | None = None, *, step: float = 0.05
) -> T:
    """Return the first true value of a condition.

    Args:
        true: The condition; it is evaluated again and again.
        shown: Returns what the report of a failure ends with, such as the end of a log.
        step: Seconds between two evaluations.

    Raises:
        AssertionError: The condition does not hold after ``HANG`` seconds.
    """
    wait = _Wait(true, shown)
    while not (value := wait.evaluate()):
        time.sleep(step)
    return value


async def eventually(
    true: Callable[[], T], shown: Callable[[], object] | None = None, *, step: float = 0.05
) -> T:
    """Do the same as ``until`` with a condition that blocks: it is evaluated off the loop."""
    wait = _Wait(true, shown)
    while not (value := await asyncio.to_thread(wait.evaluate)):
        await asyncio.sleep(step)
    return value


async def until_on_loop(
    true: Callable[[], T], shown: Callable[[], object] | None = None, *, step: float = 0.005
) -> T:
    """Do the same as ``until`` with a condition of the running loop, which goes on meanwhile."""
    wait = _Wait(true, shown)
    while not (value := wait.evaluate()):
        await asyncio.sleep(step)
    return value


def saw(text: str | Callable[[], str]) -> None:
    """Note what a condition that is being evaluated has seen, for the report of its failure.

    Args:
        text: The text, or what returns it once it is needed.
    """
    answers = _answers.get()
    if answers is not None:
        answers.append((lambda: text) if isinstance(text, str) else text)


class _Wait(Generic[T]):
    def __init__(self, true: Callable[[], T], shown: Callable[[], object] | None) -> None:
        self._true: Final = true
        self._shown: Final = shown
        self._ends: Final = time.monotonic() + HANG

    def evaluate(self) -> T:
        answers: list[Callable[[], str]] = []
        token = _answers.set(answers)
        try:
            value = self._true()
        finally:
            _answers.reset(token)
        if not value and time.monotonic() > self._ends:
            raise AssertionError(self._report(value, answers))
        return value

    def _report(self, value: object, answers: list[Callable[[], str]]) -> str:
        lines = [f"not within {HANG:g} s: {_source(self._true)}", f"last value: {value!r}"]
        lines += [f"last seen: {_shortened(answer())}" for answer in answers]
        if self._shown is not None:
            lines.append(str(self._shown()))
        return "\n".join(lines)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _source(true: Callable[[], object]) -> str:
    """Return the source of a condition, or its name where that has no source."""
    try:
        return " ".join(inspect.getsource(true).split())
    except (OSError, TypeError):
        return repr(true)
