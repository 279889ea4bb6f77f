"""Workload traces: jobs in a table, each with its arrival, its gang and its duration.

Rules:
  R1  a job of several workers is a gang of all of them; a job of one is a regular pod;
  R2  the pods of a job share what they have in common, so that a trace is cheap to hold;
  R3  a line that is not as it should be is an error that names file, line, column and value;
      none is guessed at and none is left out.
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
from gangsched.simulation.workload import RUN_SECONDS, Arrival, Workload, parse_seconds

__all__ = ["COLUMNS", "load_trace", "parse_nodes_shape"]

COLUMNS: Final = ("job", "submit_s", "workers", "gpus_per_worker", "duration_s")
"""The columns that a trace must have, in any order; others are passed over."""

MOST_WORKERS: Final = 150_000
MOST_NODES: Final = 150_000

_GPU: Final = "nvidia.com/gpu"
_GROUP: Final = "pod-group.scheduling.sigs.k8s.io/name"
_MINIMUM: Final = "pod-group.scheduling.sigs.k8s.io/min-available"
_WHOLE: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_DECIMAL: Final = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+", re.ASCII)
_SHAPE: Final = re.compile(r"([0-9]{1,9})x([0-9]{1,9})", re.ASCII)


def load_trace(lines: Iterable[str], *, file: str) -> Workload:
    """Return the jobs of a trace as the pods that arrive.

    The trace is CSV with a header. Each row becomes ``workers`` pods ``<job>-<index>`` that ask
    for ``gpus_per_worker`` of ``nvidia.com/gpu`` each, arrive at ``submit_s`` and run for
    ``duration_s`` seconds once all of them have started. Rows need not be in time order.

    Runtime complexity: O(pods log pods).

    Args:
        lines: The lines of the trace; an open file is one.
        file: What to call it in an error.

    Raises:
        TraceError: A line is malformed, or a job is given twice.
    """
    return Workload(tuple(_arrivals(lines, file)))


def parse_nodes_shape(text: str) -> tuple[Node, ...]:
    """Return the nodes that a shape such as ``40x8`` stands for: 40 of them, with 8 GPUs each.

    They are called ``node-000`` and so on, and offer GPUs only, as pods of a trace ask for
    nothing else.

    Raises:
        InvalidValueError: It is not two whole numbers of at least 1 with an ``x`` between.
    """
    shape = _SHAPE.fullmatch(text)
    count, gpus = (int(number) for number in shape.groups()) if shape else (0, 0)
    if not (1 <= count <= MOST_NODES and gpus):
        raise InvalidValueError(
            "nodes", text, f"nodes and GPUs per node, such as 40x8, of at most {MOST_NODES} nodes"
        )
    offered = Resources({_GPU: gpus})
    width = max(3, len(str(count - 1)))
    return tuple(
        Node(name=NodeName(f"node-{index:0{width}}"), allocatable=offered) for index in range(count)
    )


def _arrivals(lines: Iterable[str], file: str) -> Iterator[Arrival]:
    first_lines: dict[str, int] = {}
    asked: dict[int, Resources] = {}
    for row in _rows(lines, file):
        job = row.job()
        if first_lines.setdefault(job, row.line) != row.line:
            raise row.refuse("job", f"an id of its own (line {first_lines[job]} has the same)")
        submitted = row.submitted()
        workers = row.whole("workers", least=1, most=MOST_WORKERS)
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
    """One job of a trace, as it is written."""

    def __init__(self, file: str, line: int, values: dict[str, str]) -> None:
        self._file = file
        self.line = line
        self._values = values

    def refuse(self, column: str, expected: str) -> TraceError:
        value = self._values[column]
        got = repr(value) if len(value) <= 80 else f"{value[:60]!r}..."
        return TraceError(self._file, self.line, column, f"expected {expected}, got {got}")

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
        """Return the duration as the annotation that it becomes."""
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
    # A byte order mark is not part of the first name; spreadsheets write one.
    header = [names[0].removeprefix("\ufeff"), *names[1:]]
    for column in COLUMNS:
        if header.count(column) != 1:
            times = "is missing" if column not in header else "is given twice"
            raise TraceError(file, line, column, f"the column {times} in {', '.join(header)}")
    return header
