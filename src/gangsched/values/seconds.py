"""Instants and durations as text, and durations from text.

An instant may be seconds since 1970: ten digits before the point. The ``g`` format keeps six
digits and switches to an exponent, so that two instants an hour apart are printed alike.

Rules:
  R1  no function writes an exponent: the text can be searched for and compared by eye;
  R2  an instant is written exactly: ``float(format_instant(at)) == at``;
  R3  a duration is written to the microsecond: it is a difference of instants, and what is
      finer is rounding error of the subtraction;
  R4  ``parse_duration`` reads what ``format_span`` writes.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from itertools import pairwise
from typing import Final

__all__ = ["format_duration", "format_instant", "format_span", "format_utc", "parse_duration"]

_FIRST_SECOND: Final = -62_135_596_800  # of the year 1
_END_OF_SECONDS: Final = 253_402_300_800  # the year 10000
_MICROSECONDS: Final = 6  # digits after the point
_UNITS: Final = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_SECONDS_BELOW: Final = 120.0
"""Shorter spans are written in seconds, as kubectl does: 90s, 119s."""

_MOST_DAYS: Final = 1000
"""Longer spans are seconds since 1970, not durations; days would only hide that."""

_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|[dhms])")
_DURATION: Final = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)


def format_instant(at: float) -> str:
    """Return an instant as decimal seconds, exactly and without an exponent.

    Runtime complexity: O(digits).

    >>> format_instant(1795370000.25), format_instant(60.0), format_instant(1e16)
    ('1795370000.25', '60', '10000000000000000')
    """
    text = format(Decimal(repr(at)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_utc(at: float) -> str:
    """Return an instant of seconds since 1970 as a date and a time in UTC, to the microsecond.

    It is for hosts whose clock counts from 1970. The calendar is computed here, since the core
    imports no clock. An instant outside the years 1 to 9999 is written as decimal seconds.

    >>> format_utc(1795370000.25), format_utc(0.0)
    ('2026-11-22T17:53:20.25Z', '1970-01-01T00:00:00Z')
    """
    whole, micro = divmod(round(at * 1e6), 1_000_000) if math.isfinite(at) else (math.inf, 0)
    if not _FIRST_SECOND <= whole < _END_OF_SECONDS:
        return f"{format_instant(at)}s"
    days, second = divmod(int(whole), 86_400)
    # the years begin in March, so that the leap day is the last day of its year
    era, of_era = divmod(days + 719_468, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    day_of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + (3 if month_from_march < 10 else -9)
    year = year_of_era + era * 400 + (month <= 2)
    fraction = f".{int(micro):06d}".rstrip("0") if micro else ""
    time = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}{fraction}"
    return f"{year:04d}-{month:02d}-{day:02d}T{time}Z"


def format_duration(seconds: float) -> str:
    """Return a duration as decimal seconds, rounded to the microsecond.

    Runtime complexity: O(digits).

    >>> format_duration(0.1 + 0.2), format_duration(1e6), format_duration(2.5)
    ('0.3', '1000000', '2.5')
    """
    return format_instant(round(seconds, _MICROSECONDS))


def format_span(seconds: float) -> str:
    """Return a duration, or an instant of a clock that began at 0, with units.

    It is rounded to the microsecond below two minutes, and to the millisecond above. An instant
    since 1970 is written in seconds. Units of zero are left out at both ends, not in the middle.

    Runtime complexity: O(digits).

    >>> format_span(90), format_span(5400), format_span(950400), format_span(0.25)
    ('90s', '1h30m', '11d', '0.25s')
    >>> format_span(14441.71), format_span(86460)
    ('4h0m41.71s', '1d0h1m')
    """
    if seconds < 0:
        return f"-{format_span(-seconds)}"
    if not seconds < _MOST_DAYS * _UNITS["d"]:
        return f"{format_duration(seconds)}s"
    if round(seconds, 3) < _SECONDS_BELOW:
        return f"{format_duration(seconds)}s"
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    left = format_duration(rest / 1000)
    parts = ((str(days), "d"), (str(hours), "h"), (str(minutes), "m"), (left, "s"))
    given = [place for place, (number, _unit) in enumerate(parts) if number != "0"]
    return "".join(number + unit for number, unit in parts[given[0] : given[-1] + 1])


def parse_duration(text: str) -> float | None:
    """Return the seconds that a duration states; None if the text states none.

    A duration is a number of seconds, or numbers with the units d, h, m, s and ms, the largest
    first: ``90``, ``90s``, ``1h30m``, ``11d``.

    Runtime complexity: O(digits).

    >>> parse_duration("1h30m"), parse_duration("90"), parse_duration("250ms")
    (5400.0, 90.0, 0.25)
    >>> parse_duration("30m1h") is None
    True
    """
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
        if _DURATION.fullmatch(text):
            parts = [(float(number), _UNITS[unit]) for number, unit in _PART.findall(text)]
            if all(one[1] > other[1] for one, other in pairwise(parts)):
                seconds = math.fsum(number * unit for number, unit in parts)
    return seconds if math.isfinite(seconds) else None
