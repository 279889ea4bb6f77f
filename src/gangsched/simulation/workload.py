"""What arrives at a cluster, and when; and how long a pod runs.

Rules:
  R1  a workload is a value: arrivals in time order, those of one instant in the order in which
      they were given;
  R2  what a reader could not take over is told in a sentence, never dropped in silence;
  R3  how long a pod runs is written on the pod, so that it travels with it: in one annotation,
      in decimal seconds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import lru_cache
from operator import attrgetter
from typing import Final, final

from attrs import field, frozen

from gangsched._checks import check_event
from gangsched._fields import as_tuple, check_each, check_instant
from gangsched.errors import InvalidValueError
from gangsched.events import Event
from gangsched.model import Pod

__all__ = ["RUN_SECONDS", "Arrival", "Workload", "parse_seconds", "run_seconds"]

RUN_SECONDS: Final = "simulation.gangsched.io/run-seconds"
"""The annotation that says for how many seconds a pod runs once its gang has started."""

_DECIMAL: Final = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+", re.ASCII)


def _fact(_owner: object, _attribute: object, value: Event) -> None:
    check_event(value)


@final
@frozen
class Arrival:
    """Something that becomes known at an instant.

    Attributes:
        at: The instant, in seconds; finite.
        event: The fact.
    """

    at: float = field(validator=check_instant)
    event: Event = field(validator=_fact)


def _in_time_order(arrivals: Iterable[Arrival]) -> tuple[Arrival, ...]:
    given = as_tuple(arrivals)
    if isinstance(given, tuple) and all(isinstance(arrival, Arrival) for arrival in given):
        return tuple(sorted(given, key=attrgetter("at")))
    return given  # for the validator to refuse


def _sentences(skipped: Iterable[str]) -> tuple[str, ...]:
    return as_tuple(skipped)


@final
@frozen
class Workload:
    """What a simulation is fed.

    Attributes:
        arrivals: In time order; those of one instant in the order in which they were given.
        skipped: A sentence for each thing that was read but could not be taken over.
    """

    arrivals: tuple[Arrival, ...] = field(
        default=(), converter=_in_time_order, validator=check_each(Arrival, "an Arrival")
    )
    skipped: tuple[str, ...] = field(
        default=(), converter=_sentences, validator=check_each(str, "a string")
    )

    def merge(self, *others: Workload) -> Workload:
        """Return all arrivals together: by time, then in the order of the workloads.

        Runtime complexity: O(n log n), and near O(n) where the workloads follow each other.
        """
        every = (self, *others)
        return Workload(
            tuple(arrival for one in every for arrival in one.arrivals),
            tuple(sentence for one in every for sentence in one.skipped),
        )

    def __add__(self, other: Workload) -> Workload:
        return self.merge(other)


def run_seconds(pod: Pod) -> float | None:
    """Return for how many seconds *pod* runs once its gang has started; None for to the end.

    Runtime complexity: O(1); repeated texts are answered from a cache.

    Raises:
        InvalidValueError: The annotation is not a positive, finite decimal number.
    """
    text = pod.annotations.get(RUN_SECONDS)
    return None if text is None else parse_seconds(text, field=RUN_SECONDS)


def parse_seconds(text: str, *, field: str) -> float:
    """Return a positive, finite number of seconds, written in decimal: ``3600``, ``0.5``.

    Args:
        text: The number.
        field: What to call it in an error.

    Raises:
        InvalidValueError: It is anything else.
    """
    seconds = _seconds(text)
    if not 0 < seconds < math.inf:
        raise InvalidValueError(field, text, "a finite decimal number of seconds > 0")
    return seconds


@lru_cache(maxsize=4096)
def _seconds(text: str) -> float:
    return float(text) if _DECIMAL.fullmatch(text) else math.nan
