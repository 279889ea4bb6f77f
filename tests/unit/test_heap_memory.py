"""Memory: the heap keeps references to its items only, also with destructors that use it."""

from __future__ import annotations

import contextlib
import gc
import math
import sys
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from gangsched._core._heap import PriorityHeap
from gangsched.errors import InvalidValueError
from support.heaps import BUILDS, each_build


class Thing:
    """An item or key whose destruction can be observed."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.heap: Any = None
        self.handle: Any = None

    def __lt__(self, other: Thing) -> bool:
        return self.number < other.number


def everything(heap: PriorityHeap[Any], key: Callable[[int], Any]) -> None:
    """Use a heap in every way, and leave it empty."""
    handles = [heap.push(key(n * 7 % 101), n) for n in range(101)]
    assert heap.peek() is not None
    handles += [heap.push(key(n % 5), n) for n in range(9)]
    heap.pop()
    for handle in handles[20:60]:
        with_error(partial(heap.remove, handle))
    for handle in handles[50:90]:
        with_error(partial(heap.rekey, handle, key(3)))
    with_error(partial(heap.push, math.nan, 0))
    with_error(partial(heap.push, (1, math.nan), 0))
    list(heap)
    for _ in range(len(heap) // 2):
        heap.pop()
    heap.clear()


def with_error(call: Callable[[], object]) -> None:
    with contextlib.suppress(InvalidValueError):
        call()


WAYS: dict[str, Callable[[int], Any]] = {
    "packed": lambda n: (n, 0.5),
    "not packed": lambda n: (str(n), 1),
    "wide": lambda n: (1, 2, 3, 4, 5, n),
    "things": Thing,
}


@each_build
@pytest.mark.parametrize("way", WAYS)
def test_repeated_use_needs_no_more_memory(build: str, way: str) -> None:
    heap: PriorityHeap[Any] = BUILDS[build]()
    for _ in range(3):
        everything(heap, WAYS[way])
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(30):
        everything(heap, WAYS[way])
    gc.collect()
    assert sys.getallocatedblocks() - before < 150


@each_build
def test_reference_counts_of_keys_and_items_are_exact(build: str) -> None:
    heap: PriorityHeap[Thing] = BUILDS[build]()
    key, item = (1, 1234.5), Thing()
    counts = sys.getrefcount(key), sys.getrefcount(item)
    for _ in range(100):
        heap.push(key, item)
    assert sys.getrefcount(item) == counts[1] + 100
    assert all(thing is item for thing in heap)
    for _ in range(50):
        assert heap.pop() is item
    handle = heap.push(key, item)
    assert heap.remove(handle) is item
    heap.remove(heap.rekey(heap.push(key, item), (0, 0.0)))
    del handle
    heap.clear()
    assert (sys.getrefcount(key), sys.getrefcount(item)) == counts


@each_build
@pytest.mark.parametrize("sorted_first", [False, True])
def test_reference_cycle_through_heap_is_collected(build: str, sorted_first: bool) -> None:
    heap: PriorityHeap[Thing] = BUILDS[build]()
    thing = Thing()
    thing.heap = heap
    handle = heap.push((1, 2.0), thing)
    thing.handle = handle
    if sorted_first:
        heap.peek()
    gone = weakref.ref(thing)
    del heap, thing, handle
    assert gone() is not None
    gc.collect()
    assert gone() is None


@each_build
def test_destructor_of_item_may_use_the_heap(build: str) -> None:
    """An item that is dropped by ``clear`` pushes another one when it dies."""
    heap: PriorityHeap[Any] = BUILDS[build]()

    class Last:
        def __del__(self) -> None:
            heap.push((5, 5.0), "last words")

    for n in range(3):
        heap.push((n, 0.0), Last())
    heap.clear()
    heap._check()
    assert list(heap) == ["last words"] * 3
    handle = heap.push((0, 0.0), Last())
    heap.remove(handle)
    heap.push((0, 0.0), Last())
    heap.pop()
    heap._check()
    assert list(heap) == ["last words"] * 5


class Meddler:
    """A key that uses the heap when it is compared."""

    def __init__(self, number: int, heap: PriorityHeap[Any], step: str) -> None:
        self.number, self.heap, self.step = number, heap, step

    def __lt__(self, other: Meddler) -> bool:
        step, self.step, other.step = self.step, "", ""
        with_all_errors(lambda: getattr(self.heap, step)() if step else None)
        return self.number < other.number


def with_all_errors(call: Callable[[], object]) -> None:
    with contextlib.suppress(Exception):
        call()


@each_build
@pytest.mark.parametrize("step", ["pop", "peek", "clear", "__len__", "__iter__"])
@pytest.mark.parametrize("size", [2, 5, 60])
def test_comparison_that_uses_the_heap_does_not_crash(build: str, step: str, size: int) -> None:
    """The result is undefined, but the interpreter does not crash."""
    heap: PriorityHeap[int] = BUILDS[build]()
    for number in range(size):
        with_all_errors(partial(heap.push, Meddler(number * 7 % 11, heap, step), number))
        if number % 3 == 0:
            with_all_errors(heap.pop)
    for _ in range(size):
        with_all_errors(heap.pop)
    assert len(heap) <= size
