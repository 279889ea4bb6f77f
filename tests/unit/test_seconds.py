"""Instants and durations as text: exact, with units, without an exponent."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gangsched import GroupKey, PodUID, explain
from gangsched.values.seconds import (
    format_duration,
    format_instant,
    format_span,
    format_utc,
    parse_duration,
)
from support.documents import ROOT

# Instants and durations as text: exact, without an exponent

INSTANTS = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e18, max_value=1e18)


@given(INSTANTS | st.integers(-(10**18), 10**18))
@example(1795370000.25)
@example(1e16)
@example(5e-324)
def test_format_instant_round_trips_without_an_exponent(at: float) -> None:
    text = format_instant(at)
    assert type(at)(text) == at
    assert re.fullmatch(r"-?[0-9]+(\.[0-9]*[1-9])?", text)


@pytest.mark.parametrize(
    ("at", "text"),
    [
        *((1795370000.0, "1795370000"), (1795370000.25, "1795370000.25"), (1395674, "1395674")),
        *((60.0, "60"), (100, "100"), (0.5, "0.5"), (0.0, "0"), (1e-7, "0.0000001")),
        *((math.inf, "Infinity"), (-math.inf, "-Infinity")),
    ],
)
def test_format_instant_writes_plain_decimals_and_infinity_as_json_forms_do(
    at: float, text: str
) -> None:
    assert format_instant(at) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0.1 + 0.2, "0.3"), (1795370060.1 - 1795370000.0, "60.1"), (1e6, "1000000")),
        *((2.5, "2.5"), (60, "60"), (1e-9, "0")),
    ],
)
def test_format_duration_rounds_to_the_microsecond(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(-62_135_596_800, 253_402_300_799), st.integers(0, 999_999))
def test_format_utc_writes_the_date_that_the_standard_library_writes(
    seconds: int, micro: int
) -> None:
    at = seconds + micro / 1e6
    whole, part = divmod(round(at * 1e6), 1_000_000)
    if whole > 253_402_300_799:
        return
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=whole, microseconds=part)
    text = moment.replace(tzinfo=None).isoformat()
    assert format_utc(at) == (text.rstrip("0") if part else text) + "Z"


@pytest.mark.parametrize("at", [1e300, -1e300, math.inf, -math.inf])
def test_format_utc_writes_an_instant_without_a_date_as_seconds(at: float) -> None:
    assert format_utc(at) == f"{format_instant(at)}s"


def test_answers_to_why_print_dates_where_the_host_says_that_its_clock_counts_from_1970() -> None:
    key = GroupKey("ns/g")
    waiting = explain.OnPermit(
        members=(PodUID("ns/a"),), since=1795370000.25, needed=1, deadline=1795370060.0
    )
    assert "since 1795370000.25," in str(waiting)
    assert "since 2026-11-22T17:53:20.25Z," in explain.in_utc(waiting)
    resting = explain.BackingOff(1795370060.0, 1, "no node")
    part = explain.PartlyRunning(key, 1, 2, resting)
    for why in (waiting, resting, part):
        assert "2026-11-22T17:54:20Z" in explain.in_utc(why)
        assert "1795370060" in str(why)
    assert explain.in_utc(explain.NotAdmitted("gated")) == "not admitted: gated"


def test_no_source_formats_a_number_with_an_exponent() -> None:
    sources = [path for path in (ROOT / "src").rglob("*.py") if "testing" not in path.parts]
    found = [path.name for path in sources if re.search(r":\.?[0-9]*[eEgG]\}", path.read_text())]
    assert found == []


# Durations with units


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("90", 90.0), ("90s", 90.0), ("1h30m", 5400.0), ("11d", 950400.0), ("250ms", 0.25)),
        *(("1d2h3m4s5ms", 93784.005), ("1.5h", 5400.0), ("0", 0.0), ("-1", -1.0)),
        *((text, None) for text in ("", "h", "soon", "30m1h", "1h1h", "1 h", "inf", "nan")),
        *((text, None) for text in ("1e400", "-1h", "1H")),
    ],
)
def test_duration_is_a_number_or_has_units(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((119.9996, "2m"), (86399.9999, "1d"), (-5400.0, "-1h30m"), (0.0, "0s"), (90.0, "90s")),
        (1795370000.25, "1795370000.25s"),
    ],
)
def test_span_has_units(seconds: float, text: str) -> None:
    assert format_span(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((14441.71, "4h0m41.71s"), (88541.19, "1d0h35m41.19s"), (86401.0, "1d0h0m1s")),
        *((90000.0, "1d1h"), (172800.0, "2d"), (120.0, "2m"), (3600.5, "1h0m0.5s")),
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
