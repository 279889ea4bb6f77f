"""The Standard Workload Format of the Parallel Workloads Archive, version 2.2.

A line is a job: 18 numbers, of which -1 stands for unknown. Lines that begin with ``;`` are the
header; ``MaxNodes`` and ``MaxProcs`` there describe the machine. Source: the definition of the
format, version 2.2, at the Parallel Workloads Archive.

Rules:
  R1  a processor is a worker that requests one CPU: a job starts when all of them are free;
  R2  the requested number of processors counts, or the allocated one if it is unknown;
  R3  the user is the tenant;
  R4  a job without a number of processors, a run time or a submit time is left out, such as one
      that was cancelled while it waited. ``skipped`` counts such jobs, once each, by reason;
  R5  a job that was swapped out has a line that summarises it, and a line of status 2, 3 or 4 for
      each partial execution. Only the summary is a job, as the format asks of workload studies;
  R6  the header does not say what memory a node has: jobs that run on nodes of the header request
      none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, final

from gangsched.errors import TraceError
from gangsched.model import Node, NodeName
from gangsched.resources import Resources
from gangsched.simulation._trace_formats import MOST_WORKERS
from gangsched.simulation._trace_jobs import TraceJob
from gangsched.simulation._trace_notes import Note, Notes

__all__ = ["SwfReader", "is_job_line"]

_FIELDS: Final = 18
_NAMES: Final = {1: "submit time", 3: "run time", 4: "allocated processors"}
_LONGEST_SHOWN: Final = 80
_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]*)?", re.ASCII)
_ABOUT_NAMES: Final = ("MaxNodes", "MaxProcs")
_ABOUT: Final = re.compile(r";\s*(MaxNodes|MaxProcs)\s*:\s*([0-9]{1,9})", re.ASCII)
_JOB, _SUBMIT, _RUN, _ALLOCATED, _ASKED, _LIMIT, _MEMORY = 0, 1, 3, 4, 7, 8, 9
_STATUS, _USER, _PRECEDING, _THINK = 10, 11, 16, 17
_STOPPED: Final = 5
"""The status of a job that was cancelled, before it ran or while it did."""
_PARTIAL: Final = (2, 3, 4)
"""The statuses of partial executions: to be continued, completed, and failed."""
_CANCELLED: Final[Note] = (
    "job was cancelled before it ran (status 5) and was left out",
    "jobs were cancelled before they ran (status 5) and were left out",
)
_NO_PROCESSORS: Final[Note] = (
    "job has no number of processors (fields 5 and 8) and was left out",
    "jobs have no number of processors (fields 5 and 8) and were left out",
)
_NO_RUN_TIME: Final[Note] = (
    "job has no run time (field 4) and was left out",
    "jobs have no run time (field 4) and were left out",
)
_NO_SUBMISSION: Final[Note] = (
    "job has no submit time (field 2) and was left out",
    "jobs have no submit time (field 2) and were left out",
)
_PARTS: Final[Note] = (
    "line is a partial execution (status 2, 3 or 4) and was left out",
    "lines are partial executions (status 2, 3 or 4) and were left out",
)
_ONLY_PARTS: Final[Note] = (
    "job has partial executions only, no line that summarises it, and was left out",
    "jobs have partial executions only, no line that summarises them, and were left out",
)
_FOLLOWS: Final[Note] = (
    "job names a preceding job or a think time (fields 17 and 18), which does not count",
    "jobs name a preceding job or a think time (fields 17 and 18), which does not count",
)
_NO_MEMORY: Final[Note] = (
    "job requests memory, which does not count: the header does not say what memory a node has",
    "jobs request memory, which does not count: the header does not say what memory a node has",
)


def _why_left_out(workers: float, ran: float, *, is_cancelled: bool) -> Note:
    if is_cancelled and ran <= 0:
        return _CANCELLED
    if workers <= 0:
        return _NO_PROCESSORS
    return _NO_RUN_TIME if ran <= 0 else _NO_SUBMISSION


def is_job_line(text: str) -> bool:
    """Return whether a line is a job: 18 numbers that white space separates."""
    words = text.split()
    return len(words) == _FIELDS and all(map(_NUMBER.fullmatch, words))


@final
class SwfReader:
    """Reads a file once.

    Args:
        lines: The lines of the file.
        file: Its name for errors.
        memory: Whether jobs request the memory of their lines.

    Attributes:
        about: ``MaxNodes`` and ``MaxProcs`` of the header lines that were read.
    """

    def __init__(self, lines: Iterable[str], file: str, *, memory: bool = True) -> None:
        self._lines = lines
        self._file = file
        self._memory = memory
        self.about: dict[str, int] = {}
        self._left_out: Counter[Note] = Counter()
        self._parts = 0
        self._follows = 0
        self._with_memory = 0
        self._asked: dict[int, Resources] = {}
        self._summary = ""
        self._in_parts: set[str] = set()

    def __iter__(self) -> Iterator[tuple[int, TraceJob]]:
        """Yield the line number and the job of each line."""
        for line, text in enumerate(self._lines, 1):
            stripped = text.strip()
            if stripped.startswith(";"):
                found = _ABOUT.match(stripped)
                if found:
                    self.about[found[1]] = int(found[2])
            elif stripped:
                job = self._job(line, stripped.split())
                if job is not None:
                    yield line, job

    def nodes(self) -> tuple[Node, ...]:
        """Return the nodes of the machine that the header describes; empty if it does not."""
        processors = self.about.get("MaxProcs", 0)
        count = self.about.get("MaxNodes", 0)
        if not count or processors < count or count > MOST_WORKERS:
            return ()
        width = max(3, len(str(count - 1)))
        each, more = divmod(processors, count)
        return tuple(
            Node(
                name=NodeName(f"node-{n:0{width}}"),
                allocatable=Resources({"cpu": each + (n < more)}),
            )
            for n in range(count)
        )

    def missing(self) -> str:
        """Return why the header describes no nodes; an empty string if it does, or says nothing."""
        if not self.about or self.nodes():
            return ""
        got = ", ".join(f"{name} {number}" for name, number in self.about.items())
        least = f"MaxProcs >= MaxNodes, and MaxNodes from 1 to {MOST_WORKERS}"
        expected = "MaxNodes and MaxProcs" if len(self.about) < len(_ABOUT_NAMES) else least
        return f"nodes of the header need {expected}, got only {got}"

    def skipped(self, *, memory: bool) -> tuple[str, ...]:
        """Return one sentence for each kind of line that is not taken over as it is.

        Args:
            memory: Whether the jobs request memory when they run.
        """
        notes = Notes(self._file)
        for reason, jobs in self._left_out.items():
            notes.count(reason, jobs)
        notes.count(_PARTS, self._parts)
        notes.count(_ONLY_PARTS, len(self._in_parts))
        notes.count(_FOLLOWS, self._follows)
        notes.count(_NO_MEMORY, 0 if memory else self._with_memory)
        return notes.sentences()

    def _job(self, line: int, fields: list[str]) -> TraceJob | None:
        if len(fields) != _FIELDS:
            problem = f"expected {_FIELDS} fields, got {len(fields)}"
            raise TraceError(self._file, line, "", problem)
        if self._is_part(line, fields):
            return None
        workers = self._number(line, fields, _ASKED)
        if workers <= 0:
            workers = self._number(line, fields, _ALLOCATED)
        ran = self._number(line, fields, _RUN)
        submitted = self._number(line, fields, _SUBMIT)
        if workers <= 0 or ran <= 0 or submitted < 0:
            is_cancelled = self._number(line, fields, _STATUS) == _STOPPED
            self._left_out[_why_left_out(workers, ran, is_cancelled=is_cancelled)] += 1
            return None
        if workers > MOST_WORKERS or workers != int(workers):
            expected = f"expected an int from 1 to {MOST_WORKERS}, got {fields[_ASKED]!r}"
            raise TraceError(self._file, line, "requested processors", expected)
        limit = self._number(line, fields, _LIMIT)
        others = (self._number(line, fields, place) for place in (_PRECEDING, _THINK))
        self._follows += any(number > 0 for number in others)
        self._with_memory += self._number(line, fields, _MEMORY) > 0
        # jobs were ended a little after their limit: what ran longer was allowed to
        return TraceJob(
            fields[_JOB],
            submitted,
            int(workers),
            self._requests(line, fields),
            fields[_RUN],
            fields[_LIMIT] if limit >= ran else fields[_RUN] if limit > 0 else None,
            namespace="default" if fields[_USER] == "-1" else f"user-{fields[_USER]}",
        )

    def _is_part(self, line: int, fields: list[str]) -> bool:
        """Return whether a line is a partial execution: count it, and its job until a summary."""
        name = fields[_JOB]
        if self._number(line, fields, _STATUS) not in _PARTIAL:
            self._summary = name
            self._in_parts.discard(name)
            return False
        self._parts += 1
        if name != self._summary:  # all lines of a job are beside each other
            self._in_parts.add(name)
        return True

    def _requests(self, line: int, fields: list[str]) -> Resources:
        """Return the requests of a worker: a CPU, and the memory in kilobytes if it is known."""
        kilobytes = int(max(self._number(line, fields, _MEMORY), 0)) if self._memory else 0
        found = self._asked.get(kilobytes)
        if found is None:
            amounts = {"cpu": 1, "memory": kilobytes * 1024} if kilobytes else {"cpu": 1}
            found = self._asked[kilobytes] = Resources(amounts)
        return found

    def _number(self, line: int, fields: list[str], place: int) -> float:
        text = fields[place]
        if not _NUMBER.fullmatch(text) or len(text) > _LONGEST_SHOWN:
            name = _NAMES.get(place, f"field {place + 1}")
            raise TraceError(self._file, line, name, f"expected a number, got {text[:60]!r}")
        return float(text)
