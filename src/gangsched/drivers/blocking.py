"""The driver for hosts with threads: a loop around a scheduler.

Rules:
  R1  one thread owns the scheduler and the cluster state: the thread in ``run``;
  R2  ``tell``, ``stop`` and ``rebuild`` may be called from any thread and never wait. ``ask`` may
      be called from any thread, and waits for its turn: a question is asked after the events that
      were handed in before it. Otherwise an answer could be older than what its caller did last;
  R3  binds and evictions run in the threads of a pool, at most *max_binds* at once, while the
      driver goes on deciding. With one at a time, the thread in ``run`` performs them itself and
      decides nothing meanwhile, as the simulator does.

One lock guards the inbox, the outcomes and the questions. It is never held while a function of the
host runs, but for a question that is asked while ``run`` is not running.

The loop itself is in ``gangsched.drivers._loop``, and what it does between two waits in
``gangsched.drivers._engine``. The same driver on asyncio is ``gangsched.drivers.aio``.
"""

from __future__ import annotations

import concurrent.futures
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar, final

from gangsched.drivers._blocking_gate import PermitGate
from gangsched.drivers._clock import epoch_seconds
from gangsched.drivers._contract import (
    DrivenScheduler,
    ErrorHandler,
    answer_question,
    ask_scheduler,
    call_plain,
    check_plain,
)
from gangsched.drivers._engine import Engine, Operation
from gangsched.drivers._inbox import Marker
from gangsched.drivers._loop import DriverShell, Step
from gangsched.events import Bind, Effect, Event, Evict
from gangsched.protocols import Observer
from gangsched.scheduler import Scheduler
from gangsched.values.seconds import format_duration

__all__ = ["Driver", "PermitGate"]

T = TypeVar("T")


@final
class _Question(NamedTuple):
    """A question of another thread, and how many items leave the inbox before it is asked."""

    after: int
    answer: concurrent.futures.Future[Any]
    question: Callable[..., Any]


