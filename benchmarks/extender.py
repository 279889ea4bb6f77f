"""What does a gang cost through an extender, beside a second scheduler and the in-tree plugin?

Three ways to whole gangs on one real API server, in turn: kube-scheduler 1.37 with
`GenericWorkload`; `gangsched run`; a stock kube-scheduler with `gangsched extender`. We would act
if the extender leaves a gang that fits waiting for 2 s, or places less than a tenth of the pods a
second of the second scheduler.

    python benchmarks/extender.py [--write] [--plain-http] [--rounds 3] [--runs 5] [--minutes 4.5]

pods/s    pods bound a second, from the first pod group to the last bind; all pods are there before,
          so that each way has refused them. Plain pods: from the first pod to the last bind.
wake-up   a gang that did not fit; from the creation of the last node to the last bind.
beside    plain pods while as many members wait in gangs of which one member is missing.
CPU       processor time of all processes of the way for each pod, without the API server.

The extender is asked over TLS, and both sides verify certificates, unless `--plain-http` is given.
A round is left out if it would end after `--minutes`; the table says how many there were.
`--write` puts the table into `docs/explanation/extender.md`.

Needs what `kubernetes.py` needs. Everything runs on this machine: compare within one table.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import signal
import sys
import tempfile
import textwrap
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, Final, cast

from kubernetes_moments import wake_up
from kubernetes_rounds import CONTESTANTS, Cluster, Figures, Shape
from support.control_plane import Account, ControlPlane, Process, Rule
from support.documents import ROOT
from support.extended_cluster import extended_configuration, start_extender
from support.extender_tls import TlsFiles

EXTENDER: Final = "extender"
WAYS: Final = (*CONTESTANTS, EXTENDER)
_GROUPS: Final = "scheduling.k8s.io/v1beta1"
_REFUSED: Final = 3.0
"""Seconds after which every way has refused the gangs that wait."""
_numbers: Final = itertools.count()
_WORDS: Final = {
    CONTESTANTS[0]: "kube-scheduler with `GenericWorkload`",
    CONTESTANTS[1]: "`gangsched run`",
    EXTENDER: "kube-scheduler with `gangsched extender`",
}
_PAGE: Final = ROOT / "docs" / "explanation" / "extender.md"
_TABLE: Final = re.compile(r"(<!-- figures: begin -->\n).*?(<!-- figures: end -->)", re.DOTALL)


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

    def __init__(self, plane: ControlPlane, size: int, tls: TlsFiles | None) -> None:
        super().__init__(plane)
        self.waiting = 0
        self._tls = tls
        self._size = size
        everything = Rule(["*"], ["*"], "*")
        self._token = Account.create(plane.admin, EXTENDER, [everything]).token

    def start(self, contestant: str) -> Process:
        if contestant != EXTENDER:
            return super().start(contestant)
        plane = self._plane
        kubeconfig = plane.kubeconfig("extender", self._token)
        tls = self._tls
        more = ["-v", "0", *(tls.arguments() if tls else ())]
        extender, url = start_extender(
            plane, plane.folder, names=[EXTENDER], kubeconfig=kubeconfig, more=more
        )
        connection = {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000}
        configuration = extended_configuration(url, [EXTENDER], tls.of_scheduler() if tls else None)
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
    parser.add_argument("--minutes", type=float, default=4.5, help="how long it takes at most")
    parser.add_argument("--plain-http", action="store_true", help="ask the extender without TLS")
    parser.add_argument("--write", action="store_true", help=f"write the table into {_PAGE.name}")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))  # stops the processes
    began, load = time.monotonic(), os.getloadavg()[0]
    ends = began + 60.0 * options.minutes
    figures: dict[tuple[str, str], list[Figures]] = {}
    wakes: dict[str, list[float]] = {way: [] for way in WAYS}
    with (
        tempfile.TemporaryDirectory(prefix="gangsched-benchmark-") as name,
        ControlPlane(Path(name) / "plane") as plane,
    ):
        tls = None if options.plain_http else TlsFiles(Path(name) / "tls")
        cluster = _Extended(plane, options.size, tls)
        cluster.add_nodes(options.nodes)
        longest = 0.0
        for number in range(options.rounds):
            started = time.monotonic()
            # the wake-ups take about as long as half a round
            if number and started + 1.5 * longest > ends:
                break
            _round(cluster, options, number, figures)
            longest = max(longest, time.monotonic() - started)
        cluster.remove_nodes()
        longest = 0.0
        for number in range(options.runs):
            started = time.monotonic()
            if number and started + longest > ends:
                break
            _wake_ups(cluster, plane, number, wakes)
            longest = max(longest, time.monotonic() - started)
    rounds, plain = len(figures[WAYS[0], "gangs"]), options.gangs * options.size
    said = (
        f"Measured by `python benchmarks/extender.py` on {datetime.now(UTC):%Y-%m-%d}:"
        f" {options.gangs} gangs of {options.size} pods, or {plain} plain pods, on {options.nodes}"
        f" nodes. Rounds: {rounds}; wake-ups: {len(wakes[EXTENDER])}. The extender was asked"
        f" {'by plain HTTP' if options.plain_http else 'over TLS'}. The three ways took turns, and"
        " the table has the median, the least and the most. The machine has"
        f" {os.cpu_count()} cores (load {load:.1f} before), and the API server ran on them, too. So"
        " compare within a row only, and trust the processor time more than the pods a second."
    )
    text = f"{textwrap.fill(said, 120)}\n\n{_table(figures, wakes)}\n"
    print(f"\n{text}\n{time.monotonic() - began:.0f} s")
    if options.write:
        page = _PAGE.read_text(encoding="utf-8")
        found, count = _TABLE.subn(lambda match: match[1] + text + match[2], page)
        if count != 1:
            sys.exit(f"{_PAGE}: expected one place for the figures, found {count}")
        _PAGE.write_text(found, encoding="utf-8")


def _round(
    cluster: _Extended,
    options: argparse.Namespace,
    number: int,
    figures: dict[tuple[str, str], list[Figures]],
) -> None:
    """Let each way place each shape once."""
    plain = options.gangs * options.size
    shapes = (
        Shape("gangs", options.gangs, options.size),
        Shape("plain", 0, 0, plain),
        Shape("beside", 0, 0, plain),
    )
    for shape in shapes:
        # another one begins each time, so that none always has the warmer machine
        for way in (*WAYS[number % 3 :], *WAYS[: number % 3]):
            cluster.waiting = options.gangs if shape.name == "beside" else 0
            found = cluster.round(way, shape)
            figures.setdefault((way, shape.name), []).append(found)
            print(f"{number} {shape.name} {way} {found}", flush=True)


def _wake_ups(
    cluster: _Extended, plane: ControlPlane, number: int, wakes: dict[str, list[float]]
) -> None:
    """Measure one wake-up of each way."""
    for way in (*WAYS[number % 3 :], *WAYS[: number % 3]):
        process: Any = cluster.start(way)
        with ThreadPoolExecutor(5) as pool:
            wake_up(cluster, plane, way, 0.5, pool)  # the first decision costs more than others
            wakes[way].append(wake_up(cluster, plane, way, 0.5, pool).last)
        process.stop()
        print(f"{number} wake-up {way} {wakes[way][-1]:.3f}", flush=True)


def _table(figures: dict[tuple[str, str], list[Figures]], wakes: dict[str, list[float]]) -> str:
    """Return the medians, with the least and the most, as Markdown."""
    lines = [f"| | {' | '.join(_WORDS[way] for way in WAYS)} |", f"|---|{'---|' * len(WAYS)}"]

    def row(words: str, read: Any, shape: str, digits: int = 0) -> None:
        cells = [_spread([read(each) for each in figures[way, shape]], digits) for way in WAYS]
        lines.append(f"| {words} | {' | '.join(cells)} |")

    row("gangs, pods/s", lambda each: each.pods_per_s, "gangs")
    row("processor time of a member, ms", lambda each: each.cpu_ms, "gangs", 1)
    row("first to last bind of a gang, ms", lambda each: each.spread_ms, "gangs")
    row("gangs that stayed partial", lambda each: each.partial, "gangs")
    row("plain pods, pods/s", lambda each: each.pods_per_s, "plain")
    row("processor time of a plain pod, ms", lambda each: each.cpu_ms, "plain", 1)
    row(
        "plain pods beside gangs that lack a member, pods/s", lambda each: each.pods_per_s, "beside"
    )
    row("processor time of such a pod, ms", lambda each: each.cpu_ms, "beside", 1)
    row("memory, MB", lambda each: each.resident_mb, "gangs")
    cells = [_spread([1000 * each for each in wakes[way]], 0) for way in WAYS]
    lines.append(f"| wake-up of a gang, ms | {' | '.join(cells)} |")
    return "\n".join(lines)


def _spread(values: Sequence[float], digits: int) -> str:
    middle, least, most = median(values), min(values), max(values)
    if least == most:
        return f"{middle:.{digits}f}"
    return f"{middle:.{digits}f} ({least:.{digits}f}-{most:.{digits}f})"


if __name__ == "__main__":
    main()
