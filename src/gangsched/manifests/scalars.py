"""Scalars of a document: the value of a word without quotes.

Rules:
  R1  a plain scalar has the value that Kubernetes' YAML reader gives it: ``on`` is a boolean,
      ``010`` is eight; ``1:30`` and ``2024-01-01`` are strings;
  R2  a number with a point or an exponent keeps its text (``Number``): no float is ever made.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias, final

from attrs import frozen

__all__ = ["Number", "Value", "kinds", "read_plain", "shortened", "shown"]

_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_TRUES: Final = frozenset({"y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"})
_FALSES: Final = frozenset(
    {"n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"}
)
_WHOLE: Final = re.compile(
    r"[-+]?(?:(?P<decimal>0|[1-9][0-9]{0,18})|0[xX](?P<hex>[0-9a-fA-F]{1,16})"
    r"|0[bB](?P<binary>[01]{1,64})|0[oO]?(?P<octal>[0-7]{1,21}))",
    re.ASCII,
)
_BASES: Final = {"decimal": 10, "hex": 16, "binary": 2, "octal": 8}
_NUMBER: Final = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan",
    re.ASCII | re.IGNORECASE,
)


@final
@frozen(repr=False)
class Number:
    """The source text of a number that is not a 64-bit integer."""

    text: str

    def __repr__(self) -> str:
        return self.text


Value: TypeAlias = "bool | int | str | Number | list[Value] | dict[str, Value] | None"
"""A value of a document."""


def read_plain(text: str) -> Value:
    """Return the value of a scalar without quotes and without a tag."""
    if text in _NULLS:
        return None
    if text in _TRUES:
        return True
    if text in _FALSES:
        return False
    if text[0] not in "+-.0123456789":
        return text
    digits = text.replace("_", "")
    whole = _WHOLE.fullmatch(digits)
    if whole is not None:
        name = str(whole.lastgroup)
        amount = int(whole[name], _BASES[name])
        return -amount if digits[0] == "-" else amount
    return Number(digits) if _NUMBER.fullmatch(digits) else text


def kinds(value: Value) -> tuple[str, ...]:
    """Return the tags that a plain scalar may have, by its value."""
    match value:
        case bool():
            return ("bool",)
        case int():
            return ("int", "float")
        case Number():
            return ("float",)
        case None:
            return ("null",)
        case _:
            return ()


def shown(value: Value) -> str:
    """Return *value* for an error: short, whatever it is."""
    match value:
        case None:
            return "nothing"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case _:
            return shortened(repr(value))


def shortened(text: str) -> str:
    """Return *text*, or its beginning and end if it is long."""
    return text if len(text) <= 80 else f"{text[:60]}...{text[-10:]}"
