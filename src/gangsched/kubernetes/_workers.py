"""Workers: tasks that carry out what is queued, until they are cancelled.

Rule: an error that a worker does not handle ends all of them, and is raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["run_workers"]


async def run_workers(number: int, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run *work* in some tasks at once.

    Args:
        number: How many tasks there are.
        work: Takes what is queued and carries it out, for ever.

    Raises:
        ExceptionGroup: A worker raised.
    """
    async with asyncio.TaskGroup() as group:
        for _worker in range(number):
            group.create_task(work())
