"""``gangsched simulate``: run manifests or a trace on a simulated cluster."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

from gangsched.cli._command import INTERRUPTED
from gangsched.cli._csv import print_jobs
from gangsched.cli._files import BadInputError, print_json, written
from gangsched.cli._inputs import input_of
from gangsched.cli._options import add_policy, title_of
from gangsched.cli._picture import add_picture, check_files, draw
from gangsched.cli._run import (
    InterruptedRunError,
    Interrupts,
    add_run,
    run_settings,
    run_to_the_end,
    simulator_of,
)
from gangsched.cli._workload import Source, add_source, read_source, refuse_two_of_stdin
from gangsched.errors import InvalidValueError
from gangsched.options.levels import Levels
from gangsched.simulation import EventLog, Input, Observer, Report, Snapshots, report
from gangsched.simulation.queue_usage import queues_of
from gangsched.simulation.render import print_report, summary_text
from gangsched.simulation.timeline import Timeline
from gangsched.values.seconds import format_span
from gangsched.values.text import printable

__all__ = ["add_output", "add_simulate", "print_as", "print_skipped", "run"]

_DETAILED_PODS: Final = 100
"""The most pods for which ``--detail auto`` prints tables and events."""


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
    add_run(simulate)
    out = simulate.add_argument_group("output")
    add_output(out, "csv: a row for each job")
    out.add_argument(
        "--detail",
        choices=("auto", "all", "events", "summary"),
        default="auto",
        help="print tables and events too (all), events without tables, or neither (summary);"
        f" auto: all for at most {_DETAILED_PODS} pods; the tables of many pods take long",
    )
    add_picture(out)
    out.add_argument("--log", metavar="FILE", help="write a decision log, for gangsched replay")


def add_output(group: Any, csv: str) -> None:
    """Add the option."""
    group.add_argument("--output", choices=("text", "json", "csv"), default="text", help=csv)


def print_skipped(sentences: Iterable[str]) -> None:
    """Print what was skipped beside an output that has no place for it."""
    for sentence in sentences:
        print(printable(f"skipped: {sentence}"), file=sys.stderr)


def _simulate(options: argparse.Namespace) -> int:
    files: list[str] = options.picture
    check_files(files)
    refuse_two_of_stdin(options)
    settings, source = run_settings(options), read_source(options)
    timeline = Timeline() if files or options.output == "json" else None
    name = title_of(settings)
    result, is_whole = run(
        source, settings, name=name, detail=options.detail, log=options.log, timeline=timeline
    )
    try:
        # before the report, whose reader may close the pipe early
        if files and timeline is not None:
            summary = summary_text(result)
            runs = [(name, result, timeline)]
            draw(files, runs, summary=summary, caption=source.caption)
    finally:
        print_skipped(source.skipped if options.output == "csv" else ())
        print_as(result, options.output)
    if is_whole:
        return 0
    at = f"t={format_span(result.summary.end)}"
    print(f"gangsched: interrupted at {at}; the report is of the run so far", file=sys.stderr)
    return INTERRUPTED


def run(
    source: Source,
    settings: dict[str, Any],
    *,
    name: str,
    detail: str,
    log: str | None = None,
    timeline: Timeline | None = None,
    levels: Levels | None = None,
) -> tuple[Report, bool]:
    """Run a workload; return the report, and whether the run came to its end.

    Args:
        source: The workload.
        settings: The settings of the scheduler and of the run.
        name: What is run, for the progress that is shown.
        detail: ``auto``, ``all``, ``events`` or ``summary``.
        log: The file of a decision log; None for none.
        timeline: Is watched, and is part of the report. Without one, only the figures of levels
            and queues are, if there are any.
        levels: The levels of these figures; None for those of the scheduler.
    """
    events, tables = EventLog(), Snapshots()
    detailed = detail == "all" or (detail == "auto" and source.pods <= _DETAILED_PODS)
    # tables and events show how pods finish; without them, a long run keeps only the pods that live
    delete = not detailed and detail != "events" and source.finishes_whole
    is_whole = False
    with written(log) as write, Interrupts() as interrupts:
        observers: tuple[Observer, ...] = (interrupts,)
        if detailed:
            observers = (events, tables, interrupts)
        elif detail == "events":
            observers = (events, interrupts)
        watched = Timeline(levels, keep=False) if timeline is None else timeline
        observers = (*observers, watched)
        simulator = simulator_of(
            source, settings, log=write, observers=observers, delete_finished=delete
        )
        if detailed:
            tables.watch(simulator)
        has_levels = bool((levels or simulator.scheduler.levels).topologies)
        if timeline is not None or has_levels or queues_of(simulator.scheduler):
            watched.watch(simulator)
        with suppress(InterruptedRunError):
            try:
                run_to_the_end(simulator, settings["until"], arrivals=source.count, name=name)
            except InvalidValueError as error:
                # whether a job has arrived by its deletion is not known before the run
                if error.field == "job":
                    raise BadInputError(f"--delete: {error}") from error
                raise
            is_whole = True
    result = report(
        simulator,
        settings=settings,
        inputs=(*source.inputs, *_config_of(settings)),
        skipped=source.skipped,
        timeline=watched,
        snapshots=tables.taken,
        events=events.entries,
    )
    return result, is_whole


def _config_of(settings: dict[str, Any]) -> Iterator[Input]:
    config: str | None = settings.get("config")
    if config is not None:
        yield input_of(config, use="config")


def print_as(result: Report, output: str) -> None:
    """Print a report as text, as JSON, or its jobs as CSV."""
    if output == "json":
        print_json(result.to_dict())
    elif output == "csv":
        print_jobs(result)
    else:
        print_report(result, sys.stdout)
