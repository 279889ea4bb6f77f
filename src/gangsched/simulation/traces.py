"""Workload traces: files of jobs, each with its arrival, its gang and its duration.

Rules:
  R1  the format of a file is recognised by its beginning; see ``_trace_formats``;
  R2  a file is checked as a whole before the first pod of it arrives. Then it is read again, row
      by row: a pod exists from its arrival on;
  R3  rows need not be in time order; if they are not, the rows are kept in memory, not the pods;
  R4  a trace has at most ``MOST_OBJECTS`` pods at once in memory, or ``MOST_STREAMED`` pods in
      all, so that a small file cannot exhaust the memory;
  R5  if the instants of a trace are dates, time begins with the first submission.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from typing import Any, Final, TypedDict, Unpack, cast, final

from attrs import field, frozen

from gangsched.constraints import Topology
from gangsched.errors import InvalidValueError, TraceError
from gangsched.model import Node, NodeName, Resources
from gangsched.simulation import _trace_formats
from gangsched.simulation._trace_dlrm import DLRM, dlrm_arrivals
from gangsched.simulation._trace_formats import COLUMNS
from gangsched.simulation._trace_jobs import TraceJob, arrivals
from gangsched.simulation._trace_notes import Notes
from gangsched.simulation._trace_philly import PhillyReader
from gangsched.simulation._trace_rows import Faults, Row, Table
from gangsched.simulation._trace_spellings import DATES, begun
from gangsched.simulation._trace_swf import SwfReader, is_job_line
from gangsched.simulation.workload import MOST_OBJECTS, Arrival, Workload

__all__ = ["COLUMNS", "Trace", "load_trace", "open_trace", "parse_nodes_shape"]

MOST_NODES: Final = 150_000
MOST_STREAMED: Final = 100_000_000

_GPU: Final = "nvidia.com/gpu"
_SHAPE: Final = re.compile(r"([0-9]{1,9})x([0-9]{1,9})", re.ASCII)
_OPENB_NOTES: Final = ("shares of a GPU are added up by node, not by device",)
_PHILLY_FIELDS: Final = {"job": "jobid", "workers": "attempts[0].detail"}
_LIMIT_BY_NODE: Final = "max_per_node is not modelled"


class _Own(TypedDict, total=False):
    """The arguments that say more than a file does; see ``open_trace``."""

    columns: Mapping[str, str]
    skip_faulty: bool
    topology: Topology | None
    restarts: bool


@final
@frozen
class Trace:
    """A trace that was checked, and is read again when it is run.

    Attributes:
        file: Its name.
        pods: The number of pods.
        nodes: The nodes of the machine that it describes; empty if it describes none.
        missing: Why it describes no nodes although it says something of them; otherwise empty.
        skipped: One sentence for each part of it that was not taken over.
        finishes_whole: Whether the pods of a job arrive together and end together.
    """

    file: str
    pods: int
    nodes: tuple[Node, ...]
    skipped: tuple[str, ...]
    finishes_whole: bool
    _read: Callable[[], Iterator[Arrival]] = field(repr=False)
    missing: str = ""

    def arrivals(self) -> Iterator[Arrival]:
        """Yield the arrivals in time order; those of one instant in the order of the file.

        Raises:
            TraceError: A row is malformed because the file has changed since the check. The
                iteration raises it. Other changes are not noticed.
        """
        return self._read()


def load_trace(lines: Iterable[str], *, file: str, **own: Unpack[_Own]) -> Workload:
    """Return the jobs of a trace as arrivals of pods.

    Each row becomes pods ``<job>-<index>`` that arrive at its instant and run for its duration
    once all of them have started. See the reference of the command for the formats. Rows need
    not be in time order.

    Runtime complexity: O(pods log pods).

    Args:
        lines: The lines of the trace, such as an open file. Open it with ``newline=""``, as the
            ``csv`` module asks for, if quoted cells may contain line breaks.
        file: The file's name for errors.
        **own: The further arguments of ``open_trace``: ``columns``, ``topology`` and others.

    Raises:
        TraceError: Rows are malformed, a job is given twice, or the trace has more than
            1,000,000 pods.
        InvalidValueError: An argument has a wrong type.
    """
    if isinstance(lines, str | bytes) or not isinstance(lines, Iterable):
        raise InvalidValueError("lines", lines, "an iterable of lines, such as an open file")
    kept = list(_strings(lines))
    trace = open_trace(lambda: kept, file=file, most=MOST_OBJECTS, **own)
    return Workload(tuple(trace.arrivals()), trace.skipped)


def open_trace(
    read: Callable[[], Iterable[str]],
    *,
    file: str,
    most: int | None = None,
    own_nodes: bool = False,
    columns: Mapping[str, str] | None = None,
    skip_faulty: bool = False,
    topology: Topology | None = None,
    restarts: bool = False,
) -> Trace:
    """Return a trace after checking it, without its pods.

    Instants may be dates, as seconds since 1970 or as ISO dates (UTC if they name no zone). Then
    time begins with the first submission, and a sentence in ``skipped`` says when that was.

    Runtime complexity: O(rows).

    Args:
        read: Returns the lines of the file from the beginning; it is called twice or more.
        file: The file's name for errors.
        most: The largest number of pods; None for 100,000,000.
        own_nodes: Whether it runs on the nodes that it describes, if it describes any. Then its
            pods do not request a resource of which the file does not say what a node has, such as
            the memory of an SWF file.
        columns: What a CSV file of jobs calls the columns, by their names here:
            ``{"job": "JobID", "duration_s": "minutes:min"}``. A unit may follow: us, ms, s, min, h
            or d for seconds; m, %, k, M, G, T, Ki, Mi, Gi or Ti for requests of a worker. An empty
            string stands for no such column.
        skip_faulty: Whether malformed rows of a CSV file of jobs or of openb are left out and
            counted in ``skipped``.
        topology: The topology constraint of the gangs that state none.
        restarts: Whether gangs are restarted as a whole when they lose a pod, by the default
            ``RestartPolicy``.

    Raises:
        TraceError: Rows are malformed, a job is given twice, or there are too many pods. The error
            has the first 20 faults of a CSV file of jobs.
        InvalidValueError: An argument has a wrong type.
    """
    if not isinstance(file, str):
        raise InvalidValueError("file", file, "a string")
    if not isinstance(own_nodes, bool):
        raise InvalidValueError("own_nodes", own_nodes, "a bool")
    if not callable(read):
        raise InvalidValueError("read", read, "a callable that returns lines")
    if not isinstance(skip_faulty, bool):
        raise InvalidValueError("skip_faulty", skip_faulty, "a bool")
    if topology is not None and not isinstance(topology, Topology):
        raise InvalidValueError("topology", topology, "a Topology or None")
    if not isinstance(restarts, bool):
        raise InvalidValueError("restarts", restarts, "a bool")
    columns = _checked(columns)
    if most is None:
        most = MOST_STREAMED
    check = _Check(most, topology, restarts=restarts)
    first, lines = begun(_strings(read()))
    faults = Faults(skip=skip_faulty)
    if columns:
        table = Table(lines, file, expected=COLUMNS, columns=columns, faults=faults)
        return _rows(read, table, _trace_formats.job_rows, check, faults, columns)
    if first.startswith((";", "[")) or is_job_line(first):
        _not_skipping(file, skip=skip_faulty)
    if first.startswith(";") or is_job_line(first):
        return _swf(read, lines, file, check, own_nodes=own_nodes)
    if first.startswith("["):
        return _philly(read, lines, file, check)
    table = Table(lines, file, expected=COLUMNS, faults=faults)
    names = set(table.columns)
    if {"app", "role"} <= names and "job" not in names:
        _not_skipping(file, skip=skip_faulty)
        table.faults = None
        return _dlrm(table, most, topology, restarts=restarts)
    if {"creation_time", "num_gpu"} <= names and "job" not in names:
        return _rows(read, table, _trace_formats.openb_rows, check, faults, columns)
    if not names & {*COLUMNS}:
        raise TraceError(
            file, table.line, "", f"expected {_trace_formats.FORMATS}, got {first.strip()[:80]!r}"
        )
    return _rows(read, table, _trace_formats.job_rows, check, faults, columns)


def _not_skipping(file: str, *, skip: bool) -> None:
    if skip:
        problem = "malformed rows can be left out of CSV files with a job or a pod of openb a row"
        raise TraceError(file, 1, "", problem)


def _checked(columns: object) -> dict[str, str]:
    """Return the names of columns; empty for those of this library."""
    if columns is None:
        return {}
    known = (*COLUMNS, *_trace_formats.OPTIONAL)
    if not isinstance(columns, Mapping):
        raise InvalidValueError("columns", columns, "a mapping of names of columns")
    found: dict[str, str] = {}
    for name, source in cast("Mapping[object, object]", columns).items():
        if name not in known:
            raise InvalidValueError("columns", name, f"one of {', '.join(known)}")
        if not isinstance(source, str):
            raise InvalidValueError(f"columns[{name}]", source, "the name of a column")
        found[str(name)] = source
    return found


def _rows(
    read: Callable[[], Iterable[str]],
    table: Table,
    rows: Callable[[Table, Notes], Iterator[tuple[Row, TraceJob]]],
    check: _Check,
    faults: Faults,
    columns: Mapping[str, str],
) -> Trace:
    file, is_openb = table.file, rows is _trace_formats.openb_rows
    notes, twins = Notes(file), set[int]()
    for row, job in rows(table, notes):
        problem = check.take(row.line, job)
        if problem is not None:
            column, text = problem
            # the column of a name or a number of workers, whatever this format calls it
            error = row.problem(column if column in row else table.columns[0], text)
            if column != "job":
                raise error
            faults.take([error])
            twins.add(row.line)
    used = (
        (*_trace_formats.OPENB, *_trace_formats.OPENB_TIMES)
        if is_openb
        else (*COLUMNS, *_trace_formats.OPTIONAL)
    )
    skipped = _trace_formats.unused(table, used, _OPENB_NOTES if is_openb else ())
    skipped += notes.sentences() + faults.sentences(file) + check.sentences(file)

    def again() -> Iterator[TraceJob]:
        left_out = Faults(skip=True) if faults.skip else None
        lines = _strings(read())
        table = Table(lines, file, expected=COLUMNS, columns=columns, faults=left_out)
        return (job for row, job in rows(table, Notes(file)) if row.line not in twins)

    return Trace(file, check.pods, (), skipped, True, check.reader(again))


def _swf(
    read: Callable[[], Iterable[str]],
    lines: Iterator[str],
    file: str,
    check: _Check,
    *,
    own_nodes: bool,
) -> Trace:
    reader = SwfReader(lines, file)
    for line, job in reader:
        problem = check.take(line, job)
        if problem is not None:
            raise TraceError(file, line, problem[0], problem[1])
    nodes = reader.nodes()
    memory = not (own_nodes and nodes)

    def again() -> Iterator[TraceJob]:
        return (job for _line, job in SwfReader(_strings(read()), file, memory=memory))

    skipped = reader.skipped(memory=memory) + check.sentences(file)
    return Trace(
        file, check.pods, nodes, skipped, True, check.reader(again), missing=reader.missing()
    )


def _philly(
    read: Callable[[], Iterable[str]], lines: Iterator[str], file: str, check: _Check
) -> Trace:
    reader = PhillyReader(lines, file)
    for line, job in reader:
        problem = check.take(line, job)
        if problem is not None:
            raise TraceError(file, line, _PHILLY_FIELDS[problem[0]], problem[1])

    def again() -> Iterator[TraceJob]:
        return (job for _line, job in PhillyReader(_strings(read()), file))

    skipped = reader.skipped() + check.sentences(file)
    return Trace(file, check.pods, (), skipped, True, check.reader(again))


def _dlrm(table: Table, most: int, topology: Topology | None, *, restarts: bool) -> Trace:
    notes = Notes(table.file)
    found = sorted(
        dlrm_arrivals(table, notes, topology=topology, restarts=restarts), key=attrgetter("at")
    )
    if len(found) > most:
        raise TraceError(table.file, table.line, "", f"the file has more than {most:,} pods")
    skipped = _trace_formats.unused(table, (*DLRM, "max_per_node"), (_LIMIT_BY_NODE,))
    skipped += notes.sentences()
    return Trace(table.file, len(found), (), skipped, False, lambda: iter(found))


@final
class _Check:
    """Counts the pods of a trace, and finds jobs that are given twice.

    Args:
        most: The largest number of pods.
        topology: The topology constraint of the gangs that state none.
        restarts: Whether gangs are restarted.
    """

    def __init__(self, most: int, topology: Topology | None, *, restarts: bool) -> None:
        self.pods = 0
        self._most = most
        self._topology = topology
        self._restarts = restarts
        self._lines: dict[tuple[str, str] | str, int] = {}
        self._first = math.inf
        self._last = 0.0
        self._sorted = True

    def take(self, line: int, job: TraceJob) -> tuple[str, str] | None:
        """Take a job; return the column at fault and what is wrong with it, if anything is."""
        name = job.name if job.namespace == "default" else (job.namespace, job.name)
        before = self._lines.setdefault(name, line)
        if before != line:
            problem = f"expected a unique name (line {before} has the same), got {job.name!r}"
            return "job", problem
        self.pods += job.workers
        if self.pods > self._most:
            return "workers", f"with it the file has more than {self._most:,} pods"
        self._sorted = self._sorted and job.submitted_at >= self._last
        self._last = job.submitted_at
        self._first = min(self._first, job.submitted_at)
        return None

    @property
    def _origin(self) -> float:
        """The instant of the trace at which time begins: the first submission if it is a date."""
        return self._first if DATES <= self._first < math.inf else 0.0

    def sentences(self, file: str) -> tuple[str, ...]:
        """Return the date at which time begins; nothing if instants are no dates."""
        if not self._origin:
            return ()
        try:
            date = (
                datetime.fromtimestamp(self._origin, UTC).isoformat(sep=" ").removesuffix("+00:00")
            )
        except (ValueError, OverflowError, OSError):
            date = f"{self._origin:.0f} seconds since 1970"
        return (f"{file}: dates count from the first submission, {date} UTC, which is t=0",)

    def reader(self, again: Callable[[], Iterator[TraceJob]]) -> Callable[[], Iterator[Arrival]]:
        """Return what reads the jobs again in time order."""
        self._lines.clear()
        origin = self._origin
        if self._sorted:
            return lambda: self._pods(again(), origin)
        by_time: Any = attrgetter("submitted_at")
        return partial(self._pods, sorted(again(), key=by_time), origin)

    def _pods(self, jobs: Iterable[TraceJob], origin: float) -> Iterator[Arrival]:
        for job in jobs:
            if self._topology is not None or self._restarts:
                own = job.topology or self._topology
                job = job._replace(topology=own, restarts=self._restarts)
            if origin:  # to the microsecond, as dates have it
                job = job._replace(submitted_at=round(job.submitted_at - origin, 6))
            yield from arrivals(job)


def parse_nodes_shape(text: str) -> tuple[Node, ...]:
    """Return the nodes that a shape such as ``40x8`` describes: 40 nodes with 8 GPUs each.

    The nodes are named ``node-000`` and so on. They have GPUs only: a trace whose pods also
    request CPU or memory needs a table of nodes.

    Raises:
        InvalidValueError: *text* is not two whole numbers of at least 1 with an ``x`` between them.
    """
    shape = _SHAPE.fullmatch(text) if isinstance(text, str) else None
    count, gpus = (int(number) for number in shape.groups()) if shape else (0, 0)
    if not (1 <= count <= MOST_NODES and gpus):
        raise InvalidValueError(
            "nodes", text, f"COUNTxGPUS such as 40x8, with at most {MOST_NODES} nodes"
        )
    offered = Resources({_GPU: gpus})
    width = max(3, len(str(count - 1)))
    return tuple(
        Node(name=NodeName(f"node-{index:0{width}}"), allocatable=offered) for index in range(count)
    )


def _strings(lines: Iterable[object]) -> Iterator[str]:
    for line in lines:
        if not isinstance(line, str):
            raise InvalidValueError("lines", line, "a string for each line")
        yield line
