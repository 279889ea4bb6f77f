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

__all__ = ["ALONE", "on_a_loop", "on_a_patient_loop", "running", "until"]

P = ParamSpec("P")

ALONE = Settings(leader_election=LeaderElection(leader_elect=False))
"""The settings of a scheduler without other replicas."""


def on_a_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test on an event loop of its own, for at most 90 s."""
    return _on_a_loop(test, 90.0)


def on_a_patient_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test that starts many programs on an event loop of its own, for at most 300 s."""
    return _on_a_loop(test, 300.0)


def _on_a_loop(test: Callable[P, Coroutine[Any, Any, None]], seconds: float) -> Callable[P, None]:
    @functools.wraps(test)
    def run_it(*args: P.args, **named: P.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **named), seconds))

    return run_it


async def until(true: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait until something is true."""
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.005)


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
        async with asyncio.timeout(30.0):
            await task
