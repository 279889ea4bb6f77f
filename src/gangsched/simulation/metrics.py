"""Amounts over time, integrated exactly.

Rules:
  R1  an amount is integrated between the instants at which it changes; amounts are whole
      thousandths, instants are seconds of the caller's clock;
  R2  nothing is sampled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import final

from attrs import frozen

from gangsched.errors import InvalidValueError
from gangsched.model import Resources
from gangsched.quantity import MILLI

__all__ = ["Account", "Distribution"]


@final
class Account:
    """An amount of resources that changes over time, and its integral."""

    __slots__ = ("_amounts", "_areas", "_since")

    def __init__(self) -> None:
        self._amounts: dict[str, int] = {}
        self._areas: dict[str, float] = {}
        self._since: dict[str, float] = {}

    def add(self, resources: Resources, *, now: float) -> None:
        """Increase the amount. O(resources)."""
        for name, amount in resources.items():
            self._change(name, amount, now)

    def subtract(self, resources: Resources, *, now: float) -> None:
        """Decrease the amount. O(resources)."""
        for name, amount in resources.items():
            self._change(name, -amount, now)

    def amounts(self) -> Resources:
        """Return the current amount."""
        return Resources.from_milli(self._amounts)

    def areas(self, *, now: float) -> dict[str, float]:
        """Return the integral up to now: resource name to units times seconds."""
        for name in self._amounts:
            self._change(name, 0, now)
        return {name: area / MILLI for name, area in sorted(self._areas.items()) if area}

    def _change(self, name: str, by: int, now: float) -> None:
        """Integrate an amount up to now, and change it."""
        amount, since = self._amounts.get(name, 0), self._since.get(name, now)
        if amount and since != now:  # the members of a gang change it at one instant
            self._areas[name] = self._areas.get(name, 0) + amount * (now - since)
        self._since[name] = now
        self._amounts[name] = amount + by


@final
@frozen
class Distribution:
    """A summary of some numbers.

    Attributes:
        count: How many numbers there are.
        median: The smallest number with at least half of all at or below it; None for no numbers.
        p95: The smallest number with at least 95 % at or below it; None for no numbers.
        max: The greatest number; None for no numbers.
    """

    count: int
    median: float | None
    p95: float | None
    max: float | None

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Distribution:
        """Summarise numbers by their nearest ranks. O(n log n)."""
        if not numbers:
            return cls(0, None, None, None)
        ordered = sorted(numbers)
        return cls(
            len(ordered), _nearest_rank(ordered, 50), _nearest_rank(ordered, 95), ordered[-1]
        )


def _nearest_rank(ordered: Sequence[float], percent: int) -> float:
    if not 0 < percent <= 100:
        raise InvalidValueError("percent", percent, "a percentage > 0 and <= 100")
    return ordered[math.ceil(len(ordered) * percent / 100) - 1]
