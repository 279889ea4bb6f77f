# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: binding=True, embedsignature=False, freethreading_compatible=True
"""``PriorityHeap``, compiled. ``_py`` documents the algorithm and the invariants of both builds.

This build keeps the same entries in the same three lists and moves them at the same calls. The
differences:

  D1  while every key *fits*, each entry also has the parts of its key as 64-bit words, whose
      unsigned order is the order of the parts. Comparisons compare words, and sorting is a radix
      sort: only the bits that differ count, and as many parts as fit share a word.
      A key fits if it is a number, or a tuple of at most five numbers with the comparisons of
      ``tuple``. Each part is a 64-bit integer or a float, always of the same type at the same
      position. An integer also fits at the position of a float, and a float at the position of
      integers if each of these is exactly a float;
  D2  when a key does not fit, keys are compared as Python objects, as in ``_py``, until the heap
      is empty again;
  D3  while an entry is being moved, only the comparisons of D2 run foreign code. Memory is
      allocated before anything changes.

The files ``_c_words``, ``_c_sorting`` and ``_c_packing`` are included.
"""

cimport cython
from cpython.float cimport PyFloat_AS_DOUBLE
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE, PyList_New, PyList_SET_ITEM
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport Py_EQ, Py_LT, PyObject, PyObject_RichCompare, PyObject_RichCompareBool
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from heapq import heappop, heappush
from itertools import pairwise
from types import GenericAlias

from gangsched.primitives.heap._keys import COMPARABLE, adds_up, has_numbers
from gangsched.errors import InternalError, InvalidValueError

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object, int*) except? -1

__all__ = ["PriorityHeap"]

cdef enum:
    WIDTH = 5
    MIN_COMPACTION = 64
    MIN_MERGE = 32
    MERGE_SHARE = 8
    INTEGER = 0
    FLOAT = 1
    # results of packing a key
    FITS = 0
    DOES_NOT_FIT = 1
    IS_WIDER = 2  # a float at the position of integers

cdef uint64_t SIGN = <uint64_t>1 << 63
cdef int64_t EXACT = <int64_t>1 << 53
cdef object _TUPLE_LT = tuple.__lt__
cdef object _TUPLE_EQ = tuple.__eq__
cdef object _TUPLE_ITER = tuple.__iter__

include "_c_words.pxi"
include "_c_sorting.pxi"
include "_c_packing.pxi"


