"""A scheduler that runs on an API server in memory."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, ParamSpec

from gangsched.kubernetes import LeaderElection, Settings
from gangsched.kubernetes._api import Api
from gangsched.kubernetes._run import run
from support.patience import HANG, STEPS
from support.patience import until_on_loop as until

__all__ = ["ALONE", "on_a_loop", "running", "until"]

P = ParamSpec("P")

ALONE = Settings(leader_election=LeaderElection(leader_elect=False))
"""The settings of a scheduler without other replicas."""


def on_a_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test on an event loop of its own."""

    @functools.wraps(test)
    def run_it(*args: P.args, **named: P.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **named), STEPS))

    return run_it


@asynccontextmanager
async def running(
    api: Api, settings: Settings = ALONE, **named: Any
) -> AsyncIterator[asyncio.Event]:
    """Run a scheduler; yields what stops it. At the end it is stopped, and must have ended well."""
    stop = asyncio.Event()
    task = asyncio.create_task(run(settings, stop=stop, api=api, **named))
    try:
        yield stop
    finally:
        stop.set()
        async with asyncio.timeout(HANG):
            await task
