"""The driver for hosts on asyncio: a loop around a scheduler.

Rules:
  R1  one task owns the scheduler and the cluster state: the task in ``run``;
  R2  ``tell``, ``stop`` and ``rebuild`` are called from the thread of the event loop and never
      wait. ``ask`` may be called from any task and any thread;
  R3  binds and evictions run in tasks of their own, at most *max_binds* at once, while the driver
      goes on deciding. With one at a time it waits for each, as the simulator does;
  R4  the loop lets other tasks run at least every 5 ms, as long as no single call takes longer;
  R5  an outcome wakes the loop at once if an operation waits for its place, or if no other came
      within twice *gather* seconds. Otherwise it waits for at most *gather* seconds, and is taken
      in together with others at the next beat, see ``_beat``.

The loop itself is in ``gangsched.drivers._loop``, and what it does between two waits in
``gangsched.drivers._engine``. The same driver on threads is ``gangsched.drivers.blocking``.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import math
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from typing import Final, TypeVar, final

from gangsched.drivers._aio_gate import PermitGate
from gangsched.drivers._beat import until_beat
from gangsched.drivers._clock import epoch_seconds
from gangsched.drivers._contract import (
    DrivenScheduler,
    ErrorHandler,
    answer_question,
    ask_scheduler,
    check_functions,
    check_plain,
    wait_for,
)
from gangsched.drivers._engine import Engine, Operation
from gangsched.drivers._inbox import Marker
from gangsched.drivers._loop import DriverShell, Step
from gangsched.errors import InvalidValueError
from gangsched.events import Bind, Effect, Event, Evict
from gangsched.protocols import Observer
from gangsched.quantity import is_seconds
from gangsched.scheduler import Scheduler

__all__ = ["Driver", "PermitGate"]

T = TypeVar("T")

_SLICE: Final = 0.004
"""After how many seconds the loop lets other tasks run."""


@final
class Driver(DriverShell):
    """Runs a scheduler: events in through ``tell``, binds out through *bind*.

    The arguments are those of ``gangsched.drivers.blocking.Driver``, but for these.

    Args:
        bind: Performs a bind in a task of its own; its awaitable ends when that is done, or raises.
        bind_gang: Performs all binds of one ``Release``, in the same way.
        evict: Asks for the deletion of a pod, in the same way.
        max_binds: How many binds and evictions may be under way at once. With 1, nothing is
            decided until a bind has ended.
        gather: For how many seconds at most an outcome of a stream of binds waits for others,
            unless an operation waits for it. Fewer wake-ups cost less processor time.

    Raises:
        InvalidValueError: *max_binds* is not an int >= 1, or *gather* not a number of seconds;
            a function cannot be called; *apply*, *observe* or *on_error* is a coroutine function;
            or neither *bind* nor *bind_gang* is given. That *bind*, *bind_gang* or *evict* returns
            no awaitable is found when it is called, and ends ``run``.
    """

    _is_ordinary = (Exception, asyncio.CancelledError)

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
        if not is_seconds(gather) or gather < 0:
            raise InvalidValueError("gather", gather, "a finite number of seconds >= 0")
        check_functions(bind=bind, bind_gang=bind_gang, evict=evict)
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
        super().__init__(engine, nullcontext())
        self._one_at_a_time = max_binds == 1
        self._gather = gather
        self._gathering: asyncio.TimerHandle | None = None
        self._ended_at = -math.inf
        self._tasks: dict[Operation, asyncio.Task[None]] = {}
        self._sleeper: asyncio.Future[None] | None = None
        self._senders: deque[asyncio.Future[None]] = deque()
        self._readers: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slice_began = 0.0

    # For the host ---------------------------------------------------------------------------

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

    def ask(self, question: Callable[[Scheduler], T], *, timeout: float | None = None) -> T:
        """Return what a question about the scheduler returns, from any task or thread.

        In the thread of the event loop it is asked at once, so events that wait are not in the
        answer: see ``taken_in``. From another thread it is asked there
        between two calls of the scheduler, and this call blocks meanwhile. If ``run`` is not
        running, it is asked in the calling thread. The arguments are those of
        ``gangsched.drivers.blocking.Driver.ask``.

        Raises:
            TimeoutError: There was no answer in time.
        """
        loop = self._loop
        if loop is None or self._thread == threading.get_ident():
            while self._outcomes:  # an answer knows what has ended, and what was taken in
                self._engine.finish(*self._outcomes.popleft())
            self._engine.tell()
            return ask_scheduler(self._engine.scheduler, question)
        answer: concurrent.futures.Future[T] = concurrent.futures.Future()
        loop.call_soon_threadsafe(answer_question, answer, self._engine.scheduler, question)
        return answer.result(timeout)

    @property
    def binds_waiting(self) -> int:
        """How many binds and evictions wait to be started, because *max_binds* are under way."""
        return len(self._engine.operations)

    @property
    def events_waiting(self) -> int:
        """How many events were handed in and are not processed yet."""
        return len(self._inbox)

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
            self._begin()
            for step in self._steps():
                match step:
                    case Step.PERFORM:
                        if self._has_to_perform():
                            await self._perform()
                    case Step.AWAIT_OUTCOME:
                        await self._sleep_until_an_outcome()
                    case Step.SLEEP | Step.SLEEP_TO_STOP:
                        await self._sleep(stopping=step is Step.SLEEP_TO_STOP)
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

    def _take(self) -> Event | Marker | None:
        item = self._inbox.take()
        if item is not None:
            self._let_senders_go()
            self._let_readers_go(self._inbox.taken)
        return item

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
            self._raise_fatal()
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
        with self._outcome_of(operation) as call:
            name, function, argument = call
            await wait_for(name, function, argument)

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
        """Wait for an outcome, an item of the inbox, or the deadline of the engine."""
        seconds = self._engine.timeout()
        expired = False

        def expire() -> None:
            nonlocal expired
            expired = True
            self._wake()

        # asyncio.timeout costs three times as much, for each event that comes alone
        loop = asyncio.get_running_loop()
        timer = None if seconds is None else loop.call_later(seconds, expire)
        try:
            while not self._is_woken(stopping=stopping):
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
