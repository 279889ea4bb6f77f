"""What the strategies are given: strategies, and bounds."""

from __future__ import annotations

from typing import Any, TypeVar

from hypothesis import strategies as st

from gangsched.errors import InvalidValueError

__all__ = ["bound", "strategy"]

T = TypeVar("T")


def strategy(
    name: str,
    given: st.SearchStrategy[Any] | None,
    otherwise: st.SearchStrategy[T] | None = None,
) -> st.SearchStrategy[T]:
    """Return the strategy that was given as an argument, or another where none was.

    Raises:
        InvalidValueError: It is none; names the argument.
    """
    if given is None and otherwise is not None:
        return otherwise
    if not isinstance(given, st.SearchStrategy):
        expected = f"a strategy of hypothesis, such as st.just({given!r})"
        raise InvalidValueError(name, given, expected)
    return given


def bound(name: str, given: int, least: int = 0) -> int:
    """Return a bound on how many there are.

    Raises:
        InvalidValueError: It is no whole number, or too small; names the argument.
    """
    if type(given) is not int or given < least:
        raise InvalidValueError(name, given, f"an int >= {least}")
    return given
