"""The driver for hosts on asyncio: a loop around a scheduler.

Rules:
  R1  one task owns the scheduler and the cluster state: the task in ``run``;
  R2  ``tell``, ``stop`` and ``rebuild`` are called from the thread of the event loop and never
      wait. ``ask`` may be called from any task and any thread;
  R3  binds and evictions run in tasks of their own, at most *max_binds* at once, while the driver
      goes on deciding. With one at a time it waits for each, as the simulator does;
  R4  the loop sleeps until an event, an outcome or the scheduler's next deadline. It never polls;
  R5  the loop lets other tasks run at least every 5 ms, as long as no single call takes longer;
  R6  an outcome wakes the loop at once if an operation waits for its place, or if no other came
      within twice *gather* seconds. Otherwise it waits for at most *gather* seconds, and is taken
      in together with others at the next beat, see ``_beat``;
  R7  while more events wait, decisions are made after each batch of 64 events: at most as many as
      events were taken in. So neither starves the other;
  R8  ``stop(at_once=True)`` is looked at before each call of the scheduler. It is no item of the
      inbox, so events that wait do not delay it.

What the driver does between two waits is in ``gangsched.drivers._engine``. The same loop on
threads is ``gangsched.drivers.blocking``.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import math
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar, final

from gangsched._checks import check_event
from gangsched.drivers._aio_gate import PermitGate
from gangsched.drivers._beat import until_beat
from gangsched.drivers._clock import epoch_seconds
from gangsched.drivers._contract import (
    DrivenScheduler,
    ErrorHandler,
    FunctionKindError,
    allow_evictions,
    answer_question,
    ask_scheduler,
    check_binds,
    check_functions,
    check_gather,
    check_max_binds,
    check_plain,
    describe,
    wait_for,
)
from gangsched.drivers._engine import BATCH, Engine, Operation
from gangsched.drivers._inbox import DEFAULT_LIMIT, Inbox, Marker
from gangsched.events import Bind, Effect, Event, Evict
from gangsched.protocols import Observer
from gangsched.scheduler import Scheduler

__all__ = ["Driver", "PermitGate"]

T = TypeVar("T")

_SLICE: Final = 0.004
"""After how many seconds the loop lets other tasks run."""


@final
class Driver:
    """Runs a scheduler: events in through ``tell``, binds out through *bind*.

    Args:
        scheduler: The scheduler, or a wrapper that records or measures its calls. Only the driver
            may call it.
        apply: Makes an event true in the cluster state, such as ``InMemoryCluster.apply``.
        bind: Performs a bind and returns when it is done, or raises if it fails. The pod of a bind
            that failed is tried again after its backoff.
            None: a single bind is passed to *bind_gang*, too.
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
        max_binds: How many binds and evictions may be under way at once. With 1, nothing is
            decided until a bind has ended.
        gather: For how many seconds at most an outcome of a stream of binds waits for others,
            unless an operation waits for it. Fewer wake-ups cost less processor time.
        clock: Seconds that never go back. Its origin must be that of ``created_at`` of pods and
            groups, since the queue compares the two; by default, 1970.

    Raises:
        InvalidValueError: *max_binds* is not an int >= 1, or *gather* not a number of seconds;
            a function cannot be called; *apply*, *observe* or *on_error* is a coroutine function;
            or neither *bind* nor *bind_gang* is given. That *bind*, *bind_gang* or *evict* returns
            no awaitable is found when it is called, and ends ``run``.
    """

    def __init__(
        self,
        scheduler: DrivenScheduler,
        *,
        apply: Callable[[Event], object],
        bind: Callable[[Bind], Awaitable[object]] | None = None,
        bind_gang: Callable[[tuple[Bind, ...]], Awaitable[object]] | None = None,
        evict: Callable[[Evict], Awaitable[object]] | None = None,
        observe: Callable[[Effect], object] | None = None,
        observers: Sequence[Observer] = (),
        on_error: ErrorHandler | None = None,
        max_binds: int = 64,
        gather: float = 0.0,
        clock: Callable[[], float] = epoch_seconds,
    ) -> None:
        check_plain(apply=apply, observe=observe, on_error=on_error)
        check_functions(bind=bind, bind_gang=bind_gang, evict=evict)
        self._scheduler = scheduler
        self._engine = Engine(
            scheduler,
            apply=apply,
            observe=observe,
            observers=observers,
            on_error=on_error,
            clock=clock,
            can_evict=evict is not None,
            binds_gangs=bind_gang is not None,
            max_binds=check_max_binds(max_binds),
        )
        if evict is not None:
            allow_evictions(scheduler)
        self._bind = check_binds(bind, bind_gang)
        self._bind_gang = bind_gang
        self._evict = evict
        self._one_at_a_time = max_binds == 1
        self._gather = check_gather(gather)
        self._gathering: asyncio.TimerHandle | None = None
        self._ended_at = -math.inf
        self._inbox = Inbox(DEFAULT_LIMIT)
        self._tasks: dict[Operation, asyncio.Task[None]] = {}
        self._outcomes: deque[tuple[Operation, BaseException | None]] = deque()
        self._fatal: BaseException | None = None
        self._sleeper: asyncio.Future[None] | None = None
        self._senders: deque[asyncio.Future[None]] = deque()
        self._readers: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: int | None = None
        self._is_broken = False
        self._stops_at_once = False
        self._slice_began = 0.0

    # For the host ---------------------------------------------------------------------------

    def tell(self, *events: Event) -> None:
        """Hand events in, in order.

        While 4,096 events wait, an update of an object replaces the event that waits for it. Await
        ``ready`` before ``tell`` to slow down whatever produces the events.

        Raises:
            InvalidValueError: One is not an event; nothing was handed in.
        """
        for event in events:
            check_event(event)
        for event in events:
            self._inbox.put(event)
        self._wake()

    async def ready(self) -> None:
        """Return as soon as fewer than 4,096 events wait.

        A task that passes on a watch awaits this before each ``tell``.
        """
        while self._inbox.is_full:
            self._senders.append(asyncio.get_running_loop().create_future())
            await self._senders[-1]

    async def taken_in(self) -> None:
        """Return as soon as the scheduler has all events that were handed in so far.

        A task that has handed events in awaits this before ``ask``, so that the answer is not older
        than they are. It returns at once while ``run`` takes no events in: if it is not running, or
        ends, or *max_binds* is 1 and a bind is under way.
        """
        last = self._inbox.handed_in
        if self._loop is None or self._inbox.taken >= last:
            return
        reader = asyncio.get_running_loop().create_future()
        self._readers.append((last, reader))
        self._wake()  # a loop that goes back to sleep takes nothing in, and lets readers go
        await reader

    def rebuild(self) -> None:
        """Have the scheduler read the whole cluster state, after all events submitted so far.

        Call it after a lost watch, when the cluster state shows what was missed.
        """
        self._inbox.mark(Marker.REBUILD)
        self._wake()

    def stop(self, *, at_once: bool = False) -> None:
        """Let ``run`` return after all earlier events are processed and all binds have ended.

        Events that are handed in later are kept, and are processed by the next ``run``.

        Args:
            at_once: Whether earlier events are kept, too. No further decision is made then, and
                only the binds and evictions that were decided before are performed and reported.
        """
        if at_once:
            self._stops_at_once = True
        else:
            self._inbox.mark(Marker.STOP)
        self._wake()

    def ask(self, question: Callable[[Scheduler], T], *, timeout: float | None = None) -> T:
        """Return what a question about the scheduler returns, from any task or thread.

        In the thread of the event loop it is asked at once, so events that wait are not in the
        answer: see ``taken_in``. From another thread it is asked there
        between two calls of the scheduler, and this call blocks meanwhile. If ``run`` is not
        running, it is asked in the calling thread::

            driver.ask(lambda scheduler: scheduler.why("default/train"))

        Args:
            question: Reads the scheduler, by ``why``, ``what_if`` or ``snapshot``; it must not
                change it. Nothing is decided meanwhile, so give ``why``, ``what_if`` and
                ``smallest_change`` a small budget: 10,000 steps are about 0.1 s.
            timeout: How many seconds another thread blocks at most; None for no limit.

        Raises:
            TimeoutError: There was no answer in time.
        """
        loop = self._loop
        if loop is None or self._thread == threading.get_ident():
            return ask_scheduler(self._scheduler, question)
        answer: concurrent.futures.Future[T] = concurrent.futures.Future()
        loop.call_soon_threadsafe(answer_question, answer, self._scheduler, question)
        return answer.result(timeout)

    @property
    def binds_waiting(self) -> int:
        """How many binds and evictions wait to be started, because *max_binds* are under way."""
        return len(self._engine.operations)

    @property
    def events_waiting(self) -> int:
        """How many events were handed in and are not processed yet."""
        return len(self._inbox)

    def __repr__(self) -> str:
        return describe(
            "aio",
            is_running=self._loop is not None,
            events=len(self._inbox),
            binds=len(self._engine.operations) + len(self._engine.under_way),
        )

    # The loop -------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until ``stop``.

        After an exception or a cancellation it may be called again, and continues: it reads the
        cluster state anew, and performs and reports what is left. A bind that was cancelled is
        reported as failed.

        Raises:
            GangschedError: The scheduler raised; see ``Scheduler``.
            Exception: An observer, or *on_error*, raised. All effects of the call were performed.
            InvalidValueError: The scheduler evicts, and *evict* is None; or *bind* or *evict*
                returned no awaitable.
            RuntimeError: The driver is running already.
        """
        if self._loop is not None:
            raise RuntimeError("the driver is running already")
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._slice_began = time.perf_counter()
        try:
            if self._is_broken:
                self._engine.resume()
            self._is_broken = True
            await self._run()
            self._is_broken = False
        finally:
            try:
                await self._cancel_operations()
            finally:
                self._loop = self._thread = None
                self._let_readers_go(None)
                self._stops_at_once = False
                if self._gathering is not None:
                    self._gathering.cancel()
                    self._gathering = None

    async def _run(self) -> None:
        engine, inbox = self._engine, self._inbox
        await self._perform()
        while self._goes_on:
            taken = await self._take_batch()
            if not await self._decide(at_most=taken) or inbox.is_ready:
                continue
            stopping = inbox.stop_is_next
            if stopping and not engine.is_busy:
                inbox.take_stop()
                break
            if not stopping:
                engine.settle()
            if self._goes_on:
                await self._sleep(stopping=stopping)
                await self._perform()
        while engine.is_busy:  # after a failure, or a stop at once
            if not engine.can_start:
                await self._sleep_until_an_outcome()
            await self._perform()
        failure = engine.take_failure()
        if failure is not None:
            raise failure

    @property
    def _goes_on(self) -> bool:
        """Whether events are taken in and decisions made."""
        return self._engine.failure is None and not self._stops_at_once

    async def _take_batch(self) -> int:
        taken = 0
        while taken < BATCH and self._goes_on:
            item = self._inbox.take()
            if item is None:
                break
            taken += 1
            self._let_senders_go()
            self._engine.take(item)
            self._let_readers_go(self._inbox.taken)
            if self._has_to_perform():
                await self._perform()
        return taken

    async def _decide(self, *, at_most: int) -> bool:
        """Decide; return whether there is nothing left to decide about."""
        decided = 0
        while self._goes_on and (decided < at_most or not self._inbox.is_ready):
            if not self._engine.decide():
                return self._goes_on
            decided += 1
            if self._has_to_perform():
                await self._perform()
        return False

    def _has_to_perform(self) -> bool:
        """Return whether ``_perform`` would do anything; most events need nothing."""
        engine = self._engine
        return (
            bool(self._outcomes)
            or engine.can_start
            or self._fatal is not None
            or (self._one_at_a_time and engine.is_busy)
            or time.perf_counter() - self._slice_began >= _SLICE
        )

    async def _perform(self) -> None:
        """Start operations and take in outcomes, until neither can be done without waiting."""
        engine = self._engine
        while True:
            # a bind that does not wait has ended after that; where outcomes are gathered, binds do
            # wait, and to stop after each decision would only wake the loop more often
            if self._start() and not self._gather:
                await self._let_others_run()
            while self._outcomes:
                engine.finish(*self._outcomes.popleft())
                await self._breathe()
            if self._fatal is not None:
                fatal, self._fatal = self._fatal, None
                raise fatal
            if engine.can_start:
                continue
            if not (self._one_at_a_time and engine.is_busy):
                break
            await self._sleep_until_an_outcome()
        await self._breathe()

    def _start(self) -> bool:
        """Start operations; return whether there was one to start."""
        started = False
        while (operation := self._engine.start()) is not None:
            self._tasks[operation] = asyncio.create_task(self._perform_one(operation))
            started = True
        return started

    async def _perform_one(self, operation: Operation) -> None:
        error: BaseException | None = None
        try:
            if operation.binds and self._bind_gang is not None:
                await wait_for("bind_gang", self._bind_gang, operation.binds)
            elif isinstance(operation.effect, Bind):
                await wait_for("bind", self._bind, operation.effect)
            elif self._evict is not None:
                await wait_for("evict", self._evict, operation.effect)
        except FunctionKindError as raised:
            error = self._fatal = raised
        except (Exception, asyncio.CancelledError) as raised:
            error = raised
        except BaseException as raised:
            error = self._fatal = raised
        self._ended(operation, error)

    def _ended(self, operation: Operation, error: BaseException | None) -> None:
        self._tasks.pop(operation, None)
        self._outcomes.append((operation, error))
        if not self._is_in_a_stream() or self._is_awaited:
            self._wake()
        elif self._gathering is None:
            loop = asyncio.get_running_loop()
            self._gathering = loop.call_later(until_beat(self._gather), self._gathered)

    def _is_in_a_stream(self) -> bool:
        """Return whether the outcome before came within twice *gather* seconds."""
        before, self._ended_at = self._ended_at, time.perf_counter()
        return self._ended_at - before < 2 * self._gather

    @property
    def _is_awaited(self) -> bool:
        """Whether an outcome is waited for: by an operation, or by the end of ``run``."""
        engine = self._engine
        return (
            self._one_at_a_time
            or bool(engine.operations)
            or self._inbox.stop_is_next
            or not self._goes_on
        )

    def _gathered(self) -> None:
        self._gathering = None
        self._wake()

    async def _cancel_operations(self) -> None:
        """Cancel what is under way; the outcomes are taken in by the next ``run``."""
        tasks = dict(self._tasks)
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        for operation in tasks:
            if operation in self._tasks:  # cancelled before its first step
                self._ended(operation, asyncio.CancelledError("cancelled"))

    async def _sleep(self, *, stopping: bool) -> None:
        """Wait for an outcome, an item of the inbox, or the deadline of the engine.

        Args:
            stopping: Whether ``stop`` was seen already, and only outcomes are waited for.
        """
        inbox, seconds = self._inbox, self._engine.timeout()
        expired = False

        def expire() -> None:
            nonlocal expired
            expired = True
            self._wake()

        # asyncio.timeout costs three times as much, for each event that comes alone
        loop = asyncio.get_running_loop()
        timer = None if seconds is None else loop.call_later(seconds, expire)
        try:
            while self._goes_on and not (
                self._outcomes or inbox.is_ready or inbox.stop_is_next > stopping
            ):
                await self._sleep_until_woken()
                if expired:
                    break
        finally:
            if timer is not None:
                timer.cancel()
        if expired and self._goes_on:
            self._engine.advance()

    async def _sleep_until_an_outcome(self) -> None:
        while not self._outcomes:
            await self._sleep_until_woken()

    async def _sleep_until_woken(self) -> None:
        self._let_readers_go(None)
        self._sleeper = asyncio.get_running_loop().create_future()
        try:
            await self._sleeper
        finally:
            self._sleeper = None
            self._slice_began = time.perf_counter()

    async def _let_others_run(self) -> None:
        await asyncio.sleep(0)
        self._slice_began = time.perf_counter()

    async def _breathe(self) -> None:
        if time.perf_counter() - self._slice_began >= _SLICE:
            await self._let_others_run()

    def _wake(self) -> None:
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    def _let_senders_go(self) -> None:
        while self._senders and not self._inbox.is_full:
            sender = self._senders.popleft()
            if not sender.done():
                sender.set_result(None)

    def _let_readers_go(self, taken: int | None) -> None:
        """Let those go that wait for at most *taken* items; None for all."""
        while self._readers and (taken is None or self._readers[0][0] <= taken):
            _last, reader = self._readers.popleft()
            if not reader.done():
                reader.set_result(None)
