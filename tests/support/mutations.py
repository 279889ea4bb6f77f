"""Every change of one place in plain data, by the generic path of the place.

A generic path names a place in all rows alike, such as ``members[*].pod.name``.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

__all__ = ["at", "generic", "mutations", "paths"]

_MISSING: Any = object()
_OTHERS: tuple[Any, ...] = (None, -1, 10**400, "Infinity", "x", [], {}, True, 2.5)


def paths(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each place in plain data."""
    names: Any = ()
    if isinstance(data, dict):
        names = list(data)
    elif isinstance(data, list):
        names = range(len(data))
    for name in names:
        yield (*path, name)
        yield from paths(data[name], (*path, name))


def generic(path: tuple[Any, ...]) -> str:
    """Return a path without the numbers of rows."""
    found = ""
    for name in path:
        found += "[*]" if isinstance(name, int) else f".{name}" if found else name
    return found


def at(data: Any, path: tuple[Any, ...]) -> Any:
    """Return what is at a path."""
    for name in path:
        data = data[name]
    return data


def mutations(
    data: Any, *, places: int, every: int = 1, part: int = 0
) -> Iterator[tuple[str, str, Any]]:
    """Yield each change of a copy of plain data: generic path, kind of change, changed copy.

    Args:
        data: The plain data.
        places: How many places of each generic path are changed: the first, the last, and others.
        every: Only each of so many changes is made.
        part: The first one that is made.
    """
    number = 0
    by_path: dict[str, list[tuple[Any, ...]]] = {}
    for path in paths(data):
        by_path.setdefault(generic(path), []).append(path)
    for name, found in by_path.items():
        step = max(1, (len(found) - 1) // max(places - 1, 1))
        for path in found[::step]:
            for kind, value in _values(data, path, found):
                number += 1
                if (number - 1) % every != part:
                    continue
                changed = copy.deepcopy(data)
                _put(changed, path, value)
                yield name, kind, changed


def _put(data: Any, path: tuple[Any, ...], value: Any) -> None:
    holder, last = at(data, path[:-1]), path[-1]
    if value is _MISSING:
        del holder[last]
    else:
        holder[last] = value


def _values(data: Any, path: tuple[Any, ...], alike: list[tuple[Any, ...]]) -> Iterator[Any]:
    old = at(data, path)
    yield "drop", _MISSING
    for other in _OTHERS:
        if other != old or type(other) is not type(old):
            yield f"other {str(other)[:9]!r}", copy.deepcopy(other)
    if type(old) is int:
        yield "one more", old + 1
        yield "one less", old - 1
    if type(old) is bool:
        yield "not", not old
    if type(old) is float:
        yield "later", old + 1000.0
        yield "sooner", old - 1000.0
    for other_path in (alike[0], alike[-1]):
        other = at(data, other_path)
        if other != old:
            yield f"as at {generic(other_path)}", copy.deepcopy(other)
    if isinstance(old, list) and old:
        yield "duplicate", [*copy.deepcopy(old), copy.deepcopy(old[0])]
        if len(old) > 1 and old[0] != old[-1]:
            swapped = copy.deepcopy(old)
            swapped[0], swapped[-1] = swapped[-1], swapped[0]
            yield "swap", swapped
