"""A report as text, for people: tables, events and summary.

Rules:
  R1  programs read the JSON; the text may change its layout;
  R2  a table is never cut: not on a narrow terminal, not in a pipe;
  R3  rich is imported when something is printed, not before;
  R4  every line is escaped: names and messages of the input may hold control characters;
  R5  the tables name the namespace of each pod if there is more than one in the report.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import StringIO
from typing import Any, Final, TextIO, cast

from gangsched.simulation.metrics import Distribution
from gangsched.simulation.report import Counts, Pending, Report, Snapshot, Summary
from gangsched.values.seconds import format_duration, format_span
from gangsched.values.text import printable

__all__ = [
    "MOST_TENANTS",
    "TO_LAST_ARRIVAL",
    "area_text",
    "FAIRNESS_OF_TENANTS",
    "fairness_text",
    "figures_of",
    "kinds_of_jobs",
    "pending_reason",
    "print_report",
    "scarcest",
    "share_text",
    "simulated_text",
    "summary_text",
    "table_text",
    "to_last_arrival_text",
]

_UNITS = {
    "nvidia.com/gpu": "GPU-seconds",
    "cpu": "CPU-seconds",
    "memory": "Gi-hours of memory",
}
MOST_TENANTS: Final = 8
"""The most tenants, or queues, of which tables have a row; the JSON has all."""
FAIRNESS_OF_TENANTS: Final = "fairness of tenants"
_MOST_TREES: Final = 4
TO_LAST_ARRIVAL: Final = "  to last arrival"
_GI_HOUR: Final = 2**30 * 3600


def print_report(result: Report, out: TextIO) -> None:
    """Write a report as text."""
    for sentence in result.skipped:
        out.write(printable(f"skipped: {sentence}") + "\n")
    if result.skipped:
        out.write("\n")
    namespaces = {row.namespace for snapshot in result.snapshots for row in snapshot.pods}
    for snapshot in result.snapshots:
        _snapshot(snapshot, out, with_namespace=len(namespaces) > 1)
    if result.events:
        rows = [(format_span(e.at), e.type, e.reason, e.object, e.message) for e in result.events]
        out.write(table_text(("TIME", "TYPE", "REASON", "OBJECT", "MESSAGE"), rows) + "\n\n")
    out.write(summary_text(result) + "\n")
    for tree in result.trees[:_MOST_TREES]:
        encoding = getattr(out, "encoding", None)
        out.write("\n" + "\n".join(tree.lines(encoding)) + "\n")
    if len(result.trees) > _MOST_TREES:
        out.write(f"\nand {len(result.trees) - _MOST_TREES} more gangs of which parts lack pods\n")


def _snapshot(snapshot: Snapshot, out: TextIO, *, with_namespace: bool) -> None:
    out.write(f"t={format_span(snapshot.at)}\n")
    columns: tuple[str, ...] = ("NAME", "READY", "STATUS", "NODE", "AGE")
    rows: list[tuple[str, ...]] = [
        (row.name, row.ready, row.status, row.node or "<none>", row.age) for row in snapshot.pods
    ]
    if with_namespace:
        # one column more in every table of the report, so that tables can be compared by eye
        columns = ("NAMESPACE", *columns)
        rows = [(pod.namespace, *row) for pod, row in zip(snapshot.pods, rows, strict=True)]
    out.write(table_text(columns, rows) + "\n\n")


def summary_text(result: Report) -> str:
    """Return the settings and the figures of a report as text."""
    summary = result.summary
    chosen = ", ".join(f"{k}={_setting(k, v)}" for k, v in result.settings.items() if v is not None)
    decisions = f"{summary.decisions} decision{'s' * (summary.decisions != 1)}"
    rows = [("simulated", f"{simulated_text(summary)} in {decisions}")]
    for word, counts in kinds_of_jobs(summary):
        if counts.submitted:
            rows.append((word, _counts(counts)))
            rows.append(("  waited", _waiting(counts)))
            if counts.finished:
                figures = _figures(counts.completion, format_span)
                took = f"{figures}, of the {counts.finished} that finished"
                rows += [("  took", took), ("  slowdown", _figures(counts.slowdown, _factor))]
    rows += _tenants(summary)
    if summary.fairness_of_tenants is not None:
        rows.append((FAIRNESS_OF_TENANTS, fairness_text(summary.fairness_of_tenants)))
    for name, share in summary.utilisation.items():
        rows.append((f"{name} used", share_text(share)))
        if summary.utilisation_to_last_arrival:
            rows.append((TO_LAST_ARRIVAL, to_last_arrival_text(summary, name)))
    rows += _levels(summary)
    rows += _queues(summary)
    rows += [("wasted", line) for line in _wasted(summary)] or [("wasted", "nothing")]
    if summary.preempted:
        rows.append(("preempted", f"{summary.preempted} pod{'s' * (summary.preempted != 1)}"))
    rows += [
        ("lost", f"{area_text(name, area)} of pods that did not finish")
        for name, area in summary.lost.items()
    ]
    rows += [("deadlock", _deadlock(summary))]
    rows += [("never fits", key) for key in summary.never_fit[:20]]
    if len(summary.never_fit) > 20:
        rows.append(("never fits", f"and {len(summary.never_fit) - 20} more"))
    rows += [
        ("pending", f"{job.job}: {pending_reason(job, summary.end)}") for job in result.pending[:20]
    ]
    if len(result.pending) > 20:
        rows.append(("pending", f"and {len(result.pending) - 20} more"))
    return f"{printable(chosen)}\n{table_text(None, rows)}"


def _tenants(summary: Summary) -> list[tuple[str, str]]:
    """Return a row for each namespace, if there are several and not many."""
    count = len(summary.tenants)
    if count > MOST_TENANTS:
        return [("tenants", f"{count}; --output json has the figures of each")]
    return [
        (f"tenant {name}", f"{counts.submitted} submitted, waited: {_waiting(counts)}")
        for name, counts in summary.tenants.items()
        if count > 1
    ]


def scarcest(summaries: Sequence[Summary]) -> str:
    """Return the resource of which the largest share was used in some run; empty if none was."""
    every = [(share, name) for each in summaries for name, share in each.utilisation.items()]
    share, name = max(every, key=lambda each: each[0], default=(0.0, ""))
    return name if share > 0 else ""


def _levels(summary: Summary) -> Iterator[tuple[str, str]]:
    """Yield in how many domains of each level gangs were, and how much was free in empty ones."""
    name = scarcest([summary])
    for level, figures in summary.levels.items():
        counts = figures.domains_of_gangs
        of = f", of the {counts.count} of several pods that started" if counts.count else "none"
        yield f"{level} per gang", f"{_figures(counts, _number)}{of}"
        if name in figures.whole_share:
            share = share_text(figures.whole_share[name])
            yield "  whole", f"{share} of the free {name} was in empty domains"


def _queues(summary: Summary) -> Iterator[tuple[str, str]]:
    """Yield the mean share of each queue, if there are not too many, and the fairness."""
    count = len(summary.queues)
    if count > MOST_TENANTS:
        yield "queues", f"{count}; --output json has the figures of each"
    for name, figures in summary.queues.items() if count <= MOST_TENANTS else ():
        weight = "" if figures.weight == 1 else f", weight {_number(figures.weight)}"
        yield f"queue {name}", f"mean dominant share {share_text(figures.share)}{weight}"
    if summary.queues:
        yield "fairness of queues", fairness_text(summary.fairness)


def fairness_text(fairness: float | None) -> str:
    """Return the fairness of a run with two decimals; ``-`` for none."""
    return "-" if fairness is None else f"{fairness:.2f}"


def _number(value: float) -> str:
    """Return a number with two decimals at the most: ``1.5``, ``2``."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def kinds_of_jobs(summary: Summary) -> list[tuple[str, Counts]]:
    """Return the counts of gangs and of single pods, and of all together if there are both."""
    kinds = [("gangs", summary.gangs), ("single pods", summary.singles)]
    is_mixed = summary.gangs.submitted and summary.singles.submitted
    return [*kinds, ("all jobs", summary.jobs)] if is_mixed else kinds


