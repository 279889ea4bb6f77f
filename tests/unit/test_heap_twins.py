"""Run both builds in lockstep: they return and raise the same for any keys."""

from __future__ import annotations

import copy
import enum
import math
import random
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched._core._heap import PriorityHeap
from gangsched.errors import InvalidValueError
from support.heaps import BUILDS, each_build

needs_both = pytest.mark.skipif(len(BUILDS) < 2, reason="the extension is not built")


class Level(enum.IntEnum):
    """A subclass of int."""

    LOW = 0
    HIGH = 1


INTEGERS = st.sampled_from([0, 1, -1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**63])
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
KEYS = (
    st.tuples(st.integers(-3, 3), FLOATS)
    | st.tuples(NUMBERS, NUMBERS)
    | st.builds(Pair, NUMBERS, PARTS)
    | st.lists(PARTS, max_size=7).map(tuple)
    | st.lists(NUMBERS, max_size=2).map(Backwards)
    | PARTS
    | st.sampled_from(list(Level))
)
TAME = st.tuples(NUMBERS, NUMBERS, st.integers(0, 1)) | st.builds(Pair, NUMBERS, NUMBERS)
DEEDS = st.sampled_from(["push", "push", "push", "pop", "peek", "remove", "rekey", "list", "clear"])
HISTORIES = st.lists(st.tuples(DEEDS, KEYS, st.integers(0, 99)), max_size=60) | st.lists(
    st.tuples(DEEDS, TAME, st.integers(0, 99)), max_size=200
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
    for account in accounts:
        if said(partial(list, account.heap))[0] == "returned":
            account.heap._check()


@each_build
@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=80), st.randoms(use_true_random=False))
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
@pytest.mark.parametrize("size", [10, 300, 5_000])
@pytest.mark.parametrize("scale", [1, 2**40, 0.25, 1e-300, 1e300])
def test_many_keys_are_sorted_regardless_of_distance(build: str, size: int, scale: float) -> None:
    rng = random.Random(size)
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
def test_alternating_push_and_pop_is_sorted(build: str) -> None:
    """Alternate pops and pushes, with some removals and rekeys, through many merges."""
    rng = random.Random(7)
    heap: PriorityHeap[int] = BUILDS[build]()
    keys: dict[int, tuple[int, float, int]] = {}
    handles: dict[int, Any] = {}
    for item in range(4_000):
        keys[item] = (rng.randrange(3), float(rng.randrange(400)), item)
        handles[item] = heap.push(keys[item], item)
        if item < 400 or item % 7 == 1:
            continue
        first = min(keys, key=keys.__getitem__)
        assert heap.pop() == first
        del keys[first]
        if item % 5 == 0:
            moved = rng.choice(list(keys))
            keys[moved] = (rng.randrange(3), float(rng.randrange(400)), 10_000 + item)
            handles[moved] = heap.rekey(handles[moved], keys[moved])
        if item % 7 == 0:
            gone = rng.choice(list(keys))
            assert heap.remove(handles[gone]) == gone
            del keys[gone]
        if item % 100 == 0:
            heap._check()
    assert list(heap) == sorted(keys, key=keys.__getitem__)


@each_build
def test_copy_keeps_attributes_of_a_subclass(build: str) -> None:
    heap: Any = type("Named", (BUILDS[build],), {})()
    heap.name = "n"
    handle = heap.push((1, 2.0), "item")
    twin, same = copy.deepcopy((heap, handle))
    assert (twin.name, twin.remove(same), len(heap)) == ("n", "item", 1)
    with pytest.raises(InvalidValueError):
        twin.remove(handle)
