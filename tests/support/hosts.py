"""Both hosts behind one face, so that a story is written once for threads and for asyncio.

Rule: a story is written for asyncio. ``Threads`` lets it run with the host on threads: what blocks
there is called in a thread, and a ``start`` of the story runs on the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import pytest

from gangsched import NodeName, Pod
from gangsched.drivers.host import AsyncHost, Host, Job
from support.patience import HANG

__all__ = ["Starts", "Story", "Threads", "both", "run"]


class Starts:
    """Starts of which those that are named, or all, wait until they are let go; the first fail."""

    def __init__(self, *slow: str, fails: int = 0) -> None:
        self.slow = slow
        self.fails = fails
        self.begun, self.let_go = asyncio.Event(), asyncio.Event()
        self.tried: list[str] = []
        self.ended: list[str] = []

    async def start(self, pod: Pod, _node: NodeName) -> None:
        self.tried.append(pod.name)
        if pod.name in self.slow or "all" in self.slow:
            self.begun.set()
            await self.let_go.wait()
        if len(self.tried) <= self.fails:
            raise OSError("no such machine")

    async def evict(self, pod: Pod, _node: NodeName) -> None:
        self.ended.append(pod.name)


class ThreadsJob:
    """A job of a host on threads, behind the face of ``AsyncJob``."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def __getattr__(self, name: str) -> Any:
        return getattr(self.job, name)

    def __repr__(self) -> str:
        return f"<Async{repr(self.job)[1:]}"

    async def started(self) -> Any:
        return await asyncio.to_thread(self.job.wait, HANG)


class Threads:
    """A host on threads, behind the face of ``AsyncHost``."""

    def __init__(self, *, start: Any, evict: Any = None, **more: Any) -> None:
        self.host = Host(
            start=self._on_the_loop(start),
            evict=None if evict is None else self._on_the_loop(evict),
            **more,
        )
        self.tell, self.driver = self.host.tell, self.host.driver
        self.snapshot = self.host.snapshot

    @staticmethod
    def _on_the_loop(function: Any) -> Any:
        loop = asyncio.get_running_loop()

        def call(pod: Pod, name: NodeName) -> Any:
            return asyncio.run_coroutine_threadsafe(function(pod, name), loop).result(HANG)

        return call

    async def __aenter__(self) -> Threads:
        self.host.__enter__()
        return self

    async def start(self) -> None:
        self.host.start()

    async def stop(self) -> None:
        await asyncio.to_thread(self.host.stop)

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await asyncio.to_thread(self.host.close)

    def submit(self, job: Any) -> ThreadsJob:
        return ThreadsJob(self.host.submit(job))

    def jobs(self) -> dict[str, ThreadsJob]:
        return {key: ThreadsJob(job) for key, job in self.host.jobs().items()}

    async def why(self, job: Any) -> Any:
        return await self._call(self.host.why, job)

    async def finish(self, job: Any) -> Any:
        return await self._call(self.host.finish, job)

    async def cancel(self, job: Any) -> Any:
        return await self._call(self.host.cancel, job)

    async def _call(self, method: Any, job: Any) -> Any:
        return await asyncio.to_thread(method, job.job if isinstance(job, ThreadsJob) else job)


Story = Callable[[Any, Starts], Any]
both: Final = pytest.mark.parametrize("kind", [Threads, AsyncHost], ids=["threads", "asyncio"])


def run(kind: Any, story: Story, starts: Starts | None = None, **options: Any) -> Starts:
    """Run a story with a host that it has to close if it enters it."""

    async def main() -> None:
        async with asyncio.timeout(HANG):
            await story(kind(start=given.start, **options), given)

    given = Starts() if starts is None else starts
    asyncio.run(main())
    return given
