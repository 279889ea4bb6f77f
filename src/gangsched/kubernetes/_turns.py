"""What waits, by namespace: taken in turn, so that no namespace waits behind another's flood.

A queue in the order of arrival is as slow for everybody as its most eager namespace makes it. Here
each namespace has a queue of its own, and one item of each is taken in turn.

Rules:
  R1  items of one namespace leave in the order in which they came. An item with the key of one that
      waits replaces it, and keeps its place;
  R2  between two items of a namespace, each other namespace that has items has one;
  R3  what is dropped is the oldest item of the namespace that has the most.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar, final

__all__ = ["Turns"]

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


@final
class Turns(Generic[K, T]):
    """Items by namespace, each with a key that is unique in all namespaces."""

    __slots__ = ("_count", "_of")

    def __init__(self) -> None:
        # the first namespace is the next one; a namespace without items is not here
        self._of: dict[str, dict[K, T]] = {}
        self._count = 0

    def __len__(self) -> int:
        """Return the number of items. O(1)."""
        return self._count

    def put(self, namespace: str, key: K, item: T) -> None:
        """Add an item, or replace the one of the same key. O(1)."""
        items = self._of.setdefault(namespace, {})
        before = len(items)
        items[key] = item
        self._count += len(items) - before

    def get(self, namespace: str, key: K) -> T | None:
        """Return the item of a key; None if it does not wait. O(1)."""
        return self._of.get(namespace, {}).get(key)

    def remove(self, namespace: str, key: K) -> T | None:
        """Remove and return the item of a key; None if it does not wait. O(1)."""
        items = self._of.get(namespace)
        if items is None or key not in items:
            return None
        return self._taken(namespace, items, key)

    def first(self) -> T | None:
        """Return the item that is taken next; None if nothing waits. O(1)."""
        for items in self._of.values():
            return next(iter(items.values()))
        return None

    def take(self) -> T:
        """Remove and return the next item. O(1).

        Raises:
            LookupError: Nothing waits.
        """
        if not self._of:
            raise LookupError("nothing waits")
        namespace, items = next(iter(self._of.items()))
        item = self._taken(namespace, items, next(iter(items)))
        if items:
            self._of[namespace] = self._of.pop(namespace)
        return item

    def drop(self) -> T:
        """Remove and return the oldest item of the namespace with the most. O(namespaces).

        Raises:
            LookupError: Nothing waits.
        """
        if not self._of:
            raise LookupError("nothing waits")
        namespace, items = max(self._of.items(), key=lambda each: len(each[1]))
        return self._taken(namespace, items, next(iter(items)))

    def keep(self, stays: Callable[[T], bool]) -> None:
        """Remove the items of which *stays* is false. O(items)."""
        kept = {
            namespace: {key: item for key, item in items.items() if stays(item)}
            for namespace, items in self._of.items()
        }
        self._of = {namespace: items for namespace, items in kept.items() if items}
        self._count = sum(map(len, self._of.values()))

    def _taken(self, namespace: str, items: dict[K, T], key: K) -> T:
        item = items.pop(key)
        self._count -= 1
        if not items:
            del self._of[namespace]
        return item
