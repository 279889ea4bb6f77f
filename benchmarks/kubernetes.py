"""How does `gangsched run` compare with kube-scheduler's own gang scheduling on one API server?

kube-scheduler 1.37 with `GenericWorkload`, and gangsched, on a real API server and simulated nodes.
Each section below measures both in turn. Beside gangs, a bare client shows how many binds a second
the API server takes from a client that only binds. The file with the figures keeps those of earlier
sections and shapes, so the table can be measured in parts. We would act below 4 times the pods a
second in the median of a shape with gangs, or 2 times in a pair; below 1.5 times for plain pods;
above 0.2 times the processor time for gangs, or 0.25 times for plain pods; above 0.05 s for a
wake-up, 2 s to lead, 10 s to the first gang of a large cluster, half the memory; if a gang that
fits waits for 1 s; or if 1 % of them wait for more than 0.5 s beside a flood, or for more than
three times as long as without it.

    python benchmarks/kubernetes.py [--json FILE] [--rounds 5] [SECTION …]

section         what is measured                                      quiet machine   ended after
even, uneven    pods a second of gangs and plain pods, 1,000 nodes    9 min each      25 min each
wake-up         a gang that did not fit, 0.3 s later                  2 min           10 min
wake-up-late    the same, 2.5 s later                                 5 min           15 min
start-up        from the start of the process to leadership           1 min           5 min
churn           200 pods/s beside 20,000 pods on 5,000 nodes          12 min          --minutes + 15
listing         first gang and memory beside 50,000 pods              5 min           25 min
levels          gangs of 4 in racks, and in racks of blocks   5 min           25 min
flood           a gang beside 5,000 failed gangs of another user      4 min           20 min

In levels, kube-scheduler has `TopologyAwareWorkloadScheduling` and `CompositePodGroup`, too: the
gangs have a rack each, or two of them a parent that has a block. There are 50 racks and 5 blocks.
No bare client is beside them.

A section that fails, or is not finished by then, is ended. The rounds that even and uneven have
finished by then are kept, the other sections are still measured, and the exit code is 1. Each round
is written when it ends: with --resume, only the rounds that a shape still lacks are measured, so
an interrupted run goes on where it stopped.

Needs Go, which builds the control plane once, Linux, and the extra `kubernetes`. Everything runs on
this machine, the API server too, and that is the larger part of the work: compare within one table.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

from kubernetes_churn import churn
from kubernetes_flood import KINDS, flood
from kubernetes_moments import listing, starts, wake_ups
from kubernetes_rounds import BARE, CONTESTANTS, OURS, Cluster, Shape
from kubernetes_table import add_round, begin, described, read, table, write
from support.control_plane import ApiError, ControlPlane, ProgramFailed
from support.control_plane.cluster import TREE_FEATURES

SHAPES: Final = {
    shape.name: shape
    for shape in (
        Shape("100x10", 100, 10),
        Shape("20x50", 20, 50),
        Shape("2x500", 2, 500),
        Shape("10x50+500", 10, 50, 500),
        Shape("plain", 0, 0, 1000),
    )
}
LEVELS: Final = (
    Shape("250x4 in racks", 250, 4, racked=True),
    Shape("125x2x4 in racks of blocks", 250, 4, racked=True, together=2),
)
SECTIONS: Final = (
    "even",
    "uneven",
    "wake-up",
    "wake-up-late",
    "start-up",
    "churn",
    "listing",
    "flood",
    "levels",
)
_TOGETHER: Final = (SECTIONS[:5], ("churn", "listing"), ("flood",), ("levels",))
"""The sections that share a control plane."""
_LARGE: Final = 5000
"""Nodes of the sections about a large cluster."""
_FLOODED: Final = 50
"""Nodes of the section about a flood."""
_AT_MOST: Final = {
    "even": 25.0,
    "uneven": 25.0,
    "wake-up": 10.0,
    "wake-up-late": 15.0,
    "start-up": 5.0,
    "churn": 15.0,
    "listing": 25.0,
    "flood": 20.0,
    "levels": 25.0,
}
"""Minutes after which a section is ended; of churn, beyond those that were asked for."""


class _OverdueError(Exception):
    """A section takes longer than it may."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the command line names, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", metavar="SECTION", help="; ".join(SECTIONS))
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures are kept")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--nodes", type=int, default=1000, help="of even, uneven and levels")
    parser.add_argument("--runs", type=int, default=50, help="of wake-up")
    parser.add_argument("--minutes", type=float, default=10.0, help="of churn")
    parser.add_argument("--rate", type=float, default=200.0, help="of churn, in pods a second")
    parser.add_argument("--running", type=int, default=20_000, help="pods of churn")
    parser.add_argument("--pods", type=int, default=50_000, help="of listing")
    parser.add_argument("--flood", type=int, nargs="+", default=[1000, 5000], help="gangs")
    parser.add_argument("--kind", choices=list(KINDS), default="sizes", help="of flood")
    parser.add_argument("--probes", type=int, default=100, help="gangs that fit, of flood")
    parser.add_argument("--resume", action="store_true", help="keep the rounds that are there")
    options = parser.parse_args(arguments)
    if unknown := set(options.sections) - set(SECTIONS):
        parser.error(f"unknown sections {sorted(unknown)}; these are: {', '.join(SECTIONS)}")
    wanted = [name for name in SECTIONS if name in (options.sections or SECTIONS)]
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))  # stops the processes
    document = read(options.json)
    failed: list[str] = []
    for together in _TOGETHER:
        left = [name for name in wanted if name in together]
        while left:  # after a failure on a new control plane: what the old one has is not known
            failed += _measure(document, left, options)
    print(table(document) if document["measured"] else "nothing was measured")
    if failed:
        sys.exit(f"not measured, or not all of it: {', '.join(failed)}")


