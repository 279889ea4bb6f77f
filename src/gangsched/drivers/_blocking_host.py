"""The host on threads; see ``gangsched.drivers.host``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, final

from gangsched import presets
from gangsched.drivers import blocking
from gangsched.drivers._clock import epoch_seconds
from gangsched.drivers._contract import call_plain, check_plain
from gangsched.drivers._hosting import HostShell, JobShell
from gangsched.drivers._submitted import JobState
from gangsched.events import Bind, Evict
from gangsched.explain import Why
from gangsched.model import NodeName, Pod
from gangsched.protocols import ClusterState
from gangsched.scheduler import Scheduler
from gangsched.values.seconds import format_duration

__all__ = ["Host", "Job"]


@final
class Job(JobShell[threading.Event]):
    """A job that was submitted to a ``Host``. Its methods are thread-safe."""

    def wait(self, timeout: float | None = None) -> Mapping[str, NodeName]:
        """Block until the job has started; return the node of each pod, by name.

        A job that has started and was finished since returns its nodes, too.

        Raises:
            GangRejectedError: The job was withdrawn, or the host ended, before it started. An error
                that ended the host is the cause.
            TimeoutError: It did not start within *timeout* seconds. The exception of the last
                *start* that failed is the cause.
        """
        if not self._submitted.decided.wait(timeout):
            assert timeout is not None
            said = f"job {self.key} has not started within {format_duration(timeout)} s"
            error = self.start_error
            if error is not None:
                said = f"{said}; its last start failed: {str(error) or repr(error)}"
            raise TimeoutError(said) from error
        return self._submitted.outcome()


@final
class Host(HostShell[Job, blocking.Driver]):
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
        snapshot: What ``snapshot`` of another host returned, to go on with its jobs; its functions
            and its *make* have to be given again. The clock must not be behind that of the other.

    Raises:
        InvalidValueError: *max_starts* is not an int >= 1, or a function is a coroutine function.
            That *start* or *evict* returns an awaitable ends the host. Or *snapshot* is malformed,
            or of a scheduler that was made otherwise.
    """

    _job = Job

    def __init__(
        self,
        *,
        start: Callable[[Pod, NodeName], object],
        evict: Callable[[Pod, NodeName], object] | None = None,
        on_start_error: Callable[[Pod, NodeName, Exception], object] | None = None,
        make: Callable[[ClusterState], Scheduler] = presets.gang,
        max_starts: int = 64,
        clock: Callable[[], float] = epoch_seconds,
        snapshot: Mapping[str, Any] | None = None,
    ) -> None:
        check_plain(start=start, evict=evict, on_start_error=on_start_error)
        self._start_pod = start
        self._evict_pod = evict
        self._changed = threading.Condition()
        super().__init__(
            blocking.Driver,
            event=threading.Event,
            lock=self._changed,
            can_evict=evict is not None,
            on_start_error=on_start_error,
            make=make,
            max_starts=max_starts,
            clock=clock,
            snapshot=snapshot,
        )
        self._thread = threading.Thread(target=self._run, name="gangsched", daemon=True)

    def start(self) -> None:
        """Run the scheduler, in a thread; ``with`` calls this, and ``stop`` at its end.

        Raises:
            HostClosedError: The host was started before, is being closed, or has ended.
        """
        self._open()
        self._thread.start()

    def __enter__(self) -> Host:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def finish(self, job: Job) -> Mapping[str, NodeName]:
        """Report that a job has ended: its pods are gone, and their nodes are free.

        Blocks while a *start* of one of its pods is under way. The pods that were started
        meanwhile are returned, with their nodes: the caller has to end them. Most jobs have none.
        A call from within *start* does not wait for that one.

        Raises:
            HostClosedError: An error has ended the host; it is the cause.
        """
        return self._remove(job, JobState.FINISHED)

    def cancel(self, job: Job) -> Mapping[str, NodeName]:
        """Withdraw a job; return the pods that were started, which the caller has to end.

        Blocks while a *start* of one of its pods is under way, and returns that pod too. No other
        *start* of the job begins. A call from within *start* does not wait for that one.

        Raises:
            HostClosedError: An error has ended the host; it is the cause.
        """
        return self._remove(job, JobState.CANCELLED)

    def why(self, job: Job) -> Why:
        """Return why a job has not started, or that it has. Blocks while the scheduler works.

        The reason is as of now, or says as of when it is; see ``Scheduler.why``. What was handed in
        before is in the answer, but for a call from within *start* with *max_starts* = 1.

        Raises:
            UnknownPodError: The job has been finished or cancelled.
            HostClosedError: The host has not been started, or an error, the cause, has ended it.
        """
        self._known(job).known.wait()
        self._known(job)
        answer = self.driver.ask(lambda scheduler: scheduler.why(job.key))
        self._known(job)  # else it may tell of a job of which some pods are deleted
        return answer

    def stop(self) -> None:
        """Stop after all that was handed in; end the waits for jobs that have not started.

        Returns once the starts that are under way have ended. It may be called again, and does
        nothing more then. The host cannot be started again.

        Raises:
            Exception: What ended the driver, such as an error of a plugin. Only the first call
                raises it.
        """
        self._close()
        if self._thread.ident is not None:
            self._thread.join()
        self._closed()

    def close(self) -> None:
        """Stop; the same as ``stop``."""
        self.stop()

    def _run(self) -> None:
        try:
            self.driver.run()
        except BaseException as error:
            self._ended(error)
        else:
            self._ended(None)

    def _remove(self, job: Job, end: JobState) -> Mapping[str, NodeName]:
        submitted = self._withdraw(job, end)
        if submitted is None:
            return {}
        here = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: all(by == here for by in submitted.starting.values()))
            return submitted.to_end()

    def _bind(self, effect: Bind) -> None:
        with self._starting(effect, threading.get_ident()) as pod:
            call_plain("start", self._start_pod, pod, effect.node)

    def _end(self, effect: Evict) -> None:
        with self._ending(effect) as pod:
            if pod is not None and self._evict_pod is not None:
                call_plain("evict", self._evict_pod, pod, effect.node)

    def _start_has_ended(self) -> None:
        self._changed.notify_all()
