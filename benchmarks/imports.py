"""What does ``import gangsched`` cost over the import of what it cannot do without?

A fresh interpreter imports attrs and sortedcontainers, another one gangsched; CPU time of the
process, as a ratio in interleaved rounds, each less an interpreter that imports nothing. We would
act above 1.3. All its names are shown too, which are loaded when they are asked for: that is what
a first scheduler costs. That nothing heavy is loaded is a test:
``tests/architecture/test_layers.py``.

    python benchmarks/imports.py
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
from statistics import median
from typing import Final

_STATEMENTS: Final = {
    "nothing": "pass",
    "attrs, sortedcontainers": "import attrs, sortedcontainers",
    "gangsched": "import gangsched",
    "all of gangsched": "from gangsched import *",
}
_ROUNDS: Final = 25


def seconds(statement: str) -> float:
    """Return the CPU time of an interpreter that runs one statement."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", statement], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print the table."""
    times: dict[str, list[float]] = {name: [] for name in _STATEMENTS}
    for name in _STATEMENTS:
        seconds(_STATEMENTS[name])  # so that everything is compiled
    for turn in range(_ROUNDS):
        for name in random.Random(turn).sample(list(_STATEMENTS), len(_STATEMENTS)):
            times[name].append(seconds(_STATEMENTS[name]))
    empty, base, ours, whole = (median(times[name]) for name in _STATEMENTS)
    for name, taken in times.items():
        spread = f"{1000 * min(taken):.0f} to {1000 * max(taken):.0f}"
        print(f"{name:<24} {1000 * median(taken):>6.0f} ms  {spread}")
    ratios = f"{(ours - empty) / (base - empty):.2f}, all {(whole - empty) / (base - empty):.2f}"
    empty, base, ours, whole = (min(times[name]) for name in _STATEMENTS)
    fastest = f"{(ours - empty) / (base - empty):.2f}, all {(whole - empty) / (base - empty):.2f}"
    print(f"ratio {ratios}; of the fastest {fastest}")


if __name__ == "__main__":
    main()