@final
class Driver(DriverShell):
    """Runs a scheduler: events in through ``tell``, binds out through *bind*.

    Args:
        scheduler: The scheduler, or a wrapper that records or measures its calls. Only the driver
            may call it.
        apply: Makes an event true in the cluster state, such as ``InMemoryCluster.apply``.
        bind: Performs a bind and returns when it is done, or raises if it fails. The pod of a bind
            that failed is tried again after its backoff. With *max_binds* > 1 it is called from
            several threads at once. None: a single bind is passed to *bind_gang*, too.
        bind_gang: Performs all binds of one ``Release`` in one call, and those of one group that a
            restored scheduler repeats. If it raises, all of them have failed with that reason.
            Other binds are passed to *bind*. None: each bind is passed to *bind*, and has an
            outcome of its own.
        evict: Asks for the deletion of a pod. Report ``PodDeleted`` when the pod is gone.
            If it raises, it is called again after 1 s, 2 s, 4 s, … at most 60 s. With it, the
            driver calls ``Scheduler.allow_evictions``: a gang that stays partly bound is evicted.
            None if no policy evicts: an eviction then ends ``run`` with ``InvalidValueError``.
        observe: Called with every effect, in order. All effects of one call are observed before
            the first of them is performed.
        observers: Called with events, results of calls, and when there is nothing to do.
        on_error: Called with an event that was refused, or an eviction that failed, and the
            exception. Both are logged, and the driver goes on.
        max_binds: How many binds and evictions may be under way at once, each in a thread of a
            pool. With 1, the thread in ``run`` performs them, one after the other.
        clock: Seconds that never go back. Its origin must be that of ``created_at`` of pods and
            groups, since the queue compares the two; by default, 1970.

    Raises:
        InvalidValueError: *max_binds* is not an int >= 1, a function cannot be called or is a
            coroutine function, or neither *bind* nor *bind_gang* is given.
    """

    def __init__(
        self,
        scheduler: DrivenScheduler,
        *,
        apply: Callable[[Event], object],
        bind: Callable[[Bind], object] | None = None,
        bind_gang: Callable[[tuple[Bind, ...]], object] | None = None,
        evict: Callable[[Evict], object] | None = None,
        observe: Callable[[Effect], object] | None = None,
        observers: Sequence[Observer] = (),
        on_error: ErrorHandler | None = None,
        max_binds: int = 64,
        clock: Callable[[], float] = epoch_seconds,
    ) -> None:
        check_plain(apply=apply, bind=bind, bind_gang=bind_gang, evict=evict)
        check_plain(observe=observe, on_error=on_error)
        self._changed = threading.Condition()
        engine = Engine(
            scheduler=scheduler,
            apply=apply,
            bind=bind,
            bind_gang=bind_gang,
            evict=evict,
            observe=observe,
            observers=observers,
            on_error=on_error,
            max_binds=max_binds,
            clock=clock,
        )
        super().__init__(engine, self._changed)
        self._questions: deque[_Question] = deque()
        self._pool: concurrent.futures.ThreadPoolExecutor | None = None

    # For the host ---------------------------------------------------------------------------

    def ready(self, *, timeout: float | None = None) -> None:
        """Return as soon as fewer than 4,096 events wait. Thread-safe.

        A thread that passes on a watch calls this before each ``tell``. The thread in ``run`` does
        not wait here, since it takes the events in.

        Raises:
            TimeoutError: That took longer than *timeout* seconds.
        """
        with self._changed:
            if self._thread != threading.get_ident() and not self._changed.wait_for(
                lambda: not self._inbox.is_full, timeout
            ):
                assert timeout is not None  # without a timeout, wait_for does not give up
                waited = format_duration(timeout)
                raise TimeoutError(f"{len(self._inbox)} events wait after {waited} s")

    def ask(self, question: Callable[[Scheduler], T], *, timeout: float | None = None) -> T:
        """Return what a question about the scheduler returns, from any thread.

        The thread in ``run`` asks it between two calls of the scheduler, once it has taken in the
        events that were handed in before, and this call blocks meanwhile. From within a function of
        the host in that thread, or while ``run`` is not running, it is asked at once, and events
        that wait are not in the answer::

            driver.ask(lambda scheduler: scheduler.why("default/train"))

        Args:
            question: Reads the scheduler, by ``why``, ``what_if`` or ``snapshot``; it must not
                change it. Nothing is decided meanwhile, so give ``why``, ``what_if`` and
                ``smallest_change`` a small budget: 10,000 steps are about 0.1 s.
            timeout: How many seconds to block at most; None for no limit.

        Raises:
            TimeoutError: There was no answer in time.
        """
        if self._thread == threading.get_ident():
            return ask_scheduler(self._engine.scheduler, question)
        answer: concurrent.futures.Future[T] = concurrent.futures.Future()
        with self._changed:
            if self._thread is None:
                return ask_scheduler(self._engine.scheduler, question)
            self._questions.append(_Question(self._inbox.handed_in, answer, question))
            self._changed.notify_all()
        try:
            return answer.result(timeout)
        finally:
            answer.cancel()

    # The loop -------------------------------------------------------------------------------

    def run(self) -> None:
        """Run until ``stop``.

        After an exception it may be called again, and continues: it reads the cluster state anew,
        and performs and reports what is left.

        Raises:
            GangschedError: The scheduler raised; see ``Scheduler``.
            Exception: An observer, or *on_error*, raised. All effects of the call were performed.
            InvalidValueError: The scheduler evicts, and *evict* is None; or *bind* or *evict*
                returned an awaitable.
            RuntimeError: The driver is running already.
        """
        with self._changed:
            if self._thread is not None:
                raise RuntimeError("the driver is running already")
            self._thread = threading.get_ident()
        try:
            self._begin()
            for step in self._steps():
                match step:
                    case Step.PERFORM:
                        self._perform()
                    case Step.AWAIT_OUTCOME:
                        self._sleep_until_an_outcome()
                    case Step.SLEEP | Step.SLEEP_TO_STOP:
                        self._sleep(stopping=step is Step.SLEEP_TO_STOP)
            self._is_broken = False
        finally:
            self._leave()

    def _take(self) -> Event | Marker | None:
        with self._changed:
            was_full = self._inbox.is_full
            item = self._inbox.take()
            if was_full:
                self._changed.notify_all()
            return item

    def _perform(self) -> None:
        """Start operations, take in outcomes and answer questions, as far as there are any."""
        engine = self._engine
        while True:
            self._start()
            while self._outcomes:
                engine.finish(*self._outcomes.popleft())
            if self._questions:
                engine.tell()  # an answer knows what was taken in
            self._answer()
            self._raise_fatal()
            if not engine.can_start:
                return

    def _start(self) -> None:
        while (operation := self._engine.start()) is not None:
            if self._engine.max_binds == 1:
                self._perform_one(operation)
                return
            if self._pool is None:
                self._pool = concurrent.futures.ThreadPoolExecutor(
                    self._engine.max_binds, thread_name_prefix="gangsched-bind"
                )
            try:
                self._pool.submit(self._perform_one, operation)
            except RuntimeError as error:  # no more threads, or the interpreter is ending
                self._ended(operation, error)

    def _perform_one(self, operation: Operation) -> None:
        if operation not in self._engine.under_way:
            return  # reported as failed, since the pool could not start a thread
        with self._outcome_of(operation) as call:
            name, function, argument = call
            call_plain(name, function, argument)

    def _ended(self, operation: Operation, error: BaseException | None) -> None:
        with self._changed:
            self._outcomes.append((operation, error))
            self._wake()

    def _wake(self) -> None:
        self._changed.notify_all()

    def _answer(self, *, at_the_end: bool = False) -> None:
        """Answer the questions whose turn it is; all of them if no more items are taken now."""
        inbox = self._inbox
        while self._questions and (
            at_the_end
            or self._questions[0].after <= inbox.taken
            or inbox.stop_is_next
            or self._engine.failure is not None
        ):
            _after, answer, question = self._questions.popleft()
            answer_question(answer, self._engine.scheduler, question)

    def _leave(self) -> None:
        """Give the scheduler up. What is under way is reported by the next ``run``."""
        if self._pool is not None:
            self._pool.shutdown(wait=not self._engine.under_way)
            self._pool = None
        with self._changed:
            self._thread = None
            self._stops_at_once = False
            self._answer(at_the_end=True)

    def _sleep(self, *, stopping: bool) -> None:
        """Wait for an outcome, a question, an item of the inbox, or the deadline of the engine."""
        timeout = self._engine.timeout()
        if timeout is not None:
            # a lock waits no longer than that; the loop then goes back to sleep
            timeout = min(timeout, threading.TIMEOUT_MAX)
        with self._changed:
            woken = self._changed.wait_for(
                lambda: bool(self._questions) or self._is_woken(stopping=stopping), timeout
            )
        if not woken and self._goes_on:
            self._engine.advance()

    def _sleep_until_an_outcome(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: bool(self._outcomes or self._questions))
