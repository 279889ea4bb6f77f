"""Compare ``PriorityHeap`` with a sorted list."""

from __future__ import annotations

import copy
import gc
import itertools
import math
import random
import weakref
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gangsched._core._heap import HeapHandle, PriorityHeap, heap_implementation
from gangsched.errors import InvalidValueError
from support.heaps import BUILDS, each_build

KEYS = st.integers(0, 4)
INDICES = st.integers(0, 10_000)


class HeapMachine(RuleBasedStateMachine):
    """Every operation, on a heap of each build and on a sorted list of (key, arrival, item)."""

    def __init__(self) -> None:
        super().__init__()
        self.heaps: list[PriorityHeap[str]] = [build() for build in BUILDS.values()]
        self.model: list[tuple[int, int, str]] = []
        self.handles: dict[str, list[HeapHandle]] = {}
        self.stale: list[list[HeapHandle]] = []
        self.arrivals = 0

    def came(self, key: int, item: str, handles: list[HeapHandle]) -> None:
        self.arrivals += 1
        self.handles[item] = handles
        self.model = sorted([*self.model, (key, self.arrivals, item)])

    def left(self, entry: tuple[int, int, str]) -> str:
        self.model.remove(entry)
        self.stale.append(self.handles.pop(entry[2]))
        return entry[2]

    @rule(keys=st.lists(KEYS, min_size=1, max_size=2) | st.lists(KEYS, min_size=40, max_size=60))
    def push(self, keys: list[int]) -> None:
        for key in keys:
            item = f"item {self.arrivals}"
            self.came(key, item, [heap.push((key, 0.5), item) for heap in self.heaps])

    @rule(count=st.integers(1, 2) | st.integers(40, 60))
    def pop(self, count: int) -> None:
        for entry in self.model[:count]:
            for heap in self.heaps:
                assert heap.peek() == entry[2]
                assert heap.pop() == entry[2]
            self.left(entry)

    def remove_entry(self, entry: tuple[int, int, str]) -> None:
        for heap, handle in zip(self.heaps, self.handles[entry[2]], strict=True):
            assert heap.remove(handle) == entry[2]
        self.left(entry)

    @precondition(lambda self: self.model)
    @rule(index=INDICES)
    def remove(self, index: int) -> None:
        self.remove_entry(self.model[index % len(self.model)])

    @rule(share=st.sampled_from([2, 3, 10]))
    def remove_most(self, share: int) -> None:
        for entry in [entry for entry in self.model if entry[1] % share]:
            self.remove_entry(entry)

    @precondition(lambda self: self.model)
    @rule(index=INDICES, key=KEYS)
    def rekey(self, index: int, key: int) -> None:
        entry = self.model[index % len(self.model)]
        handles = [
            heap.rekey(handle, (key, 0.5))
            for heap, handle in zip(self.heaps, self.handles[entry[2]], strict=True)
        ]
        self.came(key, self.left(entry), handles)

    @rule()
    def clear(self) -> None:
        for heap in self.heaps:
            heap.clear()
        for entry in list(self.model):
            self.left(entry)

    @rule()
    def copy_everything(self) -> None:
        """A copy has the state of the original, and works with the copied handles."""
        self.heaps, self.handles, self.stale = copy.deepcopy((self.heaps, self.handles, self.stale))

    @precondition(lambda self: self.stale)
    @rule(index=INDICES)
    def use_a_stale_handle(self, index: int) -> None:
        for heap, handle in zip(self.heaps, self.stale[index % len(self.stale)], strict=True):
            with pytest.raises(InvalidValueError):
                heap.remove(handle)
            with pytest.raises(InvalidValueError):
                heap.rekey(handle, (0, 0.5))

    @invariant()
    def agrees(self) -> None:
        for heap in self.heaps:
            heap._check()
            assert len(heap) == len(self.model)
            assert list(heap) == [item for _key, _arrival, item in self.model]


TestHeapMachine = HeapMachine.TestCase


def test_heap_implementation_names_the_build_in_use() -> None:
    assert heap_implementation in ("python", "cython")


@each_build
def test_equal_keys_are_popped_in_order_of_arrival(build: str) -> None:
    heap: PriorityHeap[int] = BUILDS[build]()
    for item in range(100):
        heap.push((0, "same"), item)
    assert list(range(100)) == [heap.pop() for _ in range(100)]


