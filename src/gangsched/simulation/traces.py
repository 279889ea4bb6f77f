"""Workload traces: files of jobs, each with its arrival, its gang and its duration.

Rules:
  R1  the format of a file is recognised by its beginning; see ``_trace_formats``;
  R2  a file is checked as a whole before the first pod of it arrives. Then it is read again, row
      by row: a pod exists from its arrival on;
  R3  rows need not be in time order; if they are not, the rows are kept in memory, not the pods;
  R4  a trace has at most ``MOST_OBJECTS`` pods at once in memory, or ``MOST_STREAMED`` pods in
      all, so that a small file cannot exhaust the memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any, Final, final

from attrs import field, frozen

from gangsched.errors import InvalidValueError, TraceError
from gangsched.model import Node, NodeName, Resources
from gangsched.simulation import _trace_formats as formats
from gangsched.simulation._trace_dlrm import DLRM, dlrm_arrivals
from gangsched.simulation._trace_formats import COLUMNS
from gangsched.simulation._trace_jobs import TraceJob, arrivals
from gangsched.simulation._trace_notes import Notes
from gangsched.simulation._trace_philly import PhillyReader
from gangsched.simulation._trace_rows import Row, Table
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


def load_trace(lines: Iterable[str], *, file: str) -> Workload:
    """Return the jobs of a trace as arrivals of pods.

    Each row becomes pods ``<job>-<index>`` that arrive at its instant and run for its duration
    once all of them have started. See the reference of the command for the formats. Rows need
    not be in time order.

    Runtime complexity: O(pods log pods).

    Args:
        lines: The lines of the trace, such as an open file. Open it with ``newline=""``, as the
            ``csv`` module asks for, if quoted cells may contain line breaks.
        file: The file's name for errors.

    Raises:
        TraceError: A row is malformed, a job is given twice, or the trace has more than
            1,000,000 pods.
        InvalidValueError: An argument has a wrong type.
    """
    if isinstance(lines, str | bytes) or not isinstance(lines, Iterable):
        raise InvalidValueError("lines", lines, "an iterable of lines, such as an open file")
    kept = list(_strings(lines))
    trace = open_trace(lambda: kept, file=file, most=MOST_OBJECTS)
    return Workload(tuple(trace.arrivals()), trace.skipped)


def open_trace(
    read: Callable[[], Iterable[str]],
    *,
    file: str,
    most: int | None = None,
    own_nodes: bool = False,
) -> Trace:
    """Return a trace after checking it, without its pods.

    Runtime complexity: O(rows).

    Args:
        read: Returns the lines of the file from the beginning; it is called twice or more.
        file: The file's name for errors.
        most: The largest number of pods; None for 100,000,000.
        own_nodes: Whether it runs on the nodes that it describes, if it describes any. Then its
            pods do not request a resource of which the file does not say what a node has, such as
            the memory of an SWF file.

    Raises:
        TraceError: A row is malformed, a job is given twice, or there are too many pods.
        InvalidValueError: An argument has a wrong type.
    """
    if not isinstance(file, str):
        raise InvalidValueError("file", file, "a string")
    if not isinstance(own_nodes, bool):
        raise InvalidValueError("own_nodes", own_nodes, "a bool")
    if not callable(read):
        raise InvalidValueError("read", read, "a callable that returns lines")
    if most is None:
        most = MOST_STREAMED
    first, lines = _begun(_strings(read()))
    if first.startswith(";") or is_job_line(first):
        return _swf(read, lines, file, most, own_nodes=own_nodes)
    if first.startswith("["):
        return _philly(read, lines, file, most)
    table = Table(lines, file, expected=COLUMNS)
    columns = set(table.columns)
    used: tuple[str, ...]
    if {"app", "role"} <= columns and "job" not in columns:
        return _dlrm(table, most)
    if {"creation_time", "num_gpu"} <= columns and "job" not in columns:
        used = (*formats.OPENB, *formats.OPENB_TIMES)
        return _rows(read, table, formats.openb_rows, most, used, _OPENB_NOTES)
    if not columns & {*COLUMNS}:
        raise TraceError(
            file, table.line, "", f"expected {formats.FORMATS}, got {first.strip()[:80]!r}"
        )
    used = (*COLUMNS, *formats.OPTIONAL)
    return _rows(read, table, formats.job_rows, most, used, ())


def _begun(lines: Iterator[str]) -> tuple[str, Iterator[str]]:
    """Return the first line that is not blank, and all lines."""
    blank: list[str] = []
    for line in lines:
        if line.strip("\ufeff \t\r\n"):
            return line.lstrip("\ufeff \t"), chain(blank, [line], lines)
        blank.append(line)
    return "", iter(blank)


def _rows(
    read: Callable[[], Iterable[str]],
    table: Table,
    rows: Callable[[Table, Notes], Iterator[tuple[Row, TraceJob]]],
    most: int,
    used: tuple[str, ...],
    of_format: tuple[str, ...],
) -> Trace:
    file = table.file
    check, notes = _Check(most), Notes(file)
    for row, job in rows(table, notes):
        problem = check.take(row.line, job)
        if problem is not None:
            column, text = problem
            # the column of a name or a number of workers, whatever this format calls it
            raise row.problem(column if column in row else table.columns[0], text)
    skipped = formats.unused(table, used, of_format) + notes.sentences()

    def again() -> Iterator[TraceJob]:
        table = Table(_begun(_strings(read()))[1], file, expected=COLUMNS)
        return (job for _row, job in rows(table, Notes(file)))

    return Trace(file, check.pods, (), skipped, True, check.reader(again))


def _swf(
    read: Callable[[], Iterable[str]],
    lines: Iterator[str],
    file: str,
    most: int,
    *,
    own_nodes: bool,
) -> Trace:
    reader, check = SwfReader(lines, file), _Check(most)
    for line, job in reader:
        problem = check.take(line, job)
        if problem is not None:
            raise TraceError(file, line, problem[0], problem[1])
    nodes = reader.nodes()
    memory = not (own_nodes and nodes)

    def again() -> Iterator[TraceJob]:
        return (job for _line, job in SwfReader(_strings(read()), file, memory=memory))

    skipped = reader.skipped(memory=memory)
    return Trace(
        file, check.pods, nodes, skipped, True, check.reader(again), missing=reader.missing()
    )


def _philly(read: Callable[[], Iterable[str]], lines: Iterator[str], file: str, most: int) -> Trace:
    reader, check = PhillyReader(lines, file), _Check(most)
    for line, job in reader:
        problem = check.take(line, job)
        if problem is not None:
            raise TraceError(file, line, _PHILLY_FIELDS[problem[0]], problem[1])
    origin = reader.first

    def again() -> Iterator[TraceJob]:
        return (job for _line, job in PhillyReader(_strings(read()), file, origin=origin))

    return Trace(file, check.pods, (), reader.skipped(), True, check.reader(again))


def _dlrm(table: Table, most: int) -> Trace:
    notes = Notes(table.file)
    found = sorted(dlrm_arrivals(table, notes), key=attrgetter("at"))
    if len(found) > most:
        raise TraceError(table.file, table.line, "", f"the file has more than {most:,} pods")
    skipped = formats.unused(table, (*DLRM, "max_per_node"), (_LIMIT_BY_NODE,))
    skipped += notes.sentences()
    return Trace(table.file, len(found), (), skipped, False, lambda: iter(found))


@final
class _Check:
    """Counts the pods of a trace, and finds jobs that are given twice."""

    def __init__(self, most: int) -> None:
        self.pods = 0
        self._most = most
        self._lines: dict[tuple[str, str] | str, int] = {}
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
        return None

    def reader(self, again: Callable[[], Iterator[TraceJob]]) -> Callable[[], Iterator[Arrival]]:
        """Return what reads the jobs again in time order."""
        self._lines.clear()
        if self._sorted:
            return lambda: _pods(again())
        by_time: Any = attrgetter("submitted_at")
        return partial(_pods, sorted(again(), key=by_time))


def _pods(jobs: Iterable[TraceJob]) -> Iterator[Arrival]:
    return (arrival for job in jobs for arrival in arrivals(job))


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
