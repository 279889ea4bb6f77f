"""``PriorityHeap``, each build beside a sorted list, and both in lockstep."""

from __future__ import annotations

import contextlib
import copy
import enum
import gc
import itertools
import math
import random
import runpy
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import gangsched.primitives.heap as chooser
from gangsched.errors import InvalidValueError
from gangsched.primitives.heap import HeapHandle, PriorityHeap
from support.heaps import BUILDS, build, each_build

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


@each_build
def test_equal_keys_are_popped_in_order_of_arrival_and_items_never_compared(build: str) -> None:
    heap: PriorityHeap[object] = BUILDS[build]()
    items = [object() for _ in range(100)]
    for item in items:
        heap.push((0, "same"), item)
    assert items == list(heap) == [heap.pop() for _ in items]


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
@pytest.mark.parametrize("from_the_end", [True, False])
def test_tombstones_never_outnumber_items(build: str, from_the_end: bool) -> None:
    """F38: repeated push and remove does not accumulate entries."""
    heap: PriorityHeap[int] = BUILDS[build]()
    rng = random.Random(7)
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


# Run both builds in lockstep: they return and raise the same for any keys.

needs_both = pytest.mark.skipif(len(BUILDS) < 2, reason="the extension is not built")


class Level(enum.IntEnum):
    """A subclass of int."""

    LOW = 0
    HIGH = 1


INTEGERS = st.sampled_from([10**400, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**63])
FLOATS = st.sampled_from([0.0, -0.0, 0.5, 1.0, -1.0, 2.0**53, -(2.0**53), math.inf, -math.inf])
NUMBERS = st.integers(-3, 3) | INTEGERS | FLOATS | st.booleans()
ODD = st.sampled_from(
    [math.nan, Level.LOW, Level.HIGH, "a", "b", None, Fraction(1, 2), 2**70, 10**400, (), (1,), 1j]
)


class Pair(NamedTuple):
    """A named tuple."""

    first: Any
    second: Any


class Backwards(tuple[Any, ...]):
    """A tuple with reversed comparison."""

    def __lt__(self, other: tuple[Any, ...]) -> bool:
        return tuple.__gt__(self, other)


PARTS = NUMBERS | NUMBERS | NUMBERS | ODD
ANY_KEYS = (
    st.tuples(st.integers(-3, 3), FLOATS)
    | st.tuples(NUMBERS, NUMBERS)
    | st.builds(Pair, NUMBERS, PARTS)
    | st.lists(PARTS, max_size=7).map(tuple)
    | st.lists(NUMBERS, max_size=2).map(Backwards)
    | PARTS
    | st.sampled_from(list(Level))
)
TAME = st.tuples(NUMBERS, NUMBERS, st.integers(0, 1)) | st.builds(Pair, NUMBERS, NUMBERS)
STEPS = st.sampled_from(["push", "push", "push", "pop", "peek", "remove", "rekey", "list", "clear"])
HISTORIES = st.lists(st.tuples(STEPS, ANY_KEYS, st.integers(0, 99)), max_size=60) | st.lists(
    st.tuples(STEPS, TAME, st.integers(0, 99)), max_size=200
)


def said(call: Callable[[], object]) -> tuple[Any, ...]:
    """Return the result of a call, or type and message of its error."""
    try:
        return ("returned", call())
    except InvalidValueError as error:
        cause = error.__cause__
        return ("refused", error.field, repr(error.value), error.expected, type(cause), str(cause))
    except Exception as error:
        return ("raised", type(error), str(error))


class Account:
    """A heap and the handles that it returned."""

    def __init__(self, build: str) -> None:
        self.heap: PriorityHeap[int] = BUILDS[build]()
        self.handles: list[Any] = []

    def do(self, step: str, key: Any, index: int, item: int) -> object:
        """Perform one operation; return its observable result."""
        heap = self.heap
        if step in ("push", "rekey", "remove") and step != "push" and not self.handles:
            return None
        match step:
            case "push":
                self.handles.append(heap.push(key, item))
            case "rekey":
                place = index % len(self.handles)
                self.handles[place] = heap.rekey(self.handles[place], key)
            case "remove":
                return heap.remove(self.handles[index % len(self.handles)])
            case "list":
                return list(heap)
            case _:
                return getattr(heap, step)()
        return None


@needs_both
@given(HISTORIES)
def test_builds_return_and_raise_the_same_for_any_keys(history: list[tuple[str, Any, int]]) -> None:
    accounts = [Account(build) for build in BUILDS]
    for item, (step, key, index) in enumerate(history):
        one, other = (said(partial(a.do, step, key, index, item)) for a in accounts)
        assert one == other
        assert len(accounts[0].heap) == len(accounts[1].heap)
    if len({type(key) for _step, key, _index in history}) > 1:
        return  # keys of two classes may be in no order at all, though each pair compares
    for account in accounts:
        if said(partial(list, account.heap))[0] == "returned":
            account.heap._check()


