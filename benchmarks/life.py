"""Is the new core faster than the old one over the life of a gang, and is its walk shorter?

Every line is the CPU time of what both cores do, with the events that belong to it: the medians of
some rounds, and the least, middle and largest ratio of ``core`` to ``framework`` within a round. A
line whose middle ratio exceeds its gate is marked. We would act there.

    python benchmarks/life.py [--rounds N] [--only TEXT] [--philly philly_gangs.csv] [--pods N]

Without ``--philly`` the rows of that trace are left out: the project ships none. The whole trace
takes minutes. ``gangs``, ``backlogs``, ``runs``, ``traces`` and ``walk`` name parts of the table.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

import life_of_backlogs
import life_of_gangs
import life_of_runs
import walk
from rivals import HEAD, show

PARTS: Final = ("gangs", "backlogs", "runs", "traces", "walk")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", choices=(*PARTS, []), help="default: all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="the rows whose names have this in them")
    parser.add_argument("--philly", type=Path, help="the file philly_gangs.csv")
    parser.add_argument("--pods", type=int, help="how many pods of the trace arrive; default: all")
    parser.add_argument("--jobs", type=int, default=20_000, help="how many jobs of one pod")
    options = parser.parse_args()
    parts = options.parts or PARTS
    print(HEAD)
    for name, rows in (
        ("gangs", life_of_gangs.rows()),
        ("backlogs", life_of_backlogs.rows()),
        ("runs", life_of_runs.rows()),
        ("traces", life_of_runs.traces(options.philly, options.pods, options.jobs)),
    ):
        if name in parts:
            show(rows, options.rounds, options.only)
    if "walk" in parts:
        print()
        for line in walk.lines():
            print(line)


if __name__ == "__main__":
    main()