@each_build
def test_heap_never_compares_items(build: str) -> None:
    heap: PriorityHeap[object] = BUILDS[build]()
    items = [object(), object(), object()]
    for item in items:
        heap.push(1, item)
    assert items == list(heap)


@each_build
def test_rekey_puts_item_behind_equal_keys(build: str) -> None:
    heap: PriorityHeap[str] = BUILDS[build]()
    handle = heap.push(1, "a")
    heap.push(2, "b")
    handle = heap.rekey(handle, 2)
    assert list(heap) == ["b", "a"]
    heap.rekey(handle, 1)
    assert list(heap) == ["a", "b"]


@each_build
@pytest.mark.parametrize("call", ["peek", "pop"])
def test_empty_heap_raises_index_error(build: str, call: str) -> None:
    heap: PriorityHeap[int] = BUILDS[build]()
    for _ in range(2):
        with pytest.raises(IndexError, match="empty heap"):
            getattr(heap, call)()
        heap.remove(heap.push(1, 1))
    heap.push(1, 1)
    heap.clear()
    with pytest.raises(IndexError, match="empty heap"):
        getattr(heap, call)()
    heap._check()


@each_build
def test_handle_of_another_heap_is_refused(build: str) -> None:
    one: PriorityHeap[str] = BUILDS[build]()
    other: PriorityHeap[str] = BUILDS[build]()
    mine, theirs = one.push(1, "mine"), other.push(1, "theirs")
    for call in (one.remove, lambda handle: one.rekey(handle, 0)):
        with pytest.raises(InvalidValueError) as caught:
            call(theirs)
        assert caught.value.field == "handle"
    one._check()
    other._check()
    assert (one.remove(mine), other.remove(theirs)) == ("mine", "theirs")


@each_build
def test_clear_invalidates_handles(build: str) -> None:
    heap: PriorityHeap[str] = BUILDS[build]()
    old = heap.push(1, "old")
    heap.clear()
    with pytest.raises(InvalidValueError):
        heap.remove(old)
    assert heap.remove(heap.push(1, "new")) == "new"
    assert len(heap) == 0


@each_build
def test_iteration_ignores_later_changes(build: str) -> None:
    heap: PriorityHeap[int] = BUILDS[build]()
    for item in range(5):
        heap.push(item, item)
    items = iter(heap)
    assert next(items) == heap.pop()
    heap.clear()
    heap.push(0, 9)
    assert list(items) == [1, 2, 3, 4]


@each_build
@given(st.randoms(use_true_random=False), st.booleans())
def test_tombstones_never_outnumber_items(
    build: str, rng: random.Random, from_the_end: bool
) -> None:
    """F38: repeated push and remove does not accumulate entries."""
    heap: PriorityHeap[int] = BUILDS[build]()
    handles = [heap.push(rng.randrange(1000), item) for item in range(300)]
    rng.shuffle(handles)
    for _ in range(140):
        heap.remove(handles.pop())
    assert len(heap._entries) <= 300
    while len(heap):
        if from_the_end:
            heap.remove(handles.pop())
        else:
            heap.pop()
        assert len(heap._entries) <= max(64, 2 * len(heap))
        heap._check()
    assert not heap._entries


@each_build
def test_compaction_keeps_the_order(build: str) -> None:
    heap: PriorityHeap[int] = BUILDS[build]()
    handles = [heap.push(item % 7, item) for item in range(1000)]
    for item in range(1000):
        if item % 10:
            heap.remove(handles[item])
    assert len(heap._entries) <= 200
    left = [item for item in range(1000) if item % 10 == 0]
    assert sorted(left, key=lambda item: (item % 7, item)) == [heap.pop() for _ in left]


@each_build
@pytest.mark.parametrize("way", ["remove", "pop", "clear"])
def test_heap_drops_references_to_removed_items(build: str, way: str) -> None:
    class Item:
        pass

    heap: PriorityHeap[Item] = BUILDS[build]()
    item = Item()
    left = weakref.ref(item)
    handle = heap.push(1, item)
    heap.push(2, Item())
    heap.push(0, Item())
    del item
    match way:
        case "remove":
            heap.remove(handle)
        case "pop":
            heap.pop()
            heap.pop()
        case _:
            heap.clear()
    gc.collect()
    assert left() is None
    assert handle is not None


