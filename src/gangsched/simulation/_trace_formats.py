"""The formats of traces: which one a file has, and its rows as jobs.

- jobs: a CSV header with ``job`` and ``submit_s``, or any whose columns the caller names. It is
  the format of this library, and of the Philly trace as Gavel replays it.
- openb: a CSV header with ``creation_time`` and ``num_gpu``. Pods of Alibaba's GPU trace v2023.
- dlrm: a CSV header with ``app`` and ``role``. Instances of Alibaba's trace v2025.
- philly: a ``[``. The published log of Microsoft's Philly cluster, in JSON.
- swf: a line that begins with ``;``, or has 18 numbers. The Standard Workload Format of the
  Parallel Workloads Archive.

Rules:
  R1  a malformed row is an error that names file, line, column and value; no value is guessed.
      If the caller wants such rows left out, they are counted;
  R2  what a format says and the simulation does not model is a sentence in ``skipped``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, final

from gangsched.constraints import NodeSelectorRequirement, NodeSelectorTerm
from gangsched.errors import TraceError
from gangsched.resources import Resources
from gangsched.simulation._trace_jobs import TraceJob
from gangsched.simulation._trace_notes import Note, Notes
from gangsched.simulation._trace_rows import Row, Table
from gangsched.simulation._trace_spellings import seconds_text
from gangsched.simulation._trace_topologies import TOPOLOGY, Topologies

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
    *TOPOLOGY,
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
_SHARES: Final[Note] = (
    "job requests a share of a GPU; shares are added up by node, not by device",
    "jobs request a share of a GPU; shares are added up by node, not by device",
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
    every: dict[str, Callable[[Row, str], Any]] = {
        "job": Row.name,
        "submit_s": Row.instant,
        "workers": _workers,
        "gpus_per_worker": Row.amount,
        "duration_s": Row.duration,
        "cpu_per_worker": _quantity,
        "memory_per_worker": _quantity,
        "gpu_model": _Models().terms,
        "priority": Row.integer,
        tenant: _namespace,
        "time_limit_s": _limit,
    }
    readers = [(column, read) for column, read in every.items() if column in table.columns]
    asked: dict[tuple[str, str, str], Resources] = {}
    topologies = Topologies()
    for row in table:
        topology = None
        found: dict[str, Any] = {}
        faults: list[TraceError] = []
        for column, read in readers:
            try:
                found[column] = read(row, column)
            except TraceError as error:
                faults.append(error)
        try:
            topology = topologies.of(row)
        except TraceError as error:
            faults.append(error)
        if faults:
            table.take(faults)
            continue
        get = found.get
        gpus, limit = found["gpus_per_worker"], get("time_limit_s")
        if limit is not None and float(limit) < float(found["duration_s"]):
            notes.count(_ENDED)
        if "." in gpus:
            notes.count(_SHARES)
        key = (gpus, get("cpu_per_worker", ""), get("memory_per_worker", ""))
        yield (
            row,
            TraceJob(
                found["job"],
                found["submit_s"],
                found["workers"],
                asked.get(key) or asked.setdefault(key, _requests(*key)),
                found["duration_s"],
                limit,
                get("priority", 0),
                get(tenant, "default"),
                get("gpu_model", ()),
                topology,
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


def _workers(row: Row, column: str) -> int:
    return row.whole(column, least=1, most=MOST_WORKERS)


def _quantity(row: Row, column: str) -> str:
    return row.quantity(column) if row.text(column) else ""


def _limit(row: Row, column: str) -> str | None:
    return row.duration(column) if row.text(column) else None


def _namespace(row: Row, column: str) -> str:
    name = row.name(column) if row.text(column) else "default"
    if "/" in name:
        raise row.refuse(column, "a name without a slash")
    return name


def _requests(gpus: str, cpu: str, memory: str) -> Resources:
    given = {_GPU: gpus, "cpu": cpu, "memory": memory}
    return Resources({name: amount for name, amount in given.items() if amount})


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
        seconds = seconds_text(ran) if ran > 0 else _SHORTEST
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
