"""What does ``PriorityHeap`` cost over ``heapq`` with ready tuples?

Push and pop of n keys in shuffled order, as a ratio to ``heapq`` in the same run; ours can also
remove and re-key by handle. We would act above 5, or where a push and a pop cost more than a
twentieth of a decision (see ``wake_ups.py`` for what a decision costs).
"""

from __future__ import annotations

import argparse
import gc
import random
from collections.abc import Callable
from heapq import heappop, heappush
from statistics import median
from time import thread_time_ns

from sortedcontainers import SortedKeyList

from gangsched import PriorityHeap, SortKey


def keys(count: int, seed: int = 0) -> list[SortKey]:
    """Return keys as the queue makes them, shuffled."""
    draw = random.Random(seed)
    made = [SortKey(-draw.randrange(3), float(n // 8), 1, n, 0) for n in range(count)]
    draw.shuffle(made)
    return made


def ready_tuples(given: list[SortKey]) -> SortKey:
    """Use the standard library, with what it compares made beforehand."""
    heap: list[SortKey] = []
    for key in given:
        heappush(heap, key)
    while heap:
        last = heappop(heap)
    return last


def priority_heap(given: list[SortKey]) -> SortKey:
    """Use ours."""
    heap: PriorityHeap[SortKey] = PriorityHeap()
    for key in given:
        heap.push(key, key)
    while len(heap):
        last = heap.pop()
    return last


def sorted_key_list(given: list[SortKey]) -> SortKey:
    """Use a list that is kept sorted."""
    ordered = SortedKeyList(key=lambda key: key)
    for key in given:
        ordered.add(key)
    while ordered:
        last: SortKey = ordered.pop(0)
    return last


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    options = parser.parse_args()
    rivals: list[Callable[[list[SortKey]], SortKey]] = [
        ready_tuples,
        priority_heap,
        sorted_key_list,
    ]
    print(f"{'push + pop':<16} {'items':>8} {'ns an item':>11} {'ratio':>6}  spread")
    for size in options.sizes:
        given = keys(size)
        times: dict[str, list[float]] = {rival.__name__: [] for rival in rivals}
        for turn in range(options.rounds):
            for rival in random.Random(turn).sample(rivals, len(rivals)):
                gc.collect()
                begun = thread_time_ns()
                last = rival(given)
                times[rival.__name__].append((thread_time_ns() - begun) / size)
                assert last == max(given), rival.__name__
        base = times[ready_tuples.__name__]
        for name, taken in times.items():
            ratios = sorted(t / b for t, b in zip(taken, base, strict=True))
            spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
            print(f"{name:<16} {size:>8} {median(taken):>11.0f} {median(ratios):>6.2f}  {spread}")


if __name__ == "__main__":
    main()
