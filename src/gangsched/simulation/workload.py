"""What arrives at a cluster, and when; and how long a pod runs.

Rules:
  R1  a workload is a value: arrivals in time order; arrivals of one instant in the given order;
  R2  input that a reader could not represent is reported in a sentence, never dropped silently;
  R3  properties that only the simulation needs are annotations, so that they stay with the pod.
      They are its run time in decimal seconds, its job, and the number of pods of that job.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import lru_cache
from operator import attrgetter
from typing import Final, final

from attrs import field, frozen

from gangsched.errors import InvalidValueError
from gangsched.events import Event
from gangsched.model import Pod
from gangsched.values.checks import check_event
from gangsched.values.fields import as_tuple, check_each, check_instant, check_text
from gangsched.values.reprs import Printer

__all__ = [
    "FAIL_SECONDS",
    "JOB",
    "JOB_PODS",
    "MOST_OBJECTS",
    "RUN_SECONDS",
    "TIME_LIMIT",
    "Arrival",
    "Input",
    "OwnerDeleted",
    "Workload",
    "fail_seconds",
    "job_of",
    "parse_seconds",
    "run_seconds",
]

RUN_SECONDS: Final = "simulation.gangsched.io/run-seconds"
"""The annotation with the seconds that a pod runs, from the start of its job."""

FAIL_SECONDS: Final = "simulation.gangsched.io/fail-after-seconds"
"""The annotation with the seconds after which a pod fails, from the start of its job.

Its controller creates another pod in its place, with the same annotation."""

TIME_LIMIT: Final = "simulation.gangsched.io/time-limit-seconds"
"""The annotation with the time limit of a pod's job: what its owner said that it runs at most."""

JOB: Final = "simulation.gangsched.io/job"
"""The annotation with the name of a pod's job, for a pod that is in no pod group."""

JOB_PODS: Final = "simulation.gangsched.io/job-pods"
"""The annotation with the number of pods that must run before the job of ``JOB`` works."""

MOST_OBJECTS: Final = 1_000_000
"""The most objects that one file, manifests or a trace, may bring to a cluster."""

_WHOLE: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_DECIMAL: Final = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+", re.ASCII)


@final
@frozen
class Input:
    """Something that was read for a run.

    Attributes:
        use: What it was read as: ``manifest``, ``trace``, ``nodes`` or ``config``.
        name: The name of the file, or the text that was given in its place, such as ``40x8``.
        at: The instant at which a manifest is applied, in seconds; None for other input.
        sha256: The SHA-256 of the file's bytes, in hexadecimal digits; None for no file.
    """

    use: str
    name: str
    at: float | None = None
    sha256: str | None = None


@final
@frozen
class OwnerDeleted:
    """The owner of a job's pods is deleted, as by ``kubectl delete job``; or one member of a group.

    The pod group is deleted, and then its pods, those that were created in place of others
    included. Nothing is created in their place; in place of a single member another is created if
    its group has a restart policy.

    Attributes:
        job: The key of the job as in ``JobRow``: ``namespace/name`` of the group, or of the job
            that the pods name, or the UID of a pod. It must have arrived by then.
    """

    job: str = field(validator=check_text)


def _check_event(_owner: object, _attribute: object, value: Event | OwnerDeleted) -> None:
    if not isinstance(value, OwnerDeleted):
        check_event(value)


@final
@frozen
class Arrival:
    """An event at an instant.

    Attributes:
        at: The instant, in seconds; finite.
        event: The event, or the deletion of a job's owner.
    """

    at: float = field(validator=check_instant)
    event: Event | OwnerDeleted = field(validator=_check_event)


def _in_time_order(arrivals: Iterable[Arrival]) -> tuple[Arrival, ...]:
    given = as_tuple(arrivals)
    if isinstance(given, tuple) and all(isinstance(arrival, Arrival) for arrival in given):
        return tuple(sorted(given, key=attrgetter("at")))
    return given  # the validator refuses it


def _as_sentences(skipped: Iterable[str]) -> tuple[str, ...]:
    return as_tuple(skipped)


@final
@frozen
class Workload:
    """The input of a simulation.

    Attributes:
        arrivals: In time order; arrivals of one instant in the given order.
        skipped: One sentence for each part of the input that was not taken over.
    """

    arrivals: tuple[Arrival, ...] = field(
        default=(), converter=_in_time_order, validator=check_each(Arrival, "an Arrival")
    )
    skipped: tuple[str, ...] = field(
        default=(), converter=_as_sentences, validator=check_each(str, "a string")
    )

    def merge(self, *others: Workload) -> Workload:
        """Return all arrivals in one workload: by time, then in the order of the workloads.

        Runtime complexity: O(n log n), and near O(n) if the workloads follow each other in time.

        Raises:
            InvalidValueError: An argument is not a Workload.
        """
        for index, other in enumerate(others):
            if not isinstance(other, Workload):
                raise InvalidValueError(f"others[{index}]", other, "a Workload")
        every = (self, *others)
        return Workload(
            tuple(arrival for one in every for arrival in one.arrivals),
            tuple(sentence for one in every for sentence in one.skipped),
        )

    def __add__(self, other: Workload) -> Workload:
        return self.merge(other)

    def _repr_pretty_(self, printer: Printer, cycle: bool) -> None:
        """Print the ``repr`` with one arrival a line."""
        printer.begin_group(4, "Workload([")
        for arrival in self.arrivals:
            printer.break_()
            printer.text(f"{arrival!r},")
        printer.end_group(4)
        printer.break_()
        printer.text(f"], skipped={self.skipped!r})" if self.skipped else "])")


def run_seconds(pod: Pod) -> float | None:
    """Return how many seconds *pod* runs once its job has started; None for no end.

    Runtime complexity: O(1); repeated values are answered from a cache.

    Raises:
        InvalidValueError: The annotation is not a positive, finite decimal number.
    """
    text = pod.annotations.get(RUN_SECONDS)
    return None if text is None else parse_seconds(text, field=RUN_SECONDS)


def fail_seconds(pod: Pod) -> float | None:
    """Return after how many seconds *pod* fails once its job has started; None for never.

    Raises:
        InvalidValueError: The annotation is not a positive, finite decimal number.
    """
    text = pod.annotations.get(FAIL_SECONDS)
    return None if text is None else parse_seconds(text, field=FAIL_SECONDS)


def parse_seconds(text: str, *, field: str) -> float:
    """Return a positive, finite number of seconds, written in decimal: ``3600``, ``0.5``.

    Args:
        text: The number.
        field: The name of the field for errors.

    Raises:
        InvalidValueError: *text* is anything else.
    """
    seconds = _seconds(text)
    if not 0 < seconds < math.inf:
        raise InvalidValueError(field, text, "a number of seconds > 0 in digits, such as 90 or 0.5")
    return seconds


def job_of(pod: Pod) -> tuple[str, int] | None:
    """Return the key of the job that a pod's annotations name, and its number of pods.

    Returns:
        ``namespace/job`` and the number of pods; None without both annotations.

    Raises:
        InvalidValueError: The number is not a whole number of at least 1.
    """
    job, pods = pod.annotations.get(JOB), pod.annotations.get(JOB_PODS)
    if job is None or pods is None:
        return None
    if not _WHOLE.fullmatch(pods) or int(pods) < 1:
        raise InvalidValueError(JOB_PODS, pods, "an int >= 1")
    return f"{pod.namespace}/{job}", int(pods)


@lru_cache(maxsize=4096)
def _seconds(text: str) -> float:
    return float(text) if _DECIMAL.fullmatch(text) else math.nan
