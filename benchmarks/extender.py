"""What does a gang cost through an extender, beside a second scheduler and the in-tree plugin?

Three ways to whole gangs on one real API server, in turn: kube-scheduler 1.36 with
`GangScheduling`; `gangsched run`; a stock kube-scheduler with `gangsched extender`. We would act if
the extender leaves a gang that fits waiting for 2 s, or places less than a tenth of the pods a
second of the second scheduler.

    python benchmarks/extender.py [--rounds 3] [--gangs 10] [--size 10] [--nodes 100] [--runs 5]

pods/s    pods bound a second, from the first pod group to the last bind; all pods are there before,
          so that each way has refused them. Plain pods: from the first pod to the last bind.
wake-up   a gang that did not fit; from the creation of the last node to the last bind.
beside    plain pods while as many members wait in gangs of which one member is missing.
CPU       processor time of all processes of the way for each pod, without the API server.

Needs what `kubernetes.py` needs. Everything runs on this machine: compare within one table.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, cast

from kubernetes_moments import _wake_up
from kubernetes_rounds import CONTESTANTS, Cluster, Figures, Shape
from support.control_plane import Account, ControlPlane, Process, Rule
from support.extended_cluster import extended_configuration, start_extender

EXTENDER: Final = "extender"
WAYS: Final = (*CONTESTANTS, EXTENDER)
_GROUPS: Final = "scheduling.k8s.io/v1alpha2"
_REFUSED: Final = 3.0
"""Seconds after which every way has refused the gangs that wait."""
_numbers: Final = itertools.count()
_WORDS: Final = {
    CONTESTANTS[0]: "in-tree plugin",
    CONTESTANTS[1]: "second scheduler",
    EXTENDER: "extender",
}


class _Pair:
    """A stock kube-scheduler and its extender, as one contestant."""

    def __init__(self, scheduler: Process, extender: Process) -> None:
        self._both = (scheduler, extender)
        self.log = extender.log

    def pause(self) -> None:
        for each in self._both:
            each.pause()

    def resume(self) -> None:
        for each in self._both:
            each.resume()

    def stop(self) -> None:
        for each in self._both:
            each.stop()

    def cpu_seconds(self) -> float:
        return sum(each.cpu_seconds() for each in self._both)

    def resident_bytes(self) -> int:
        return sum(each.resident_bytes() for each in self._both)


class _Extended(Cluster):
    """A cluster with the third contestant."""

    def __init__(self, plane: ControlPlane, size: int) -> None:
        super().__init__(plane)
        self.waiting = 0
        self._size = size
        everything = Rule(["*"], ["*"], "*")
        self._token = Account.create(plane.admin, EXTENDER, [everything]).token

    def start(self, contestant: str) -> Process:
        if contestant != EXTENDER:
            return super().start(contestant)
        plane = self._plane
        kubeconfig = plane.kubeconfig("extender", self._token)
        extender, url = start_extender(
            plane, plane.folder, names=[EXTENDER], kubeconfig=kubeconfig, more=["-v", "0"]
        )
        connection = {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000}
        configuration = extended_configuration(url, [EXTENDER])
        configuration["clientConnection"] = connection
        scheduler = plane.start_scheduler(configuration, features={}, verbosity=0)
        return cast("Process", _Pair(scheduler, extender))

    def place(self, process: Process, contestant: str, shape: Shape) -> Figures:
        """Let a contestant place a shape, beside gangs of which one member is missing."""
        if not self.waiting or shape.name != "beside":
            return super().place(process, contestant, shape)
        namespace = f"beside-{next(_numbers)}"
        self._admin.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        pods = f"/api/v1/namespaces/{namespace}/pods"
        groups = f"/apis/{_GROUPS}/namespaces/{namespace}/podgroups"
        for number in range(self.waiting):
            self._add_group(groups, f"w{number}", self._size + 1)
            for place in range(self._size):
                self._add_pod(pods, contestant, f"w{number}-{place}", f"w{number}")
        time.sleep(_REFUSED)
        found = super().place(process, contestant, shape)
        self._admin.delete(pods, {"gracePeriodSeconds": 0})
        return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gangs", type=int, default=10)
    parser.add_argument("--size", type=int, default=10)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--runs", type=int, default=5, help="of wake-up")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))  # stops the processes
    shapes = (
        Shape("gangs", options.gangs, options.size),
        Shape("plain", 0, 0, options.gangs * options.size),
        Shape("beside", 0, 0, options.gangs * options.size),
    )
    figures: dict[tuple[str, str], list[Figures]] = {}
    wakes: dict[str, list[float]] = {way: [] for way in WAYS}
    load = os.getloadavg()[0]
    with (
        tempfile.TemporaryDirectory(prefix="gangsched-benchmark-") as folder,
        ControlPlane(Path(folder)) as plane,
    ):
        cluster = _Extended(plane, options.size)
        cluster.add_nodes(options.nodes)
        for number in range(options.rounds):
            for shape in shapes:
                # another one begins each time, so that none always has the warmer machine
                for way in (*WAYS[number % 3 :], *WAYS[: number % 3]):
                    cluster.waiting = options.gangs if shape.name == "beside" else 0
                    found = cluster.round(way, shape)
                    figures.setdefault((way, shape.name), []).append(found)
                    print(f"{number} {shape.name} {way} {found}", flush=True)
        cluster.remove_nodes()
        for number in range(options.runs):
            for way in (*WAYS[number % 3 :], *WAYS[: number % 3]):
                process: Any = cluster.start(way)
                _wake_up(cluster, plane, way, 0.5)  # the first decision costs more than others
                wakes[way].append(_wake_up(cluster, plane, way, 0.5))
                process.stop()
                print(f"{number} wake-up {way} {wakes[way][-1]:.3f}", flush=True)
    print(
        f"\n{options.gangs} gangs of {options.size}, {options.nodes} nodes,"
        f" {options.rounds} rounds, {options.runs} wake-ups;"
        f" {os.cpu_count()} cores, load {load:.1f}\n"
    )
    print(_table(figures, wakes))


def _table(figures: dict[tuple[str, str], list[Figures]], wakes: dict[str, list[float]]) -> str:
    """Return the medians, with the least and the most, as Markdown."""
    lines = [f"| | {' | '.join(_WORDS[way] for way in WAYS)} |", f"|---|{'---|' * len(WAYS)}"]

    def row(words: str, read: Any, shape: str, digits: int = 0) -> None:
        cells = [_spread([read(each) for each in figures[way, shape]], digits) for way in WAYS]
        lines.append(f"| {words} | {' | '.join(cells)} |")

    row("pods/s of gangs", lambda each: each.pods_per_s, "gangs")
    row("CPU of a member, ms", lambda each: each.cpu_ms, "gangs", 1)
    row("first to last bind of a gang, ms", lambda each: each.spread_ms, "gangs")
    row("gangs that stayed partial", lambda each: each.partial, "gangs")
    row("pods/s of plain pods", lambda each: each.pods_per_s, "plain")
    row("CPU of a plain pod, ms", lambda each: each.cpu_ms, "plain", 1)
    row("pods/s of plain pods beside gangs that wait", lambda each: each.pods_per_s, "beside")
    row("CPU of such a pod, ms", lambda each: each.cpu_ms, "beside", 1)
    row("memory at the end, MB", lambda each: each.resident_mb, "gangs")
    cells = [_spread([1000 * each for each in wakes[way]], 0) for way in WAYS]
    lines.append(f"| wake-up, ms | {' | '.join(cells)} |")
    return "\n".join(lines)


def _spread(values: Sequence[float], digits: int) -> str:
    middle, least, most = median(values), min(values), max(values)
    if least == most:
        return f"{middle:.{digits}f}"
    return f"{middle:.{digits}f} ({least:.{digits}f}-{most:.{digits}f})"


if __name__ == "__main__":
    main()
