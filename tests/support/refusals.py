"""Bad inputs as rows of a table: a call, the exception that it raises, and what that carries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from gangsched.errors import GangschedError

__all__ = ["INF", "NAN", "NO_SECONDS", "check_refusal", "row"]

NAN, INF = float("nan"), float("inf")
NO_SECONDS: tuple[Any, ...] = (None, True, "1", NAN, INF, -INF, 10**400, [1])
"""What is no number of seconds, whoever asks for one."""


def row(
    name: str,
    call: Callable[..., object],
    error: type[GangschedError],
    **fields: object,
) -> Any:
    """Return one bad input.

    Args:
        name: What is bad about it.
        call: What raises.
        error: Exactly what it raises.
        fields: What the exception carries; its sentence says each of them.
    """
    return pytest.param(call, error, fields, id=name)


def check_refusal(
    call: Callable[..., object], error: type[GangschedError], fields: Mapping[str, object]
) -> None:
    """Hold a call to raising what its row says."""
    with pytest.raises(GangschedError) as caught:
        call()
    raised = caught.value
    assert type(raised) is error
    sentence = str(raised)
    for name, expected in fields.items():
        found = getattr(raised, name)
        # compared as they are written: NaN is not equal to itself, and True is equal to 1
        assert repr(found) == repr(expected)
        assert repr(found) in sentence or str(found) in sentence
