"""Make the sort key of a plugin comparable with every other key in the queue.

A queue sort plugin returns any tuple of numbers, strings and such tuples. The queue compares these
keys long after the plugin was called: in the heap, in the equivalence queues, and in preemption.
A comparison that raises there could not be attributed to a plugin, and would come too late to undo
the call. So a key is checked once, when it is made, and keys that Python cannot compare with each
other are kept apart by what precedes them:

- a key of numbers alone, whose first part is finite, is used as it is. The heap compares such keys
  without calling Python;
- any other key follows ``(inf, code)``, where the code stands for the kinds of its parts. Two keys
  of one code compare part by part; two of different codes compare by their codes;
- the key of an entity whose plugin failed begins with ``(inf, inf)``, and so is the last.

Rules:
  R1  the keys of one scheduler are totally ordered: no comparison of two of them raises;
  R2  among keys of one kind the order is Python's order of tuples;
  R3  the parts are immutable, so a key cannot change while it is queued.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Final, cast

from gangsched.protocols import EntityView, QueueSortKey

__all__ = ["comparable", "last"]

_NUMBERS: Final = frozenset({int, float, bool})
_PLAIN: Any = tuple
_METHODS: Final = ("__lt__", "__eq__", "__iter__", "__len__")


def comparable(key: object) -> QueueSortKey | None:
    """Return a key that compares with every other one; None if *key* is no sort key.

    Args:
        key: What a plugin returned.
    """
    if not issubclass(type(key), tuple):
        return None
    given = cast("tuple[Any, ...]", key)
    if not _is_plain(type(given)):
        given = _PLAIN.__getitem__(given, slice(None))  # calls no method of a subclass
    if not given:
        return None
    if _NUMBERS.issuperset(map(type, given)):
        if _has_nan(given):
            return None
        if math.isfinite(given[0]) if type(given[0]) is float else True:
            return given
    found = _normal(given)
    if found is None:
        return None
    parts, kinds = found
    return (math.inf, _code(kinds), *parts)


def last(entity: EntityView) -> QueueSortKey:
    """Return the key of an entity for which the plugin gives none: behind every other entity."""
    return (math.inf, math.inf, entity.queued_at, entity.seq)


def _normal(parts: tuple[Any, ...]) -> tuple[tuple[Any, ...], str] | None:
    """Return parts as plain values, and the kind of each; None if one is no number or string."""
    made: list[Any] = []
    kinds = ""
    for part in parts:
        kind = _kind(part)
        if issubclass(kind, int | float):
            number: Any = part if kind in _NUMBERS else _plain_number(part)
            if number != number:
                return None
            made.append(number)
            kinds += "n"
        elif issubclass(kind, str):
            made.append(part if kind is str else str.__str__(part))
            kinds += "s"
        elif issubclass(kind, tuple):
            inner = _normal(_PLAIN.__getitem__(part, slice(None)))
            if inner is None:
                return None
            made.append(inner[0])
            kinds += f"({inner[1]})"
        else:
            return None
    return tuple(made), kinds


def _has_nan(numbers: tuple[Any, ...]) -> bool:
    try:
        total = sum(numbers, 0.0)
    except OverflowError:  # an int that is no float
        total = math.nan
    # a sum is NaN also for inf - inf, so look again
    return total != total and any(number != number for number in numbers)


@functools.lru_cache(maxsize=64)
def _is_plain(kind: Any) -> bool:
    """Return whether a tuple type compares and iterates as ``tuple`` does."""
    return all(getattr(kind, name) is getattr(_PLAIN, name) for name in _METHODS)


def _code(kinds: str) -> int:
    """Return a number for the kinds of parts, another for every other kinds."""
    return int.from_bytes(kinds.encode(), "big")


def _kind(value: object) -> type[object]:
    return type(value)


def _plain_number(number: Any) -> int | float:
    """Return a number without its subclass, such as an ``IntEnum``, by calling no method of it."""
    made: int | float = (
        float.__float__(number) if issubclass(_kind(number), float) else int.__int__(number)
    )
    return made
