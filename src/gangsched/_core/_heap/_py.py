"""``PriorityHeap`` in pure Python.

Invariants (checked by ``_check``):
  I1  the entries form a binary heap by (key, number), the number ascending with each push, so
      that equal keys leave in the order in which they came;
  I2  an entry that was removed stays as a tombstone until it surfaces, or until tombstones
      outnumber the items in a heap of more than 64 entries; so there are never more than that;
  I3  the first entry, if there is one, is not a tombstone;
  I4  a handle is good for the heap that gave it, while its item is in there; with any other,
      nothing changes;
  I5  a call returns, or raises having changed nothing, even where a comparison of keys raises.

A key must not change while it is in the heap: use ``rekey``. Keys must be totally ordered. One that
cannot be compared with a key that it meets on its way in, or that is not equal to itself, as NaN,
is refused; so is a tuple with such a part. Where keys are not ordered otherwise, I2 and I3 may have
to wait until they can be compared.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Any, Generic, NewType, TypeVar

from gangsched.errors import InternalError, InvalidValueError

__all__ = ["HeapHandle", "PriorityHeap"]

T = TypeVar("T")

HeapHandle = NewType("HeapHandle", list[Any])
"""What ``push`` returns: opaque, good for one item until that item has left the heap."""

_GONE: Any = object()
_MIN_COMPACTION = 64
_COMPARABLE = "a key that can be compared with those that are in the heap, and with itself"


class PriorityHeap(Generic[T]):
    """A heap of items by key, smallest first, with removal and re-keying by handle.

    Not thread-safe.
    """

    __slots__ = ("_entries", "_live", "_mark", "_pushed")

    def __init__(self) -> None:
        self._entries: list[list[Any]] = []  # [key, number, item, mark of this heap]
        self._mark: Any = object()
        self._live = 0
        self._pushed = 0

    def push(self, key: Any, item: T) -> HeapHandle:
        """Put an item in; return its handle. O(log n).

        Raises:
            InvalidValueError: The key cannot be compared; nothing has changed.
        """
        given: object = key
        number = self._pushed + 1
        entry = [key, number, item, self._mark]
        try:
            # NaN in a tuple has to be looked for: a tuple with it is equal to itself
            for part in key if isinstance(given, tuple) else (key,):
                if part != part:
                    raise ValueError("not equal to itself")
            heappush(self._entries, entry)
        except Exception as error:
            _undo_push(self._entries, entry)
            raise InvalidValueError("key", key, _COMPARABLE) from error
        self._pushed = number
        self._live += 1
        return HeapHandle(entry)

    def peek(self) -> T:
        """Return the first item. O(1).

        Raises:
            IndexError: The heap is empty.
        """
        if not self._live:
            raise IndexError("peek at an empty heap")
        item: T = self._entries[0][2]
        if item is _GONE:
            self._surface()
            item = self._entries[0][2]
        return item

    def pop(self) -> T:
        """Remove and return the first item. Amortised O(log n).

        Raises:
            IndexError: The heap is empty.
        """
        entries = self._entries
        if not self._live:
            raise IndexError("pop from an empty heap")
        first = entries[0]
        if first[2] is _GONE:
            self._surface()
            first = entries[0]
        last = entries[-1]
        try:
            heappop(entries)
        except Exception:
            _undo_pop(entries, first, last)
            raise
        item: T = first[2]
        first[2] = _GONE
        self._live -= 1
        # asked here too, as most often there is nothing to settle
        if entries and (entries[0][2] is _GONE or self._live * 2 < len(entries)):
            self._settle()
        return item

    def remove(self, handle: HeapHandle) -> T:
        """Remove an item by its handle; return it. Amortised O(log n).

        Raises:
            InvalidValueError: The item has left the heap already, or is in another heap.
        """
        item = self._item(handle)
        handle[2] = _GONE
        self._live -= 1
        self._settle()
        return item

    def rekey(self, handle: HeapHandle, key: Any) -> HeapHandle:
        """Move an item to another key; return its new handle. Amortised O(log n).

        Among equal keys it goes behind those that are there.

        Raises:
            InvalidValueError: The item has left the heap already, or is in another heap; or the
                key cannot be compared. Nothing has changed.
        """
        moved = self.push(key, self._item(handle))  # before it leaves: the key may be refused
        handle[2] = _GONE
        self._live -= 1
        self._settle()
        return moved

    def clear(self) -> None:
        """Remove every item. O(n)."""
        for entry in self._entries:
            entry[2] = _GONE
        self._entries = []
        self._live = 0

    def __len__(self) -> int:
        return self._live

    def __iter__(self) -> Iterator[T]:
        """Iterate over the items in order, as they are now. O(n log n)."""
        ordered = sorted(entry for entry in self._entries if entry[2] is not _GONE)
        # read at once: what leaves during the iteration leaves no trace in its entry
        return iter([entry[2] for entry in ordered])

    def _item(self, handle: HeapHandle) -> T:
        """Return the item of a handle, which must be good."""
        try:
            item: T = handle[2]
            if item is not _GONE and handle[3] is self._mark:
                return item
            value: object = handle[1] if type(handle) is list else handle
        except (TypeError, LookupError):
            value = handle
        raise InvalidValueError("handle", value, "a handle of an item in this heap")

    def _settle(self) -> None:
        """Restore I2 and I3 after an item has left."""
        entries = self._entries
        if len(entries) > _MIN_COMPACTION and self._live * 2 < len(entries):
            entries = self._compact()
        if entries[0][2] is _GONE:
            # the item has left all the same; who looks at the first one is told
            with contextlib.suppress(Exception):
                self._surface()

    def _compact(self) -> list[list[Any]]:
        """Drop every tombstone, if the keys can be compared."""
        entries = [entry for entry in self._entries if entry[2] is not _GONE]
        try:
            heapify(entries)
        except Exception:
            return self._entries
        self._entries = entries
        return entries

    def _surface(self) -> None:
        """Drop the tombstones that are first."""
        entries = self._entries
        while entries and entries[0][2] is _GONE:
            first, last = entries[0], entries[-1]
            try:
                heappop(entries)
            except Exception:
                _undo_pop(entries, first, last)
                raise

    def _check(self) -> None:
        live = [entry for entry in self._entries if entry[2] is not _GONE]
        if len(live) != self._live:
            raise InternalError(f"{len(live)} live entries, counted {self._live}")
        for child in range(1, len(self._entries)):
            if self._entries[child] < self._entries[(child - 1) // 2]:
                raise InternalError(f"entry {child} is before its parent")
        if self._entries and self._entries[0][2] is _GONE:
            raise InternalError("the first entry is a tombstone")
        if any(entry[3] is not self._mark for entry in self._entries):
            raise InternalError("an entry is of another heap")
        tombstones = len(self._entries) - self._live
        if tombstones > max(_MIN_COMPACTION, self._live):
            raise InternalError(f"{tombstones} tombstones beside {self._live} items")


def _undo_pop(entries: list[list[Any]], first: list[Any], last: list[Any]) -> None:
    """Put back the first entry.

    The last one is on its way down from the top, or up again, and those above it moved up by one.
    """
    place = next(n for n, entry in enumerate(entries) if entry is last)
    while place:
        above = (place - 1) // 2
        entries[place] = entries[above]
        place = above
    entries[0] = first
    entries.append(last)


def _undo_push(entries: list[list[Any]], entry: list[Any]) -> None:
    """Take out an entry, if it is in, that is on its way up; those below it moved down by one."""
    place = next((n for n, each in enumerate(entries) if each is entry), None)
    if place is None:
        return
    path = [len(entries) - 1]
    while path[-1] > place:
        path.append((path[-1] - 1) // 2)
    for above, below in zip(path[:0:-1], path[-2::-1], strict=True):
        entries[above] = entries[below]
    entries.pop()
