"""An event loop whose steps are counted, and whose time goes on only while nothing is ready.

A test cancels a task at each of its steps in turn, so each ``await`` is cut once. A program that
waits for ever is seen at once: nothing is ready, and no timer is set.

Rules:
  R1  threads are not waited for: what runs here must use none. ``on_a_stepped_loop`` does what is
      given to a thread at once, else the time of the loop would go on meanwhile;
  R2  a run is repeatable as far as the program is: nothing depends on the time of the machine.
"""

from __future__ import annotations

import asyncio
import functools
import math
import selectors
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, ParamSpec, TypeVar, final

import pytest

__all__ = ["HungError", "SteppedLoop", "on_a_stepped_loop", "run_stepped"]

P = ParamSpec("P")
T = TypeVar("T")

_LAST: Final = 20


class HungError(Exception):
    """Nothing is ready and nothing will be, or too much time has gone by."""


class _Selector(selectors.SelectSelector):
    """Never waits: the time of the loop goes on instead."""

    loop: SteppedLoop

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(0.0)
        if found or timeout == 0.0:
            return found
        if timeout is None:
            raise HungError("nothing is ready, and no timer is set")
        self.loop.now += max(timeout, 1e-6)
        if self.loop.now > self.loop.limit:
            raise HungError(f"{self.loop.limit} s of the loop have gone by")
        return found


_run_once: Final[Any] = vars(asyncio.BaseEventLoop)["_run_once"]
"""One step of a loop. It has no type, since it is no part of the interface."""


@final
class SteppedLoop(asyncio.SelectorEventLoop):
    """The loop.

    Args:
        limit: After how many of its seconds a program counts as hung.

    Attributes:
        now: Its time, in seconds.
        steps: How many steps were made.
        at_step: Called with the number of each step, before it is made.
    """

    def __init__(self, limit: float) -> None:
        selector = _Selector()
        selector.loop = self
        self.now = 1000.0
        self.limit = self.now + limit
        self.steps = 0
        self.at_step: Callable[[int], object] = _nothing
        super().__init__(selector)

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        self.steps += 1
        self.at_step(self.steps)
        _run_once(self)


def _nothing(_step: int) -> None:
    pass


def run_stepped(
    program: Coroutine[Any, Any, Any], *cancel_at: int, limit: float = 120.0, grace: float = 1.0
) -> int:
    """Run a program, cancel it at some steps, and return how many steps it made.

    Args:
        program: The program.
        cancel_at: The steps before which it is cancelled.
        limit: After how many seconds of the loop it counts as hung.
        grace: After how many seconds of the loop it counts as hung once it was cancelled.

    Raises:
        HungError: It did not end, or tasks of it went on after its end.
        Exception: It failed, but for a cancellation.
    """
    loop = SteppedLoop(limit)
    asyncio.set_event_loop(loop)
    task = loop.create_task(program)
    steps = frozenset(cancel_at)

    def at_step(step: int) -> None:
        if step in steps:
            task.cancel()
            loop.limit = min(loop.limit, loop.now + grace)

    loop.at_step = at_step
    try:
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(task)
        made, loop.at_step = loop.steps, _nothing
        for _ in range(_LAST):  # generators that were left are closed by tasks
            loop.run_until_complete(asyncio.sleep(0))
        left = asyncio.all_tasks(loop)
        if left:
            raise HungError(f"tasks are left: {left}")
        return made
    finally:
        asyncio.set_event_loop(None)
        _abandon(loop)


async def _at_once(call: Callable[P, T], /, *args: P.args, **named: P.kwargs) -> T:
    return call(*args, **named)


def on_a_stepped_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test on a stepped loop, whose time is also that of ``time.monotonic``.

    So what the test measures is exact, and takes no time.
    """

    @functools.wraps(test)
    def run_it(*args: P.args, **named: P.kwargs) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(asyncio, "to_thread", _at_once)
            patch.setattr(time, "monotonic", lambda: asyncio.get_running_loop().time())
            run_stepped(test(*args, **named))

    return run_it


def _abandon(loop: SteppedLoop) -> None:
    """Close a loop; what still runs is cancelled again and again, so that it is not reported."""
    loop.at_step, loop.limit = _nothing, math.inf
    for _ in range(_LAST):
        left = asyncio.all_tasks(loop)
        if not left:
            break
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.wait(left, timeout=1.0))
    loop.close()
