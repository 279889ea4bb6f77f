"""The host on asyncio; see ``gangsched.drivers.host``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType, TracebackType
from typing import cast, final

from gangsched import presets
from gangsched.drivers import aio
from gangsched.drivers._clock import epoch_seconds
from gangsched.drivers._contract import check_plain, wait_for
from gangsched.drivers._submitted import (
    CLOSED,
    JobState,
    Submitted,
    SubmittedJobs,
    Watch,
    failed,
)
from gangsched.errors import (
    GangRejectedError,
    HostClosedError,
    InvalidValueError,
    UnknownPodError,
)
from gangsched.events import Bind, Event, Evict, PodAdded, PodDeleted
from gangsched.explain import Why
from gangsched.gangs import Gang
from gangsched.memory import InMemoryCluster
from gangsched.model import GroupKey, NodeName, Pod, PodUID
from gangsched.protocols import ClusterState
from gangsched.scheduler import Scheduler

__all__ = ["AsyncHost", "AsyncJob"]


@final
class AsyncJob:
    """A job that was submitted to an ``AsyncHost``; used in the thread of its event loop."""

    def __init__(
        self, submitted: Submitted, started: asyncio.Future[Mapping[str, NodeName]]
    ) -> None:
        self._submitted = submitted
        self._started = started
        self._known = asyncio.Event()

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return self._submitted.key

    @property
    def places(self) -> Mapping[str, NodeName]:
        """The node of each pod that has been started, by the name of the pod."""
        return self._submitted.named_places()

    @property
    def state(self) -> JobState:
        """Whether the job is pending, has started, was finished or was cancelled."""
        return self._submitted.state

    @property
    def has_started(self) -> bool:
        """Whether as many pods as must start together have been started, also if it ended since."""
        return self._submitted.has_started

    @property
    def start_error(self) -> Exception | None:
        """The exception of the last *start* of its pods that failed; None if none has failed."""
        return self._submitted.start_error

    async def started(self) -> Mapping[str, NodeName]:
        """Wait until the job has started; return the node of each pod, by name.

        Cancelling the wait does not cancel the job; ``asyncio.timeout`` limits it. A job that has
        started and was finished since returns its nodes, too.

        Raises:
            GangRejectedError: The job was withdrawn, or the host ended, before it started. An error
                that ended the host is the cause.
        """
        return await asyncio.shield(self._started)

    def _take_in(self) -> None:
        self._known.set()

    def _start(self) -> None:
        if not self._started.done():
            self._started.set_result(MappingProxyType(self._submitted.named_places()))

    def _reject(self, reason: str, cause: BaseException | None = None) -> None:
        if not self._started.done():
            error = GangRejectedError(self.key, reason)
            error.__cause__ = cause
            self._started.set_exception(error)
            self._started.exception()  # a job for which nothing waits is no error

    def __repr__(self) -> str:
        return f"<AsyncJob {self.key} {self.state.value}>"


@final
class AsyncHost:
    """Starts gangs whole on nodes, in a program on asyncio; the twin of ``Host``.

    All methods are called in the thread of the event loop. It keeps nothing when its process ends,
    and cannot be restored from a snapshot, which contains no job; a driver can.

    Args:
        start: Starts a pod on a node, in a task of its own; see ``Host``.
        evict: Ends a pod that a policy evicts; see ``Host``.
        on_start_error: Called with the pod, the node and the exception after *start* has raised; a
            plain function, not a coroutine.
        make: Makes the scheduler, such as ``presets.gang``.
        max_starts: How many calls of *start* may be under way at once.
        clock: Seconds that never go back.

    Raises:
        InvalidValueError: *max_starts* is not an int >= 1, or *on_start_error* is a coroutine
            function. That *start* or *evict* returns no awaitable ends the host.
    """

    def __init__(
        self,
        *,
        start: Callable[[Pod, NodeName], Awaitable[object]],
        evict: Callable[[Pod, NodeName], Awaitable[object]] | None = None,
        on_start_error: Callable[[Pod, NodeName, Exception], object] | None = None,
        make: Callable[[ClusterState], Scheduler] = presets.gang,
        max_starts: int = 64,
        clock: Callable[[], float] = epoch_seconds,
    ) -> None:
        check_plain(on_start_error=on_start_error)
        self._start = start
        self._evict = evict
        self._on_start_error = on_start_error
        self._clock = clock
        self._submitted = SubmittedJobs()
        self._jobs: dict[str, AsyncJob] = {}
        cluster = InMemoryCluster()
        self.driver: aio.Driver = aio.Driver(
            make(cluster),
            apply=cluster.apply,
            bind=self._bind,
            evict=None if evict is None else self._end,
            observers=(Watch(self._taken_in, self._lost, self._restarted),),
            max_binds=max_starts,
            clock=clock,
        )
        self._running: asyncio.Task[None] | None = None
        self._is_closing = False
        self._has_ended = False
        self._failure: BaseException | None = None

    async def __aenter__(self) -> AsyncHost:
        self._check_submits("__aenter__")
        self._running = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def tell(self, *events: Event) -> None:
        """Hand events in, in order; see ``Host.tell``."""
        if self._has_ended:
            self._check_submits("tell")
        self.driver.tell(*self._submitted.told(events))

    def submit(self, job: Gang | Pod) -> AsyncJob:
        """Submit a job; see ``Host.submit``."""
        self._check_submits("submit")
        can_evict = self._evict is not None
        submitted = self._submitted.add(job, now=self._clock(), can_evict=can_evict)
        future: asyncio.Future[Mapping[str, NodeName]] = asyncio.get_running_loop().create_future()
        made = self._jobs[submitted.key] = AsyncJob(submitted, future)
        self.driver.tell(*submitted.events())
        return made

    async def finish(self, job: AsyncJob) -> Mapping[str, NodeName]:
        """Report that a job has ended; see ``Host.finish``."""
        _before, after = await self._remove(job, JobState.FINISHED)
        return after

    async def cancel(self, job: AsyncJob) -> Mapping[str, NodeName]:
        """Withdraw a job; return the pods that were started; see ``Host.cancel``."""
        before, after = await self._remove(job, JobState.CANCELLED)
        return {**before, **after}

    async def why(self, job: AsyncJob) -> Why:
        """Return why a job has not started, or that it has; see ``Host.why``."""
        self._check_known(job)
        await job._known.wait()
        await self.driver.taken_in()
        self._check_known(job)
        return self.driver.ask(lambda scheduler: scheduler.why(job.key))

    async def aclose(self) -> None:
        """Stop after all that was handed in; see ``Host.close``."""
        self._is_closing = True
        self.driver.stop()
        running, self._running = self._running, None
        try:
            if running is not None:
                await running
        finally:
            self._ended(None)

    def _taken_in(self, uid: PodUID) -> None:
        key = self._submitted.key_of_last(uid)
        job = None if key is None else self._jobs.get(key)
        if job is not None:
            job._take_in()

    def _lost(self, uid: PodUID) -> None:
        submitted = self._submitted.job_of(uid)
        if submitted is not None:
            submitted.lose(uid)

    def _restarted(self, key: GroupKey) -> None:
        submitted = self._submitted.job(key)
        if submitted is not None:
            self.driver.tell(*submitted.requeue_lost())

    async def _run(self) -> None:
        try:
            await self.driver.run()
        except BaseException as error:
            self._ended(error)
            raise
        self._ended(None)

    def _ended(self, failure: BaseException | None) -> None:
        """Take no more calls, and end the waits for jobs that have not started."""
        if not self._has_ended:
            self._has_ended, self._failure = True, failure
        reason = CLOSED if self._failure is None else failed(self._failure)
        for job in self._jobs.values():
            if not job.has_started:
                job._submitted.end = JobState.CANCELLED
                job._reject(reason, self._failure)
            job._take_in()

    def _check_failure(self, call: str) -> None:
        if self._failure is not None:
            raise HostClosedError(call, failed(self._failure)) from self._failure

    def _check_submits(self, call: str) -> None:
        self._check_failure(call)
        if self._is_closing or self._has_ended:
            raise HostClosedError(call, "the host is being closed or has ended")

    def _check_known(self, job: AsyncJob) -> None:
        if not isinstance(job, AsyncJob):
            raise InvalidValueError("job", job, "an AsyncJob of this host")
        self._check_failure("why")
        if self._jobs.get(job.key) is not job:
            raise UnknownPodError(job.key)

    async def _remove(
        self, job: AsyncJob, end: JobState
    ) -> tuple[dict[str, NodeName], dict[str, NodeName]]:
        """Remove a job; return the pods that were started before and since."""
        if not isinstance(job, AsyncJob):
            raise InvalidValueError("job", job, "an AsyncJob of this host")
        self._check_failure("finish" if end is JobState.FINISHED else "cancel")
        if self._jobs.get(job.key) is not job:
            return {}, {}
        submitted = job._submitted
        self._submitted.remove(job.key)
        del self._jobs[job.key]
        before = submitted.named_places()
        submitted.end = end
        self._settle(job)
        job._take_in()
        self.driver.tell(*submitted.withdrawal())
        here = asyncio.current_task()
        while others := [each for each in submitted.starting.values() if each is not here]:
            await asyncio.wait(cast("list[asyncio.Task[object]]", others))
        places = submitted.named_places()
        return before, {name: node for name, node in places.items() if name not in before}

    async def _bind(self, effect: Bind) -> None:
        uid = effect.uid
        submitted = self._submitted.job_of(uid)
        if submitted is None:
            raise LookupError(f"pod {uid} was withdrawn")
        submitted.starting[uid] = asyncio.current_task()
        job, pod = self._jobs[submitted.key], submitted.pods[uid]
        try:
            await wait_for("start", self._start, pod, effect.node)
            if submitted.place(uid, effect.node):
                job._start()
        except Exception as error:
            submitted.start_error = error
            if self._on_start_error is not None:
                self._on_start_error(pod, effect.node, error)
            raise
        finally:
            del submitted.starting[uid]
            self._settle(job)

    @staticmethod
    def _settle(job: AsyncJob) -> None:
        rejection = job._submitted.rejection
        if rejection is not None:
            job._reject(rejection)

    async def _end(self, effect: Evict) -> None:
        uid = effect.uid
        submitted = self._submitted.job_of(uid)
        if submitted is not None and self._evict is not None:
            await wait_for("evict", self._evict, submitted.pods[uid], effect.node)
        # if the job was withdrawn meanwhile, its pods are deleted already
        if submitted is not None and self._submitted.job_of(uid) is submitted:
            submitted.places.pop(uid, None)
            self.driver.tell(PodDeleted(uid), PodAdded(submitted.pods[uid]))
