"""What both drivers share: what a host calls, and the loop without its waits.

Rules:
  R1  this module never waits. ``_steps`` yields wherever the loop may have to, and the shell does
      it: on threads under a condition, on asyncio by an ``await``;
  R2  the loop sleeps until an event, an outcome or the scheduler's next deadline. It never polls;
  R3  events that wait are handled together, up to 64 of them. While more wait, as many decisions
      are made at most as events were taken in. So neither starves the other;
  R4  ``stop(at_once=True)`` is looked at before each call of the scheduler. It is no item of the
      inbox, so events that wait do not delay it.
"""

from __future__ import annotations

import enum
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, TypeVar

from gangsched.drivers._contract import (
    FunctionKindError,
)
from gangsched.drivers._engine import BATCH, Engine, Operation
from gangsched.drivers._inbox import DEFAULT_LIMIT, Inbox, Marker
from gangsched.events import Event
from gangsched.scheduler import Scheduler
from gangsched.values.checks import check_event

__all__ = ["DriverShell", "Step", "waiting_events"]

T = TypeVar("T")


class Step(enum.Enum):
    """Where the loop may wait."""

    PERFORM = "start operations and take in outcomes, as far as there are any"
    SLEEP = "wait for an outcome, an item of the inbox or the deadline of the engine"
    SLEEP_TO_STOP = "the same, but for items: stop is the next"
    AWAIT_OUTCOME = "wait for an outcome"


class DriverShell:
    """A driver without its waits."""

    _is_ordinary: ClassVar[tuple[type[BaseException], ...]] = (Exception,)
    """What fails an operation, and does not end ``run``."""

    def __init__(self, engine: Engine, lock: AbstractContextManager[object]) -> None:
        self._engine = engine
        self._lock = lock
        self._inbox = Inbox(DEFAULT_LIMIT)
        self._outcomes: deque[tuple[Operation, BaseException | None]] = deque()
        self._fatal: BaseException | None = None
        self._thread: int | None = None
        self._is_broken = False
        self._stops_at_once = False

    # For the host ---------------------------------------------------------------------------

    def tell(self, *events: Event) -> None:
        """Hand events in, in order. On threads it is thread-safe, as ``rebuild`` and ``stop`` are.

        While 4,096 events wait, an update of an object replaces the event that waits for it. Call
        ``ready`` before ``tell`` to slow down whatever produces the events.

        Raises:
            InvalidValueError: One is not an event; nothing was handed in.
        """
        for event in events:
            check_event(event)
        with self._lock:
            for event in events:
                self._inbox.put(event)
            self._wake()

    def rebuild(self) -> None:
        """Have the scheduler read the whole cluster state, after all events submitted so far.

        Call it after a lost watch, when the cluster state shows what was missed.
        """
        with self._lock:
            self._inbox.mark(Marker.REBUILD)
            self._wake()

    def stop(self, *, at_once: bool = False) -> None:
        """Let ``run`` return after all earlier events are processed and all binds have ended.

        Events that are handed in later are kept, and are processed by the next ``run``.

        Args:
            at_once: Whether earlier events are kept, too. No further decision is made then, and
                only the binds and evictions that were decided before are performed and reported.
        """
        with self._lock:
            if at_once:
                self._stops_at_once = True
            else:
                self._inbox.mark(Marker.STOP)
            self._wake()

    @abstractmethod
    def ask(self, question: Callable[[Scheduler], T], *, timeout: float | None = None) -> T:
        """Return what a question about the scheduler returns."""

    def __repr__(self) -> str:
        name = type(self).__module__.rpartition(".")[2]
        state = "not running" if self._thread is None else "running"
        binds = len(self._engine.operations) + len(self._engine.under_way)
        waiting = f"{len(self._inbox)} events waiting, {binds} binds under way"
        return f"<{name}.Driver {state}: {waiting}>"

    # The loop -------------------------------------------------------------------------------

    def _steps(self) -> Iterator[Step]:
        """Yield where ``run`` may wait, from its begin to its end.

        Raises:
            Exception: What has to end ``run``, once all that was decided is performed and reported.
        """
        engine, inbox = self._engine, self._inbox
        yield Step.PERFORM
        while self._goes_on:
            taken = 0
            while taken < BATCH and self._goes_on and (item := self._take()) is not None:
                taken += 1
                engine.take(item)
                yield Step.PERFORM
            engine.tell()
            decided = 0
            while self._goes_on and (decided < taken or not inbox.is_ready):
                if not engine.decide():
                    break
                decided += 1
                yield Step.PERFORM
            else:
                continue  # there may be more to decide about
            if engine.tell() or engine.can_start:
                yield Step.PERFORM
                continue
            if not self._goes_on or inbox.is_ready:
                continue
            stopping = inbox.stop_is_next
            if stopping and not engine.is_busy:
                with self._lock:
                    inbox.take_stop()
                break
            if not stopping:
                engine.settle()
            if self._goes_on:
                yield Step.SLEEP_TO_STOP if stopping else Step.SLEEP
                yield Step.PERFORM
        while engine.is_busy:  # after a failure, or a stop at once
            if not engine.can_start:
                yield Step.AWAIT_OUTCOME
            yield Step.PERFORM
            engine.tell()
        failure = engine.take_failure()
        if failure is not None:
            raise failure

    @property
    def _goes_on(self) -> bool:
        """Whether events are taken in and decisions made."""
        return self._engine.failure is None and not self._stops_at_once

    def _is_woken(self, *, stopping: bool) -> bool:
        """Return whether there is something to do; *stopping*: ``stop`` was seen already."""
        inbox = self._inbox
        is_told = inbox.is_ready or inbox.stop_is_next > stopping
        return bool(self._outcomes) or is_told or not self._goes_on

    def _begin(self) -> None:
        """Continue after a ``run`` that did not end by ``stop``."""
        if self._is_broken:
            self._engine.resume()
        self._is_broken = True

    def _raise_fatal(self) -> None:
        if self._fatal is not None:
            fatal, self._fatal = self._fatal, None
            raise fatal

    @contextmanager
    def _outcome_of(self, operation: Operation) -> Generator[tuple[str, Callable[[Any], Any], Any]]:
        """Yield the function that performs an operation, with its name and its argument.

        What it raises is the outcome; nothing is raised.
        """
        error: BaseException | None = None
        try:
            yield self._engine.performer(operation)
        except FunctionKindError as raised:
            error = self._fatal = raised
        except self._is_ordinary as raised:
            error = raised
        except BaseException as raised:
            error = self._fatal = raised
        self._ended(operation, error)

    @abstractmethod
    def _take(self) -> Event | Marker | None:
        """Remove and return the next item of the inbox, and let those go that wait for that."""

    @abstractmethod
    def _wake(self) -> None:
        """Wake the loop. Called under the lock."""

    @abstractmethod
    def _ended(self, operation: Operation, error: BaseException | None) -> None:
        """Note an outcome, and wake the loop for it."""


def waiting_events(driver: DriverShell) -> tuple[Event, ...]:
    """Return the events that a driver was told of and has not taken in yet, in order."""
    with driver._lock:
        return driver._inbox.events()
