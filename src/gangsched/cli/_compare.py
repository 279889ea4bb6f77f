"""``gangsched compare``: several policies on one workload, side by side.

Rules:
  R1  every policy gets the same arrivals, the same seed and the same faults;
  R2  a policy is written as ``--policy`` and its options are in ``simulate``, in one word:
      ``gang,backfill=2,placement=pack``;
  R3  a figure of jobs that started says how many they are, because policies differ in that;
  R4  rows of what was lost, or has not started, are left out if they are zero for every policy;
  R5  below the table is why jobs have not started;
  R6  figures of levels are of the same levels for each policy: those of the first that has any;
  R7  policies with the same starts are named, since equal figures may be a coincidence. What jobs
      held before their start may differ: that is the row ``wasted``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from attrs import asdict

from gangsched._version import __version__
from gangsched.cli._command import INTERRUPTED
from gangsched.cli._csv import print_figures
from gangsched.cli._files import print_json
from gangsched.cli._options import add_policy, levels_of
from gangsched.cli._parser import Parser
from gangsched.cli._picture import add_picture, check_files, draw
from gangsched.cli._run import add_run, fault_plan, run_settings
from gangsched.cli._simulate import add_output, print_skipped, run
from gangsched.cli._workload import add_source, read_source, refuse_two_of_stdin
from gangsched.simulation import Counts, Distribution, JobRow, Report
from gangsched.simulation.fragmentation import LevelFigures
from gangsched.simulation.render import (
    FAIRNESS_OF_TENANTS,
    MOST_TENANTS,
    TO_LAST_ARRIVAL,
    area_text,
    fairness_text,
    figures_of,
    kinds_of_jobs,
    pending_reason,
    scarcest,
    share_text,
    simulated_text,
    table_text,
    to_last_arrival_text,
)
from gangsched.simulation.timeline import Timeline
from gangsched.values.seconds import format_span

__all__ = ["COMPARE_SCHEMA", "add_compare"]

COMPARE_SCHEMA: Final = "gangsched.compare/1"

_MOST_REASONS: Final = 5
"""The most jobs of which a policy's reasons are printed; the JSON has all."""

_DEFAULT: Final = ("fifo", "sjf", "pod_by_pod", "coscheduling", "gang", "gang,backfill")


def add_compare(commands: Any) -> None:
    """Add the command."""
    compare = commands.add_parser(
        "compare",
        help="run several policies on one workload",
        description="Run several policies on one workload, and print their figures side by side."
        " A policy may have options, as simulate has them: gang,backfill=2,placement=pack.",
    )
    compare.set_defaults(run=_compare)
    add_source(compare)
    policies = compare.add_argument_group("scheduling")
    policies.add_argument(
        "--policy",
        action="append",
        metavar="POLICY[,OPTION[=VALUE]...]",
        help=f"a policy with its options; may be repeated; default: {' '.join(_DEFAULT)}",
    )
    policies.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="FILE",
        help="the scheduler of a KubeSchedulerConfiguration; may be repeated",
    )
    add_run(compare)
    out = compare.add_argument_group("output")
    add_output(out, "csv: a row for each policy")
    add_picture(out)


def _compare(options: argparse.Namespace) -> int:
    refuse_two_of_stdin(options)
    faults = fault_plan(options)  # once, as it may come from a pipe
    chosen = [_settings(options, name, ["--policy"], faults) for name in options.policy or ()]
    chosen += [_settings(options, name, ["--config"], faults) for name in options.config]
    if not chosen:
        chosen = [_settings(options, name, ["--policy"], faults) for name in _DEFAULT]
    files: list[str] = options.picture
    check_files(files)
    source = read_source(options)
    known = (levels_of(settings, source.levels.levels) for _name, settings in chosen)
    levels = next((each for each in known if each.topologies), None)
    drawn: list[tuple[str, Report, Timeline]] = []
    reports: list[tuple[str, Report]] = []
    code = 0
    for name, settings in chosen:
        timeline = Timeline(levels) if files else None
        result, is_whole = run(
            source, settings, name=name, detail="summary", timeline=timeline, levels=levels
        )
        if not is_whole:
            end = format_span(result.summary.end)
            print(f"gangsched: interrupted in {name} at t={end}", file=sys.stderr)
            code = INTERRUPTED
            break
        reports.append((name, result))
        if timeline is not None:
            drawn.append((name, result, timeline))
    try:
        # before the table, whose reader may close the pipe early
        if drawn:
            rows = [_headings(reports), *_rows([result for _name, result in reports])]
            draw(files, drawn, table=rows, caption=source.caption)
    finally:
        if options.output == "json":
            print_json(_plain(reports, source.skipped))
        elif options.output == "csv":
            print_skipped(source.skipped)
            print_figures(reports)
        else:
            for sentence in source.skipped:
                print(f"skipped: {sentence}")
            print(_table(reports))
            if same := _same_starts_text(reports):
                print(f"\n{same}")
            if reasons := _reasons(reports):
                print(f"\n{reasons}")
    return code


