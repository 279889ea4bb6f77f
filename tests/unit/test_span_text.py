"""Durations with units: zero units in the middle are written, and the text is read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched._seconds import format_span, parse_duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (14441.71, "4h0m41.71s"),
        (88541.19, "1d0h35m41.19s"),
        (86401.0, "1d0h0m1s"),
        (90000.0, "1d1h"),
        (172800.0, "2d"),
        (120.0, "2m"),
        (3600.5, "1h0m0.5s"),
    ],
)
def test_zero_unit_is_written_between_two_others(seconds: float, text: str) -> None:
    assert format_span(seconds) == text
    assert parse_duration(text) == seconds


@given(st.integers(min_value=0, max_value=1000 * 86_400_000))
def test_span_is_read_back_to_the_millisecond(milliseconds: int) -> None:
    read = parse_duration(format_span(milliseconds / 1000))
    assert read is not None
    assert round(read * 1000) == milliseconds
