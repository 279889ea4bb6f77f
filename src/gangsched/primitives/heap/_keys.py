"""Checks of heap keys that both builds share."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["COMPARABLE", "adds_up", "has_numbers"]

COMPARABLE: Final = "comparable with the keys in the heap and equal to itself"
_NUMBERS: Final = frozenset({int, float, bool})
_PLAIN: Any = tuple


def adds_up(key: Any) -> bool:
    """Return whether the parts of a key are numbers."""
    try:
        return isinstance(sum(key, 0.0), float)
    except OverflowError:
        return True
    except Exception:
        return False


def has_numbers(key: Any) -> bool:
    """Return whether a key is a tuple of numbers with the comparisons of ``tuple``."""
    kind: Any = key.__class__
    is_plain = kind.__lt__ is _PLAIN.__lt__ and kind.__eq__ is _PLAIN.__eq__
    return is_plain and kind.__iter__ is _PLAIN.__iter__ and _NUMBERS.issuperset(map(type, key))
