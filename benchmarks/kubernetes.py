"""How does `gangsched run` compare with kube-scheduler's own gang scheduling on one API server?

kube-scheduler 1.36 with `GangScheduling`, and gangsched, place the same gangs and pods on a real
API server with simulated nodes, in interleaved rounds: pods a second from the creation of the pod
groups to the last bind, processor time of the scheduler a pod, and the time from the first to the
last bind of a gang. We would act if the median of a shape with gangs were less than 4 times that of
kube-scheduler, a pair less than 2 times, or plain pods less than 1.5 times.

    python benchmarks/kubernetes.py [--rounds 5] [--nodes 1000] [--uneven] [--json FILE] [SHAPE …]

Needs Go, which builds the control plane once, Linux, and the extra `kubernetes`. Everything runs on
this machine, the API server too, and that is the larger part of the work: compare within one table.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

from kubernetes_rounds import CONTESTANTS, IN_TREE, OURS, Cluster, Figures, Shape
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=", ".join(SHAPES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--uneven", action="store_true", help="nodes differ by some KiB of memory")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    if unknown := set(options.shapes) - SHAPES.keys():
        parser.error(f"unknown shapes {sorted(unknown)}; these are: {', '.join(SHAPES)}")
    shapes = [SHAPES[name] for name in options.shapes or SHAPES]
    measured: dict[str, dict[str, list[Figures]]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="gangsched-benchmark-") as folder,
        ControlPlane(Path(folder)) as plane,
    ):
        cluster = Cluster(plane, uneven=options.uneven)
        cluster.add_nodes(options.nodes)
        for number in range(options.rounds):
            for shape in shapes:
                rounds = measured.setdefault(shape.name, {name: [] for name in CONTESTANTS})
                # in turn, so that neither contestant always has the warmer machine
                for name in CONTESTANTS if number % 2 else CONTESTANTS[::-1]:
                    rounds[name].append(cluster.round(name, shape))
                    print(f"{number} {shape.name} {name} {rounds[name][-1]}", flush=True)
    print_table(measured, options.nodes, uneven=options.uneven)
    if options.json is not None:
        rows = {
            shape: {name: [each._asdict() for each in rounds] for name, rounds in by.items()}
            for shape, by in measured.items()
        }
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


def print_table(measured: dict[str, dict[str, list[Figures]]], nodes: int, *, uneven: bool) -> None:
    """Print minimum, median and maximum of each figure, and the ratios of pairs."""
    kind = "uneven" if uneven else "even"
    print(f"\n{nodes} {kind} nodes, Python {platform.python_version()}, {platform.machine()}; ")
    print("min/median/max over rounds; ratios are of the two runs of a round\n")
    print(
        "| gangs x members | in-tree, pods/s | gangsched, pods/s | ratio | CPU ms a pod |", end=""
    )
    print(" CPU ratio | spread ms | partial | MB |")
    print("|---|---|---|---|---|---|---|---|---|")
    for shape, rounds in measured.items():
        theirs, ours = rounds[IN_TREE], rounds[OURS]
        pairs = list(zip(theirs, ours, strict=True))
        cells = [
            shape,
            _three([each.pods_per_s for each in theirs], 0),
            _three([each.pods_per_s for each in ours], 0),
            _three([our.pods_per_s / their.pods_per_s for their, our in pairs], 1),
            _change([each.cpu_ms for each in theirs], [each.cpu_ms for each in ours], 1),
            _three([our.cpu_ms / their.cpu_ms for their, our in pairs if their.cpu_ms], 2),
            _change([each.spread_ms for each in theirs], [each.spread_ms for each in ours], 0),
            f"{sum(each.partial for each in theirs)} → {sum(each.partial for each in ours)}",
            _change([each.resident_mb for each in theirs], [each.resident_mb for each in ours], 0),
        ]
        print(f"| {' | '.join(cells)} |")


def _three(values: list[float], digits: int) -> str:
    return "/".join(f"{value:.{digits}f}" for value in (min(values), median(values), max(values)))


def _change(theirs: list[float], ours: list[float], digits: int) -> str:
    return f"{median(theirs):.{digits}f} → {median(ours):.{digits}f}"


if __name__ == "__main__":
    main()
