"""What both drivers share at their face: the types of their arguments, questions, ``repr``."""

from __future__ import annotations

import concurrent.futures
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, Protocol, TypeAlias, TypeVar

from gangsched.errors import InvalidValueError
from gangsched.events import Effect, Event, Evict
from gangsched.protocols import FourCalls
from gangsched.scheduler import Scheduler

__all__ = [
    "DrivenScheduler",
    "E",
    "ErrorHandler",
    "Flag",
    "FunctionKindError",
    "allow_evictions",
    "answer_question",
    "ask_scheduler",
    "call_plain",
    "check_functions",
    "check_plain",
    "wait_for",
]


class Flag(Protocol):
    """What is waited for: an ``Event`` of ``threading`` or of ``asyncio``."""

    def set(self) -> object:
        """End all waits."""
        ...

    def is_set(self) -> bool:
        """Return whether waits have ended."""
        ...


T = TypeVar("T")
E = TypeVar("E", bound=Flag)
P = ParamSpec("P")

ErrorHandler: TypeAlias = Callable[[Event | Evict, Exception], object]


class DrivenScheduler(FourCalls, Protocol):
    """The calls that a driver makes: ``Scheduler``, or a wrapper that records or measures one."""

    def rebuild(self, *, now: float) -> tuple[Effect, ...]:
        """Read everything that the cluster state shows."""
        ...


def check_functions(**functions: object) -> None:
    """Require functions or other callable objects, or None, by the names of their arguments.

    A bind that cannot be called would fail after each backoff, for ever.
    """
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise InvalidValueError(name, function, "a function")


class FunctionKindError(InvalidValueError):
    """A function is a coroutine function where a plain one belongs, or the other way round.

    It ends ``run``. As a failed bind it would be repeated after each backoff, for ever.
    """


def check_plain(**functions: Callable[..., object] | None) -> None:
    """Require plain functions, or None, by the names of their arguments.

    Of what can be called, only coroutine functions are refused. A plain function may still return
    an awaitable, which ``call_plain`` refuses.
    """
    check_functions(**functions)
    for name, function in functions.items():
        call = getattr(function, "__call__", None)  # noqa: B004  # the method, not whether it is there
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call):
            raise FunctionKindError(name, function, "a plain function, not a coroutine function")


def call_plain(name: str, function: Callable[P, object], *args: P.args, **named: P.kwargs) -> None:
    """Call the function that was given as *name*, which has done its work when it returns.

    An awaitable is refused: nothing has been done.
    """
    result = function(*args, **named)
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()  # else Python warns that it was never awaited
        expected = "a plain function, which returns when its work is done, not an awaitable"
        raise FunctionKindError(name, function, expected)


async def wait_for(
    name: str, function: Callable[P, Awaitable[object]], *args: P.args, **named: P.kwargs
) -> None:
    """Call the function that was given as *name*, and await what it returns.

    It may be a plain one, such as a lambda that calls a coroutine function, so one that returns
    something else can be refused only after it was called.
    """
    result: object = function(*args, **named)
    if not inspect.isawaitable(result):
        expected = "a function that returns an awaitable, such as a coroutine function"
        raise FunctionKindError(name, function, expected)
    await result


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
