"""A sort key of a snapshot is taken only if the scheduler can have made it."""

from __future__ import annotations

import math
from typing import Any

import pytest

from gangsched import _sort_keys as sort_keys

MADE: list[Any] = [(1, 2), (-math.inf, 0), ("a",), (0.5, "a", (1, "b")), (math.inf, 3)]


@pytest.mark.parametrize("key", MADE)
def test_key_that_the_scheduler_makes_is_taken(key: Any) -> None:
    made = sort_keys.comparable(key)
    assert made is not None
    assert sort_keys.is_comparable(made) is True


@pytest.mark.parametrize("key", [("a",), (0.5, "a", (1, "b"))])
def test_key_with_the_code_of_other_kinds_is_refused(key: Any) -> None:
    made = sort_keys.comparable(key)
    assert made is not None
    first, code, *parts = made
    assert sort_keys.is_comparable((first, code + 1, *parts)) is False
    assert sort_keys.is_comparable((first, code, *parts, 0)) is False


@pytest.mark.parametrize(
    "key",
    [
        (math.inf, math.inf, 1.0),
        (math.inf, math.inf, math.nan, 1),
        (math.inf, math.inf, "1", 1),
        (math.inf, math.inf, 1.0, 1, 1),
        (math.inf, 110, None),
    ],
)
def test_key_that_is_like_that_of_an_entity_without_a_key_is_refused(key: Any) -> None:
    assert sort_keys.is_comparable((math.inf, math.inf, 1.0, 1)) is True
    assert sort_keys.is_comparable(key) is False
