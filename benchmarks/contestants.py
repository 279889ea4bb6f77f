"""The contestants of ``heap.py``, and the task of each."""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Callable, Iterable
from functools import cmp_to_key, partial
from heapq import heappop, heappush
from typing import Any, Final

from attrs import field, frozen
from sortedcontainers import SortedKeyList

from gangsched import SortKey

BASE: Final = "heapq, ready tuples"
"""The baseline of the comparison."""


@frozen
class Contestant:
    """One way to put n items in and take them out.

    Attributes:
        name: What the table calls it.
        prepare: Makes what is there before the clock starts, of n keys; once for all rounds.
        run: Puts all in and takes all out; returns how many came out.
        fill: Puts all in; returns what then holds them. For bytes per item.
        slow: Whether it sits out the largest size.
    """

    name: str
    prepare: Callable[[list[SortKey]], Any]
    run: Callable[[Any], int]
    fill: Callable[[Any], object]
    slow: bool = field(default=False)


def keys(count: int, seed: int = 0) -> list[SortKey]:
    """Return keys as the queue makes them, shuffled."""
    draw = random.Random(seed)
    made = [SortKey(-draw.randrange(3), float(n // 8), 1, n, 0) for n in range(count)]
    draw.shuffle(made)
    return made


# Rivals ---------------------------------------------------------------------------------------


def _fill_heapq(items: Iterable[Any]) -> list[Any]:
    heap: list[Any] = []
    for item in items:
        heappush(heap, item)
    return heap


def _run_heapq(items: list[Any]) -> int:
    heap: list[Any] = []
    for item in items:
        heappush(heap, item)
    count = 0
    while heap:
        heappop(heap)
        count += 1
    return count


class Comparable:
    """An item that compares by its key."""

    __slots__ = ("key",)

    def __init__(self, key: SortKey) -> None:
        self.key = key

    def __lt__(self, other: Comparable) -> bool:
        return self.key < other.key


def _less(a: SortKey, b: SortKey) -> int:
    return -1 if a < b else 1


def _fill_sorted(items: list[SortKey]) -> Any:
    ordered = SortedKeyList(key=lambda key: key)
    for key in items:
        ordered.add(key)
    return ordered


def _run_sorted(items: list[SortKey]) -> int:
    ordered = _fill_sorted(items)
    for _ in items:
        ordered.pop(0)
    return len(items)


def _fill_mapping(make: Callable[[], Any], items: list[SortKey]) -> Any:
    heap = make()
    for key in items:
        heap[key] = key
    return heap


def _run_mapping(make: Callable[[], Any], items: list[SortKey]) -> int:
    heap = _fill_mapping(make, items)
    for _ in items:
        heap.popitem()
    return len(items)


# Ours -----------------------------------------------------------------------------------------


def _fill_heap(build: Any, items: list[SortKey]) -> object:
    heap = build()
    return [heap.push(key, key) for key in items], heap


def _run_heap(build: Any, items: list[SortKey]) -> int:
    heap = build()
    for key in items:
        heap.push(key, key)
    for _ in items:
        heap.pop()
    return len(items)


def contestants() -> list[Contestant]:
    """Return the contestants: heapq first, then ours, then the others that are installed."""
    made = [Contestant(BASE, list, _run_heapq, _fill_heapq)]
    for name, module in (("python", "_py"), ("cython", "_c")):
        try:
            build = importlib.import_module(f"gangsched.primitives.heap.{module}").PriorityHeap
        except ImportError:
            print(f"the heap in {name} is not built", file=sys.stderr)
            continue
        made += [
            Contestant(
                f"PriorityHeap, {name}", list, partial(_run_heap, build), partial(_fill_heap, build)
            ),
        ]
    compare = cmp_to_key(_less)
    made += [
        Contestant(
            "heapq, objects with __lt__",
            lambda given: [Comparable(key) for key in given],
            _run_heapq,
            _fill_heapq,
            slow=True,
        ),
        Contestant(
            "heapq, cmp_to_key(less)",
            lambda given: [compare(key) for key in given],
            _run_heapq,
            _fill_heapq,
            slow=True,
        ),
        Contestant("SortedKeyList", list, _run_sorted, _fill_sorted, slow=True),
    ]
    for module, name in (("heapdict", "heapdict"), ("pqdict", "pqdict")):
        try:
            make = getattr(importlib.import_module(module), name)
        except ImportError:
            print(f"{module} is not installed: pip install --group bench", file=sys.stderr)
            continue
        made.append(
            Contestant(
                module, list, partial(_run_mapping, make), partial(_fill_mapping, make), slow=True
            )
        )
    return made
