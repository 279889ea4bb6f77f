"""How does the cost of a whole run grow with its size?

One row per quantity that a cluster can have many of. Each row is a whole run of n items: all events
are handled and all decisions are made. The sizes double, and the last column is the exponent of the
fitted power of n: 1.0 means that an item costs the same however many there are. We would act above
1.15.

Rules:
  R1  times are CPU times of one process, the least of the rounds;
  R2  a row has a budget of CPU seconds, ``--seconds``. A size is left out if it would probably
      exceed what is left of the budget, and the row says so: its cell is ``-``;
  R3  what is measured is a run of the library alone; see ``growth_runs``.
"""

from __future__ import annotations

import argparse
import gc
import math
from collections.abc import Iterable, Mapping, Sequence
from time import process_time
from typing import Final

import growth_of_constraints
import growth_of_lives
import growth_of_objects
import growth_of_pods
from growth_runs import Row, Unplaced

LIMIT: Final = 1.15

ROWS: Final[Mapping[str, tuple[Row, int]]] = {
    **growth_of_pods.ROWS,
    **growth_of_lives.ROWS,
    **growth_of_constraints.ROWS,
    **growth_of_objects.ROWS,
}
"""Each row, with how many times smaller its sizes are."""


def measure(row: Row, size: int, rounds: int) -> tuple[float, float]:
    """Return the CPU seconds of the fastest run, and those of all rounds with their preparation."""
    best, begun_all = math.inf, process_time()
    for _round in range(rounds):
        run = row(size)
        gc.collect()
        begun = process_time()
        run()
        best = min(best, process_time() - begun)
    return best, process_time() - begun_all


def figures(row: Row, sizes: Iterable[int], rounds: int, budget: float) -> dict[int, float]:
    """Return the CPU seconds of a run by size, as far as the budget of the row allows."""
    found: dict[int, float] = {}
    left, last, cost = budget, 0, 0.0
    for size in sizes:
        # a run of the next size costs at least in proportion
        if last and cost * size / last > left:
            break
        try:
            found[size], cost = measure(row, size, rounds)
        except Unplaced:
            break
        left, last = left - cost, size
    return found


def exponent(found: Mapping[int, float]) -> float:
    """Return the exponent of the power of the size that fits the figures best."""
    points = [(math.log(size), math.log(figure)) for size, figure in found.items()]
    if len(points) < 2:
        return math.nan
    x, y = (sum(each) / len(points) for each in zip(*points, strict=True))
    above = sum((a - x) * (b - y) for a, b in points)
    return float(above / sum((a - x) ** 2 for a, _b in points))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000 * 2**k for k in range(7)])
    parser.add_argument("--seconds", type=float, default=60.0, help="the budget of a row")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    options = parser.parse_args(arguments)
    if options.quick:
        options.sizes, options.rounds = [16, 32], 1
    print(f"{'us an item':<34}", *(f"{size:>8,}" for size in options.sizes), f"{'exponent':>9}")
    for name, (row, smaller) in ROWS.items():
        if options.only not in name:
            continue
        smaller = 1 if options.quick else smaller
        sizes = [max(size // smaller, 4) for size in options.sizes]
        found = figures(row, sizes, options.rounds, options.seconds)
        cells = [f"{seconds / size * 1e6:8.0f}" for size, seconds in found.items()]
        cells += [f"{'-':>8}"] * (len(sizes) - len(cells))
        steep = exponent(found)
        label = f"{name} / {smaller}" if smaller > 1 else name
        ended = (
            ""
            if len(found) == len(sizes)
            else f"  budget of {options.seconds:.0f} s, or of a decision, used up"
        )
        mark = " *" if steep > LIMIT else ""
        print(f"{label:<34}", *cells, f"{steep:9.2f}{mark}{ended}", flush=True)


if __name__ == "__main__":
    main()