def pending_reason(job: Pending, end: float) -> str:
    """Return why a job is pending; with the instant of its attempt if that was not at the end."""
    is_old = job.tried_at is not None and job.tried_at < end
    tried = f" (as of its attempt at t={format_span(job.tried_at or 0.0)})" if is_old else ""
    return f"{job.why}{tried}"


def _counts(counts: Counts) -> str:
    return (
        f"{counts.submitted} submitted, {counts.started_whole} started whole,"
        f" {counts.partial} partial, {counts.never_fit} never fit, {counts.pending} pending"
    )


def _waiting(counts: Counts) -> str:
    left = counts.submitted - counts.started_whole
    if not counts.waiting.count:
        return "none has started"
    figures = _figures(counts.waiting, format_span)
    return f"{figures}, of the {counts.started_whole} that started; {left or 'none'} did not"


def _figures(found: Distribution, text: Callable[[float], str]) -> str:
    figures = (*figures_of(found), ("max", found.max))
    return ", ".join(f"{word} {text(value)}" for word, value in figures if value is not None)


def figures_of(found: Distribution) -> tuple[tuple[str, float | None], ...]:
    """Return the mean, rounded for people, and the percentiles of a distribution, by name."""
    mean = found.mean
    if mean is not None:
        mean = round(mean, 2 if mean >= 1 else 4)
    return ("mean", mean), ("median", found.median), ("p95", found.p95), ("p99", found.p99)


