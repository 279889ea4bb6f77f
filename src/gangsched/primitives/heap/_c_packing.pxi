# Part of _c: the lists of entries, and the packing of keys into words. See D1 and D2 there.


cdef class _PackedKeys:
    """The three lists of entries, and the types of the parts of their keys."""

    cdef list _run
    cdef list _heap
    cdef list _new
    cdef Py_ssize_t _dead
    cdef bint _open
    cdef object _kind
    cdef object _mark
    cdef readonly int64_t _pushed
    # _parts of packed keys: 0 before the first key, -1 for keys that are plain numbers
    cdef bint _packed
    cdef int _parts
    cdef int _width
    cdef int _kinds[WIDTH]
    cdef object _plain

    def __cinit__(self, *args, **kwargs):
        self._run, self._heap, self._new = [], [], []
        self._mark = object()
        self._packed = True

    cdef inline Py_ssize_t _live(self) noexcept:
        return self._total() - self._dead

    cdef inline Py_ssize_t _total(self) noexcept:
        return PyList_GET_SIZE(self._run) + PyList_GET_SIZE(self._heap) + PyList_GET_SIZE(self._new)

    cdef int _pack(self, key, HeapEntry entry) except -1:
        """Write the words of a key to its entry, if the key fits."""
        cdef int n, said
        if self._parts < 0:
            if type(key) is tuple:
                return DOES_NOT_FIT
            return self._pack_part(0, key, entry)
        if type(key) is not self._plain or PyTuple_GET_SIZE(key) != self._parts:
            if not isinstance(key, tuple) or not _compares_as_tuple(type(key)):
                return DOES_NOT_FIT
            if PyTuple_GET_SIZE(key) != self._parts:
                return DOES_NOT_FIT
        for n in range(self._parts):
            said = _word(<object>PyTuple_GET_ITEM(key, n), self._kinds[n], &entry.words[n])
            if said == IS_WIDER:
                said = self._pack_part(n, <object>PyTuple_GET_ITEM(key, n), entry)
            if said != FITS:
                return said
        return FITS

    cdef int _pack_part(self, int n, part, HeapEntry entry) except -1:
        cdef int said = _word(part, self._kinds[n], &entry.words[n])
        if said == IS_WIDER and self._widen(n):
            said = _word(part, FLOAT, &entry.words[n])
        return said

    cdef bint _widen(self, int n):
        """Convert part *n* of all entries from integer words to float words, if all are exact."""
        cdef HeapEntry entry
        cdef int64_t whole
        cdef list lists = [self._run, self._heap, self._new]
        for entries in lists:
            for entry in entries:
                whole = <int64_t>(entry.words[n] ^ SIGN)
                if whole > EXACT or whole < -EXACT:
                    return False
        for entries in lists:
            for entry in entries:
                whole = <int64_t>(entry.words[n] ^ SIGN)
                entry.words[n] = _float_word(<double>whole)
        self._kinds[n] = FLOAT
        return True

    cdef int _lay_out(self, key) except -1:
        """Set the types of the parts from the first key."""
        cdef int n
        self._packed, self._parts, self._width, self._plain = True, 0, 0, None
        if isinstance(key, tuple):
            if not 0 < PyTuple_GET_SIZE(key) <= WIDTH or not _compares_as_tuple(type(key)):
                return 0
            self._parts = self._width = <int>PyTuple_GET_SIZE(key)
            self._plain = type(key)
            for n in range(self._parts):
                self._kinds[n] = FLOAT if type(<object>PyTuple_GET_ITEM(key, n)) is float else INTEGER
        else:
            self._parts = -1
            self._width = 1
            self._kinds[0] = FLOAT if type(key) is float else INTEGER
        return 0

    cdef int _check_words(self) except -1:
        """Raise if the words of two adjacent entries are not in the order of their keys."""
        cdef HeapEntry a, b
        cdef Py_ssize_t n
        for entries in (self._run, self._heap, self._new):
            for n in range(1, len(entries)):
                a, b = entries[n - 1], entries[n]
                if _words_before(a, b, self._width) != (a < b):
                    raise InternalError(f"the words of {a.key} and {b.key} are not in the order of these keys")
        return 0


cdef bint _compares_as_tuple(kind) except -1:
    return (
        kind is tuple
        or kind.__lt__ is _TUPLE_LT
        and kind.__eq__ is _TUPLE_EQ
        and kind.__iter__ is _TUPLE_ITER
    )
