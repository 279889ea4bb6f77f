"""Bad inputs as table rows: a call, the exception that it raises, and its fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import pytest

from gangsched.errors import GangschedError, InvalidValueError

__all__ = ["INF", "NAN", "NO_SECONDS", "check_refusal", "check_rows", "each", "keywords", "row"]

NAN, INF = float("nan"), float("inf")
NO_SECONDS: tuple[Any, ...] = (None, True, "1", NAN, INF, -INF, 10**400, [1])
"""Values that are refused as seconds everywhere."""


def row(
    name: str,
    call: Callable[..., object],
    error: type[GangschedError],
    **fields: object,
) -> Any:
    """Return one bad input.

    Args:
        name: The name of the case.
        call: The call.
        error: The exact class of the exception.
        fields: The fields of the exception; its message has each of them.
    """
    return pytest.param(call, error, fields, id=name)


def each(call: Callable[..., object], field: str, *values: object) -> list[Any]:
    """Return one bad input for each value: the call with it first names the field and the value."""
    return [
        row(f"{field} {x!r:.40}", partial(call, x), InvalidValueError, field=field, value=x)
        for x in values
    ]


def keywords(make: Callable[..., object], **given: Iterable[object]) -> list[Any]:
    """Return one bad input for each value of each keyword argument, which the error names."""
    return [
        case
        for field, values in given.items()
        for case in each(lambda x, field=field: make(**{field: x}), field, *values)
    ]


def check_refusal(
    call: Callable[..., object], error: type[GangschedError], fields: Mapping[str, object]
) -> None:
    """Check that a call raises the exception of its row."""
    with pytest.raises(GangschedError) as caught:
        call()
    raised = caught.value
    assert type(raised) is error
    sentence = str(raised)
    for name, expected in fields.items():
        found = getattr(raised, name)
        # compare the reprs: NaN is not equal to itself, and True is equal to 1
        assert repr(found) == repr(expected)
        assert repr(found) in sentence or str(found) in sentence


def check_rows(cases: Iterable[Any], *arguments: object) -> None:
    """Check each bad input; its call gets these arguments too."""
    for case in cases:
        call, error, fields = case.values
        try:
            check_refusal(lambda call=call: call(*arguments), error, fields)
        except BaseException as failure:
            raise AssertionError(case.id) from failure