def _settings(
    options: argparse.Namespace, text: str, words: list[str], faults: dict[str, Any] | None
) -> tuple[str, dict[str, Any]]:
    """Return a policy that was given in one word, and its settings."""
    # the name of a file may have commas
    first, *more = text.split(",") if words == ["--policy"] else [text]
    parser = Parser(prog="gangsched compare", add_help=False, allow_abbrev=False)
    add_policy(parser)
    words = [f"{words[0]}={first}"]
    words += [f"--{each}" for each in map(_hyphened, more)]
    namespace = parser.parse_args(words)
    for name in ("until", "bind_seconds", "seed", "restart"):
        setattr(namespace, name, getattr(options, name))
    namespace.faults = namespace.fault_seed = None
    return text, {**run_settings(namespace), "faults": faults}


def _hyphened(option: str) -> str:
    """Return ``when-blocked=at_once`` for ``when_blocked=at_once``."""
    name, equals, value = option.strip().partition("=")
    return name.replace("_", "-") + equals + value


def _plain(reports: list[tuple[str, Report]], skipped: tuple[str, ...]) -> dict[str, Any]:
    runs: list[dict[str, Any]] = []
    twins = _twins(reports)
    for name, result in reports:
        plain = result.to_dict()
        kept = {each: plain[each] for each in ("settings", "summary", "pending")}
        runs.append({"policy": name, "same_starts_as": twins.get(name), **kept})
    read = dict.fromkeys(each for _name, result in reports for each in result.inputs)
    inputs = [asdict(each) for each in read]
    about = {"schema": COMPARE_SCHEMA, "version": __version__, "inputs": inputs}
    return {**about, "skipped": list(skipped), "runs": runs}


def _twins(reports: list[tuple[str, Report]]) -> dict[str, str]:
    """Return for each policy with the starts of an earlier one the name of the first such."""
    first: dict[tuple[JobRow, ...], str] = {}
    found = ((name, first.setdefault(result.jobs, name)) for name, result in reports)
    return {name: other for name, other in found if name != other}


def _same_starts_text(reports: list[tuple[str, Report]]) -> str:
    """Return which policies have the same starts, a line for each set; empty if none have."""
    groups: dict[str, list[str]] = {}
    for name, first in _twins(reports).items():
        groups.setdefault(first, [first]).append(name)
    why = "have the same starts: each job started at the same time on the same nodes"
    return "\n".join(f"{' and '.join(names)} {why}" for names in groups.values())


def _headings(reports: list[tuple[str, Report]]) -> tuple[str, ...]:
    return ("", *(name for name, _report in reports))


def _table(reports: list[tuple[str, Report]]) -> str:
    return table_text(_headings(reports), _rows([result for _name, result in reports]))


