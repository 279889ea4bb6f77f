# Part of _c: sorting entries by their words, and sifting them in a heap. See D1 and D3 there.

# Sorting by words -------------------------------------------------------------------------------


cdef struct Pair:
    uint64_t key
    PyObject *entry


cdef inline int _bits_of(uint64_t value) noexcept:
    cdef int count = 0
    while value:
        value >>= 1
        count += 1
    return count


cdef void _insert(Pair *pairs, Py_ssize_t count) noexcept:
    """Sort a few pairs by insertion; stable."""
    cdef Py_ssize_t n, place
    cdef Pair pair
    for n in range(1, count):
        pair = pairs[n]
        place = n
        while place and pairs[place - 1].key > pair.key:
            pairs[place] = pairs[place - 1]
            place -= 1
        pairs[place] = pair


cdef Pair *_radix(Pair *pairs, Pair *spare, Py_ssize_t count, int bits) noexcept:
    """Sort pairs by the lowest bits of their keys; stable. Return the array with the result."""
    cdef uint32_t places[2048]
    cdef int digit = 8 if count < 4096 else 11
    cdef uint32_t mask = (1 << digit) - 1
    cdef int shift = 0
    cdef uint32_t total, here, n
    cdef Py_ssize_t index
    cdef Pair *swap
    if count <= 24:
        _insert(pairs, count)
        return pairs
    while shift < bits:
        memset(places, 0, sizeof(uint32_t) * (mask + 1))
        for index in range(count):
            places[(pairs[index].key >> shift) & mask] += 1
        if places[(pairs[0].key >> shift) & mask] != <uint32_t>count:
            total = 0
            for n in range(mask + 1):
                here = places[n]
                places[n] = total
                total += here
            for index in range(count):
                n = (pairs[index].key >> shift) & mask
                spare[places[n]] = pairs[index]
                places[n] += 1
            swap = pairs
            pairs = spare
            spare = swap
        shift += digit
    return pairs


cdef class _Workshop:
    """Scratch memory for sorting, freed when this object dies, also after an exception."""

    cdef Pair *pairs
    cdef Pair *spare

    def __cinit__(self, Py_ssize_t count):
        if <uint64_t>count >= <uint64_t>0xFFFFFFFF:
            raise OverflowError(f"a heap of {count} items")
        self.pairs = <Pair *>PyMem_Malloc(sizeof(Pair) * (count + 1))
        self.spare = <Pair *>PyMem_Malloc(sizeof(Pair) * (count + 1))
        if self.pairs is NULL or self.spare is NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.pairs)
        PyMem_Free(self.spare)


cdef list _by_number(list entries):
    """Return entries in order of arrival."""
    cdef Py_ssize_t count = PyList_GET_SIZE(entries), n
    if count < 2:
        return entries[:]
    cdef _Workshop shop = _Workshop(count)
    cdef Pair *pairs = shop.pairs
    for n in range(count):
        pairs[n].key = <uint64_t>_at(entries, n).number
        pairs[n].entry = <PyObject *>PyList_GET_ITEM(entries, n)
    cdef uint64_t most = 0
    for n in range(count):
        most |= pairs[n].key
    pairs = _radix(pairs, shop.spare, count, _bits_of(most))
    return [<object>pairs[n].entry for n in range(count)]


cdef list _by_words(list arrivals, int width):
    """Return entries, given in order of arrival, as a run: sorted by words, the first at the end."""
    cdef Py_ssize_t count = PyList_GET_SIZE(arrivals), n
    if not count:
        return []
    cdef _Workshop shop = _Workshop(count)
    cdef list run = PyList_New(count)
    cdef Pair *pairs = shop.pairs
    cdef Pair *spare = shop.spare
    cdef Pair *swap
    cdef uint64_t least[WIDTH]
    cdef uint64_t most[WIDTH]
    cdef uint64_t differ[WIDTH]
    cdef int bits[WIDTH]
    cdef int shifts[WIDTH]
    cdef int part, first, last, together
    cdef uint64_t word
    cdef HeapEntry entry = _at(arrivals, 0)
    for part in range(width):
        least[part] = most[part] = entry.words[part]
        differ[part] = 0
    for n in range(count):
        pairs[n].entry = <PyObject *>PyList_GET_ITEM(arrivals, n)
        for part in range(width):
            word = (<HeapEntry>pairs[n].entry).words[part]
            if word < least[part]:
                least[part] = word
            elif word > most[part]:
                most[part] = word
            differ[part] |= word ^ entry.words[part]
    for part in range(width):
        # Low bits that are equal in all words are shifted out; bits above the range are zero.
        shifts[part] = 0
        while shifts[part] < 64 and not (differ[part] >> shifts[part]) & 1:
            shifts[part] += 1
        if shifts[part] == 64:
            shifts[part] = bits[part] = 0
        else:
            bits[part] = _bits_of((most[part] >> shifts[part]) - (least[part] >> shifts[part]))
    last = width
    while last > 0:
        first = last
        together = 0
        while first > 0 and together + bits[first - 1] <= 64:
            first -= 1
            together += bits[first]
        if together:
            for n in range(count):
                word = 0
                for part in range(first, last):
                    if bits[part]:
                        word = (word << bits[part] if bits[part] < 64 else 0) | (
                            ((<HeapEntry>pairs[n].entry).words[part] >> shifts[part])
                            - (least[part] >> shifts[part])
                        )
                pairs[n].key = word
            swap = _radix(pairs, spare, count, together)
            if swap is not pairs:
                spare = pairs
                pairs = swap
        last = first
    for n in range(count):
        Py_INCREF(<object>pairs[n].entry)
        PyList_SET_ITEM(run, count - 1 - n, <object>pairs[n].entry)
    return run


# The heap beside the run ------------------------------------------------------------------------


cdef void _up(PyObject **entries, Py_ssize_t start, Py_ssize_t place, int width) noexcept:
    cdef PyObject *entry = entries[place]
    cdef Py_ssize_t above
    while place > start:
        above = (place - 1) >> 1
        if not _words_before(<HeapEntry>entry, <HeapEntry>entries[above], width):
            break
        entries[place] = entries[above]
        place = above
    entries[place] = entry


cdef void _down(PyObject **entries, Py_ssize_t count, int width) noexcept:
    """Move the first entry down to a leaf along the smaller children, then up, as heapq does."""
    cdef PyObject *entry = entries[0]
    cdef Py_ssize_t place = 0, child
    while place < count >> 1:
        child = 2 * place + 1
        if child + 1 < count and not _words_before(
            <HeapEntry>entries[child], <HeapEntry>entries[child + 1], width
        ):
            child += 1
        entries[place] = entries[child]
        place = child
    entries[place] = entry
    _up(entries, 0, place, width)


cdef extern from *:
    """
    static PyObject **gangsched_items(PyObject *list) { return ((PyListObject *)list)->ob_item; }
    """
    PyObject **_items "gangsched_items"(list)
