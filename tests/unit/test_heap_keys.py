"""Requirements on keys, and how long tombstones remain."""

from __future__ import annotations

import pytest

from gangsched._core._heap import PriorityHeap
from gangsched.errors import InvalidValueError
from support.heaps import BUILDS, each_build


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
def test_key_with_unordered_part_is_refused(build: str) -> None:
    heap: PriorityHeap[int] = BUILDS[build]()
    heap.push((1, 2.0), 1)
    with pytest.raises(InvalidValueError):
        heap.push((1, 2j), 2)
    assert list(heap) == [1]


@each_build
def test_number_keys_are_compared_beside_other_keys(build: str) -> None:
    heap: PriorityHeap[int] = BUILDS[build]()
    heap.push((1, 2), 1)
    heap.push((0, "a"), 2)
    heap._check()
    with pytest.raises(InvalidValueError):
        heap.push((0, 5), 3)
    assert [heap.pop(), heap.pop()] == [2, 1]


@each_build
@pytest.mark.parametrize(("size", "kept"), [(64, 63), (104, 52), (128, 64)])
def test_tombstones_remain_until_they_outnumber_items(build: str, size: int, kept: int) -> None:
    """In a small heap until it is empty: a scan at each removal would cost too much."""
    heap: PriorityHeap[int] = BUILDS[build]()
    handles = [heap.push((item, 0), item) for item in range(size)]
    for handle in handles[:kept]:
        heap.remove(handle)
        assert len(heap._entries) == size
        heap._check()
    heap.remove(handles[kept])
    assert len(heap._entries) == len(heap) == size - kept - 1


@each_build
@pytest.mark.parametrize("gone", range(1, 5))
def test_tombstones_are_never_returned(build: str, gone: int) -> None:
    heap: PriorityHeap[int] = BUILDS[build]()
    handles = [heap.push((item, 0), item) for item in range(5)]
    assert heap.peek() == 0
    heap.remove(handles[gone])
    assert heap.peek() == 0
    heap._check()
    left = [item for item in range(5) if item != gone]
    assert [heap.pop() for _item in left] == left


@each_build
def test_tombstones_are_counted_in_all_lists(build: str) -> None:
    heap: PriorityHeap[int] = BUILDS[build]()
    handles = [heap.push((item, 0), item) for item in range(101)]
    assert heap.pop() == 0
    for item in range(101, 105):
        heap.push((item, 0), item)
        assert heap.peek() == 1
    for handle in handles[2:54]:
        heap.remove(handle)
    assert len(heap._entries) == 104
    heap._check()
    heap.remove(handles[54])
    assert len(heap._entries) == len(heap) == 51