class Fuse:
    """A counter of comparisons; at zero, comparisons raise until it is reset."""

    def __init__(self) -> None:
        self.left = math.inf


class Fickle:
    """A number whose comparison may raise."""

    def __init__(self, number: int, fuse: Fuse) -> None:
        self.number = number
        self.fuse = fuse

    __hash__: Any = None

    def _other(self, other: object) -> int:
        assert isinstance(other, Fickle)
        self.fuse.left -= 1
        if self.fuse.left < 0:
            raise ZeroDivisionError("burnt down")
        return other.number

    def __eq__(self, other: object) -> bool:
        return self.number == self._other(other)

    def __lt__(self, other: Fickle) -> bool:
        return self.number < self._other(other)


DEEDS = st.sampled_from(["push", "pop", "remove", "rekey"])
BURNS = st.integers(0, 8) | st.integers(0, 80)


@each_build
@given(
    st.lists(st.integers(0, 20), max_size=80),
    st.lists(st.tuples(DEEDS, st.integers(0, 20), BURNS, INDICES), min_size=1, max_size=30),
)
def test_heap_is_unchanged_when_a_comparison_raises(
    build: str, numbers: list[int], steps: list[tuple[str, int, int, int]]
) -> None:
    heap: PriorityHeap[int] = BUILDS[build]()
    fuse = Fuse()
    pushes = itertools.count()
    handles = {n: heap.push(Fickle(number, fuse), n) for n, number in enumerate(numbers)}
    model = {n: (number, next(pushes)) for n, number in enumerate(numbers)}
    for item, (step, number, left, index) in enumerate(steps, start=len(numbers)):
        ordered = sorted(model, key=model.__getitem__)
        if step != "push" and not ordered:
            continue
        chosen = item if step == "push" else ordered[index % len(ordered)]
        key = Fickle(number, fuse)
        fuse.left = left
        try:
            match step:
                case "push":
                    handles[item] = heap.push(key, item)
                case "rekey":
                    handles[chosen] = heap.rekey(handles[chosen], key)
                case "pop":
                    assert heap.pop() == ordered[0]
                    del model[ordered[0]]
                case _:
                    assert heap.remove(handles[chosen]) == chosen
                    del model[chosen]
        except (InvalidValueError, ZeroDivisionError):
            pass
        else:
            if step in ("push", "rekey"):
                model[chosen] = (number, next(pushes))
        fuse.left = math.inf
        heap.remove(heap.push(Fickle(-1, fuse), -1))  # now what had to wait can be done
        heap._check()
        assert list(heap) == sorted(model, key=model.__getitem__)
        assert len(heap) == len(model)
    expected = sorted(model, key=model.__getitem__)
    assert [heap.pop() for _ in expected] == expected


@each_build
def test_peek_raises_until_the_order_is_known(build: str) -> None:
    heap: PriorityHeap[int] = BUILDS[build]()
    fuse = Fuse()
    handles = [heap.push(Fickle(number, fuse), number) for number in range(9)]
    fuse.left = 0
    assert heap.remove(handles[0]) == 0
    for look in (heap.peek, heap.pop):
        fuse.left = 0
        with pytest.raises(ZeroDivisionError):
            look()
        assert len(heap) == 8
    fuse.left = math.inf
    assert [heap.peek(), heap.pop(), heap.pop()] == [1, 1, 2]
    heap._check()


@each_build
def test_refused_key_chains_the_error_of_the_comparison(build: str) -> None:
    heap: PriorityHeap[int] = BUILDS[build]()
    heap.push((1, "a"), 1)
    with pytest.raises(InvalidValueError) as caught:
        heap.push((1, 2), 2)
    assert isinstance(caught.value.__cause__, TypeError)


@each_build
def test_key_may_have_ints_beyond_float_range(build: str) -> None:
    heap: PriorityHeap[int] = BUILDS[build]()
    for number in (10**400, 1, -(10**400)):
        heap.push((number,), number)
        heap._check()
    assert [heap.pop() for _left in range(3)] == [-(10**400), 1, 10**400]
