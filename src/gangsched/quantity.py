"""Kubernetes quantities as exact integers, and the check of a number of seconds.

Rules:
  R1  a quantity is an integer number of thousandths of its unit: ``500m`` of cpu is 500, ``1`` is
      1000, ``4Gi`` of memory is 4 * 2**30 * 1000. No float is computed;
  R2  text that Kubernetes refuses is refused: ``1K``, ``1 Gi``, ``inf``, ``.``, ``1e3Ki``;
  R3  a quantity finer than a thousandth is refused, or rounded up where the caller asks for that.
      The API server rounds up what a document says;
  R4  a quantity beyond ``2**63 - 1`` units in either direction is refused; Kubernetes would cap it.
      A text with a large exponent is therefore refused without computing the power;
  R5  ``parse_quantity(format_quantity(q)) == q`` for every q within that bound, binary or not;
  R6  an amount that was computed, such as a sum over containers, may exceed that bound. Beyond
      ``2**127`` thousandths it is refused: searches divide amounts, and a quotient must be a float.

Source: the grammar in k8s.io/apimachinery/pkg/api/resource/quantity.go.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, TypeGuard, final

from gangsched.errors import InvalidValueError

__all__ = [
    "MILLI",
    "Thousandths",
    "check_thousandths",
    "format_quantity",
    "is_seconds",
    "parse_quantity",
]

MILLI: Final = 1000
"""Thousandths in one unit."""

# The largest float: a larger int cannot be added to a float.
_MOST_SECONDS: Final = 1.7976931348623157e308
_GRAMMAR: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?:(?P<binary>[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]{1,4})|(?P<decimal>[numkMGTPE]))?",
    re.ASCII,
)
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_EXPECTED: Final = "a Kubernetes quantity such as 500m, 4Gi or 1e3"
_NOT_A_FLOAT: Final = "a Kubernetes quantity as text, such as {example!r}, or an int of whole units"
_FINE_ENOUGH: Final = "a quantity no finer than a thousandth (1m)"
_SMALL_ENOUGH: Final = "a quantity of at most 2**63 - 1 units"
_MOST: Final = (2**63 - 1) * MILLI
_MOST_DIGITS: Final = len(str(_MOST))
_MOST_COMPUTED: Final = 2**127


@final
class Thousandths(int):
    """An int that counts thousandths of a unit.

    The constructors of ``Resources``, ``Pod`` and ``Node`` read a plain int as whole units and a
    ``Thousandths`` as what it is, so that ``dict(pod.requests)`` can be passed on. Arithmetic
    returns a plain int.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Thousandths({int(self)})"

    def __str__(self) -> str:
        return int.__repr__(self)


def parse_quantity(text: str | int, *, field: str = "quantity", rounds_up: bool = False) -> int:
    """Return a quantity in thousandths.

    Runtime complexity: O(digits); repeated texts are answered from a cache.

    Args:
        text: A quantity in Kubernetes' notation, an int of whole units, or a ``Thousandths``.
        field: The name of the value in an error.
        rounds_up: Whether a quantity finer than a thousandth is rounded up, away from zero.

    Raises:
        InvalidValueError: *text* is not a quantity, is finer than a thousandth, or too large.
    """
    if type(text) is Thousandths:
        check_thousandths(field, text)
        return int(text)
    if type(text) is int:
        if abs(text) > _MOST // MILLI:
            raise InvalidValueError(field, text, _SMALL_ENOUGH)
        return text * MILLI
    if not isinstance(text, str):
        raise InvalidValueError(field, text, _hint(text))
    thousandths = _parse(text, rounds_up)
    if thousandths is None:
        raise InvalidValueError(field, text, _EXPECTED)
    if isinstance(thousandths, str):
        raise InvalidValueError(field, text, thousandths)
    return thousandths


def check_thousandths(field: str, amount: object) -> None:
    """Require an amount that was computed: an int of at most 2**127 thousandths. O(1).

    Raises:
        InvalidValueError: *amount* is not an int, is a bool, or is too large.
    """
    if not isinstance(amount, int) or isinstance(amount, bool):
        raise InvalidValueError(field, amount, "an int, in thousandths of a unit")
    if not -_MOST_COMPUTED <= amount <= _MOST_COMPUTED:
        raise InvalidValueError(field, amount, "at most 2**127 thousandths of a unit")


def _hint(value: object) -> str:
    """Return what is expected instead of a value that is not text; for a float, an example."""
    if not isinstance(value, float) or not -1e15 < value < 1e15:
        return _EXPECTED
    thousandths = round(value * MILLI)
    return _NOT_A_FLOAT.format(example=format_quantity(thousandths))


@lru_cache(maxsize=4096)
def _parse(text: str, rounds_up: bool) -> int | str | None:
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        return None
    whole, fraction = match["whole"], match["fraction"] or ""
    if not whole and not fraction:
        return None
    # The amount is digits * 10**tens * 2**bits, where digits does not end in a zero. In this form a
    # quantity that is too large or too fine is recognised before any large power is computed.
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
    # digits is no multiple of 10, so 10**-tens can divide the amount only if bits >= -tens.
    if tens < -bits and not rounds_up:
        return _FINE_ENOUGH
    if len(digits) + bits < -tens:
        # less than one thousandth, found before any large power is computed
        return -1 if match["sign"] == "-" else 1
    amount: int = int(digits) << bits
    if tens >= 0:
        amount *= 10**tens
    else:
        amount, rest = divmod(amount, 10**-tens)
        if rest and not rounds_up:
            return _FINE_ENOUGH
        amount += bool(rest)
    if amount > _MOST:
        return _SMALL_ENOUGH
    return -amount if match["sign"] == "-" else amount


def format_quantity(thousandths: int, *, binary: bool = False) -> str:
    """Return a quantity as Kubernetes would write it: in whole units, or in thousandths (``m``).

    Args:
        thousandths: The quantity.
        binary: Use the largest of ``Ki`` to ``Ei`` that leaves a whole number, as is usual for
            memory: ``4Gi`` instead of ``4294967296``.

    Raises:
        InvalidValueError: *thousandths* is not an int.
    """
    if not isinstance(thousandths, int) or isinstance(thousandths, bool):
        raise InvalidValueError("thousandths", thousandths, "an int")
    units, rest = divmod(abs(thousandths), MILLI)
    sign = "-" if thousandths < 0 else ""
    if rest:
        return f"{sign}{abs(thousandths)}m"
    for suffix, bits in reversed(_BINARY.items()) if binary else ():
        if units >> bits and not units & ((1 << bits) - 1):
            return f"{sign}{units >> bits}{suffix}"
    return f"{sign}{units}"


def is_seconds(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite int or float, as every instant and every duration is."""
    if type(value) is float:  # with every call
        return -_MOST_SECONDS <= value <= _MOST_SECONDS
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -_MOST_SECONDS <= value <= _MOST_SECONDS
