"""The host on asyncio; see ``gangsched.drivers.host``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from types import TracebackType
from typing import Any, final

from gangsched import presets
from gangsched.drivers import aio
from gangsched.drivers._clock import epoch_seconds
from gangsched.drivers._contract import check_plain, wait_for
from gangsched.drivers._hosting import HostShell, JobShell
from gangsched.drivers._submitted import JobState
from gangsched.events import Bind, Evict
from gangsched.explain import Why
from gangsched.model import NodeName, Pod
from gangsched.protocols import ClusterState
from gangsched.scheduler import Scheduler

__all__ = ["AsyncHost", "AsyncJob"]


@final
class AsyncJob(JobShell[asyncio.Event]):
    """A job that was submitted to an ``AsyncHost``; used in the thread of its event loop."""

    async def started(self) -> Mapping[str, NodeName]:
        """Wait until the job has started; return the node of each pod, by name.

        Cancelling the wait does not cancel the job; ``asyncio.timeout`` limits it. A job that has
        started and was finished since returns its nodes, too.

        Raises:
            GangRejectedError: The job was withdrawn, or the host ended, before it started. An error
                that ended the host is the cause.
        """
        await self._submitted.decided.wait()
        return self._submitted.outcome()


@final
class AsyncHost(HostShell[AsyncJob, aio.Driver]):
    """Starts gangs whole on nodes, in a program on asyncio; the twin of ``Host``.

    All methods are called in the thread of the event loop.

    Args:
        start: Starts a pod on a node, in a task of its own; see ``Host``.
        evict: Ends a pod that a policy evicts; see ``Host``.
        on_start_error: Called with the pod, the node and the exception after *start* has raised; a
            plain function, not a coroutine.
        make: Makes the scheduler, such as ``presets.gang``.
        max_starts: How many calls of *start* may be under way at once.
        clock: Seconds that never go back.
        snapshot: The state of another host, with whose jobs this one goes on; see ``Host``.

    Raises:
        InvalidValueError: *max_starts* is not an int >= 1, or *on_start_error* is a coroutine
            function. That *start* or *evict* returns no awaitable ends the host.
    """

    _job = AsyncJob

    def __init__(
        self,
        *,
        start: Callable[[Pod, NodeName], Awaitable[object]],
        evict: Callable[[Pod, NodeName], Awaitable[object]] | None = None,
        on_start_error: Callable[[Pod, NodeName, Exception], object] | None = None,
        make: Callable[[ClusterState], Scheduler] = presets.gang,
        max_starts: int = 64,
        clock: Callable[[], float] = epoch_seconds,
        snapshot: Mapping[str, Any] | None = None,
    ) -> None:
        check_plain(on_start_error=on_start_error)
        self._start_pod = start
        self._evict_pod = evict
        super().__init__(
            aio.Driver,
            event=asyncio.Event,
            lock=nullcontext(),
            can_evict=evict is not None,
            on_start_error=on_start_error,
            make=make,
            max_starts=max_starts,
            clock=clock,
            snapshot=snapshot,
        )
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Run the scheduler, in a task; see ``Host.start``."""
        self._open()
        self._running = asyncio.create_task(self._run())

    async def __aenter__(self) -> AsyncHost:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def finish(self, job: AsyncJob) -> Mapping[str, NodeName]:
        """Report that a job has ended; see ``Host.finish``."""
        return await self._remove(job, JobState.FINISHED)

    async def cancel(self, job: AsyncJob) -> Mapping[str, NodeName]:
        """Withdraw a job; return the pods that were started; see ``Host.cancel``."""
        return await self._remove(job, JobState.CANCELLED)

    async def why(self, job: AsyncJob) -> Why:
        """Return why a job has not started, or that it has; see ``Host.why``."""
        await self._known(job).known.wait()
        await self.driver.taken_in()
        self._known(job)
        return self.driver.ask(lambda scheduler: scheduler.why(job.key))

    async def stop(self) -> None:
        """Stop after all that was handed in; see ``Host.stop``."""
        self._close()
        if self._running is not None:
            await asyncio.gather(self._running, return_exceptions=True)
        self._closed()

    async def aclose(self) -> None:
        """Stop; the same as ``stop``."""
        await self.stop()

    async def _run(self) -> None:
        try:
            await self.driver.run()
        except BaseException as error:
            self._ended(error)
            raise
        self._ended(None)

    async def _remove(self, job: AsyncJob, end: JobState) -> Mapping[str, NodeName]:
        submitted = self._withdraw(job, end)
        if submitted is None:
            return {}
        here = asyncio.current_task()
        while others := [by for by in submitted.starting.values() if by is not here]:
            await asyncio.wait(others)
        return submitted.to_end()

    async def _bind(self, effect: Bind) -> None:
        with self._starting(effect, asyncio.current_task()) as pod:
            await wait_for("start", self._start_pod, pod, effect.node)

    async def _end(self, effect: Evict) -> None:
        with self._ending(effect) as pod:
            if pod is not None and self._evict_pod is not None:
                await wait_for("evict", self._evict_pod, pod, effect.node)
