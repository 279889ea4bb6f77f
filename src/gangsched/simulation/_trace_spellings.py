"""How a file spells its values: instants, durations, units, and what separates its cells.

Rules:
  R1  a text that is none of these is returned as no value, never guessed.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from itertools import chain
from typing import Final

from gangsched.values.seconds import parse_duration

__all__ = [
    "AMOUNTS",
    "DATES",
    "SECONDS",
    "begun",
    "clock_of",
    "delimiter",
    "read_date",
    "read_duration",
    "seconds_text",
]

DATES: Final = 100_000_000.0
"""A trace whose first instant is here or later has dates: its own clock would begin near 0."""
_SURELY_DATES: Final = 1_000_000_000.0
"""Instants from here on, which is 2001, are dates: no trace lasts 31 years."""
_TOO_LARGE: Final = 100_000_000_000.0
"""Instants from here on, which is the year 5138, are no seconds since 1970 either."""


_DELIMITERS: Final = (",", ";", "\t")
_CLOCK: Final = re.compile(r"(?:([0-9]{1,6})-)?([0-9]{1,6}):([0-5][0-9]):([0-5][0-9])", re.ASCII)
"""A duration as Slurm writes it: ``[days-]hours:minutes:seconds``."""
SECONDS: Final[Mapping[str, Decimal]] = {
    unit: Decimal(seconds)
    for unit, seconds in zip(
        ("us", "ms", "s", "min", "h", "d"),
        ("0.000001", "0.001", "1", "60", "3600", "86400"),
        strict=True,
    )
}
AMOUNTS: Final[Mapping[str, Decimal]] = {
    "m": Decimal("0.001"),
    "%": Decimal("0.01"),
    **{unit: Decimal(1000) ** power for power, unit in enumerate("kMGT", 1)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGT", 1)},
}


def seconds_text(seconds: float) -> str:
    """Return seconds in decimal digits, to the microsecond: ``90``, ``0.5``."""
    return f"{seconds:.6f}".rstrip("0").rstrip(".")


def begun(lines: Iterable[str]) -> tuple[str, Iterator[str]]:
    """Return the first line that is not blank, without a byte order mark, and all lines."""
    given = iter(lines)
    before: list[str] = []
    for line in given:
        before.append(line)
        if line.strip("\ufeff \t\r\n"):
            return line.lstrip("\ufeff \t"), chain(before, given)
    return "", iter(before)


def delimiter(header: str) -> str:
    """Return what separates the cells of a header; a comma if it has one cell."""
    return max(_DELIMITERS, key=lambda each: _count(header, each))


def _count(header: str, separator: str) -> int:
    try:
        return len(next(csv.reader([header], delimiter=separator), ()))
    except csv.Error:
        return 0


def read_date(text: str) -> float:
    """Return an ISO date as seconds since 1970, in UTC without a zone; infinity for no date."""
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return math.inf


def clock_of(seconds: float, *, is_date: bool) -> str | None:
    """Return which clock an instant is of, for errors; None if it may be of two.

    Seconds from 100,000,000 up to 1,000,000,000 may be those of a trace of more than three years,
    or dates from 1973 to 2001.
    """
    if is_date or _SURELY_DATES <= seconds < _TOO_LARGE:
        return "a date or seconds since 1970"
    if seconds >= _TOO_LARGE:
        return f"a number >= {_TOO_LARGE:.0f}"
    return "seconds since the trace began" if seconds < DATES else None


def read_duration(text: str) -> str:
    """Return a duration with units, or of a clock, in decimal seconds; any other text as it is."""
    if text.isdigit():  # nearly every row of most traces
        return text
    clock = _CLOCK.fullmatch(text)
    if clock:
        days, hours, minutes, seconds = (int(part or 0) for part in clock.groups())
        return str(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
    found = parse_duration(text) if text.endswith(("d", "h", "m", "s")) else None
    return text if found is None else seconds_text(found)
