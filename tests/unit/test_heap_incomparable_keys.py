"""A heap whose keys cannot be compared for a while: pending work is done later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gangsched._core._heap import HeapHandle, PriorityHeap
from support.heaps import BUILDS, each_build


class Light:
    """A switch: whether keys can be compared."""

    is_on = True


class Shy:
    """A number that can be compared while its switch is on."""

    def __init__(self, number: int, light: Light) -> None:
        self.number = number
        self.light = light

    def __lt__(self, other: Shy) -> bool:
        if not self.light.is_on:
            raise ZeroDivisionError("too dark")
        return self.number < other.number

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, Shy)
        return self is other or not (self < other or other < self)

    __hash__: Any = None


def shy_heap(build: str, size: int) -> tuple[PriorityHeap[int], list[HeapHandle], Light]:
    heap: PriorityHeap[int] = BUILDS[build]()
    light = Light()
    return heap, [heap.push(Shy(number, light), number) for number in range(size)], light


@each_build
def test_first_item_is_found_when_keys_compare_again(build: str) -> None:
    heap, handles, light = shy_heap(build, 9)
    light.is_on = False
    assert [heap.remove(handle) for handle in handles[:2]] == [0, 1]
    light.is_on = True
    assert heap.pop() == 2
    heap._check()
    assert [heap.pop() for _left in range(len(heap))] == [3, 4, 5, 6, 7, 8]


@each_build
def test_tombstones_are_dropped_while_keys_do_not_compare(build: str) -> None:
    heap, handles, light = shy_heap(build, 100)
    assert heap.pop() == 0
    light.is_on = False
    for handle in handles[10:]:
        heap.remove(handle)
    assert len(heap) == 9
    assert len(heap._entries) <= 64
    light.is_on = True
    assert heap.remove(handles[5]) == 5
    heap._check()
    assert list(heap) == [1, 2, 3, 4, 6, 7, 8, 9]


@each_build
def test_no_item_is_lost_while_keys_do_not_compare(build: str) -> None:
    heap, handles, light = shy_heap(build, 3)
    light.is_on = False
    heap.remove(handles[0])
    with pytest.raises(ZeroDivisionError):
        heap.pop()
    light.is_on = True
    assert (len(heap), list(heap)) == (2, [1, 2])


@each_build
@pytest.mark.parametrize("call", ["peek", "pop"])
def test_empty_heap_raises_index_error_while_keys_do_not_compare(build: str, call: str) -> None:
    heap, handles, light = shy_heap(build, 4)
    light.is_on = False
    for handle in handles:
        heap.remove(handle)
    with pytest.raises(IndexError, match="empty heap"):
        getattr(heap, call)()
    light.is_on = True
    with pytest.raises(IndexError, match="empty heap"):
        getattr(heap, call)()


@each_build
def test_removed_newcomer_removes_no_other_item(build: str) -> None:
    """Beside a long run, newcomers are in the binary heap, which is out of order then."""
    heap, _handles, light = shy_heap(build, 100)
    assert heap.pop() == 0
    late = [heap.push(Shy(number, light), number) for number in (-1, -2, -3, -4)]
    assert heap.peek() == -4
    heap.remove(late[-1])
    light.is_on = False
    with pytest.raises(ZeroDivisionError):
        heap.pop()
    light.is_on = True
    heap._check()
    assert [heap.pop() for _left in range(len(heap))] == [-3, -2, -1, *range(1, 100)]


class Meddler:
    """A number that runs a function once, at its next comparison."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.step: Callable[[], object] | None = None

    def __lt__(self, other: Meddler) -> bool:
        step, self.step = self.step, None
        if step is not None:
            step()
        return self.number < other.number


USED = "^the heap was used while keys were compared$"


def test_peek_raises_when_a_comparison_empties_the_heap() -> None:
    heap: PriorityHeap[int] = BUILDS["python"]()
    for number in range(100):
        heap.push(Meddler(number), number)
    assert heap.pop() == 0
    late = Meddler(-1)
    heap.push(late, -1)
    assert heap.peek() == -1
    late.step = heap.clear
    with pytest.raises(RuntimeError, match=USED):
        heap.pop()
    heap._check()
    assert len(heap) == 0


def test_peek_raises_when_a_comparison_pops_the_run() -> None:
    heap: PriorityHeap[int] = BUILDS["python"]()
    for number in range(5):
        heap.push(Meddler(number), number)
    assert [heap.pop() for _first in range(4)] == [0, 1, 2, 3]
    late = Meddler(5)
    heap.push(late, 5)
    late.step = heap.pop
    with pytest.raises(RuntimeError, match=USED):
        heap.peek()
    heap._check()
    assert list(heap) == [5]
