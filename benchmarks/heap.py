"""What does ``PriorityHeap`` cost over ``heapq`` with ready tuples?

Push and pop of n items in shuffled order, each contestant as a ratio to ``heapq`` in one round;
ours can also remove and re-key by handle. We would act where a cell is above its threshold
(``THRESHOLDS``), and drop the compiled heap if it were not faster than the Python one.

    python benchmarks/heap.py [--sizes 10000 100000 1000000] [--json FILE] [--chart FILE.svg]

Prints medians and the spread of rounds in which contestants alternate in a random order; CPU time
of the thread; the garbage collector is off while time is taken, and runs before it. Then bytes per
item beyond the key and the item. heapdict and pqdict take part where they are installed (``pip
install --group bench``).
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import sys
import tracemalloc
from pathlib import Path
from statistics import median
from time import thread_time_ns
from typing import Any, Final

from contestants import BASE, Contestant, contestants, keys
from drawing import chart

_ROUNDS: Final = {1_000: 201, 10_000: 41, 100_000: 9, 1_000_000: 3}
_SLOW: Final = 100_000  # the largest size for contestants that are slow
THRESHOLDS: Final = {
    "PriorityHeap, python": (1.25, 1.25, 1.25),
    "PriorityHeap, cython": (0.60, 0.45, 0.25),
}
"""At 10,000, 100,000 and 1,000,000."""
_LIMITED: Final = (10_000, 100_000, 1_000_000)


def measure(size: int, rounds: int, only: list[Contestant]) -> dict[str, list[float]]:
    """Return nanoseconds an item of each round, by name."""
    given = keys(size)
    prepared: dict[Any, Any] = {}
    times: dict[str, list[float]] = {one.name: [] for one in only}
    for turn in range(rounds):
        for one in random.Random(turn).sample(only, len(only)):
            if one.prepare not in prepared:  # builds share what is made for them
                prepared[one.prepare] = one.prepare(given)
            ready = prepared[one.prepare]
            gc.collect()
            gc.disable()
            begun = thread_time_ns()
            count = one.run(ready)
            taken = thread_time_ns() - begun
            gc.enable()
            assert count == size, one.name
            times[one.name].append(taken / size)
    return times


def bytes_per_item(one: Contestant, size: int = 20_000) -> float:
    """Return how much an item takes beyond its key and itself, when all are in."""
    prepared = one.prepare(keys(size))
    gc.collect()
    tracemalloc.start()
    kept = one.fill(prepared)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept is not None
    return taken / size


def threshold(name: str, size: int) -> float | None:
    """Return above which ratio we would act; None where nothing is said."""
    cells = THRESHOLDS.get(name)
    return cells[_LIMITED.index(size)] if cells and size in _LIMITED else None


def main() -> None:
    """Print the table; write and draw it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, *_LIMITED])
    parser.add_argument("--rounds", type=int, help="how many for each size")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    parser.add_argument("--chart", type=Path, help="where to draw the ratios")
    options = parser.parse_args()
    all_contestants = contestants()
    ratios: dict[str, dict[int, float]] = {one.name: {} for one in all_contestants}
    figures: list[dict[str, Any]] = []
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    print(f"load {load:.1f} on {os.cpu_count()} cores; Python {sys.version.split()[0]}")
    print(f"{'push + pop':<36} {'items':>9} {'ns an item':>11} {'ratio':>6} {'limit':>6}  spread")
    for size in options.sizes:
        here = [one for one in all_contestants if not one.slow or size <= _SLOW]
        times = measure(size, options.rounds or _ROUNDS.get(size, 5), here)
        for name, taken in times.items():
            each = sorted(t / b for t, b in zip(taken, times[BASE], strict=True))
            limit = threshold(name, size)
            ratios[name][size] = median(each)
            figures.append(
                {
                    "name": name,
                    "items": size,
                    "ns": median(taken),
                    "ratio": median(each),
                    "least": each[0],
                    "most": each[-1],
                    "limit": limit,
                    "rounds": len(each),
                }
            )
            at_most = "" if limit is None else f"{limit:.2f}"
            above = "  ABOVE" if limit is not None and median(each) > limit else ""
            print(
                f"{name:<36} {size:>9,} {median(taken):>11,.0f} {median(each):>6.2f} "
                f"{at_most:>6}  {each[0]:.2f} to {each[-1]:.2f}{above}"
            )
    print("\nbytes an item beyond key and item, all of them in")
    sizes = {one.name: bytes_per_item(one) for one in all_contestants}
    for name, size in sizes.items():
        print(f"{name:<36} {size:>9,.0f}")
    if options.json:
        told = {"python": sys.version, "load": load, "figures": figures, "bytes": sizes}
        options.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    if options.chart:
        shown = {name: cells for name, cells in ratios.items() if cells}
        options.chart.write_text(chart(shown, options.sizes), encoding="utf-8")


if __name__ == "__main__":
    main()