def _rows(results: list[Report]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []

    def add(title: str, cell: Callable[[Report], str]) -> None:
        rows.append((title, *map(cell, results)))

    add("simulated", lambda each: simulated_text(each.summary))
    for kinds in zip(*(kinds_of_jobs(each.summary) for each in results), strict=False):
        counts = [each for _word, each in kinds]
        if any(each.submitted for each in counts):
            rows += _job_rows(kinds[0][0], counts)
    rows += _tenant_rows(results)
    if any(each.summary.fairness_of_tenants is not None for each in results):
        add(FAIRNESS_OF_TENANTS, lambda each: fairness_text(each.summary.fairness_of_tenants))
    for name in dict.fromkeys(name for each in results for name in each.summary.utilisation):
        add(f"{name} used", partial(_share, name))
        if any(each.summary.utilisation_to_last_arrival for each in results):
            add(TO_LAST_ARRIVAL, partial(_share_to_last_arrival, name))
    for name in dict.fromkeys(name for each in results for name in each.summary.wasted):
        add(f"{name} wasted", partial(_wasted, name))
    rows += _level_rows(results)
    if any(each.summary.queues for each in results):
        add("fairness of queues", lambda each: fairness_text(each.summary.fairness))
    if any(each.summary.preempted for each in results):
        add("pods preempted", lambda each: str(each.summary.preempted))
    for name in dict.fromkeys(name for each in results for name in each.summary.lost):
        add(f"{name} lost", partial(_lost, name))
    add("deadlock", _deadlock)
    add("decisions", lambda each: str(each.summary.decisions))
    return rows


def _job_rows(word: str, counts: list[Counts]) -> Iterator[tuple[str, ...]]:
    started = (f"{each.started_whole} of {each.submitted}" for each in counts)
    yield (f"{word} started", *started)
    if word == "gangs":
        yield ("  partial", *(str(each.partial) for each in counts))
    for title, pending in (
        ("never fit", [each.never_fit for each in counts]),
        ("pending", [each.pending for each in counts]),
    ):
        if any(pending):
            yield (f"  {title}", *map(str, pending))
    waited = [each.waiting for each in counts]
    yield from _figures("waited", waited, format_span)
    # one job decides it, so only where a policy is meant to shorten it
    yield ("  waited, max", *_cells([each.max for each in waited], format_span))
    yield from _figures("took", [each.completion for each in counts], format_span)
    yield from _figures("slowdown", [each.slowdown for each in counts], "{:.2f}".format)


def _tenant_rows(results: list[Report]) -> Iterator[tuple[str, ...]]:
    """Yield how long the jobs of each tenant waited, if there are several tenants and not many."""
    names = dict.fromkeys(name for each in results for name in each.summary.tenants)
    if not 1 < len(names) <= MOST_TENANTS:
        return
    for name in names:
        waited = [
            tenant.waiting if (tenant := each.summary.tenants.get(name)) else Distribution.of([])
            for each in results
        ]
        yield from _figures(f"tenant {name} waited", waited, format_span)


def _level_rows(results: list[Report]) -> Iterator[tuple[str, ...]]:
    """Yield in how many racks and blocks gangs were, and how much was free in empty ones."""
    name = scarcest([each.summary for each in results])
    for level in dict.fromkeys(level for each in results for level in each.summary.levels):
        found = [
            each.summary.levels.get(level, LevelFigures(Distribution.of([]))) for each in results
        ]
        counts = [each.domains_of_gangs for each in found]
        yield (f"{level} per gang, mean", *_cells([each.mean for each in counts], "{:.2f}".format))
        yield (f"{level} per gang, max", *_cells([each.max for each in counts], "{:.0f}".format))
        if name:
            shares = [each.whole_share.get(name) for each in found]
            yield ("  whole, of free", *_cells(shares, share_text))


def _figures(
    title: str, found: list[Distribution], text: Callable[[float], str]
) -> Iterator[tuple[str, ...]]:
    for named in zip(*map(figures_of, found), strict=True):
        yield (f"  {title}, {named[0][0]}", *_cells([value for _word, value in named], text))


def _cells(values: list[float | None], text: Callable[[float], str]) -> Iterator[str]:
    return ("-" if value is None else text(value) for value in values)


def _share(name: str, result: Report) -> str:
    return share_text(result.summary.utilisation.get(name, 0.0))


def _share_to_last_arrival(name: str, result: Report) -> str:
    return to_last_arrival_text(result.summary, name)


def _wasted(name: str, result: Report) -> str:
    area = result.summary.wasted.get(name)
    return "nothing" if area is None else area_text(name, area)


def _lost(name: str, result: Report) -> str:
    area = result.summary.lost.get(name)
    return "nothing" if area is None else area_text(name, area)


def _reasons(reports: list[tuple[str, Report]]) -> str:
    """Return why jobs have not started, by policy; empty if all of them have."""
    rows: list[tuple[str, ...]] = []
    for name, result in reports:
        end = result.summary.end
        known = result.pending[:_MOST_REASONS]
        rows += [(name, job.job, pending_reason(job, end)) for job in known]
        more = len(result.pending) - _MOST_REASONS
        if more > 0:
            rows.append((name, f"and {more} more", "--output json has all"))
    return table_text(("POLICY", "NOT STARTED", "WHY"), rows) if rows else ""


def _deadlock(result: Report) -> str:
    found = result.summary.deadlock
    if found is None:
        return "none"
    jobs = "1 job" if len(found.jobs) == 1 else f"{len(found.jobs)} jobs"
    return f"{jobs} since t={format_span(found.since)}"
