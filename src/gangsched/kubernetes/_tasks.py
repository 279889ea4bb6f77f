"""Tasks that end when they are cancelled, and a cancellation that is never lost.

A task that cancels another one and awaits it with ``suppress(CancelledError)`` cannot tell the
cancellation of the other task from its own. If both come at once, its own is lost, and it goes on
for ever. ``asyncio.gather`` has the same defect in another form: if one of its tasks has failed
when it is cancelled, it raises the failure.

Rules:
  R1  ``end`` returns when all tasks have ended, and raises the cancellation of its caller then;
  R2  a task that goes on although it was cancelled is cancelled again each second, with a warning;
  R3  ``together`` raises the cancellation of its caller, whatever its tasks have raised.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine
from typing import Any, Final, TypeVar, final

__all__ = ["Tasks", "end", "together"]

T = TypeVar("T")

_AGAIN: Final = 1.0
"""Seconds after which a task that was cancelled and goes on is cancelled again."""

_log = logging.getLogger("gangsched.kubernetes")


async def end(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks and wait for their end; what they raise is left to the caller.

    Raises:
        CancelledError: The caller was cancelled meanwhile. All tasks have ended.
    """
    cancelled: asyncio.CancelledError | None = None
    for task in tasks:
        task.cancel()
    left: set[asyncio.Future[Any]] = {task for task in tasks if not task.done()}
    while left:
        try:
            _ended, left = await asyncio.wait(left, timeout=_AGAIN)
        except asyncio.CancelledError as error:
            cancelled = error
            left = {task for task in left if not task.done()}
            continue
        for task in left:
            _log.warning("a task that was cancelled goes on, and is cancelled again: %r", task)
            task.cancel()
    if cancelled is not None:
        raise cancelled


async def together(*works: Coroutine[Any, Any, T]) -> list[T]:
    """Run coroutines at once; return what they return, in their order.

    Raises:
        Exception: The first of them that raised, in their order. All have ended.
    """
    tasks = [asyncio.create_task(work) for work in works]
    try:
        if tasks:
            await asyncio.wait(tasks)
    finally:
        await end(*tasks)
        errors = [task.exception() for task in tasks if not task.cancelled()]  # seen by asyncio
    for error in errors:
        if error is not None:
            raise error
    return [task.result() for task in tasks]


@final
class Tasks:
    """Tasks that run until they are cancelled; if one fails, everything ends."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task, and return it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        return task

    async def until(self, wanted: Awaitable[Any], stop: asyncio.Event) -> bool:
        """Wait for something, or for *stop*; return whether that came first.

        Raises:
            Exception: One of the tasks failed.
        """
        first, stopped = asyncio.ensure_future(wanted), asyncio.create_task(stop.wait())
        try:
            await asyncio.wait((first, stopped, *self._tasks), return_when=asyncio.FIRST_COMPLETED)
            for task in self._tasks:
                if task.done():
                    task.result()
            if first.done():
                first.result()
            return first.done()
        finally:
            await end(stopped, first)

    async def cancel(self) -> None:
        """Cancel the tasks, and wait for their end."""
        await end(*self._tasks)
        for task in self._tasks:
            if not task.cancelled():
                task.exception()  # seen: what ends a term is raised by ``until``
