# Part of _c: entries, and the words that represent their keys. See D1 and D2 there.

@cython.final
@cython.freelist(64)
cdef class HeapEntry:
    """The opaque result of ``push``; valid until its item has left the heap."""

    cdef object key
    cdef object item
    cdef object mark
    cdef int64_t number
    cdef uint64_t words[WIDTH]

    __hash__ = None

    def __lt__(self, HeapEntry other):
        """Compare as lists of key and number do."""
        if PyObject_RichCompareBool(self.key, other.key, Py_EQ):
            return self.number < other.number
        return PyObject_RichCompare(self.key, other.key, Py_LT)

    def __getitem__(self, int place):
        """Return a part as the entries of ``_py`` do; for tests."""
        return (self.key, self.number, self.item, self.mark)[place]

    def __reduce__(self):
        words = tuple([self.words[n] for n in range(WIDTH)])
        return _blank, (), (self.key, self.number, self.item, self.mark, words)

    def __setstate__(self, state):
        self.key, self.number, self.item, self.mark, words = state
        for n in range(WIDTH):
            self.words[n] = words[n]


def _blank():
    return HeapEntry.__new__(HeapEntry)


def _key(HeapEntry entry not None):
    return entry.key


def _number(HeapEntry entry not None):
    return entry.number


cdef inline HeapEntry _at(list entries, Py_ssize_t index):
    return <HeapEntry>PyList_GET_ITEM(entries, index)


cdef inline HeapEntry _last(list entries):
    return <HeapEntry>PyList_GET_ITEM(entries, PyList_GET_SIZE(entries) - 1)


# Words ------------------------------------------------------------------------------------------


cdef inline uint64_t _float_word(double value) noexcept:
    cdef uint64_t bits
    value += 0.0  # the two zeros are equal
    memcpy(&bits, &value, 8)
    return ~bits if bits & SIGN else bits | SIGN


cdef inline int _word(object part, int kind, uint64_t *word) except -1:
    cdef int overflow = 0
    cdef double value
    cdef long long whole
    if type(part) is float:
        value = PyFloat_AS_DOUBLE(part)
        if value != value:
            return DOES_NOT_FIT
        if kind == INTEGER:
            return IS_WIDER
        word[0] = _float_word(value)
        return FITS
    if type(part) is int or type(part) is bool:
        whole = PyLong_AsLongLongAndOverflow(part, &overflow)
        if overflow:
            return DOES_NOT_FIT
        if kind == INTEGER:
            word[0] = <uint64_t>whole ^ SIGN
            return FITS
        if -EXACT <= whole <= EXACT:
            word[0] = _float_word(<double>whole)
            return FITS
    return DOES_NOT_FIT


cdef inline bint _words_before(HeapEntry a, HeapEntry b, int width) noexcept:
    """Return whether *a* sorts before *b*, by words and then by number."""
    cdef int n
    for n in range(width):
        if a.words[n] != b.words[n]:
            return a.words[n] < b.words[n]
    return a.number < b.number


cdef inline bint _key_words_before(HeapEntry a, HeapEntry b, int width) noexcept:
    cdef int n
    for n in range(width):
        if a.words[n] != b.words[n]:
            return a.words[n] < b.words[n]
    return False
