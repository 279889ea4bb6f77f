"""``--output csv``: a report as rows for a spreadsheet or a data frame.

Rules:
  R1  the columns are the fields of the JSON: of an object in a field ``outer.inner``;
  R2  a list is one cell, with ``|`` between its items; null is an empty cell;
  R3  a cell is printed without control characters: names come from the input.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

from attrs import evolve, fields

from gangsched.simulation import JobRow, Report
from gangsched.values.text import printable

__all__ = ["print_figures", "print_jobs"]

_DERIVED: Final = ("wait", "completion_time", "slowdown")


def print_jobs(result: Report) -> None:
    """Print a row for each job: its fields in the report, and what follows from them."""
    rows = [
        {**plain, **{name: getattr(job, name) for name in _DERIVED}}
        for plain, job in zip(_without_lists(result, result.jobs)["jobs"], result.jobs, strict=True)
    ]
    _print(rows, usual=(*(each.name for each in fields(JobRow)), *_DERIVED))


def print_figures(runs: Sequence[tuple[str, Report]]) -> None:
    """Print a row for each policy, with the figures of its run."""
    _print([{"policy": name, **_without_lists(result)["summary"]} for name, result in runs])


def _without_lists(result: Report, jobs: tuple[JobRow, ...] = ()) -> dict[str, Any]:
    """Return a report as plain data, of its lists the jobs alone."""
    return evolve(result, jobs=jobs, snapshots=(), events=(), timeline=()).to_dict()


def _print(rows: Sequence[dict[str, Any]], usual: Sequence[str] = ()) -> None:
    """Print rows; without any, the usual columns."""
    flat = [dict(_cells("", row)) for row in rows]
    columns = list(dict.fromkeys(name for row in flat for name in row)) or usual
    writer = csv.DictWriter(sys.stdout, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)


def _cells(prefix: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, inner in cast("dict[str, object]", value).items():
            yield from _cells(f"{prefix}.{name}" if prefix else printable(name), inner)
    elif isinstance(value, list | tuple):
        yield prefix, "|".join(printable(str(each)) for each in cast("Sequence[object]", value))
    elif isinstance(value, bool):
        yield prefix, str(value).lower()
    else:
        yield prefix, "" if value is None else printable(str(value))
