"""``PriorityHeap`` in pure Python.

Most heaps are filled and then drained, or get a few items between two pops. So an item that is
pushed is only appended; the first pop after that sorts what is there once, with ``list.sort``, and
pops come off the end. Few newcomers beside a long run go to a small heap of their own, until it
has outgrown the run; then both are merged by one sort, which is nearly linear as most is in order.

Invariants (checked by ``_check``):
  I1  an entry is in one of three: the *run*, sorted, the first at its end; the *heap*, a binary
      heap; the *newcomers*, in order of arrival. Whoever is in the run came before whoever is in
      the heap, and they came before the newcomers, so that equal keys leave in the order in which
      they came;
  I2  an entry that was removed stays as a tombstone until it is first, or until tombstones
      outnumber the items in a heap of more than 64 entries; so there are never more than that, and
      none in an empty heap;
  I3  the short way out, from the end of the run, is open only while there are neither newcomers
      nor a heap nor tombstones;
  I4  a handle is good for the heap that gave it, while its item is in there; with any other,
      nothing changes;
  I5  a call returns, or raises having changed nothing, even where a comparison of keys raises.

A key must not change while it is in the heap: use ``rekey``. Keys must be totally ordered, and must
not use the heap when they are compared. A key that is not equal to itself, as NaN, is refused, and
so is a tuple with such a part. So is one that cannot be compared with the keys it meets on its way
in: the one that came before it, and the first ones that are known. Tuples of numbers can always be
compared, and meet nobody. Where keys turn out only later not to be comparable, the first cannot be
told: ``peek``, ``pop`` and iteration raise what a comparison raised, until one of them is removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import pairwise
from operator import itemgetter
from typing import Any, Generic, NewType, TypeVar

from gangsched._core._heap._keys import COMPARABLE, adds_up, has_numbers
from gangsched.errors import InternalError, InvalidValueError

__all__ = ["HeapHandle", "PriorityHeap"]

T = TypeVar("T")

HeapHandle = NewType("HeapHandle", list[Any])
"""What ``push`` returns: opaque, good for one item until that item has left the heap."""

_Entry = list[Any]
"""Key, number, item, mark of the heap; of a tombstone item and mark are None."""

_MIN_COMPACTION = 64
_MIN_MERGE = 32
_MERGE_SHARE = 8

_key = itemgetter(0)
_number = itemgetter(1)


class PriorityHeap(Generic[T]):
    """A heap of items by key, smallest first, with removal and re-keying by handle.

    Not thread-safe.
    """

    __slots__ = ("_dead", "_fast", "_heap", "_kind", "_mark", "_new", "_pushed", "_run")

    def __init__(self) -> None:
        self._run: list[_Entry] = []
        self._heap: list[_Entry] = []
        self._new: list[_Entry] = []
        self._dead = 0
        self._fast: list[_Entry] | None = None  # the run, while the short way out is open
        self._kind: Any = None  # the class of keys, while all are tuples of numbers
        self._mark: Any = object()
        self._pushed = 0

    def push(self, key: Any, item: T) -> HeapHandle:
        """Put an item in; return its handle. Amortised O(log n).

        Raises:
            InvalidValueError: The key cannot be compared; nothing has changed.
        """
        if key.__class__ is self._kind:
            try:
                # cheaper than a look at each part, and as good: a sum is a float that is equal
                # to itself only if they are all numbers, and none is NaN
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
        handle: HeapHandle = entry  # not by a call, which would cost as much as the rest
        return handle

    def peek(self) -> T:
        """Return the first item. Amortised O(log n), O(1) if nothing has changed.

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
            InvalidValueError: The item has left the heap already, or is in another heap.
        """
        item = self._item(handle)
        self._bury(handle)
        return item

    def rekey(self, handle: HeapHandle, key: Any) -> HeapHandle:
        """Move an item to another key; return its new handle. Amortised O(log n).

        Among equal keys it goes behind those that are there.

        Raises:
            InvalidValueError: The item has left the heap already, or is in another heap; or the
                key cannot be compared. Nothing has changed.
        """
        moved = self.push(key, self._item(handle))  # before it leaves: the key may be refused
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
        """Iterate over the items in order, as they are now. O(n log n)."""
        live = [entry for entry in self._arrivals() if entry[3] is not None]
        live.sort(key=_key)
        # read at once: what leaves during the iteration leaves no trace in its entry
        return iter([entry[2] for entry in live])

    @property
    def _entries(self) -> list[_Entry]:
        return [*self._run, *self._heap, *self._new]

    def _arrivals(self) -> list[_Entry]:
        """Return the entries so that equal keys are in order of arrival."""
        return [*self._run[::-1], *sorted(self._heap, key=_number), *self._new]

    # Coming in ------------------------------------------------------------------------------

    def _admit(self, key: Any) -> None:
        """Refuse a key that cannot be compared; keep ``_kind`` true."""
        given: object = key
        is_tuple = isinstance(given, tuple)
        try:
            # in a tuple NaN has to be looked for: a tuple with it is equal to itself
            for part in key if is_tuple else (key,):
                if part != part:
                    raise ValueError("not equal to itself")
            if not len(self):
                self.clear()  # of tombstones
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
        """Give the newcomers their places."""
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
        """Sort everything into the run."""
        merged = self._arrivals()
        if self._dead:
            merged = [entry for entry in merged if entry[3] is not None]
        merged.reverse()  # as a stable sort in reverse keeps equals as they are
        merged.sort(key=_key, reverse=True)
        self._run, self._heap, self._new, self._dead = merged, [], [], 0

    def _scatter(self, *popped: _Entry) -> None:
        """Take who is in the heap for newcomers again, as a comparison has left it in no order."""
        entries = {entry[1]: entry for entry in (*popped, *self._heap, *self._new)}
        self._heap, self._new = [], [entries[number] for number in sorted(entries)]

    # Going out ------------------------------------------------------------------------------

    def _lead(self, what: str) -> list[_Entry]:
        """Find the first item; return the run if it is at its end, else a list of it alone."""
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
        """Take out the first entry, the long way."""
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
        """Take out an entry, wherever it is."""
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
        """Restore I2: drop every tombstone, if there are too many."""
        total = len(self._run) + len(self._heap) + len(self._new)
        if self._dead < total and (total <= _MIN_COMPACTION or self._dead * 2 <= total):
            return
        self._run = [entry for entry in self._run if entry[3] is not None]
        self._scatter()
        self._new = [entry for entry in self._new if entry[3] is not None]
        self._dead = 0

    def _item(self, handle: HeapHandle) -> T:
        """Return the item of a handle, which must be good."""
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
            raise InternalError("the short way out is open, and is not the only one")
        if self._kind is not None and not all(adds_up(entry[0]) for entry in self._entries):
            raise InternalError("a key is not of numbers")