def _measure(document: dict[str, Any], left: list[str], options: Any) -> list[str]:
    """Measure some sections on one control plane, until one fails; return those that failed.

    The sections that were tried are taken out of *left*.
    """
    levels = "levels" in left
    with (
        tempfile.TemporaryDirectory(prefix="gangsched-benchmark-") as folder,
        ControlPlane(Path(folder), features=TREE_FEATURES if levels else None) as plane,
    ):
        cluster = Cluster(plane, levels=levels)
        known = _Running(cluster)
        while left:
            name = left.pop(0)
            minutes = _AT_MOST[name] + (options.minutes if name == "churn" else 0.0)
            print(f"{name} …, for at most {minutes:.0f} min", flush=True)
            described(document, name)
            try:
                with _at_most(60 * minutes):
                    _section(document, name, cluster, plane, known, options)
            except (_OverdueError, ApiError, OSError, ProgramFailed, RuntimeError) as error:
                print(f"{name}: {error}", flush=True)
                return [name]
            finally:
                cluster.stop()
    return []


def _section(
    document: dict[str, Any],
    name: str,
    cluster: Cluster,
    plane: ControlPlane,
    known: _Running,
    options: Any,
) -> None:
    """Measure one section; the figures are written when they are known."""
    measured: dict[str, Any] = document["measured"]
    match name:
        case "even" | "uneven" | "levels":
            cluster.uneven = name == "uneven"
            cluster.add_nodes(options.nodes)
            shapes = LEVELS if name == "levels" else [SHAPES[each] for each in options.shapes]
            found = measured.setdefault(name, {})
            for shape in shapes:
                all_of_them = (*CONTESTANTS, BARE) if _has_bare(shape) else CONTESTANTS
                begin(found, shape.name, all_of_them, resume=options.resume)
            _rounds(cluster, shapes, options, found, lambda: write(options.json, document))
            cluster.remove_nodes()
        case "wake-up" | "wake-up-late":
            delay = 0.3 if name == "wake-up" else 2.5
            measured[name] = wake_ups(cluster, plane, options.runs, delay)
        case "start-up":
            measured[name] = starts(cluster, plane, options.rounds)
        case "churn":
            known.add(options.running)
            measured[name] = churn(cluster, plane, OURS, 60 * options.minutes, options.rate)
        case "flood":
            cluster.add_nodes(_FLOODED)
            measured.setdefault(name, {})[options.kind] = flood(
                cluster, plane, options.flood, options.probes, options.kind
            )
            cluster.remove_nodes()
        case _:
            known.add(options.pods)
            measured[name] = listing(cluster, plane)
    write(options.json, document)


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raise ``_OverdueError`` in the main thread if the block takes longer."""

    def overdue(_number: int, _frame: FrameType | None) -> None:
        raise _OverdueError(f"ended after {seconds / 60:.0f} min")

    signal.signal(signal.SIGALRM, overdue)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class _Running:
    """The pods that run on a large cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._add: Callable[[int, int, int], object] = cluster.add_running
        self._add_nodes: Callable[[int], object] = cluster.add_nodes
        self._count = 0

    def add(self, count: int) -> None:
        """Let there be *count* of them, and the nodes."""
        if not self._count:
            self._add_nodes(_LARGE)
        self._add(max(count - self._count, 0), _LARGE, self._count)
        self._count = max(count, self._count)


def _rounds(
    cluster: Cluster,
    shapes: Sequence[Shape],
    options: Any,
    found: dict[str, Any],
    keep: Callable[[], None],
) -> None:
    """Add rounds to each shape until it has enough; *keep* is called after each."""
    for number in range(options.rounds):
        for shape in shapes:
            if len(found.get(shape.name, {}).get(OURS, ())) > number:
                continue
            pair: dict[str, Any] = {}
            # in turn, so that neither contestant always has the warmer machine
            for name in CONTESTANTS if number % 2 else CONTESTANTS[::-1]:
                figures = cluster.round(name, shape)
                pair[name] = figures._asdict()
                print(f"{number} {shape.name} {name} {figures}", flush=True)
            if _has_bare(shape):
                speed = cluster.bare_round(shape, options.nodes)
                pair[BARE] = {"pods_per_s": speed}
                print(f"{number} {shape.name} {BARE} {speed:.0f} pods/s", flush=True)
            add_round(found, shape.name, pair)
            keep()


def _has_bare(shape: Shape) -> bool:
    """Return whether a bare client is beside; without gangs, pods come while the clock runs."""
    return shape.gangs > 0 and not shape.racked


if __name__ == "__main__":
    main()
