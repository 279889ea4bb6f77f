# Part of _c: the entries of a heap, and what the words in them are made of. See D1 and D2 there.


cdef class _PackedKeys:
    """The three lists of entries, and how the parts of their keys become words."""

    cdef list _run
    cdef list _heap
    cdef list _new
    cdef Py_ssize_t _dead
    cdef bint _open
    cdef object _kind
    cdef object _mark
    cdef readonly int64_t _pushed
    # of packed keys: how many parts, 0 for none yet; -1 for a number that is in no tuple
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
        """Make the words of a key, if it fits."""
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
        """Make the words of integers those of floats, if they can be."""
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
        """Say of what the words of the next keys are, by the first one."""
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
        """The words say of any two neighbours in the run what their keys say."""
        cdef HeapEntry a, b
        cdef Py_ssize_t n
        for entries in (self._run, self._heap, self._new):
            for n in range(1, len(entries)):
                a, b = entries[n - 1], entries[n]
                if _words_before(a, b, self._width) != (a < b):
                    raise InternalError(f"the words of {a.key} and {b.key} are not in their order")
        return 0


cdef bint _compares_as_tuple(kind) except -1:
    return (
        kind is tuple
        or kind.__lt__ is _TUPLE_LT
        and kind.__eq__ is _TUPLE_EQ
        and kind.__iter__ is _TUPLE_ITER
    )
