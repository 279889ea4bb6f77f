"""``PriorityHeap`` in pure Python.

Invariants (checked by ``_check``):
  I1  the entries form a binary heap by (key, number), the number ascending with each push, so
      that equal keys leave in the order in which they came;
  I2  an entry that was removed stays as a tombstone until it surfaces, or until tombstones
      outnumber the items in a heap of more than 64 entries; so there are never more than that;
  I3  the first entry, if there is one, is not a tombstone;
  I4  a handle is good for the heap that gave it, while its item is in there; with any other,
      nothing changes.

A key must not change while it is in the heap: use ``rekey``.
"""

from __future__ import annotations

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
        """Put an item in; return its handle. O(log n)."""
        self._pushed += 1
        entry = [key, self._pushed, item, self._mark]
        heappush(self._entries, entry)
        self._live += 1
        return HeapHandle(entry)

    def peek(self) -> T:
        """Return the first item. O(1).

        Raises:
            IndexError: The heap is empty.
        """
        if not self._entries:
            raise IndexError("peek at an empty heap")
        item: T = self._entries[0][2]
        return item

    def pop(self) -> T:
        """Remove and return the first item. Amortised O(log n).

        Raises:
            IndexError: The heap is empty.
        """
        if not self._entries:
            raise IndexError("pop from an empty heap")
        entry = heappop(self._entries)
        item: T = entry[2]
        entry[2] = _GONE
        self._live -= 1
        self._settle()
        return item

    def remove(self, handle: HeapHandle) -> T:
        """Remove an item by its handle; return it. Amortised O(log n).

        Raises:
            InvalidValueError: The item has left the heap already, or is in another heap.
        """
        item: T = handle[2]
        if item is _GONE or handle[3] is not self._mark:
            raise InvalidValueError("handle", handle[1], "a handle of an item in this heap")
        handle[2] = _GONE
        self._live -= 1
        self._settle()
        return item

    def rekey(self, handle: HeapHandle, key: Any) -> HeapHandle:
        """Move an item to another key; return its new handle. Amortised O(log n).

        Among equal keys it goes behind those that are there.

        Raises:
            InvalidValueError: The item has left the heap already, or is in another heap.
        """
        return self.push(key, self.remove(handle))

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

    def _settle(self) -> None:
        """Restore I2 and I3 after an item has left."""
        if len(self._entries) > _MIN_COMPACTION and self._live * 2 < len(self._entries):
            self._entries = [entry for entry in self._entries if entry[2] is not _GONE]
            heapify(self._entries)
        entries = self._entries
        while entries and entries[0][2] is _GONE:
            heappop(entries)

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
