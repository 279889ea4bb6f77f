"""Kubernetes quantities, exactly; and what counts as seconds.

Rules:
  R1  a quantity is an integer number of thousandths of its unit: ``500m`` of cpu is
      500, ``1`` is 1000, ``4Gi`` of memory is 4 * 2**30 * 1000; no float is ever made;
  R2  what Kubernetes refuses is refused: ``1K``, ``1 Gi``, ``inf``, ``.``, ``1e3Ki``;
  R3  what is finer than a thousandth is refused too, as the API server refuses it for
      cpu: it could only be kept by rounding;
  R4  what is more than ``2**63 - 1`` units either way is refused: Kubernetes would cap it;
      so no text, however large its exponent, costs more than reading it;
  R5  ``parse_quantity(format_quantity(q)) == q`` for every q within that bound, binary or not.

Source: the grammar in k8s.io/apimachinery/pkg/api/resource/quantity.go.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, TypeGuard

from gangsched.errors import InvalidValueError

__all__ = ["MILLI", "format_quantity", "is_seconds", "parse_quantity"]

MILLI: Final = 1000
"""Thousandths in one unit."""

_MOST_SECONDS: Final = 1.7976931348623157e308  # what a float holds; a larger int cannot be added
_GRAMMAR: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?:(?P<binary>[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]{1,4})|(?P<decimal>[numkMGTPE]))?",
    re.ASCII,
)
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_EXPECTED: Final = "a Kubernetes quantity such as 500m, 4Gi or 1e3"
_FINE_ENOUGH: Final = "a quantity no finer than a thousandth (1m)"
_SMALL_ENOUGH: Final = "a quantity of at most 2**63 - 1 units"
_MOST: Final = (2**63 - 1) * MILLI
_MOST_DIGITS: Final = len(str(_MOST))


def parse_quantity(text: str | int, *, field: str = "quantity") -> int:
    """Return a quantity in thousandths.

    Runtime complexity: O(digits); repeated texts are answered from a cache.

    Args:
        text: A quantity in Kubernetes' notation, or a whole number of units.
        field: What to call it in an error.

    Raises:
        InvalidValueError: Not a quantity, finer than a thousandth, or too large.
    """
    if type(text) is int:
        if abs(text) > _MOST // MILLI:
            raise InvalidValueError(field, text, _SMALL_ENOUGH)
        return text * MILLI
    if not isinstance(text, str):
        raise InvalidValueError(field, text, _EXPECTED)
    thousandths = _parse(text)
    if thousandths is None:
        raise InvalidValueError(field, text, _EXPECTED)
    if isinstance(thousandths, str):
        raise InvalidValueError(field, text, thousandths)
    return thousandths


@lru_cache(maxsize=4096)
def _parse(text: str) -> int | str | None:
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        return None
    whole, fraction = match["whole"], match["fraction"] or ""
    if not whole and not fraction:
        return None
    # The amount is digits * 10**tens * 2**bits, where digits does not end in a zero: too large
    # and too fine both show before any large power is made.
    written = (whole + fraction).lstrip("0")
    digits = written.rstrip("0")
    if not digits:
        return 0
    tens = 3 - len(fraction) + len(written) - len(digits)
    bits = 0
    if match["binary"]:
        bits = _BINARY[match["binary"]]
    elif match["exponent"]:
        tens += int(match["exponent"])
    elif match["decimal"]:
        tens += _DECIMAL[match["decimal"]]
    if len(digits) + tens > _MOST_DIGITS:
        return _SMALL_ENOUGH
    if tens < -bits:  # a power of ten divides it only as far as there are twos
        return _FINE_ENOUGH
    amount: int = int(digits) << bits
    if tens >= 0:
        amount *= 10**tens
    else:
        amount, rest = divmod(amount, 10**-tens)
        if rest:
            return _FINE_ENOUGH
    if amount > _MOST:
        return _SMALL_ENOUGH
    return -amount if match["sign"] == "-" else amount


def format_quantity(thousandths: int, *, binary: bool = False) -> str:
    """Write a quantity as Kubernetes would: whole, or in thousandths (``m``).

    Args:
        thousandths: The quantity.
        binary: Use the largest of ``Ki`` to ``Ei`` that leaves a whole number, as is usual for
            memory: ``4Gi``, where without it ``4294967296`` is written.
    """
    units, rest = divmod(abs(thousandths), MILLI)
    sign = "-" if thousandths < 0 else ""
    if rest:
        return f"{sign}{abs(thousandths)}m"
    for suffix, bits in reversed(_BINARY.items()) if binary else ():
        if units >> bits and not units & ((1 << bits) - 1):
            return f"{sign}{units >> bits}{suffix}"
    return f"{sign}{units}"


def is_seconds(value: object) -> TypeGuard[float]:
    """Say whether a value is a finite number, as every instant and every duration is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -_MOST_SECONDS <= value <= _MOST_SECONDS