@each_build
@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=80), st.randoms(use_true_random=False))
@example([(10**400, 0), (1, 0), (-(10**400), 1)], random.Random(7))
def test_numbers_of_any_size_are_popped_in_order(
    build: str, keys: list[tuple[Any, Any]], rng: random.Random
) -> None:
    heap: PriorityHeap[int] = BUILDS[build]()
    half = len(keys) // 2
    for item, key in enumerate(keys[:half]):
        heap.push(key, item)
    if half:
        heap.peek()
    for item, key in enumerate(keys[half:], start=half):
        heap.push(key, item)
    expected = sorted(range(len(keys)), key=lambda item: keys[item])
    heap._check()
    assert list(heap) == expected
    assert [heap.pop() for _ in keys] == expected


@each_build
@pytest.mark.parametrize("scale", [1, 2**40, 0.25, 1e-300, 1e300])
def test_many_keys_are_sorted_regardless_of_distance(build: str, scale: float) -> None:
    size, rng = 3_000, random.Random(7)
    heap: PriorityHeap[int] = BUILDS[build]()
    keys = [
        (-rng.randrange(3), rng.randrange(-size, size) * scale, rng.randrange(2**62), rng.random())
        for _ in range(size)
    ]
    keys += keys[: size // 3]
    for item, key in enumerate(keys):
        heap.push(key, item)
    expected = sorted(range(len(keys)), key=lambda item: keys[item])
    assert [heap.pop() for _ in keys] == expected


@each_build
def test_copy_keeps_attributes_of_a_subclass(build: str) -> None:
    heap: Any = type("Named", (BUILDS[build],), {})()
    heap.name = "n"
    handle = heap.push((1, 2.0), "item")
    twin, same = copy.deepcopy((heap, handle))
    assert (twin.name, twin.remove(same), len(heap)) == ("n", "item", 1)
    with pytest.raises(InvalidValueError):
        twin.remove(handle)


# Requirements on keys, and how long tombstones remain.


class Unordered(tuple[int, ...]):
    """A tuple that cannot be compared."""

    __slots__ = ()

    def __lt__(self, other: tuple[int, ...]) -> bool:
        raise ZeroDivisionError("no order")


@each_build
def test_tuple_subclass_with_own_comparison_is_compared_on_push(build: str) -> None:
    heap: PriorityHeap[int] = BUILDS[build]()
    heap.push(Unordered((1, 2)), 1)
    with pytest.raises(InvalidValueError) as caught:
        heap.push(Unordered((1, 2)), 2)
    assert caught.value.field == "key"
    assert list(heap) == [1]


@each_build
def test_number_keys_are_compared_beside_other_keys(build: str) -> None:
    heap: PriorityHeap[int] = BUILDS[build]()
    heap.push((1, 2), 1)
    heap.push((0, "a"), 2)
    heap._check()
    with pytest.raises(InvalidValueError) as caught:
        heap.push((0, 5), 3)
    assert isinstance(caught.value.__cause__, TypeError)
    assert [heap.pop(), heap.pop()] == [2, 1]


# A heap whose keys cannot be compared for a while: pending work is done later.


def fickle_heap(build: str, size: int) -> tuple[PriorityHeap[int], list[HeapHandle], Fuse]:
    heap: PriorityHeap[int] = BUILDS[build]()
    fuse = Fuse()
    return heap, [heap.push(Fickle(number, fuse), number) for number in range(size)], fuse


@each_build
def test_no_item_is_lost_while_keys_do_not_compare(build: str) -> None:
    heap, handles, fuse = fickle_heap(build, 9)
    fuse.left = 0
    assert [heap.remove(handle) for handle in handles[:2]] == [0, 1]
    for look in (heap.peek, heap.pop):
        with pytest.raises(ZeroDivisionError):
            look()
    fuse.left = math.inf
    heap._check()
    assert [heap.peek(), *(heap.pop() for _ in range(6))] == [2, 2, 3, 4, 5, 6, 7]
    fuse.left = 0
    heap.remove(handles[8])
    for look in (heap.peek, heap.pop):
        with pytest.raises(IndexError, match="empty heap"):
            look()


@each_build
def test_removed_newcomer_removes_no_other_item(build: str) -> None:
    """Beside a long run, newcomers are in the binary heap, which is out of order then."""
    heap, _handles, fuse = fickle_heap(build, 100)
    assert heap.pop() == 0
    late = [heap.push(Fickle(number, fuse), number) for number in (-1, -2, -3, -4)]
    assert heap.peek() == -4
    heap.remove(late[-1])
    fuse.left = 0
    with pytest.raises(ZeroDivisionError):
        heap.pop()
    fuse.left = math.inf
    heap._check()
    assert [heap.pop() for _left in range(len(heap))] == [-3, -2, -1, *range(1, 100)]


class OneTimeMeddler:
    """A number that runs a function once, at its next comparison."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.step: Callable[[], object] | None = None

    def __lt__(self, other: OneTimeMeddler) -> bool:
        step, self.step = self.step, None
        if step is not None:
            step()
        return self.number < other.number


USED = "^the heap was used while keys were compared$"


def test_peek_raises_when_a_comparison_empties_the_heap() -> None:
    heap: PriorityHeap[int] = BUILDS["python"]()
    for number in range(100):
        heap.push(OneTimeMeddler(number), number)
    assert heap.pop() == 0
    late = OneTimeMeddler(-1)
    heap.push(late, -1)
    assert heap.peek() == -1
    late.step = heap.clear
    with pytest.raises(RuntimeError, match=USED):
        heap.pop()
    heap._check()
    assert len(heap) == 0


# Memory: the heap keeps references to its items only, also with destructors that use it.


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
    for _ in range(10):
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
def test_reference_cycle_through_heap_is_collected(build: str) -> None:
    heap: PriorityHeap[Thing] = BUILDS[build]()
    thing = Thing()
    thing.heap = heap
    handle = heap.push((1, 2.0), thing)
    thing.handle = handle
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
        if step:
            with contextlib.suppress(Exception):
                getattr(self.heap, step)()
        return self.number < other.number


@each_build
@pytest.mark.parametrize("step", ["pop", "peek", "clear", "__len__", "__iter__"])
@pytest.mark.parametrize("size", [5, 60])
def test_comparison_that_uses_the_heap_does_not_crash(build: str, step: str, size: int) -> None:
    """The result is undefined, but the interpreter does not crash."""
    heap: PriorityHeap[int] = BUILDS[build]()
    for number in range(size):
        with contextlib.suppress(Exception):
            heap.push(Meddler(number * 7 % 11, heap, step), number)
            if number % 3 == 0:
                heap.pop()
    for _ in range(size):
        with contextlib.suppress(Exception):
            heap.pop()
    assert len(heap) <= size


# Threads: one thread at a time may use a heap; without a lock, it only must not crash.

THREADS, EACH = 6, 800


@pytest.fixture
def switch_often() -> Iterator[None]:
    """Switch threads as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def run(work: Callable[[int], None]) -> None:
    """Run functions in threads and join them; raise the error of one of them."""
    raised: list[BaseException] = []
    start = threading.Barrier(THREADS)

    def body(number: int) -> None:
        try:
            start.wait()
            work(number)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=body, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


@pytest.mark.usefixtures("switch_often")
@each_build
def test_threads_share_a_heap_under_a_lock(build: str) -> None:
    heap: PriorityHeap[tuple[int, int]] = BUILDS[build]()
    lock = threading.Lock()
    popped: list[list[tuple[int, int]]] = [[] for _ in range(THREADS)]

    def work(number: int) -> None:
        rng = random.Random(number)
        for n in range(EACH):
            with lock:
                handle = heap.push((rng.randrange(9), float(n)), (number, n))
                match n % 4:
                    case 0:
                        popped[number].append(heap.remove(handle))
                    case 1:
                        heap.rekey(handle, (0, -1.0))
                    case 2:
                        popped[number].append(heap.pop())
                    case _:
                        heap.peek()

    run(work)
    heap._check()
    left = [heap.pop() for _ in range(len(heap))]
    everything = sorted([*left, *(item for part in popped for item in part)])
    assert everything == [(number, n) for number in range(THREADS) for n in range(EACH)]


@pytest.mark.usefixtures("switch_often")
@each_build
@pytest.mark.parametrize("name", ["packed", "not packed"])
def test_threads_that_share_a_heap_without_lock_do_not_crash(build: str, name: str) -> None:
    """The result is undefined, but the interpreter does not crash."""
    heap: PriorityHeap[int] = BUILDS[build]()

    def work(number: int) -> None:
        rng = random.Random(number)
        handles = []
        for n in range(EACH):
            key = (rng.randrange(50), 0.5) if name == "packed" else (str(rng.randrange(50)),)
            try:
                handles.append(heap.push(key, n))
                if n % 3:
                    heap.pop()
                if n % 5 == 0:
                    heap.remove(handles[rng.randrange(len(handles))])
                if n % 100 == 0:
                    list(heap)
                if n % 400 == 0:
                    heap.clear()
            except Exception:
                continue

    run(work)
    heap.clear()
    assert list(heap) == []


# The choice between the builds -------------------------------------------------------------------


class Compiled:
    """A stub for the compiled class."""


@pytest.mark.parametrize(
    ("is_built", "switch", "expected"),
    [
        *((True, switch, (Compiled, "cython")) for switch in (None, "", "0")),
        *((True, switch, (build("python"), "python")) for switch in ("1", "no", " ")),
        *((False, switch, (build("python"), "python")) for switch in (None, "1")),
    ],
)
def test_extension_is_used_if_built_and_not_switched_off(
    monkeypatch: pytest.MonkeyPatch, is_built: bool, switch: str | None, expected: Any
) -> None:
    extension = ModuleType("gangsched.primitives.heap._c")
    vars(extension)["PriorityHeap"] = Compiled
    # a module that is None there cannot be imported
    monkeypatch.setitem(sys.modules, extension.__name__, extension if is_built else None)
    monkeypatch.delenv("GANGSCHED_NO_EXTENSIONS", raising=False)
    if switch is not None:
        monkeypatch.setenv("GANGSCHED_NO_EXTENSIONS", switch)
    names = runpy.run_path(str(chooser.__file__))
    assert (names["PriorityHeap"], names["heap_implementation"]) == expected
