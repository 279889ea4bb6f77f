"""How does `gangsched run` compare with kube-scheduler's own gang scheduling on one API server?

kube-scheduler 1.36 with `GangScheduling`, and gangsched, on a real API server with simulated nodes.
Each section below measures both in turn. The file with the figures keeps those of earlier sections,
so the table can be measured in parts. We would act below 4 times the pods a second in the median of
a shape with gangs, or 2 times in a pair; below 1.5 times for plain pods; above 0.2 times the
processor time for gangs, or 0.25 times for plain pods; above 0.05 s for a wake-up, 2 s to lead,
10 s to the first gang of a large cluster, half the memory; or if a gang that fits waits for 1 s.

    python benchmarks/kubernetes.py [--json FILE] [--rounds 5] [SECTION …]

even, uneven    pods a second of gangs and plain pods, on 1,000 nodes (7 min each at 5 rounds)
wake-up         a gang that did not fit, 0.3 s later; wake-up-late: 2.5 s later (2 and 5 min)
start-up        from the start of the process to leadership (1 min)
churn           200 pods/s beside 20,000 pods on 5,000 nodes, for --minutes (2 min more)
listing         first gang and memory beside 50,000 pods on 5,000 nodes (5 min)

Needs Go, which builds the control plane once, Linux, and the extra `kubernetes`. Everything runs on
this machine, the API server too, and that is the larger part of the work: compare within one table.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from kubernetes_churn import churn
from kubernetes_moments import listing, starts, wake_ups
from kubernetes_rounds import CONTESTANTS, OURS, Cluster, Shape
from kubernetes_table import described, read, table, write
from support.control_plane import ControlPlane

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
SECTIONS: Final = ("even", "uneven", "wake-up", "wake-up-late", "start-up", "churn", "listing")
_LARGE: Final = 5000
"""Nodes of the sections about a large cluster."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the command line names, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", metavar="SECTION", help="; ".join(SECTIONS))
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures are kept")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--nodes", type=int, default=1000, help="of even and uneven")
    parser.add_argument("--runs", type=int, default=50, help="of wake-up")
    parser.add_argument("--minutes", type=float, default=10.0, help="of churn")
    parser.add_argument("--rate", type=float, default=200.0, help="of churn, in pods a second")
    parser.add_argument("--running", type=int, default=20_000, help="pods of churn")
    parser.add_argument("--pods", type=int, default=50_000, help="of listing")
    options = parser.parse_args(arguments)
    if unknown := set(options.sections) - set(SECTIONS):
        parser.error(f"unknown sections {sorted(unknown)}; these are: {', '.join(SECTIONS)}")
    wanted = [name for name in SECTIONS if name in (options.sections or SECTIONS)]
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))  # stops the processes
    document = read(options.json)
    for together in (wanted[: _small(wanted)], wanted[_small(wanted) :]):
        if together:
            _measure(document, together, options)
    print(table(document))


def _small(wanted: Sequence[str]) -> int:
    """Return how many of the sections come before those about a large cluster."""
    return sum(1 for name in wanted if name not in ("churn", "listing"))


def _measure(document: dict[str, Any], wanted: Sequence[str], options: Any) -> None:
    """Measure some sections on one control plane; the figures are written after each."""
    with (
        tempfile.TemporaryDirectory(prefix="gangsched-benchmark-") as folder,
        ControlPlane(Path(folder)) as plane,
    ):
        cluster = Cluster(plane)
        known = _Running(cluster)
        for name in wanted:
            print(f"{name} …", flush=True)
            described(document, name)
            found: Any
            match name:
                case "even" | "uneven":
                    cluster.uneven = name == "uneven"
                    cluster.add_nodes(options.nodes)
                    found = _rounds(cluster, [SHAPES[each] for each in options.shapes], options)
                    cluster.remove_nodes()
                case "wake-up" | "wake-up-late":
                    delay = 0.3 if name == "wake-up" else 2.5
                    found = wake_ups(cluster, plane, options.runs, delay)
                case "start-up":
                    found = starts(cluster, plane, options.rounds)
                case "churn":
                    known.add(options.running)
                    found = churn(cluster, plane, OURS, 60 * options.minutes, options.rate)
                case _:
                    known.add(options.pods)
                    found = listing(cluster, plane)
            document["measured"][name] = found
            write(options.json, document)


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


def _rounds(cluster: Cluster, shapes: Sequence[Shape], options: Any) -> dict[str, Any]:
    found: dict[str, Any] = {shape.name: {name: [] for name in CONTESTANTS} for shape in shapes}
    for number in range(options.rounds):
        for shape in shapes:
            # in turn, so that neither contestant always has the warmer machine
            for name in CONTESTANTS if number % 2 else CONTESTANTS[::-1]:
                figures = cluster.round(name, shape)
                found[shape.name][name].append(figures._asdict())
                print(f"{number} {shape.name} {name} {figures}", flush=True)
    return found


if __name__ == "__main__":
    main()
