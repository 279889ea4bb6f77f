"""The calls of a scheduler, passed on unchanged: the base of what changes some of them.

Rule: a subclass overrides the calls that it is about, and no others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gangsched.drivers._contract import DrivenScheduler, allow_evictions, ask_scheduler
from gangsched.events import Effect, Event
from gangsched.scheduler import Scheduler

__all__ = ["ForwardedCalls"]

T = TypeVar("T")


class ForwardedCalls:
    """The calls of a scheduler.

    Args:
        driven: The scheduler, or a wrapper of it.
    """

    __slots__ = ("_driven",)

    def __init__(self, driven: DrivenScheduler) -> None:
        self._driven = driven

    def handle(self, *events: Event, now: float) -> tuple[Effect, ...]:
        """See ``Scheduler.handle``."""
        return self._driven.handle(*events, now=now)

    def advance(self, *, now: float) -> tuple[Effect, ...]:
        """See ``Scheduler.advance``."""
        return self._driven.advance(now=now)

    def schedule_one(self, *, now: float) -> tuple[Effect, ...] | None:
        """See ``Scheduler.schedule_one``."""
        return self._driven.schedule_one(now=now)

    def rebuild(self, *, now: float) -> tuple[Effect, ...]:
        """See ``Scheduler.rebuild``."""
        return self._driven.rebuild(now=now)

    def next_deadline(self) -> float | None:
        """See ``Scheduler.next_deadline``."""
        return self._driven.next_deadline()

    def allow_evictions(self) -> None:
        """See ``Scheduler.allow_evictions``."""
        allow_evictions(self._driven)

    def ask(self, question: Callable[[Scheduler], T]) -> T:
        """Return what a question about the scheduler returns."""
        return ask_scheduler(self._driven, question)
