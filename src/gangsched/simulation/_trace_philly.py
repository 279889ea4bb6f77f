"""The job log of Microsoft's Philly cluster, ``cluster_job_log``, as it was published.

A JSON list with one object for each job: ``jobid``, ``vc``, ``submitted_time`` and ``attempts``,
which have a ``start_time``, an ``end_time`` and a ``detail`` of servers with their GPUs. Source:
the README of msr-fiddle/philly-traces; Jeon et al., ATC'19.

Rules:
  R1  a job has one worker for each GPU of its first attempt, as in Gavel's version of the trace.
      Where its attempts ran does not count;
  R2  its run time is the sum of its attempts, since each held the GPUs. An attempt counts if it has
      a start and, later, an end: the log lacks some;
  R3  the virtual cluster is the tenant;
  R4  a job without GPUs, a submission or a run time is left out. It was cancelled while it waited,
      or ran on at the end of the log. ``skipped`` counts such jobs, once each, by reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, cast, final

from gangsched.errors import TraceError
from gangsched.resources import Resources
from gangsched.simulation._json_list import objects_of
from gangsched.simulation._trace_formats import MOST_WORKERS
from gangsched.simulation._trace_jobs import TraceJob
from gangsched.simulation._trace_notes import Note, Notes

__all__ = ["PhillyReader"]

_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}", re.ASCII)
_ABSENT: Final = (None, "", "None")
"""How the log writes that a time is not known."""
_LONGEST_SHOWN: Final = 80
_WITHOUT_TIME: Final[Note] = (
    "attempt has no start, or no end after it, and counts as no time",
    "attempts have no start, or no end after it, and count as no time",
)
_NO_GPUS: Final[Note] = (
    "job has no GPUs in its first attempt, or no attempt, and was left out",
    "jobs have no GPUs in their first attempt, or no attempt, and were left out",
)
_NO_SUBMISSION: Final[Note] = (
    "job has no submission and was left out",
    "jobs have no submission and were left out",
)
_NO_RUN_TIME: Final[Note] = (
    "job has no attempt with a start and a later end and was left out",
    "jobs have no attempt with a start and a later end and were left out",
)
_REQUESTS: Final = Resources({"nvidia.com/gpu": 1})


@final
class PhillyReader:
    """Reads a log once.

    Args:
        lines: The lines of the file.
        file: Its name for errors.

    Attributes:
        without_time: The number of attempts that do not count, of jobs that were not left out.
    """

    def __init__(self, lines: Iterable[str], file: str) -> None:
        self._lines = lines
        self._file = file
        self._left_out: Counter[Note] = Counter()
        self.without_time = 0

    def __iter__(self) -> Iterator[tuple[int, TraceJob]]:
        """Yield the first line and the job of each object."""
        for line, given in objects_of(self._lines, self._file):
            job = self._job(_Fields(self._file, line, "", given))
            if job is not None:
                yield line, job

    def skipped(self) -> tuple[str, ...]:
        """Return one sentence for each part that was not taken over."""
        note = "a worker has one GPU; status, user and the servers of attempts do not count"
        notes = Notes(self._file)
        notes.count(_WITHOUT_TIME, self.without_time)
        for reason, jobs in self._left_out.items():
            notes.count(reason, jobs)
        return (f"{self._file}: {note}", *notes.sentences())

    def _job(self, given: _Fields) -> TraceJob | None:
        name, tenant = given.name("jobid"), given.name("vc")
        submitted = given.instant("submitted_time")
        attempts = list(given.objects("attempts"))
        workers = _gpus(attempts[0]) if attempts else 0
        if workers > MOST_WORKERS:
            raise attempts[0].problem("detail", f"expected at most {MOST_WORKERS} GPUs")
        ran, without_time = 0, 0
        for attempt in attempts:
            start, end = attempt.instant("start_time"), attempt.instant("end_time")
            if start is None or end is None or end <= start:
                without_time += 1
            else:
                ran += end - start
        if submitted is None or not workers or not ran:
            reason = _NO_GPUS if not workers else _NO_RUN_TIME if not ran else _NO_SUBMISSION
            self._left_out[reason] += 1
            return None
        self.without_time += without_time
        return TraceJob(name, submitted, workers, _REQUESTS, str(ran), namespace=tenant)


def _gpus(attempt: _Fields) -> int:
    return sum(len(server.texts("gpus")) for server in attempt.objects("detail"))


@final
class _Fields:
    """An object of the log, whose values are checked one by one."""

    def __init__(self, file: str, line: int, path: str, given: Mapping[str, Any]) -> None:
        self._file, self._line, self._path, self._given = file, line, path, given

    def problem(self, field: str, problem: str) -> TraceError:
        """Return an error about a field."""
        return TraceError(self._file, self._line, f"{self._path}{field}", problem)

    def name(self, field: str) -> str:
        """Return a string that is a part of a key."""
        value = self._value(field)
        if not isinstance(value, str) or not value.strip() or "/" in value or _is_broken(value):
            raise self._refuse(field, "a non-empty string without a slash", value)
        return value

    def instant(self, field: str) -> int | None:
        """Return a time in seconds; None if it is not known."""
        value = self._value(field)
        if value in _ABSENT:
            return None
        if isinstance(value, str) and _TIME.fullmatch(value):
            try:
                return int(datetime.fromisoformat(value).replace(tzinfo=UTC).timestamp())
            except ValueError:
                pass
        raise self._refuse(field, "a time such as '2017-10-07 01:12:09', or null", value)

    def objects(self, field: str) -> Iterator[_Fields]:
        """Yield the objects of a list."""
        for number, value in enumerate(self._list(field)):
            place = f"{field}[{number}]"
            if not isinstance(value, dict):
                raise self._refuse(place, "an object", value)
            path = f"{self._path}{place}."
            yield _Fields(self._file, self._line, path, cast("dict[str, Any]", value))

    def texts(self, field: str) -> list[str]:
        """Return the strings of a list."""
        values = self._list(field)
        for number, value in enumerate(values):
            if not isinstance(value, str):
                raise self._refuse(f"{field}[{number}]", "a string", value)
        return cast("list[str]", values)

    def _list(self, field: str) -> list[object]:
        value = self._value(field)
        if not isinstance(value, list):
            raise self._refuse(field, "a list", value)
        return cast("list[object]", value)

    def _value(self, field: str) -> Any:
        if field not in self._given:
            raise self.problem(field, "is missing")
        return self._given[field]

    def _refuse(self, field: str, expected: str, value: object) -> TraceError:
        return self.problem(field, f"expected {expected}, got {_shown(value)}")


def _is_broken(text: str) -> bool:
    """Return whether a string has half of a surrogate pair, which cannot be printed."""
    return not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:60]}..."
