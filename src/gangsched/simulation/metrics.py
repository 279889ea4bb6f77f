"""Amounts over time, integrated exactly.

Rules:
  R1  an amount is integrated between the instants at which it changes; amounts are whole
      thousandths, instants are seconds of the caller's clock;
  R2  nothing is sampled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import final

from attrs import frozen

from gangsched.errors import InvalidValueError
from gangsched.model import Resources
from gangsched.quantity import MILLI

__all__ = ["Account", "Distribution", "largest_share"]


def largest_share(held: Mapping[str, int], capacity: Mapping[str, int]) -> tuple[float, str]:
    """Return the largest share that is held, and of which resource; the first of equal ones."""
    shares = ((held.get(name, 0) / all_, name) for name, all_ in capacity.items() if all_ > 0)
    share, name = max(shares, key=lambda each: each[0], default=(0.0, ""))
    return share, name if share else ""


@final
class Account:
    """An amount of resources that changes over time, and its integral."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}

    def add(self, resources: Resources, *, now: float) -> None:
        """Increase the amount. O(resources)."""
        self._change(resources, 1, now)

    def subtract(self, resources: Resources, *, now: float) -> None:
        """Decrease the amount. O(resources)."""
        self._change(resources, -1, now)

    def amounts(self) -> Resources:
        """Return the current amount."""
        return Resources.from_milli({name: line.amount for name, line in self._lines.items()})

    def restart(self, *, now: float) -> None:
        """Begin the integral anew; the amount stays. O(resources)."""
        for line in self._lines.values():
            line.area, line.since = 0.0, now

    def areas(self, *, now: float) -> dict[str, float]:
        """Return the integral since ``restart``: resource name to units times seconds."""
        for line in self._lines.values():
            line.integrate(now)
        ordered = sorted(self._lines.items())
        return {name: line.area / MILLI for name, line in ordered if line.area}

    def _change(self, resources: Resources, times: int, now: float) -> None:
        """Integrate amounts up to now, and change them by a multiple of *resources*."""
        for name, amount in resources.items():
            line = self._lines.get(name)
            if line is None:
                line = self._lines[name] = _Line(now)
            elif line.since != now:  # the members of a gang change it at one instant
                line.integrate(now)
            line.amount += times * amount


@final
class _Line:
    """The amount of one resource since an instant, and its integral up to that instant."""

    __slots__ = ("amount", "area", "since")

    def __init__(self, since: float) -> None:
        self.amount = 0
        self.area = 0.0
        self.since = since

    def integrate(self, now: float) -> None:
        """Add the time up to now to the integral. O(1)."""
        self.area += self.amount * (now - self.since)
        self.since = now


@final
@frozen
class Distribution:
    """A summary of some numbers.

    Attributes:
        count: How many numbers there are.
        mean: Their mean; None for no numbers.
        median: The smallest number with at least half of all at or below it; None for no numbers.
        p95: The smallest number with at least 95 % at or below it; None for no numbers.
        p99: The smallest number with at least 99 % at or below it; None for no numbers.
        max: The greatest number; None for no numbers.
    """

    count: int
    mean: float | None = None
    median: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Distribution:
        """Summarise numbers by their nearest ranks. O(n log n)."""
        if not numbers:
            return cls(0)
        ordered = sorted(numbers)
        mean = math.fsum(ordered) / len(ordered)
        median, p95, p99 = (_nearest_rank(ordered, percent) for percent in (50, 95, 99))
        return cls(len(ordered), mean, median, p95, p99, ordered[-1])


def _nearest_rank(ordered: Sequence[float], percent: int) -> float:
    if not 0 < percent <= 100:
        raise InvalidValueError("percent", percent, "a percentage > 0 and <= 100")
    return ordered[math.ceil(len(ordered) * percent / 100) - 1]
