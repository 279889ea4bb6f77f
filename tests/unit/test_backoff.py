"""Exponential backoff."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched._core._backoff import Backoff
from gangsched.errors import InvalidValueError

SECONDS = st.floats(min_value=1e-6, max_value=1e6)


def test_delay_doubles_up_to_the_maximum() -> None:
    backoff = Backoff(1.0, 10.0)
    assert [backoff.delay(n) for n in range(1, 7)] == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_delay_is_zero_without_failures() -> None:
    assert Backoff().delay(0) == 0.0
    assert Backoff().delay(-3) == 0.0


@pytest.mark.parametrize("failures", [10**3, 10**4, 10**9, 2**80])
@pytest.mark.parametrize("backoff", [Backoff(), Backoff(1e-300, 5.0), Backoff(1e308, 1e308)])
def test_delay_of_many_failures_is_the_maximum(backoff: Backoff, failures: int) -> None:
    assert backoff.delay(failures) == backoff.maximum


def test_smallest_initial_delay_reaches_the_largest_maximum() -> None:
    backoff = Backoff(5e-324, 1e308)
    assert backoff.delay(2098) == 5e-324 * 2.0**1000 * 2.0**1000 * 2.0**97
    assert backoff.delay(2099) == backoff.delay(2**80) == 1e308


@given(SECONDS, SECONDS, st.integers(1, 40))
def test_delay_is_the_published_formula(a: float, b: float, failures: int) -> None:
    initial, maximum = sorted((a, b))
    expected = min(initial * 2 ** (failures - 1), maximum)
    assert Backoff(initial, maximum).delay(failures) == expected


@given(SECONDS, SECONDS, st.integers(0, 40))
def test_delay_never_decreases(a: float, b: float, failures: int) -> None:
    initial, maximum = sorted((a, b))
    backoff = Backoff(initial, maximum)
    assert backoff.delay(failures) <= backoff.delay(failures + 1) <= maximum


@pytest.mark.parametrize(
    ("given_", "field"),
    [
        ((-1, 10), "initial"),
        ((0, 10), "initial"),
        ((float("nan"), 10), "initial"),
        ((float("inf"), float("inf")), "initial"),
        (("1", 10), "initial"),
        ((None, 10), "initial"),
        ((2, 1), "maximum"),
        ((1, float("inf")), "maximum"),
        ((1, float("nan")), "maximum"),
        ((1, -1), "maximum"),
        ((1, "10"), "maximum"),
        ((1, 10**400), "maximum"),
        ((10**400, 10**400), "initial"),
    ],
)
def test_invalid_backoff_is_refused(given_: Any, field: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        Backoff(*given_)
    assert caught.value.field == field
    assert repr(caught.value.value) == repr(given_[field == "maximum"])


def test_initial_and_maximum_may_be_equal() -> None:
    assert Backoff(3, 3).delay(5) == 3
