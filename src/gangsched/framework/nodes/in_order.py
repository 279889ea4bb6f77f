"""Items in ascending order: a list while they are few, a ``SortedList`` when they are many.

Most clusters have a few dozen classes of nodes, and a list of that length is changed in a third of
the time. A list of 50,000 items is changed in six times the time of a ``SortedList``, since half of
it is moved. The two are equally fast at about 3,000 items.

Both have ``len``, iteration, indices and ``copy``; the functions here are what differs.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias, cast

from sortedcontainers import SortedList

__all__ = ["NONE", "Items", "add", "between", "first_at_least", "made", "remove"]

Items: TypeAlias = list[Any]
"""The container. A ``SortedList`` has the same methods, and no types of its own."""
NONE: Final = cast("Items", ())
"""No items, for what has none nearly always. ``add`` wants a container of its own."""
_MANY: Final = 2_000


def made(items: Iterable[Any]) -> Items:
    """Return items in order. O(n log n)."""
    found = sorted(items)
    many: Any = SortedList
    return many(found) if len(found) > _MANY else found


def add(items: Items, item: Any) -> Items:
    """Add an item; return the container, which is another one when the items become many.

    Runtime complexity: O(log n), and a move in memory of at most ``_MANY`` items.
    """
    if type(items) is not list:
        many: Any = items
        many.add(item)
        return items
    insort(items, item)
    return made(items) if len(items) > _MANY else items


def remove(items: Items, item: Any) -> None:
    """Remove an item. See ``add`` for the cost.

    Raises:
        ValueError: The item is not there.
    """
    if type(items) is not list:
        items.remove(item)
        return
    n = bisect_left(items, item)
    if n == len(items) or items[n] != item:
        raise ValueError(f"{item!r} is not there")
    del items[n]


def first_at_least(items: Items, bound: Any) -> int:
    """Return the position of the first item that is not less than *bound*; ``len`` if all are.

    O(log n).
    """
    if type(items) is not list:
        many: Any = items
        found: int = many.bisect_left(bound)
        return found
    return bisect_left(items, bound)


def between(items: Items, start: int, stop: int | None = None) -> Iterator[Any]:
    """Iterate over the items from a position to another one, which is left out; None for all."""
    if type(items) is not list:
        many: Any = items
        found: Iterator[Any] = many.islice(start, stop)
        return found
    return map(items.__getitem__, range(start, len(items) if stop is None else stop))
