"""``PriorityHeap`` in pure Python.

Theory of operation. Most heaps are filled and then emptied, or get a few items between two pops.
So ``push`` only appends the entry to the list of *newcomers*. The first ``peek`` or ``pop`` after
that sorts all entries once into the *run*, with ``list.sort``, in descending order: further pops
take the last element of a list. If there are few newcomers beside a long run, they go to a small
binary *heap* instead, and the smaller of the two first entries is popped. When the heap has
outgrown its share of the run, both are merged by one sort. That sort is nearly linear, because
``list.sort`` uses existing order.

``remove`` marks an entry as a *tombstone*, which is dropped when it comes first or when there are
too many. While there are no newcomers, no heap and no tombstones, ``pop`` takes the *fast path*:
it pops the run and does nothing else.

Invariants (checked by ``_check``):
  I1  an entry is in exactly one of three lists: the run, sorted, the first entry at its end; the
      heap, a binary heap; the newcomers, in order of arrival. All entries of the run arrived
      before those of the heap, and these before the newcomers. So equal keys leave in the order
      of their arrival;
  I2  a removed entry stays as a tombstone until it comes first, or until there are more tombstones
      than items in a heap of more than 64 entries. An empty heap has none;
  I3  the fast path is open only while there are no newcomers, no heap and no tombstones;
  I4  a handle is valid in the heap that returned it, while its item is there. Any other handle
      raises and changes nothing;
  I5  a call returns, or raises with nothing changed, even if a comparison of keys raises.

Requirements on keys. A key must not change while it is in the heap: use ``rekey``. Keys must be
totally ordered, and comparing them must not use the heap. ``push`` refuses a key that is not equal
to itself, such as NaN, and a tuple that contains one. It also refuses a key that cannot be
compared with the keys that it meets first: the last newcomer, and the first entries of the heap
and the run. Tuples of numbers are always comparable and skip that check.

Some incomparable keys are found only later. Then the heap cannot tell which item is first:
``peek``, ``pop`` and iteration raise the error of the comparison until one of these keys is
removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import pairwise
from operator import itemgetter
from typing import Any, Generic, NewType, TypeVar

from gangsched.errors import InternalError, InvalidValueError
from gangsched.primitives.heap._keys import COMPARABLE, adds_up, has_numbers

__all__ = ["HeapHandle", "PriorityHeap"]

T = TypeVar("T")

HeapHandle = NewType("HeapHandle", list[Any])
"""The opaque result of ``push``; valid until its item has left the heap."""

_Entry = list[Any]
"""Key, number, item, mark of the heap. In a tombstone, item and mark are None."""

_MIN_COMPACTION = 64
_MIN_MERGE = 32
_MERGE_SHARE = 8

_key = itemgetter(0)
_number = itemgetter(1)


class PriorityHeap(Generic[T]):
    """A priority queue: items by key, smallest first, with removal and re-keying by handle.

    Not thread-safe.
    """

    __slots__ = ("_dead", "_fast", "_heap", "_kind", "_mark", "_new", "_pushed", "_run")

    def __init__(self) -> None:
        self._run: list[_Entry] = []
        self._heap: list[_Entry] = []
        self._new: list[_Entry] = []
        self._dead = 0
        self._fast: list[_Entry] | None = None  # the run, while the fast path is open
        self._kind: Any = None  # the class of all keys, while all are tuples of numbers
        self._mark: Any = object()
        self._pushed = 0

    def push(self, key: Any, item: T) -> HeapHandle:
        """Add an item and return its handle. Amortised O(log n).

        Raises:
            InvalidValueError: The key cannot be compared; nothing has changed.
        """
        if key.__class__ is self._kind:
            try:
                # One sum is cheaper than a check of each part, and proves the same: it is a float
                # equal to itself only if all parts are numbers and none is NaN.
                total = sum(key, 0.0)
                known = total.__class__ is float and total == total
            except Exception:
                known = False
            if not known:
                self._admit(key)
        else:
            self._admit(key)
        self._fast = None
        self._pushed = number = self._pushed + 1
        entry: Any = [key, number, item, self._mark]
        self._new.append(entry)
        handle: HeapHandle = entry  # HeapHandle(entry) is a call and would double the cost
        return handle

    def peek(self) -> T:
        """Return the first item. Amortised O(log n); O(1) if the heap has not changed.

        Raises:
            IndexError: The heap is empty.
        """
        item: T = (self._fast or self._lead("peek at"))[-1][2]
        return item

    def pop(self) -> T:
        """Remove and return the first item. Amortised O(log n).

        Raises:
            IndexError: The heap is empty.
        """
        run = self._fast
        entry = run.pop() if run else self._pop()
        item: T = entry[2]
        entry[2] = entry[3] = None
        return item

    def remove(self, handle: HeapHandle) -> T:
        """Remove an item by its handle; return it. Amortised O(1).

        Raises:
            InvalidValueError: The handle is not valid in this heap.
        """
        item = self._item(handle)
        self._bury(handle)
        return item

    def rekey(self, handle: HeapHandle, key: Any) -> HeapHandle:
        """Move an item to another key; return its new handle. Amortised O(log n).

        The item goes behind items with an equal key.

        Raises:
            InvalidValueError: The handle is not valid in this heap, or the key cannot be compared.
                Nothing has changed.
        """
        moved = self.push(key, self._item(handle))  # first, because the key may be refused
        self._bury(handle)
        return moved

    def clear(self) -> None:
        """Remove every item. O(n)."""
        entries = [*self._run, *self._heap, *self._new]
        self._run, self._heap, self._new = [], [], []
        self._fast, self._kind, self._dead = None, None, 0
        for entry in entries:
            entry[2] = entry[3] = None

    def __len__(self) -> int:
        return len(self._run) + len(self._heap) + len(self._new) - self._dead

    def __iter__(self) -> Iterator[T]:
        """Iterate over the items in order, as of this call. O(n log n)."""
        live = [entry for entry in self._arrivals() if entry[3] is not None]
        live.sort(key=_key)
        # A list, not a generator: an item removed during the iteration is gone from its entry.
        return iter([entry[2] for entry in live])

    @property
    def _entries(self) -> list[_Entry]:
        return [*self._run, *self._heap, *self._new]

    def _arrivals(self) -> list[_Entry]:
        """Return the entries with equal keys in order of arrival, for a stable sort."""
        return [*self._run[::-1], *sorted(self._heap, key=_number), *self._new]

    # Insertion -----------------------------------------------------------------------------

    def _admit(self, key: Any) -> None:
        """Raise if a key cannot be compared; update ``_kind``."""
        given: object = key
        is_tuple = isinstance(given, tuple)
        try:
            # Each part on its own: a tuple with NaN is equal to itself.
            for part in key if is_tuple else (key,):
                if part != part:
                    raise ValueError("not equal to itself")
            if not len(self):
                self.clear()  # drops tombstones
                self._kind = type(key) if is_tuple and has_numbers(key) else None
                return
            for entries, place in ((self._new, -1), (self._heap, 0), (self._run, -1)):
                if entries:
                    bool(key < entries[place][0])
        except Exception as error:
            raise InvalidValueError("key", key, COMPARABLE) from error
        if not (is_tuple and has_numbers(key)):
            self._kind = None

    def _settle(self) -> None:
        """Move the newcomers to the heap or, with all others, to the run."""
        new, heap = self._new, self._heap
        if len(heap) + _MERGE_SHARE * len(new) > len(self._run) + _MIN_MERGE:
            self._merge()
            return
        try:
            for entry in new:
                heappush(heap, entry)
        except BaseException:
            self._scatter()
            raise
        self._new = []

    def _merge(self) -> None:
        """Sort all entries into the run."""
        merged = self._arrivals()
        if self._dead:
            merged = [entry for entry in merged if entry[3] is not None]
        merged.reverse()  # a stable sort in reverse keeps the order of equal keys
        merged.sort(key=_key, reverse=True)
        self._run, self._heap, self._new, self._dead = merged, [], [], 0

    def _scatter(self, *popped: _Entry) -> None:
        """Make the entries of the heap newcomers again.

        A comparison has raised in the middle of a heap operation, so the heap is out of order.
        """
        entries = {entry[1]: entry for entry in (*popped, *self._heap, *self._new)}
        self._heap, self._new = [], [entries[number] for number in sorted(entries)]

    # Removal --------------------------------------------------------------------------------

    def _lead(self, what: str) -> list[_Entry]:
        """Return the list that ends with the first entry: the run, or a list of it alone."""
        if not len(self):
            raise IndexError(f"{what} an empty heap")
        if self._new:
            self._settle()
        if self._dead:
            self._surface()
        run, heap = self._run, self._heap
        if not heap:
            if not self._dead:
                self._fast = run
            return run
        if not run:
            return [heap[0]]
        first, before = heap[0], heap[0][0] < run[-1][0]
        if run is not self._run or heap is not self._heap or not run:
            raise RuntimeError("the heap was used while keys were compared")
        return [first] if before else run

    def _pop(self) -> _Entry:
        """Remove and return the first entry without the fast path."""
        first = self._lead("pop from")
        if first is not self._run:
            self._pop_heap()
        entry = first.pop()
        if self._dead:
            self._compact()
        return entry

    def _pop_heap(self) -> None:
        first = self._heap[0]
        try:
            heappop(self._heap)
        except BaseException:
            self._scatter(first)
            raise

    def _surface(self) -> None:
        """Drop the tombstones that are first."""
        run = self._run
        while run and run[-1][3] is None:
            run.pop()
            self._dead -= 1
        while self._heap and self._heap[0][3] is None:
            self._pop_heap()
            self._dead -= 1

    def _bury(self, entry: _Entry) -> None:
        """Remove an entry: pop it if it is first in the run, else make it a tombstone."""
        entry[2] = entry[3] = None
        run = self._run
        if run and run[-1] is entry:
            run.pop()
        else:
            self._fast = None
            self._dead += 1
        if self._dead:
            self._compact()

    def _compact(self) -> None:
        """Restore I2: drop all tombstones if there are too many."""
        total = len(self._run) + len(self._heap) + len(self._new)
        if self._dead < total and (total <= _MIN_COMPACTION or self._dead * 2 <= total):
            return
        self._run = [entry for entry in self._run if entry[3] is not None]
        self._scatter()
        self._new = [entry for entry in self._new if entry[3] is not None]
        self._dead = 0

    def _item(self, handle: HeapHandle) -> T:
        """Return the item of a handle.

        Raises:
            InvalidValueError: The handle is not valid in this heap.
        """
        try:
            if handle[3] is self._mark:
                item: T = handle[2]
                return item
            value: object = handle[1] if type(handle) is list else handle
        except (TypeError, LookupError):
            value = handle
        raise InvalidValueError("handle", value, "a handle of an item in this heap")

    def _check(self) -> None:
        run, heap, new = self._run, self._heap, self._new
        for after, before in pairwise(run):
            if after[:2] < before[:2]:
                raise InternalError(f"entry {before[1]} is behind {after[1]} in the run")
        for child in range(1, len(heap)):
            if heap[child][:2] < heap[(child - 1) // 2][:2]:
                raise InternalError(f"entry {child} is before its parent")
        numbers = [sorted(map(_number, run)), sorted(map(_number, heap)), [*map(_number, new)]]
        arrivals = [number for part in numbers for number in part]
        if any(a >= b for a, b in pairwise(arrivals)):
            raise InternalError(f"entries {numbers} are not in order of arrival")
        dead = sum(entry[3] is None for entry in self._entries)
        if dead != self._dead:
            raise InternalError(f"{dead} tombstones, counted {self._dead}")
        if any(entry[3] not in (None, self._mark) for entry in self._entries):
            raise InternalError("an entry is of another heap")
        if dead > max(_MIN_COMPACTION, len(self)):
            raise InternalError(f"{dead} tombstones beside {len(self)} items")
        if self._fast is not None and (self._fast is not run or heap or new or dead):
            raise InternalError("the fast path is open, but the run does not hold all entries")
        if self._kind is not None and not all(adds_up(entry[0]) for entry in self._entries):
            raise InternalError("a key is not a tuple of numbers")
