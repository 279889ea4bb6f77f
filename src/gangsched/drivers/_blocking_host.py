"""The host on threads; see ``gangsched.drivers.host``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType, TracebackType
from typing import final

from gangsched import presets
from gangsched._seconds import format_duration
from gangsched.drivers import blocking
from gangsched.drivers._clock import epoch_seconds
from gangsched.drivers._contract import call_plain, check_plain
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

__all__ = ["Host", "Job"]


@final
class Job:
    """A job that was submitted to a ``Host``. Its methods are thread-safe."""

    def __init__(self, submitted: Submitted) -> None:
        self._submitted = submitted
        self._known = threading.Event()  # the scheduler has been told of all its pods
        self._decided = threading.Event()
        self._rejected: str | None = None
        self._cause: BaseException | None = None
        self._places: Mapping[str, NodeName] = {}

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

    def wait(self, timeout: float | None = None) -> Mapping[str, NodeName]:
        """Block until the job has started; return the node of each pod, by name.

        A job that has started and was finished since returns its nodes, too.

        Raises:
            GangRejectedError: The job was withdrawn, or the host ended, before it started. An error
                that ended the host is the cause.
            TimeoutError: It did not start within *timeout* seconds. The exception of the last
                *start* that failed is the cause.
        """
        if not self._decided.wait(timeout):
            assert timeout is not None
            said = f"job {self.key} has not started within {format_duration(timeout)} s"
            error = self.start_error
            if error is not None:
                said = f"{said}; its last start failed: {str(error) or repr(error)}"
            raise TimeoutError(said) from error
        if self._rejected is not None:
            raise GangRejectedError(self.key, self._rejected) from self._cause
        return self._places

    def _take_in(self) -> None:
        self._known.set()

    def _start(self) -> None:
        self._places = MappingProxyType(self._submitted.named_places())
        self._decided.set()

    def _reject(self, reason: str, cause: BaseException | None = None) -> None:
        if not self._decided.is_set():
            self._rejected, self._cause = reason, cause
            self._decided.set()

    def __repr__(self) -> str:
        return f"<Job {self.key} {self.state.value}>"


@final
class Host:
    """Starts gangs whole on nodes, in a program with threads.

    Args:
        start: Starts a pod on a node; it returns when the pod has started, and raises if that
            failed: the pod is then tried again. It is called in the threads of a pool.
        evict: Ends a pod that the scheduler evicts, to preempt it or to restart its job. When it
            returns, the pod counts as gone, and is queued again unless its job was withdrawn. None
            if no policy evicts.
        on_start_error: Called with the pod, the node and the exception after *start* has raised, in
            the same thread. If it raises, its exception is logged in place of that one; nothing
            else changes.
        make: Makes the scheduler, such as ``presets.gang``.
        max_starts: How many calls of *start* may be under way at once.
        clock: Seconds that never go back.

    Raises:
        InvalidValueError: *max_starts* is not an int >= 1, or a function is a coroutine function.
            That *start* or *evict* returns an awaitable ends the host.
    """

    def __init__(
        self,
        *,
        start: Callable[[Pod, NodeName], object],
        evict: Callable[[Pod, NodeName], object] | None = None,
        on_start_error: Callable[[Pod, NodeName, Exception], object] | None = None,
        make: Callable[[ClusterState], Scheduler] = presets.gang,
        max_starts: int = 64,
        clock: Callable[[], float] = epoch_seconds,
    ) -> None:
        check_plain(start=start, evict=evict, on_start_error=on_start_error)
        self._start = start
        self._evict = evict
        self._on_start_error = on_start_error
        self._clock = clock
        self._lock = threading.Lock()
        self._start_ended = threading.Condition(self._lock)
        self._submitted = SubmittedJobs()
        self._jobs: dict[str, Job] = {}
        cluster = InMemoryCluster()
        self.driver: blocking.Driver = blocking.Driver(
            make(cluster),
            apply=cluster.apply,
            bind=self._bind,
            evict=None if evict is None else self._end,
            observers=(Watch(self._taken_in, self._lost, self._restarted),),
            max_binds=max_starts,
            clock=clock,
        )
        self._thread = threading.Thread(target=self._run, name="gangsched", daemon=True)
        self._is_closing = False
        self._has_ended = False
        self._failure: BaseException | None = None
        self._close_raises = True

    def __enter__(self) -> Host:
        self._check_submits("__enter__")
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def tell(self, *events: Event) -> None:
        """Hand events in, in order: nodes that come and go, pods that have failed.

        If a pod of a job with a restart policy is lost, the rest of the job is evicted, and all its
        pods start again. A pod is lost if it has failed, or if it or its node is deleted.

        Raises:
            InvalidValueError: One is not an event; none was handed in.
            HostClosedError: The host has ended.
        """
        if self._has_ended:
            self._check_submits("tell")
        with self._lock:
            told = tuple(self._submitted.told(events))
        self.driver.tell(*told)

    def submit(self, job: Gang | Pod) -> Job:
        """Submit a job: a gang, or a single pod. It is queued from now on.

        Raises:
            InvalidValueError: It is neither; its key or the UID of a pod is in use; or it has a
                restart policy, and the host has no *evict*.
            HostClosedError: The host is being closed, or has ended.
        """
        with self._lock:
            self._check_submits("submit")
            can_evict = self._evict is not None
            submitted = self._submitted.add(job, now=self._clock(), can_evict=can_evict)
            made = self._jobs[submitted.key] = Job(submitted)
        self.driver.tell(*submitted.events())
        return made

    def finish(self, job: Job) -> Mapping[str, NodeName]:
        """Report that a job has ended: its pods are gone, and their nodes are free.

        Blocks while a *start* of one of its pods is under way. The pods that were started
        meanwhile are returned, with their nodes: the caller has to end them. Most jobs have none.
        A call from within *start* does not wait for that one.

        Raises:
            HostClosedError: An error has ended the host; it is the cause.
        """
        _before, after = self._remove(job, JobState.FINISHED)
        return after

    def cancel(self, job: Job) -> Mapping[str, NodeName]:
        """Withdraw a job; return the pods that were started, which the caller has to end.

        Blocks while a *start* of one of its pods is under way, and returns that pod too. No other
        *start* of the job begins. A call from within *start* does not wait for that one.

        Raises:
            HostClosedError: An error has ended the host; it is the cause.
        """
        before, after = self._remove(job, JobState.CANCELLED)
        return {**before, **after}

    def why(self, job: Job) -> Why:
        """Return why a job has not started, or that it has. Blocks while the scheduler works.

        The reason is as of now, or says as of when it is; see ``Scheduler.why``. What was handed in
        before is in the answer, but for a call from within *start* with *max_starts* = 1.

        Raises:
            UnknownPodError: The job has been finished or cancelled.
            HostClosedError: An error has ended the host; it is the cause.
        """
        self._check_known(job)
        job._known.wait()
        self._check_known(job)
        answer = self.driver.ask(lambda scheduler: scheduler.why(job.key))
        self._check_known(job)  # else it may tell of a job of which some pods are deleted
        return answer

    def close(self) -> None:
        """Stop after all that was handed in; end the waits for jobs that have not started.

        Raises:
            Exception: What ended the driver, such as an error of a plugin. Only the first call
                raises it.
        """
        with self._lock:
            self._is_closing = True
        self.driver.stop()
        if self._thread.ident is not None:
            self._thread.join()
        self._ended(None)
        raises, self._close_raises = self._close_raises, False
        if raises and self._failure is not None:
            raise self._failure

    def _taken_in(self, uid: PodUID) -> None:
        with self._lock:
            key = self._submitted.key_of_last(uid)
            job = None if key is None else self._jobs.get(key)
        if job is not None:
            job._take_in()

    def _lost(self, uid: PodUID) -> None:
        with self._lock:
            submitted = self._submitted.job_of(uid)
            if submitted is not None:
                submitted.lose(uid)

    def _restarted(self, key: GroupKey) -> None:
        with self._lock:
            submitted = self._submitted.job(key)
            events = [] if submitted is None else submitted.requeue_lost()
        self.driver.tell(*events)

    def _run(self) -> None:
        try:
            self.driver.run()
        except BaseException as error:
            self._ended(error)
        else:
            self._ended(None)

    def _ended(self, failure: BaseException | None) -> None:
        """Take no more calls, and end the waits for jobs that have not started."""
        with self._lock:
            if not self._has_ended:
                self._has_ended, self._failure = True, failure
            jobs = list(self._jobs.values())
            waiting = [job for job in jobs if not job.has_started]
            for job in waiting:
                job._submitted.end = JobState.CANCELLED
        reason = CLOSED if self._failure is None else failed(self._failure)
        for job in waiting:
            job._reject(reason, self._failure)
        for job in jobs:
            job._take_in()

    def _check_failure(self, call: str) -> None:
        if self._failure is not None:
            raise HostClosedError(call, failed(self._failure)) from self._failure

    def _check_submits(self, call: str) -> None:
        self._check_failure(call)
        if self._is_closing or self._has_ended:
            raise HostClosedError(call, "the host is being closed or has ended")

    def _check_known(self, job: Job) -> None:
        if not isinstance(job, Job):
            raise InvalidValueError("job", job, "a Job of this host")
        self._check_failure("why")
        if self._jobs.get(job.key) is not job:
            raise UnknownPodError(job.key)

    def _remove(self, job: Job, end: JobState) -> tuple[dict[str, NodeName], dict[str, NodeName]]:
        """Remove a job; return the pods that were started before and since."""
        if not isinstance(job, Job):
            raise InvalidValueError("job", job, "a Job of this host")
        self._check_failure("finish" if end is JobState.FINISHED else "cancel")
        submitted = job._submitted
        with self._lock:
            # a job of the same name that was submitted later is another one
            if self._jobs.get(job.key) is not job:
                return {}, {}
            self._submitted.remove(job.key)
            del self._jobs[job.key]
            before = submitted.named_places()
            submitted.end = end
            rejection = submitted.rejection
        if rejection is not None:
            job._reject(rejection)
        job._take_in()
        self.driver.tell(*submitted.withdrawal())
        with self._lock:
            here = threading.get_ident()
            self._start_ended.wait_for(
                lambda: all(thread == here for thread in submitted.starting.values())
            )
            places = submitted.named_places()
        return before, {name: node for name, node in places.items() if name not in before}

    def _bind(self, effect: Bind) -> None:
        uid = effect.uid
        with self._lock:
            submitted = self._submitted.job_of(uid)
            if submitted is None:
                raise LookupError(f"pod {uid} was withdrawn")
            submitted.starting[uid] = threading.get_ident()
            job = self._jobs[submitted.key]
        has_started = False
        try:
            self._start_pod(submitted, uid, effect.node)
            with self._lock:
                has_started = submitted.place(uid, effect.node)
        finally:
            with self._lock:
                del submitted.starting[uid]
                self._start_ended.notify_all()
                rejection = submitted.rejection
            if rejection is not None:
                job._reject(rejection)
        if has_started:
            job._start()

    def _start_pod(self, submitted: Submitted, uid: PodUID, node: NodeName) -> None:
        pod = submitted.pods[uid]
        try:
            call_plain("start", self._start, pod, node)
        except Exception as error:
            submitted.start_error = error
            if self._on_start_error is not None:
                self._on_start_error(pod, node, error)
            raise

    def _end(self, effect: Evict) -> None:
        uid = effect.uid
        with self._lock:
            submitted = self._submitted.job_of(uid)
        if submitted is not None and self._evict is not None:
            call_plain("evict", self._evict, submitted.pods[uid], effect.node)
        with self._lock:
            # if the job was withdrawn meanwhile, its pods are deleted already
            if submitted is None or self._submitted.job_of(uid) is not submitted:
                return
            submitted.places.pop(uid, None)
        self.driver.tell(PodDeleted(uid), PodAdded(submitted.pods[uid]))
