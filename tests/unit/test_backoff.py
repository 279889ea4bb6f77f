"""Exponential backoff."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.primitives.backoff import Backoff
from support.refusals import NO_SECONDS, check_rows, each

SECONDS = st.floats(min_value=1e-6, max_value=1e6)


@pytest.mark.parametrize("failures", [10**3, 10**4, 10**9, 2**80])
@pytest.mark.parametrize("backoff", [Backoff(), Backoff(1e-300, 5.0), Backoff(1e308, 1e308)])
def test_delay_of_many_failures_is_the_maximum(backoff: Backoff, failures: int) -> None:
    assert backoff.delay(failures) == backoff.maximum


def test_smallest_initial_delay_reaches_the_largest_maximum() -> None:
    backoff = Backoff(5e-324, 1e308)
    assert backoff.delay(2098) == 5e-324 * 2.0**1000 * 2.0**1000 * 2.0**97
    assert backoff.delay(2099) == backoff.delay(2**80) == 1e308


@given(SECONDS, SECONDS, st.integers(-3, 40))
def test_delay_doubles_up_to_the_maximum(a: float, b: float, failures: int) -> None:
    initial, maximum = sorted((a, b))
    expected = min(initial * 2 ** (failures - 1), maximum) if failures > 0 else 0.0
    assert Backoff(initial, maximum).delay(failures) == expected


def test_invalid_backoff_is_refused() -> None:
    check_rows(each(Backoff, "initial", 0, -1, *NO_SECONDS))
    check_rows(each(lambda x: Backoff(2, x), "maximum", 1, -1, *NO_SECONDS))