def _factor(value: float) -> str:
    return f"{value:.2f}"


def _wasted(summary: Summary) -> list[str]:
    return [
        f"{area_text(name, area)} held by jobs whose work had not begun"
        for name, area in summary.wasted.items()
    ]


def simulated_text(summary: Summary) -> str:
    """Return how long a run took; of one whose first pod came later, when that was."""
    if not 0 < summary.begin < summary.end:
        return format_span(summary.end)
    return f"{format_span(summary.end - summary.begin)} from t={format_span(summary.begin)}"


def area_text(name: str, area: float) -> str:
    """Return an amount of a resource over time: ``840 GPU-seconds``; memory is in Gi-hours."""
    if name == "memory":
        amount = area / _GI_HOUR
        return f"{amount:.{max(2, _decimals(amount))}f} {_UNITS[name]}"
    return f"{format_duration(area)} {_UNITS.get(name, f'{name}-seconds')}"


def to_last_arrival_text(summary: Summary, name: str) -> str:
    """Return which share of a resource was used up to the last arrival of a job."""
    return share_text(summary.utilisation_to_last_arrival.get(name, 0.0))


def share_text(share: float) -> str:
    """Return a share in percent with one decimal; below 1% with two significant digits.

    A share of areas that exceed a float is not a number, and is told as unknown.
    """
    if math.isnan(share):
        return "unknown"
    return f"{share:.{max(1, _decimals(share * 100))}%}"


def _decimals(value: float) -> int:
    """Return how many decimals show two significant digits of a number."""
    if value <= 0:
        return 0
    decimals = 1 - math.floor(math.log10(value))
    # 0.996 is 1.0, not 1.00
    rounds_up = round(value, decimals) >= 10.0 ** (2 - decimals)
    return decimals - rounds_up


def _setting(name: str, value: object) -> object:
    """Return a setting as text: a plan of faults as the number of faults of each kind."""
    if name == "levels" and isinstance(value, list):
        return "|".join(":".join(keys) for keys in cast("list[list[str]]", value))
    if name != "faults" or not isinstance(value, dict):
        return value
    plan: Any = cast("object", value)
    kinds: Counter[str] = Counter(each["kind"] for each in plan["faults"])
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    return f"{kinds.total()} ({counts})" if kinds else "0"


def _deadlock(summary: Summary) -> str:
    found = summary.deadlock
    if found is None:
        return "none"
    names = ", ".join(found.jobs[:5]) + (" ..." if len(found.jobs) > 5 else "")
    return (
        f"since t={format_span(found.since)}: {found.held}"
        f" held by {len(found.jobs)} that cannot run: {names}"
    )


def table_text(header: Sequence[str] | None, rows: Iterable[Sequence[str]]) -> str:
    """Return a table, which is as wide as its cells are."""
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=header is not None, pad_edge=False, padding=(0, 3, 0, 0))
    lines = [[printable(cell) for cell in row] for row in rows]
    for title in header or [""] * len(lines[0]):
        table.add_column(title, no_wrap=True, header_style="none")
    for line in lines:
        table.add_row(*(Text(cell) for cell in line))
    width = sum(
        max(map(cell_len, column)) + 3 for column in zip(header or lines[0], *lines, strict=True)
    )
    text = StringIO()
    Console(file=text, width=width, color_system=None, legacy_windows=False).print(table)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())
