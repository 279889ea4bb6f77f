"""What do levels cost a gang, beside a gang without them and beside the version before levels?

Each line has the CPU time of a gang of what is named first, and of what it is compared with:
medians of some rounds, and the least, middle and largest ratio within a round. The wanted ratio is
the bound; a line whose middle ratio exceeds it is marked. We would act there.

    python benchmarks/levels.py [--against SRC] [--rounds N] [--only TEXT]

``SRC`` is the folder ``src`` of a checkout of the version before levels, f33e2390, with its heap
compiled as here. Without it, that version is taken from the history of this repository, with this
heap if its source is the same; where neither is, the lines that need it are left out, and said so.

Rules:
  T1  time is CPU time of one process (``process_time``), and garbage is collected between rounds;
  T2  the rounds of both sides alternate, and each goes first in every other round; the first round
      of each is not counted;
  T3  a ratio is of two rounds of one number. Two sides of one version share a process, and the
      version before has one of its own.
"""

from __future__ import annotations

import argparse
import io
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import levels_pairs
from gangsched import heap_implementation
from gangsched.primitives import heap
from levels_pairs import Pair, pairs
from versions import Version, alternate, line, ratios, serve

BEFORE: Final = "f33e2390"
_HEAP: Final = Path("gangsched", "primitives", "heap")
_OTHER: Final = ", beside"
"""What is added to the name of the other side of a pair."""


def source_before(folder: Path) -> Path | None:
    """Take the version before levels out of the history; return its sources, None if not there."""
    root = Path(__file__).parents[1]
    command = ["git", "-C", str(root), "archive", BEFORE, "src/gangsched"]
    taken = subprocess.run(command, capture_output=True, check=False)
    if taken.returncode:
        return None
    with tarfile.open(fileobj=io.BytesIO(taken.stdout)) as archive:
        archive.extractall(folder, filter="data")
    source, ours = folder / "src", Path(heap.__file__).parent
    theirs = source / _HEAP
    compiled = [each for each in ours.iterdir() if each.suffix in (".so", ".pyd")]
    files = [each for each in ours.iterdir() if each.suffix in (".pyx", ".pxi")]
    if any(each.read_bytes() != (theirs / each.name).read_bytes() for each in files):
        return None
    for each in compiled:
        shutil.copy(each, theirs)
    return source


def lines(pair: Pair, this: Version, before: Version | None, rounds: int) -> Iterator[str]:
    """Yield the lines of a pair."""
    if pair.other is None and before is None:
        yield line(pair.name, "", "", "", "", f"left out: no {BEFORE}")
        return
    beside = (this, pair.name + _OTHER) if pair.other is not None else (before or this, pair.name)
    one, other = alternate([(this, pair.name), beside], min(rounds, pair.rounds), warm=1)
    for part in one[0]:
        new, old = ([each[part] / pair.per for each in side] for side in (one, other))
        shown, middle = ratios(new, old)
        times = [f"{median(side) * 1e6:,.0f}" for side in (new, old)]
        missed = pair.bound is not None and middle > pair.bound
        bound = "" if pair.bound is None else f"{pair.bound:.1f}"
        yield line(f"{pair.name}: {part}", *times, shown, bound, "missed" if missed else "")


def show(chosen: Sequence[Pair], against: Path | None, options: argparse.Namespace) -> None:
    """Print the table."""
    program, arguments = Path(__file__), sys.argv[1:]
    this = Version(program, arguments, None)
    before = None if against is None else Version(program, arguments, against)
    print(line("CPU time", "µs", "beside, µs", "min / median / max", "bound", ""))
    print("|---|---:|---:|---:|---:|---|")
    for pair in chosen:
        for each in lines(pair, this, before, options.rounds):
            print(each, flush=True)
    for version in (this, before):
        if version is not None:
            version.end()


def main() -> None:
    """Print the rules, the interpreter and the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--against", type=Path, help="the folder src of the version before levels")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--only", default="", help="the lines whose names have this in them")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    chosen = [pair for pair in pairs() if options.only in pair.name]
    if options.serve:
        sides = {pair.name: pair.one for pair in chosen}
        others = {pair.name + _OTHER: pair.other for pair in chosen if pair.other is not None}
        serve({**sides, **others}, {})
        return
    rules = "".join(f"{doc}".partition("Rules:")[2] for doc in (__doc__, levels_pairs.__doc__))
    name = platform.python_implementation()
    print(
        f"Rules:{rules}\n{name} {platform.python_version()}, heap: {heap_implementation},", end=""
    )
    print(f" {options.rounds} rounds; beside the version before is beside {BEFORE}\n")
    with tempfile.TemporaryDirectory(prefix="gangsched-benchmark-") as folder:
        wanted = any(pair.other is None for pair in chosen)
        source = options.against or (source_before(Path(folder)) if wanted else None)
        show(chosen, source, options)


if __name__ == "__main__":
    main()
