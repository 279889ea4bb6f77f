"""Check the arguments of the strategies."""

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
    """Return the strategy given for an argument, or its default if None was given.

    Raises:
        InvalidValueError: The value is not a strategy; the error names the argument.
    """
    if given is None and otherwise is not None:
        return otherwise
    if not isinstance(given, st.SearchStrategy):
        expected = f"a Hypothesis strategy, such as st.just({given!r})"
        raise InvalidValueError(name, given, expected)
    return given


def bound(name: str, given: int, least: int = 0) -> int:
    """Return an upper bound on a count.

    Raises:
        InvalidValueError: The value is not an int, or below *least*; the error names the
            argument.
    """
    if type(given) is not int or given < least:
        raise InvalidValueError(name, given, f"an int >= {least}")
    return given
