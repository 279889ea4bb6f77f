"""The arrivals that are still to come: a tuple, or a stream that is read as the run advances.

Rules:
  R1  one arrival is read ahead, and no more: a stream may be longer than the memory;
  R2  a stream is in time order; if it is not, the run ends with an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from gangsched.errors import InvalidValueError
from gangsched.events import Event
from gangsched.simulation.workload import Arrival, OwnerDeleted
from gangsched.values.seconds import format_instant

__all__ = ["Upcoming"]


@final
class Upcoming:
    """Arrivals, one after the other.

    Args:
        arrivals: In time order.

    Attributes:
        at: When the next one comes; None after the last.
        taken: The number of arrivals that have come.
    """

    __slots__ = ("_next", "_rest", "at", "taken")

    def __init__(self, arrivals: Iterable[Arrival]) -> None:
        self._rest = iter(arrivals)
        self.taken = 0
        self.at: float | None = None
        self._next: Arrival | None = None
        self._read()

    def take(self) -> Event | OwnerDeleted:
        """Return the event of the next arrival, which exists."""
        arrival = self._next
        assert arrival is not None
        self.taken += 1
        self._read()
        return arrival.event

    def _read(self) -> None:
        before = self.at
        arrival = self._next = next(self._rest, None)
        if arrival is None:
            self.at = None
            return
        if not isinstance(arrival, Arrival):
            raise InvalidValueError("workload", arrival, "an Arrival")
        if before is not None and arrival.at < before:
            expected = f"an instant not before {format_instant(before)}, that of the arrival before"
            raise InvalidValueError("at", arrival.at, expected)
        self.at = arrival.at
