"""``gangsched simulate``: run manifests or a trace on a simulated cluster."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, Final

from gangsched.cli._files import written
from gangsched.cli._options import POLICY, add_policy
from gangsched.cli._run import add_run, run_settings, run_to_the_end, simulator_of
from gangsched.cli._workload import add_source, read_workload
from gangsched.events import PodAdded
from gangsched.simulation import EventLog, Report, Snapshots, Workload, report
from gangsched.simulation.render import print_report

__all__ = ["add_simulate", "print_as", "run"]

_DETAILED_PODS: Final = 100
"""Up to so many pods a run keeps tables and events, unless it is told otherwise."""


def add_simulate(commands: Any) -> None:
    """Add the command."""
    simulate = commands.add_parser(
        "simulate",
        help="run manifests or a trace on a simulated cluster",
        description="Run manifests or a trace on a simulated cluster, on virtual time.",
    )
    simulate.set_defaults(run=_simulate)
    add_source(simulate)
    add_policy(simulate)
    simulate.set_defaults(**POLICY)
    add_run(simulate)
    out = simulate.add_argument_group("what is said")
    out.add_argument("--output", choices=("text", "json"), default="text")
    out.add_argument(
        "--detail",
        choices=("auto", "all", "summary"),
        default="auto",
        help=f"tables and events too; auto: up to {_DETAILED_PODS} pods",
    )
    out.add_argument("--log", metavar="FILE", help="write a decision log, for gangsched replay")


def _simulate(options: argparse.Namespace) -> int:
    workload, settings = read_workload(options), run_settings(options)
    print_as(run(workload, settings, detail=options.detail, log=options.log), options.output)
    return 0


def run(
    workload: Workload, settings: dict[str, Any], *, detail: str, log: str | None = None
) -> Report:
    """Run a workload; return the report of it."""
    events, tables = EventLog(), Snapshots()
    pods = sum(isinstance(arrival.event, PodAdded) for arrival in workload.arrivals)
    detailed = detail == "all" or (detail == "auto" and pods <= _DETAILED_PODS)
    with written(log) as write:
        simulator = simulator_of(
            workload, settings, log=write, observers=(events, tables) if detailed else ()
        )
        tables.watch(simulator)
        run_to_the_end(simulator, settings["until"])
    return report(
        simulator,
        settings=settings,
        skipped=workload.skipped,
        snapshots=tables.taken,
        events=events.entries,
    )


def print_as(result: Report, output: str) -> None:
    """Print a report as text, or as JSON."""
    if output == "json":
        json.dump(result.to_dict(), sys.stdout, indent=2, allow_nan=False)
        print()
    else:
        print_report(result, sys.stdout)
