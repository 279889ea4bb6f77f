"""What both drivers share at their face: the types of their arguments, questions, ``repr``."""

from __future__ import annotations

import concurrent.futures
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, Protocol, TypeAlias, TypeVar

from gangsched.errors import InvalidValueError
from gangsched.events import Bind, Effect, Event, Evict
from gangsched.protocols import FourCalls
from gangsched.quantity import is_seconds
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
    "check_binds",
    "check_functions",
    "check_gather",
    "check_max_binds",
    "check_plain",
    "describe",
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


def check_binds(
    bind: Callable[[Bind], T] | None, bind_gang: Callable[[tuple[Bind, ...]], T] | None
) -> Callable[[Bind], T]:
    """Return what performs a single bind: *bind*, or *bind_gang* with one.

    Raises:
        InvalidValueError: Neither is given.
    """
    if bind is not None:
        return bind
    if bind_gang is None:
        raise InvalidValueError("bind", bind, "a function, unless bind_gang is one")
    return lambda effect: bind_gang((effect,))


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


def check_functions(**functions: object) -> None:
    """Require functions or other callable objects, or None.

    Args:
        functions: The functions by the names of their arguments.

    Raises:
        InvalidValueError: One cannot be called. A bind would fail with that, after each backoff.
    """
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise InvalidValueError(name, function, "a function")


class FunctionKindError(InvalidValueError):
    """A function is a coroutine function where a plain one belongs, or the other way round.

    It ends ``run``. As a failed bind it would be repeated after each backoff, for ever.
    """


def check_plain(**functions: Callable[..., object] | None) -> None:
    """Require plain functions, or None.

    Of what can be called, only coroutine functions are refused. A plain function may still return
    an awaitable, which ``call_plain`` refuses.

    Args:
        functions: The functions by the names of their arguments.

    Raises:
        InvalidValueError: One cannot be called, is a coroutine function, or is an object whose call
            is one.
    """
    check_functions(**functions)
    for name, function in functions.items():
        call = getattr(function, "__call__", None)  # noqa: B004  # the method, not whether it is there
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call):
            raise FunctionKindError(name, function, "a plain function, not a coroutine function")


def call_plain(name: str, function: Callable[P, object], *args: P.args, **named: P.kwargs) -> None:
    """Call a function that has done its work when it returns.

    Args:
        name: The argument of the driver or host that the function was given as.
        function: The function.
        args: Its arguments.
        named: Its named arguments.

    Raises:
        InvalidValueError: It returned an awaitable: nothing has been done.
        Exception: The function raised.
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
    """Call a function that returns an awaitable, and await it.

    Args:
        name: The argument of the driver or host that the function was given as.
        function: The function. It may be a plain one, such as a lambda that calls a coroutine
            function, so it can be refused only after it was called.
        args: Its arguments.
        named: Its named arguments.

    Raises:
        InvalidValueError: It returned something else.
        Exception: The function, or what it returned, raised.
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


def describe(module: str, *, is_running: bool, events: int, binds: int) -> str:
    """Return the ``repr`` of a driver."""
    state = "running" if is_running else "not running"
    return f"<{module}.Driver {state}: {events} events waiting, {binds} binds under way>"
