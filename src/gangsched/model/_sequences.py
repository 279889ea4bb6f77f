"""Converters of sequences of names, for attributes of pods, groups and nodes.

A value that is no such sequence is returned as it is; the validator of the attribute refuses it.
"""

from __future__ import annotations

from collections.abc import Iterable

from gangsched.values.fields import as_tuple

__all__ = ["as_names", "as_sorted_names"]


def as_sorted_names(given: Iterable[str]) -> tuple[str, ...]:
    """Return names in order, each once, as a tuple. O(n log n)."""
    found = as_tuple(given)
    if isinstance(found, tuple) and all(isinstance(name, str) for name in found):
        found = tuple(sorted(set(found)))
    return found


def as_names(given: Iterable[str]) -> tuple[str, ...]:
    """Return names as a tuple. O(n)."""
    return as_tuple(given)
