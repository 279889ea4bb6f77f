"""What does the life of a gang cost beside another version, and how large is all?

Every line is the CPU time of what is named, with the events that belong to it: the medians of some
rounds and, with another version, the least, middle and largest ratio within a round. A line whose
middle ratio exceeds its gate is marked. We would act there.

    python benchmarks/life.py [--against SRC] [--rounds N] [--only TEXT]
                              [--philly philly_gangs.csv] [--pods N] [PART...]

``SRC`` is the folder ``src`` of a checkout of the other version, with its heap compiled as here.
The gates are about the version before the core was made anew, ee072b74. Without ``--philly`` the
rows of that trace are left out: the project ships none. The whole trace takes minutes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import life_of_backlogs
import life_of_gangs
import life_of_runs
import size
from versions import Row, Version, head, serve, show

PARTS: Final = ("gangs", "backlogs", "runs", "traces", "size")


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield the rows of the parts that are asked for."""
    parts = options.parts or PARTS
    if "gangs" in parts:
        yield from life_of_gangs.rows()
    if "backlogs" in parts:
        yield from life_of_backlogs.rows()
    if "runs" in parts:
        yield from life_of_runs.rows()
    if "traces" in parts:
        yield from life_of_runs.traces(options.philly, options.pods, options.jobs)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", choices=(*PARTS, []), help="default: all")
    parser.add_argument("--against", type=Path, help="the folder src of another version")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="the rows whose names have this in them")
    parser.add_argument("--philly", type=Path, help="the file philly_gangs.csv")
    parser.add_argument("--pods", type=int, help="how many pods of the trace arrive; default: all")
    parser.add_argument("--jobs", type=int, default=20_000, help="how many jobs of one pod")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve({row.name: row.prepare for row in rows(options)}, {"size": size.sizes})
        return
    program, arguments = Path(__file__), sys.argv[1:]
    this = Version(program, arguments, None)
    other = None if options.against is None else Version(program, arguments, options.against)
    print(head())
    show(rows(options), this, other, rounds=options.rounds, only=options.only)
    if "size" in (options.parts or PARTS):
        print()
        for line in size.lines(this.ask("size"), {} if other is None else other.ask("size")):
            print(line)
    for version in (this, other):
        if version is not None:
            version.end()


if __name__ == "__main__":
    main()
