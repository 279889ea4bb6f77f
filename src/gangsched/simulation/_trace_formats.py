"""The formats of traces: which one a file has, and its rows as jobs.

- jobs: a CSV header with ``job`` and ``submit_s``. It is the format of this library, and of the
  Philly trace as Gavel replays it.
- openb: a CSV header with ``creation_time`` and ``num_gpu``. Pods of Alibaba's GPU trace v2023.
- dlrm: a CSV header with ``app`` and ``role``. Instances of Alibaba's trace v2025.
- philly: a ``[``. The published log of Microsoft's Philly cluster, in JSON.
- swf: a line that begins with ``;``, or has 18 numbers. The Standard Workload Format of the
  Parallel Workloads Archive.

Rules:
  R1  a malformed row is an error that names file, line, column and value; no value is guessed
      and no row is left out in silence;
  R2  what a format says and the simulation does not model is a sentence in ``skipped``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

from gangsched.constraints import NodeSelectorRequirement, NodeSelectorTerm
from gangsched.errors import TraceError
from gangsched.resources import Resources
from gangsched.simulation._trace_jobs import TraceJob
from gangsched.simulation._trace_notes import Note, Notes
from gangsched.simulation._trace_rows import Row, Table

__all__ = [
    "COLUMNS",
    "FORMATS",
    "GPU_MODEL",
    "MOST_WORKERS",
    "OPENB",
    "OPENB_TIMES",
    "OPTIONAL",
    "job_rows",
    "openb_rows",
    "unused",
]

COLUMNS: Final = ("job", "submit_s", "workers", "gpus_per_worker", "duration_s")
"""The columns that a trace of jobs must have, in any order."""

OPTIONAL: Final = (
    *("cpu_per_worker", "memory_per_worker", "gpu_model"),
    *("priority", "tenant", "vc", "time_limit_s"),
)
"""The columns that it may have. ``vc`` is another name of ``tenant``."""

OPENB: Final = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec")
OPENB_TIMES: Final = ("creation_time", "deletion_time", "scheduled_time")

GPU_MODEL: Final = "nvidia.com/gpu.product"
"""The label of a node with the model of its GPUs, as GPU feature discovery writes it."""

FORMATS: Final = (
    "a CSV header with job and submit_s (jobs), creation_time and num_gpu (openb) or app and role"
    " (dlrm), a [ (the job log of Philly), or a line that begins with ; or has 18 numbers (SWF)"
)
"""How the format of a trace is recognised by its first line that is not blank."""

MOST_WORKERS: Final = 150_000

_GPU: Final = "nvidia.com/gpu"
_SHORTEST: Final = "1"
_AT_ONCE: Final[Note] = (
    f"pod was deleted at the instant at which it started, and runs for {_SHORTEST} s",
    f"pods were deleted at the instant at which they started, and run for {_SHORTEST} s",
)
_ENDED: Final[Note] = (
    "job is ended by its time limit, and counts as finished",
    "jobs are ended by their time limits, and count as finished",
)
_NEVER_SCHEDULED: Final[Note] = (
    "pod was never scheduled, and runs for as long as it waited",
    "pods were never scheduled, and run for as long as they waited",
)


def job_rows(table: Table, notes: Notes) -> Iterator[tuple[Row, TraceJob]]:
    """Yield the rows of a trace of jobs."""
    table.require(COLUMNS, OPTIONAL)
    if {"tenant", "vc"} <= {*table.columns}:
        raise TraceError(table.file, table.line, "tenant", "expected tenant or vc, got both")
    tenant = "tenant" if "tenant" in table.columns else "vc"
    has_limit, has_tenant = "time_limit_s" in table.columns, tenant in table.columns
    has_priority, has_model = "priority" in table.columns, "gpu_model" in table.columns
    sizes = [each for each in ("cpu_per_worker", "memory_per_worker") if each in table.columns]
    asked: dict[tuple[int, tuple[str, ...]], Resources] = {}
    models = _Models()
    for row in table:
        name, submitted = row.name("job"), row.instant("submit_s")
        workers = row.whole("workers", least=1, most=MOST_WORKERS)
        gpus = row.whole("gpus_per_worker", least=0)
        key = (gpus, tuple(map(row.text, sizes)))
        requests = asked.get(key)
        if requests is None:
            requests = asked.setdefault(key, _requests(row, gpus))
        seconds = row.duration("duration_s")
        limit = row.duration("time_limit_s") if has_limit and row.text("time_limit_s") else None
        if limit is not None and float(limit) < float(seconds):
            notes.count(_ENDED)
        yield (
            row,
            TraceJob(
                name,
                submitted,
                workers,
                requests,
                seconds,
                limit,
                row.integer("priority") if has_priority else 0,
                _namespace(row, tenant) if has_tenant else "default",
                models.terms(row, "gpu_model") if has_model else (),
            ),
        )


@final
class _Models:
    """The terms of node affinity for models of GPUs, each made once."""

    def __init__(self) -> None:
        self._terms: dict[str, tuple[NodeSelectorTerm, ...]] = {"": ()}

    def terms(self, row: Row, column: str) -> tuple[NodeSelectorTerm, ...]:
        """Return the terms for one model, or several with ``|`` between them; none for none."""
        models = row.text(column)
        found = self._terms.get(models)
        if found is None:
            wanted = tuple(dict.fromkeys(models.split("|")))
            if not all(map(str.strip, wanted)):
                raise row.refuse(column, "the model of a GPU, or several with | between them")
            found = (NodeSelectorTerm((NodeSelectorRequirement(GPU_MODEL, "In", wanted),)),)
            self._terms[models] = found
        return found


def _namespace(row: Row, column: str) -> str:
    name = row.name(column)
    if "/" in name:
        raise row.refuse(column, "a non-empty string without a slash")
    return name


def _requests(row: Row, gpus: int) -> Resources:
    amounts: dict[str, str | int] = {_GPU: gpus}
    for column, name in (("cpu_per_worker", "cpu"), ("memory_per_worker", "memory")):
        if row.text(column):
            amounts[name] = row.quantity(column)
    return Resources(amounts)


def openb_rows(table: Table, notes: Notes) -> Iterator[tuple[Row, TraceJob]]:
    """Yield the pods of Alibaba's GPU trace, each as a job of one worker."""
    table.require((*OPENB, *OPENB_TIMES))
    asked: dict[tuple[str, ...], Resources] = {}
    models = _Models()
    columns = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    for row in table:
        name, created = row.name("name"), row.instant("creation_time")
        key = tuple(map(row.text, columns))
        requests = asked.get(key)
        if requests is None:
            cpu, memory, gpus, share = (row.whole(column, least=0) for column in columns)
            amounts = {"cpu": cpu, "memory": memory * 1024**2 * 1000, _GPU: gpus * share}
            requests = asked.setdefault(key, Resources.from_milli(amounts))
        # A pod that was never scheduled has no run time; it is given the time that it waited.
        was_scheduled = bool(row.text("scheduled_time"))
        began = "scheduled_time" if was_scheduled else "creation_time"
        ran = row.instant("deletion_time") - row.instant(began)
        if ran < 0:
            raise row.refuse("deletion_time", f"an instant not before {began}")
        if not was_scheduled:
            notes.count(_NEVER_SCHEDULED)
        elif not ran:
            notes.count(_AT_ONCE)
        seconds = f"{ran:.6f}".rstrip("0").rstrip(".") if ran > 0 else _SHORTEST
        yield (
            row,
            TraceJob(name, created, 1, requests, seconds, affinity=models.terms(row, "gpu_spec")),
        )


def unused(table: Table, used: tuple[str, ...], notes: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return sentences about what a file says and the simulation does not take over."""
    left = [name for name in table.columns if name not in used]
    what = f"columns {', '.join(left)} were" if len(left) > 1 else f"column {''.join(left)} was"
    columns = (f"{table.file}: the {what} not taken over",) if left else ()
    return (*columns, *(f"{table.file}: {note}" for note in notes))
