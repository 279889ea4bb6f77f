"""A report as text, for people: tables, events and summary; and the progress bar.

Rules:
  R1  programs read the JSON; the text may change its layout;
  R2  a table is never cut: not on a narrow terminal, not in a pipe;
  R3  rich is imported when something is printed, not before;
  R4  every line is escaped: names and messages of the input may hold control characters.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from io import StringIO
from typing import TextIO

from gangsched._seconds import format_duration
from gangsched._text import printable
from gangsched.simulation.report import Counts, Report, Snapshot, Summary

__all__ = ["print_report", "progress"]

_UNITS = {
    "nvidia.com/gpu": "GPU-seconds",
    "cpu": "CPU-seconds",
    "memory": "byte-seconds of memory",
}


def print_report(result: Report, out: TextIO) -> None:
    """Write a report as text."""
    for sentence in result.skipped:
        out.write(printable(f"skipped: {sentence}") + "\n")
    if result.skipped:
        out.write("\n")
    for snapshot in result.snapshots:
        _snapshot(snapshot, out)
    if result.events:
        rows = [
            (f"{format_duration(e.at)}s", e.type, e.reason, e.object, e.message)
            for e in result.events
        ]
        out.write(_table(("TIME", "TYPE", "REASON", "OBJECT", "MESSAGE"), rows) + "\n\n")
    _summary(result, out)


def _snapshot(snapshot: Snapshot, out: TextIO) -> None:
    out.write(f"t={format_duration(snapshot.at)}s\n")
    rows = [
        (row.name, row.ready, row.status, row.node or "<none>", row.age) for row in snapshot.pods
    ]
    out.write(_table(("NAME", "READY", "STATUS", "NODE", "AGE"), rows) + "\n\n")


def _summary(result: Report, out: TextIO) -> None:
    summary = result.summary
    chosen = ", ".join(f"{k}={v}" for k, v in result.settings.items() if v is not None)
    out.write(printable(chosen) + "\n")
    rows = [("simulated", f"{format_duration(summary.end)}s in {summary.decisions} decisions")]
    for word, counts in (("gangs", summary.gangs), ("single pods", summary.singles)):
        if counts.submitted:
            rows.append((word, _counts(counts)))
            rows.append(("  waited", _waiting(counts)))
    for name, share in summary.utilisation.items():
        rows.append((f"{name} used", f"{share:.1%}"))
    rows += [("wasted", line) for line in _wasted(summary)] or [("wasted", "nothing")]
    rows += [("deadlock", _deadlock(summary))]
    rows += [("never fits", key) for key in summary.never_fit[:20]]
    if len(summary.never_fit) > 20:
        rows.append(("never fits", f"and {len(summary.never_fit) - 20} more"))
    rows += [("pending", f"{job.job}: {job.why}") for job in result.pending[:20]]
    if len(result.pending) > 20:
        rows.append(("pending", f"and {len(result.pending) - 20} more"))
    out.write(_table(None, rows) + "\n")


def _counts(counts: Counts) -> str:
    return (
        f"{counts.submitted} submitted, {counts.started_whole} started whole,"
        f" {counts.partial} partial, {counts.never_fit} never fit, {counts.pending} pending"
    )


def _waiting(counts: Counts) -> str:
    waiting = counts.waiting
    if waiting.median is None or waiting.p95 is None or waiting.max is None:
        return "none has started"
    figures = (("median", waiting.median), ("p95", waiting.p95), ("max", waiting.max))
    return ", ".join(f"{word} {format_duration(seconds)}s" for word, seconds in figures)


def _wasted(summary: Summary) -> list[str]:
    return [
        f"{format_duration(area)} {_UNITS.get(name, f'{name}-seconds')}"
        " held by gangs that could not run"
        for name, area in summary.wasted.items()
    ]


def _deadlock(summary: Summary) -> str:
    found = summary.deadlock
    if found is None:
        return "none"
    names = ", ".join(found.jobs[:5]) + (" ..." if len(found.jobs) > 5 else "")
    return (
        f"since t={format_duration(found.since)}s: {found.held}"
        f" held by {len(found.jobs)} that cannot run: {names}"
    )


def _table(header: Sequence[str] | None, rows: Iterable[Sequence[str]]) -> str:
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


@contextmanager
def progress(total: int) -> Generator[Callable[[int], None], None, None]:
    """Show a progress bar on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("simulating", total=total)
        yield lambda done: bar.update(task, completed=done)
