"""Workload traces: a table of jobs, each with its arrival, its gang and its duration.

Rules:
  R1  a job of several workers is a gang of all of them; a job of one worker is a regular pod;
  R2  the pods of a job share their values, so that a trace uses little memory;
  R3  a malformed row is an error that names file, line, column and value; no value is guessed
      and no row is left out;
  R4  a trace has at most ``MOST_OBJECTS`` pods, so that a small file cannot exhaust the memory.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator
from typing import Final, final

from gangsched.errors import InvalidValueError, TraceError
from gangsched.events import PodAdded
from gangsched.model import FrozenMap, Node, NodeName, Pod, Resources
from gangsched.resources import EMPTY
from gangsched.simulation.workload import (
    MOST_OBJECTS,
    RUN_SECONDS,
    Arrival,
    Workload,
    parse_seconds,
)

__all__ = ["COLUMNS", "load_trace", "parse_nodes_shape"]

COLUMNS: Final = ("job", "submit_s", "workers", "gpus_per_worker", "duration_s")
"""The columns that a trace must have, in any order; other columns are ignored."""

MOST_WORKERS: Final = 150_000
MOST_NODES: Final = 150_000

_GPU: Final = "nvidia.com/gpu"
_GROUP: Final = "pod-group.scheduling.sigs.k8s.io/name"
_MINIMUM: Final = "pod-group.scheduling.sigs.k8s.io/min-available"
_WHOLE: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_DECIMAL: Final = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+", re.ASCII)
_SHAPE: Final = re.compile(r"([0-9]{1,9})x([0-9]{1,9})", re.ASCII)


def load_trace(lines: Iterable[str], *, file: str) -> Workload:
    """Return the jobs of a trace as arrivals of pods.

    The trace is CSV with a header. Each row becomes ``workers`` pods ``<job>-<index>`` that ask
    for ``gpus_per_worker`` of ``nvidia.com/gpu`` each, arrive at ``submit_s`` and run for
    ``duration_s`` seconds once all of them have started. Rows need not be in time order.

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
    if not isinstance(file, str):
        raise InvalidValueError("file", file, "a string")
    if isinstance(lines, str | bytes) or not isinstance(lines, Iterable):
        raise InvalidValueError("lines", lines, "an iterable of lines, such as an open file")
    return Workload(tuple(_arrivals(_strings(lines), file)))


def parse_nodes_shape(text: str) -> tuple[Node, ...]:
    """Return the nodes that a shape such as ``40x8`` describes: 40 nodes with 8 GPUs each.

    The nodes are named ``node-000`` and so on. They have GPUs only, because the pods of a trace
    ask for nothing else.

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


def _arrivals(lines: Iterable[str], file: str) -> Iterator[Arrival]:
    first_lines: dict[str, int] = {}
    asked: dict[int, Resources] = {}
    pods = 0
    for row in _rows(lines, file):
        job = row.job()
        if first_lines.setdefault(job, row.line) != row.line:
            raise row.refuse("job", f"a unique name (line {first_lines[job]} has the same)")
        submitted = row.submitted()
        workers = row.whole("workers", least=1, most=MOST_WORKERS)
        pods += workers
        if pods > MOST_OBJECTS:
            raise row.problem("workers", f"with it the file has more than {MOST_OBJECTS:,} pods")
        gpus = row.whole("gpus_per_worker", least=0)
        annotations = FrozenMap({RUN_SECONDS: row.duration()})
        labels = FrozenMap({_GROUP: job, _MINIMUM: str(workers)}) if workers > 1 else EMPTY
        requests = asked.setdefault(gpus, Resources({_GPU: gpus}))
        for index in range(workers):
            pod = Pod(
                name=f"{job}-{index}",
                requests=requests,
                labels=labels,
                annotations=annotations,
                created_at=submitted,
            )
            yield Arrival(submitted, PodAdded(pod))


@final
class _Row:
    """One row of a trace, as text."""

    def __init__(self, file: str, line: int, values: dict[str, str]) -> None:
        self._file = file
        self.line = line
        self._values = values

    def refuse(self, column: str, expected: str) -> TraceError:
        value = self._values[column]
        got = repr(value) if len(value) <= 80 else f"{value[:60]!r}..."
        return self.problem(column, f"expected {expected}, got {got}")

    def problem(self, column: str, problem: str) -> TraceError:
        return TraceError(self._file, self.line, column, problem)

    def job(self) -> str:
        job = self._values["job"]
        if not job.strip():
            raise self.refuse("job", "a non-empty string")
        return job

    def whole(self, column: str, *, least: int, most: int = 10**9 - 1) -> int:
        text = self._values[column]
        if not _WHOLE.fullmatch(text) or not least <= int(text) <= most:
            raise self.refuse(column, f"an int from {least} to {most}")
        return int(text)

    def submitted(self) -> float:
        text = self._values["submit_s"]
        seconds = float(text) if _DECIMAL.fullmatch(text) else math.inf
        if seconds == math.inf:
            raise self.refuse("submit_s", "a finite decimal number of seconds >= 0")
        return seconds

    def duration(self) -> str:
        """Return the duration as the value of the annotation."""
        text = self._values["duration_s"]
        try:
            parse_seconds(text, field="duration_s")
        except InvalidValueError as error:
            raise self.refuse("duration_s", error.expected) from error
        return text


def _rows(lines: Iterable[str], file: str) -> Iterator[_Row]:
    reader = csv.reader(lines, strict=True)
    header: list[str] = []
    try:
        for fields in reader:
            line = reader.line_num
            if not fields:
                continue
            if not header:
                header = _checked_header(fields, file, line)
                continue
            if len(fields) != len(header):
                raise TraceError(
                    file, line, "", f"expected {len(header)} fields, got {len(fields)}"
                )
            yield _Row(file, line, dict(zip(header, fields, strict=True)))
    except csv.Error as error:
        raise TraceError(file, max(1, reader.line_num), "", f"not CSV: {error}") from error
    if not header:
        raise TraceError(file, 1, "", f"expected a header with {', '.join(COLUMNS)}, got nothing")


def _checked_header(names: list[str], file: str, line: int) -> list[str]:
    # Spreadsheets write a byte order mark, which is not part of the first name.
    header = [names[0].removeprefix("\ufeff"), *names[1:]]
    for column in COLUMNS:
        if header.count(column) != 1:
            times = "is missing" if column not in header else "is given twice"
            raise TraceError(file, line, column, f"the column {times} in {', '.join(header)}")
    return header
