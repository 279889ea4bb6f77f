"""What both drivers share at their face: the types of their arguments, questions, ``repr``."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, TypeVar

from gangsched.errors import InvalidValueError
from gangsched.events import Effect, Event, Evict
from gangsched.framework import Scheduler
from gangsched.protocols import FourCalls
from gangsched.quantity import is_seconds

__all__ = [
    "DrivenScheduler",
    "ErrorHandler",
    "allow_evictions",
    "answer_question",
    "ask_scheduler",
    "check_gather",
    "check_max_binds",
    "describe",
]

T = TypeVar("T")

ErrorHandler: TypeAlias = Callable[[Event | Evict, Exception], object]


class DrivenScheduler(FourCalls, Protocol):
    """The calls that a driver makes: ``Scheduler``, or a wrapper that records or measures one."""

    def rebuild(self, *, now: float) -> tuple[Effect, ...]:
        """Read everything that the cluster state shows."""
        ...


def check_max_binds(max_binds: object) -> int:
    """Return *max_binds* if it is a number of operations.

    Raises:
        InvalidValueError: It is not.
    """
    if type(max_binds) is not int or max_binds < 1:
        raise InvalidValueError("max_binds", max_binds, "an int >= 1")
    return max_binds


def check_gather(gather: object) -> float:
    """Return *gather* if it is a number of seconds.

    Raises:
        InvalidValueError: It is not.
    """
    if not is_seconds(gather) or gather < 0:
        raise InvalidValueError("gather", gather, "a finite number of seconds >= 0")
    return gather


def allow_evictions(driven: DrivenScheduler) -> None:
    """Tell a scheduler that its driver evicts; a wrapper of the host need not pass it on."""
    allow: Any = getattr(driven, "allow_evictions", None)
    if callable(allow):
        allow()


def ask_scheduler(driven: DrivenScheduler, question: Callable[[Scheduler], T]) -> T:
    """Ask a question about the scheduler itself, also where *driven* wraps it.

    A ``MeasuredScheduler`` asks under its lock, which keeps a scrape out meanwhile. Another wrapper
    without ``ask`` is asked itself.
    """
    if isinstance(driven, Scheduler):
        return question(driven)
    wrapper: Any = driven
    if hasattr(wrapper, "ask"):
        answer: T = wrapper.ask(question)
        return answer
    return question(getattr(wrapper, "scheduler", wrapper))


def answer_question(
    answer: concurrent.futures.Future[T],
    driven: DrivenScheduler,
    question: Callable[[Scheduler], T],
) -> None:
    """Ask a question for another thread, which waits for the answer."""
    if not answer.set_running_or_notify_cancel():
        return
    try:
        answer.set_result(ask_scheduler(driven, question))
    except BaseException as error:
        answer.set_exception(error)


def describe(module: str, *, is_running: bool, events: int, binds: int) -> str:
    """Return the ``repr`` of a driver."""
    state = "running" if is_running else "not running"
    return f"<{module}.Driver {state}: {events} events waiting, {binds} binds under way>"