cdef class PriorityHeap(_PackedKeys):
    """A priority queue: items by key, smallest first, with removal and re-keying by handle.

    Not thread-safe.
    """

    __class_getitem__ = classmethod(GenericAlias)
    __hash__ = object.__hash__

    def __init__(self):
        pass

    @cython.critical_section
    def push(self, key, item):
        """Add an item and return its handle. Amortised O(log n).

        Raises:
            InvalidValueError: The key cannot be compared; nothing has changed.
        """
        return self._push(key, item)

    cdef HeapEntry _push(self, key, item):
        cdef HeapEntry entry = HeapEntry.__new__(HeapEntry)
        if not self._packed or self._parts == 0 or self._pack(key, entry) != FITS:
            self._push_slowly(key, entry)
        self._pushed += 1
        entry.key = key
        entry.item = item
        entry.mark = self._mark
        entry.number = self._pushed
        self._open = False
        self._new.append(entry)
        return entry

    @cython.critical_section
    def peek(self):
        """Return the first item. Amortised O(log n); O(1) if the heap has not changed.

        Raises:
            IndexError: The heap is empty.
        """
        if self._open and PyList_GET_SIZE(self._run):
            return _last(self._run).item
        return _last(self._lead("peek at")).item

    @cython.critical_section
    def pop(self):
        """Remove and return the first item. Amortised O(log n).

        Raises:
            IndexError: The heap is empty.
        """
        cdef HeapEntry entry
        if self._open and PyList_GET_SIZE(self._run):
            entry = self._run.pop()
        else:
            entry = self._pop()
        item = entry.item
        entry.item = entry.mark = None
        return item

    @cython.critical_section
    def remove(self, handle):
        """Remove an item by its handle; return it. Amortised O(1).

        Raises:
            InvalidValueError: The handle is not valid in this heap.
        """
        cdef HeapEntry entry = self._entry(handle)
        item = entry.item
        self._bury(entry)
        return item

    @cython.critical_section
    def rekey(self, handle, key):
        """Move an item to another key; return its new handle. Amortised O(log n).

        The item goes behind items with an equal key.

        Raises:
            InvalidValueError: The handle is not valid in this heap, or the key cannot be compared.
                Nothing has changed.
        """
        cdef HeapEntry entry = self._entry(handle)
        moved = self._push(key, entry.item)
        self._bury(entry)
        return moved

    @cython.critical_section
    def clear(self):
        """Remove every item. O(n)."""
        self._clear()

    def __len__(self):
        return self._live()

    @cython.critical_section
    def __iter__(self):
        """Iterate over the items in order, as of this call. O(n log n)."""
        cdef HeapEntry entry
        cdef list live = [entry for entry in self._arrivals() if entry.mark is not None]
        if self._packed:
            live = _by_words(live, self._width)
            live.reverse()
        else:
            live.sort(key=_key)
        return iter([(<HeapEntry>entry).item for entry in live])

    def __reduce__(self):
        kinds = tuple([self._kinds[n] for n in range(WIDTH)])
        layout = (self._packed, self._parts, self._width, kinds, self._plain)
        lists = (self._run, self._heap, self._new)
        extra = getattr(self, "__dict__", None)
        counts = (self._dead, self._open, self._kind, self._mark, self._pushed)
        return type(self), (), (lists, counts, layout, extra)

    def __setstate__(self, state):
        (self._run, self._heap, self._new), counts, layout, extra = state
        self._dead, self._open, self._kind, self._mark, self._pushed = counts
        self._packed, self._parts, self._width, kinds, self._plain = layout
        for n in range(WIDTH):
            self._kinds[n] = kinds[n]
        if extra:
            self.__dict__.update(extra)

    @property
    def _entries(self):
        return [*self._run, *self._heap, *self._new]

    cdef list _arrivals(self):
        """Return the entries with equal keys in order of arrival, for a stable sort."""
        return self._run[::-1] + _by_number(self._heap) + self._new

    cdef int _clear(self) except -1:
        cdef list entries = self._entries
        cdef HeapEntry entry
        self._run, self._heap, self._new = [], [], []
        self._open, self._kind, self._dead = False, None, 0
        self._packed, self._parts, self._width, self._plain = True, 0, 0, None
        for entry in entries:
            entry.item = entry.mark = None
        return 0

    # Insertion ---------------------------------------------------------------------------------

    cdef int _push_slowly(self, key, HeapEntry entry) except -1:
        """Check a key as ``_py`` does, and find out whether it fits."""
        known = False
        if type(key) is self._kind:
            try:
                total = sum(key, 0.0)
                known = type(total) is float and total == total
            except Exception:
                known = False
        if not known:
            self._admit(key)
        if not self._live():
            self._drop_tombstones()
            self._lay_out(key)
        if self._packed:
            self._packed = self._parts != 0 and self._pack(key, entry) == FITS
        return 0

    cdef int _drop_tombstones(self) except -1:
        self._run, self._heap, self._new, self._dead = [], [], [], 0
        return 0

    cdef int _admit(self, key) except -1:
        """Raise if a key cannot be compared; update ``_kind``."""
        cdef bint is_tuple = isinstance(key, tuple)
        try:
            for part in key if is_tuple else (key,):
                if part != part:
                    raise ValueError("not equal to itself")
            if not self._live():
                self._clear()
                self._kind = type(key) if is_tuple and has_numbers(key) else None
                return 0
            if PyList_GET_SIZE(self._new):
                bool(key < _last(self._new).key)
            if PyList_GET_SIZE(self._heap):
                bool(key < _at(self._heap, 0).key)
            if PyList_GET_SIZE(self._run):
                bool(key < _last(self._run).key)
        except Exception as error:
            raise InvalidValueError("key", key, COMPARABLE) from error
        if not (is_tuple and has_numbers(key)):
            self._kind = None
        return 0

    cdef int _settle(self) except -1:
        """Move the newcomers to the heap or, with all others, to the run."""
        cdef list new = self._new
        cdef list heap = self._heap
        cdef Py_ssize_t count = PyList_GET_SIZE(heap) + MERGE_SHARE * PyList_GET_SIZE(new)
        if count > PyList_GET_SIZE(self._run) + MIN_MERGE:
            return self._merge()
        if self._packed:
            for entry in new:
                heap.append(entry)
                _up(_items(heap), 0, PyList_GET_SIZE(heap) - 1, self._width)
        else:
            try:
                for entry in new:
                    heappush(heap, entry)
            except BaseException:
                self._scatter(None)
                raise
        self._new = []
        return 0

    cdef int _merge(self) except -1:
        """Sort all entries into the run."""
        cdef HeapEntry entry
        cdef list merged = self._arrivals()
        if self._dead:
            merged = [entry for entry in merged if entry.mark is not None]
        if self._packed:
            merged = _by_words(merged, self._width)
        else:
            merged.reverse()
            merged.sort(key=_key, reverse=True)
        self._run, self._heap, self._new, self._dead = merged, [], [], 0
        return 0

    cdef int _scatter(self, HeapEntry popped) except -1:
        """Make the entries of the heap newcomers again, after a comparison raised."""
        cdef HeapEntry entry
        cdef dict entries = {}
        if popped is not None:
            entries[popped.number] = popped
        for entry in self._heap:
            entries[entry.number] = entry
        for entry in self._new:
            entries[entry.number] = entry
        self._heap, self._new = [], [entries[number] for number in sorted(entries)]
        return 0

    # Removal ------------------------------------------------------------------------------------

    cdef list _lead(self, str what):
        """Return the list that ends with the first entry: the run, or a list of it alone."""
        cdef HeapEntry first
        if not self._live():
            raise IndexError(f"{what} an empty heap")
        if PyList_GET_SIZE(self._new):
            self._settle()
        if self._dead:
            self._surface()
        cdef list run = self._run
        cdef list heap = self._heap
        if not PyList_GET_SIZE(heap):
            self._open = not self._dead
            return run
        first = _at(heap, 0)
        if not PyList_GET_SIZE(run):
            return [first]
        if self._packed:
            return [first] if _key_words_before(first, _last(run), self._width) else run
        before = bool(first.key < _last(run).key)
        if run is not self._run or heap is not self._heap or not PyList_GET_SIZE(run):
            raise RuntimeError("the heap was used while keys were compared")
        return [first] if before else run

    cdef HeapEntry _pop(self):
        """Remove and return the first entry without the fast path."""
        cdef list first = self._lead("pop from")
        if first is not self._run:
            self._pop_heap()
        cdef HeapEntry entry = first.pop()
        if self._dead:
            self._compact()
        return entry

    cdef int _pop_heap(self) except -1:
        cdef list heap = self._heap
        cdef HeapEntry first = _at(heap, 0)
        if self._packed:
            last = heap.pop()
            if PyList_GET_SIZE(heap):
                heap[0] = last
                _down(_items(heap), PyList_GET_SIZE(heap), self._width)
            return 0
        try:
            heappop(heap)
        except BaseException:
            self._scatter(first)
            raise
        return 0

    cdef int _surface(self) except -1:
        """Drop the tombstones that are first."""
        cdef list run = self._run
        while PyList_GET_SIZE(run) and _last(run).mark is None:
            run.pop()
            self._dead -= 1
        while PyList_GET_SIZE(self._heap) and _at(self._heap, 0).mark is None:
            self._pop_heap()
            self._dead -= 1
        return 0

    cdef int _bury(self, HeapEntry entry) except -1:
        """Remove an entry: pop it if it is first in the run, else make it a tombstone."""
        cdef list run = self._run
        kept = entry.item  # keeps the item alive: its destructor may use the heap
        entry.item = entry.mark = None
        if PyList_GET_SIZE(run) and _last(run) is entry:
            run.pop()
        else:
            self._open = False
            self._dead += 1
        if self._dead:
            self._compact()
        return 0

    cdef int _compact(self) except -1:
        """Restore I2: drop all tombstones if there are too many."""
        cdef HeapEntry entry
        cdef Py_ssize_t total = self._total()
        if self._dead < total and (total <= MIN_COMPACTION or self._dead * 2 <= total):
            return 0
        self._run = [entry for entry in self._run if entry.mark is not None]
        self._scatter(None)
        self._new = [entry for entry in self._new if entry.mark is not None]
        self._dead = 0
        return 0

    cdef HeapEntry _entry(self, handle):
        """Return the entry of a handle; raise if the handle is not valid in this heap."""
        cdef HeapEntry entry
        value = handle
        if type(handle) is HeapEntry:
            entry = handle
            if entry.mark is self._mark:
                return entry
            value = entry.number
        raise InvalidValueError("handle", value, "a handle of an item in this heap")

    def _check(self):
        cdef HeapEntry a, b, entry
        cdef Py_ssize_t n
        cdef list run = self._run
        cdef list heap = self._heap
        for n in range(1, len(run)):
            a, b = run[n - 1], run[n]
            if a < b:
                raise InternalError(f"entry {b.number} is behind {a.number} in the run")
        for n in range(1, len(heap)):
            if heap[n] < heap[(n - 1) // 2]:
                raise InternalError(f"entry {n} is before its parent")
        numbers = [sorted(map(_number, run)), sorted(map(_number, heap)), [*map(_number, self._new)]]
        arrivals = [number for part in numbers for number in part]
        if any([one >= other for one, other in pairwise(arrivals)]):
            raise InternalError(f"entries {numbers} are not in order of arrival")
        dead = 0
        for entry in self._entries:
            dead += entry.mark is None
            if entry.mark is not None and entry.mark is not self._mark:
                raise InternalError("an entry is of another heap")
            if self._kind is not None and not adds_up(entry.key):
                raise InternalError("a key is not a tuple of numbers")
        if dead != self._dead:
            raise InternalError(f"{dead} tombstones, counted {self._dead}")
        if dead > max(MIN_COMPACTION, self._live()):
            raise InternalError(f"{dead} tombstones beside {len(self)} items")
        if self._open and (heap or self._new or dead):
            raise InternalError("the fast path is open, but the run does not hold all entries")
        if self._packed:
            self._check_words()
