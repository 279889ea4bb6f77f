"""Instants and durations as text.

An instant may be seconds since 1970: ten digits before the point. The ``g`` format keeps six
digits and switches to an exponent, so that two instants an hour apart are printed alike.

Rules:
  R1  neither function writes an exponent: the text can be searched for and compared by eye;
  R2  an instant is written exactly: ``float(format_instant(at)) == at``;
  R3  a duration is written to the microsecond: it is a difference of instants, and what is
      finer is rounding error of the subtraction.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

__all__ = ["format_duration", "format_instant"]

_MICROSECONDS: Final = 6  # digits after the point


def format_instant(at: float) -> str:
    """Return an instant as decimal seconds, exactly and without an exponent.

    Runtime complexity: O(digits).

    >>> format_instant(1795370000.25), format_instant(60.0), format_instant(1e16)
    ('1795370000.25', '60', '10000000000000000')
    """
    text = format(Decimal(repr(at)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_duration(seconds: float) -> str:
    """Return a duration as decimal seconds, rounded to the microsecond.

    Runtime complexity: O(digits).

    >>> format_duration(0.1 + 0.2), format_duration(1e6), format_duration(2.5)
    ('0.3', '1000000', '2.5')
    """
    return format_instant(round(seconds, _MICROSECONDS))
