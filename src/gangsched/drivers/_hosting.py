"""What both hosts share: the jobs, what becomes of their pods, and which calls are refused.

Rules:
  R1  this module never waits. The shells call the host's functions, and wait for a job, for the
      starts that are under way, and for the end of the driver;
  R2  the lock guards the jobs. The driver is told of events only when it is not held;
  R3  a call is refused by ``_check``, with the reason. What waits ends when the host does.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Generic, TypeVar, final

from gangsched.drivers._contract import E, Flag
from gangsched.drivers._host_snapshot import job_of, read_host, write_host
from gangsched.drivers._loop import DriverShell, waiting_events
from gangsched.drivers._submitted import JobState, Submitted, SubmittedJobs
from gangsched.errors import HostClosedError, InvalidValueError, UnknownPodError
from gangsched.events import (
    Bind,
    Effect,
    Event,
    Evict,
    GroupRestarted,
    PodAdded,
    PodDeleted,
    PodUpdated,
)
from gangsched.gangs import Gang
from gangsched.memory import InMemoryCluster
from gangsched.model import NodeName, Pod, PodPhase
from gangsched.protocols import ClusterState
from gangsched.scheduler import Scheduler

__all__ = ["HostShell", "JobShell"]

J = TypeVar("J", bound="JobShell[Any]")
D = TypeVar("D", bound=DriverShell)

_NOT_STARTED: Final = "the host has not been started; call start(), or enter it by with"
_STARTED: Final = "the host was started already"
_CLOSED: Final = "the host is being closed or has ended; make another one"


class JobShell(Generic[E]):
    """A job that was submitted to a host, without its wait."""

    def __init__(self, submitted: Submitted[E]) -> None:
        self._submitted = submitted

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
        if self._submitted.end is not None:
            return self._submitted.end
        return JobState.STARTED if self.has_started else JobState.PENDING

    @property
    def has_started(self) -> bool:
        """Whether as many pods as must start together have been started, also if it ended since."""
        return self._submitted.has_started

    @property
    def start_error(self) -> Exception | None:
        """The exception of the last *start* of its pods that failed; None if none has failed."""
        return self._submitted.start_error

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key} {self.state.value}>"


class HostShell(Generic[J, D]):
    """A host without its waits."""

    driver: D
    _job: type[J]
    _bind: Callable[[Bind], Any]
    _end: Callable[[Evict], Any]

    def __init__(
        self,
        driver: Callable[..., D],
        *,
        event: Callable[[], Flag],
        lock: AbstractContextManager[object],
        can_evict: bool,
        on_start_error: Callable[[Pod, NodeName, Exception], object] | None,
        make: Callable[[ClusterState], Scheduler],
        max_starts: int,
        clock: Callable[[], float],
        snapshot: Mapping[str, Any] | None,
    ) -> None:
        self._event = event
        self._lock = lock
        self._can_evict = can_evict
        self._on_start_error = on_start_error
        self._clock = clock
        self._jobs: SubmittedJobs[Any] = SubmittedJobs()
        self._leaving: list[Submitted[Any]] = []
        self._cluster = InMemoryCluster()
        kept = None if snapshot is None else read_host(snapshot)
        for change in () if kept is None else kept.cluster:
            self._cluster.apply(change)
        scheduler = make(self._cluster)
        if kept is not None:
            scheduler.restore(kept.scheduler)
        self.driver = driver(
            scheduler,
            apply=self._cluster.apply,
            bind=self._bind,
            evict=self._end if can_evict else None,
            observers=(_Watch(self),),
            max_binds=max_starts,
            clock=clock,
        )
        self._is_started = False
        self._is_closing = False
        self._has_ended = False
        self._failure: BaseException | None = None
        self._raises_failure = True
        if kept is not None:
            for row in kept.jobs:
                self._jobs.put(job_of(row, self._cluster, event), can_evict=can_evict)
            self.driver.rebuild()

    def tell(self, *events: Event) -> None:
        """Hand events in, in order: nodes that come and go, pods that have failed.

        If a pod of a job with a restart policy is lost, the rest of the job is evicted, and all its
        pods start again; of a copy with a policy of its own, those of the copy. A pod is lost if it
        has failed, or if it or its node is deleted.

        Raises:
            InvalidValueError: One is not an event; none was handed in.
            HostClosedError: The host has ended.
        """
        if self._has_ended:
            self._check("tell")
        with self._lock:
            told = tuple(self._jobs.told(events))
        self.driver.tell(*told)

    def submit(self, job: Gang | Pod) -> J:
        """Submit a job: a gang, or a single pod. It is queued from now on.

        Raises:
            InvalidValueError: It is neither; its key or the UID of a pod is in use; or it has a
                restart policy, and the host has no *evict*.
            HostClosedError: The host has not been started, is being closed, or has ended.
        """
        with self._lock:
            self._check("submit")
            self._check_started("submit")
            submitted = self._jobs.add(
                job, now=self._clock(), can_evict=self._can_evict, event=self._event
            )
        self.driver.tell(*submitted.events())
        return self._job(submitted)

    def jobs(self) -> dict[str, J]:
        """Return the jobs that were not finished or cancelled, by key, in the order they came."""
        with self._lock:
            return {job.key: self._job(job) for job in self._jobs}

    def snapshot(self) -> dict[str, Any]:
        """Return the state of the host, as plain data for JSON: another host goes on with it.

        Take it after ``stop``, or while the host runs: it has all that was handed in before. A
        *start* that is under way is called again by the next host, and so is an *evict*.

        Runtime complexity: O(nodes + pods + groups).

        Raises:
            HostClosedError: An error has ended the host; it is the cause.
        """
        self._check_failure("snapshot")
        return self.driver.ask(self._written)

    # Jobs -------------------------------------------------------------------------------------

    def _written(self, scheduler: Scheduler) -> dict[str, Any]:
        with self._lock:  # first: what is handed in meanwhile is by jobs as they are now
            waiting = waiting_events(self.driver)
            return write_host(scheduler, self._cluster, waiting, self._jobs, self._leaving)

    def _withdraw(self, job: object, end: JobState) -> Submitted[Any] | None:
        """Remove a job; None if it was removed before. Its starts are waited for by the shell."""
        submitted = self._submitted(job)
        self._check_failure("finish" if end is JobState.FINISHED else "cancel")
        with self._lock:
            # a job of the same name that was submitted later is another one
            if self._jobs.job(submitted.key) is not submitted:
                return None
            self._jobs.remove(submitted)
            self._leaving.append(submitted)
            submitted.withdraw(end)
        self.driver.tell(*submitted.withdrawal())
        with self._lock:
            self._leaving.remove(submitted)
        return submitted

    def _known(self, job: object) -> Submitted[Any]:
        """Return a job about which ``why`` may be asked."""
        submitted = self._submitted(job)
        self._check_failure("why")
        self._check_started("why")
        if self._jobs.job(submitted.key) is not submitted:
            raise UnknownPodError(submitted.key)
        return submitted

    def _submitted(self, job: object) -> Submitted[Any]:
        if not isinstance(job, self._job):
            raise InvalidValueError("job", job, f"any {self._job.__name__} of this host")
        return job._submitted

    # Pods -------------------------------------------------------------------------------------

    @contextmanager
    def _starting(self, bind: Bind, by: object) -> Generator[Pod]:
        """Yield the pod that is to be started; it has been when that returns.

        Args:
            bind: The bind.
            by: The thread or task that starts it.
        """
        uid = bind.uid
        with self._lock:
            submitted = self._jobs.job_of(uid)
            if submitted is None:
                raise LookupError(f"pod {uid} was withdrawn")
            submitted.starting[uid] = by
        pod = submitted.pods[uid]
        try:
            yield pod
            with self._lock:
                submitted.place(uid, bind.node)
        except Exception as error:
            submitted.start_error = error
            if self._on_start_error is not None:
                self._on_start_error(pod, bind.node, error)
            raise
        finally:
            with self._lock:
                submitted.start_has_ended(uid)
                self._start_has_ended()

    @contextmanager
    def _ending(self, evict: Evict) -> Generator[Pod | None]:
        """Yield the pod that is to be ended; None if there is none. It is queued again after."""
        uid = evict.uid
        with self._lock:
            submitted = self._jobs.job_of(uid)
        yield None if submitted is None else submitted.pods[uid]
        with self._lock:
            # if the job was withdrawn meanwhile, its pods are deleted already
            if submitted is None or self._jobs.job_of(uid) is not submitted:
                return
            submitted.places.pop(uid, None)
        self.driver.tell(PodDeleted(uid), PodAdded(submitted.pods[uid]))

    def _start_has_ended(self) -> None:
        """Wake what waits for a start. Called under the lock."""

    # Start and stop ---------------------------------------------------------------------------

    def _open(self) -> None:
        """Begin: what follows runs the driver."""
        with self._lock:
            self._check("start")
            if self._is_started:
                raise HostClosedError("start", _STARTED)
            self._is_started = True

    def _close(self) -> None:
        with self._lock:
            self._is_closing = True
        self.driver.stop()

    def _closed(self) -> None:
        """Raise what ended the driver, once."""
        self._ended(None)
        raises, self._raises_failure = self._raises_failure, False
        if raises and self._failure is not None:
            raise self._failure

    def _ended(self, failure: BaseException | None) -> None:
        """Take no more calls, and end the waits for jobs that have not started."""
        with self._lock:
            if not self._has_ended:
                self._has_ended, self._failure = True, failure
            for job in self._jobs:
                job.host_ended(_ended_with(self._failure), self._failure)

    def _check(self, call: str) -> None:
        self._check_failure(call)
        if self._is_closing or self._has_ended:
            raise HostClosedError(call, _CLOSED)

    def _check_started(self, call: str) -> None:
        if not self._is_started and not self._has_ended:
            raise HostClosedError(call, _NOT_STARTED)

    def _check_failure(self, call: str) -> None:
        if self._failure is not None:
            raise HostClosedError(call, _ended_with(self._failure)) from self._failure


@final
class _Watch:
    """Observes which pods the scheduler has been told of, and which jobs it restarts."""

    def __init__(self, host: HostShell[Any, Any]) -> None:
        self._host = host

    def event(self, event: Event, now: float) -> None:
        """Note a pod that was added, or that has failed."""
        if not isinstance(event, PodAdded | PodUpdated):
            return
        with self._host._lock:
            job = self._host._jobs.job_of(event.pod.uid)
            if job is None:
                return
            if isinstance(event, PodAdded):
                job.take_in(event.pod.uid)
            elif event.pod.phase is PodPhase.FAILED:
                job.lose(event.pod.uid)

    def effects(self, effects: tuple[Effect, ...], now: float) -> None:
        """Queue the lost pods of jobs that are restarted."""
        for effect in effects:
            if isinstance(effect, GroupRestarted):
                with self._host._lock:
                    job = self._host._jobs.job(effect.group)
                    events = [] if job is None else job.requeue_lost(effect.path)
                self._host.driver.tell(*events)

    def settled(self, now: float) -> None:
        """Do nothing."""


def _ended_with(failure: BaseException | None) -> str:
    """Return why a job that has not started never will, or why a call is refused."""
    if failure is None:
        return "the host was closed before the job started"
    return f"the scheduler ended with an error: {str(failure) or repr(failure)}"
