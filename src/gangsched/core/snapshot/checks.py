"""How the readers of a snapshot refuse rows that contradict each other."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping
from typing import TypeVar

from gangsched.errors import InvalidValueError

__all__ = ["each_once", "get", "pairs_once", "require", "unique"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def get(known: Mapping[K, V], name: K, path: str) -> V:
    """Return what a row refers to.

    Raises:
        InvalidValueError: The snapshot has no row for it.
    """
    if name not in known:
        raise InvalidValueError(path, name, "listed in the snapshot")
    return known[name]


def unique(known: Container[object], name: object, path: str) -> None:
    """Require that a row is the first one for *name*."""
    if name in known:
        raise InvalidValueError(path, name, "listed once in the snapshot")


def each_once(names: Iterable[K], path: str) -> dict[K, None]:
    """Return the names of a list, which must differ."""
    found: dict[K, None] = {}
    for n, name in enumerate(names):
        unique(found, name, f"{path}[{n}]")
        found[name] = None
    return found


def pairs_once(pairs: Iterable[tuple[K, V]], path: str) -> dict[K, V]:
    """Return the pairs of a list, whose names must differ, as a dict."""
    given = tuple(pairs)
    each_once((name for name, _value in given), path)
    return dict(given)


def require(condition: object, path: str, value: object, expected: str) -> None:
    """Require a condition about the value of a field."""
    if not condition:
        raise InvalidValueError(path, value, expected)
