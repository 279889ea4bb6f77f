"""What is used and what is wasted over the time of a run: the data of its pictures.

Rules:
  R1  a point is the state after an instant at which something happened; it holds until the next;
  R2  there is one share for each instant: that of the resource of which the largest share is used.
      A point names that resource, because it may be another one at another instant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import final

from attrs import frozen

from gangsched.events import Effect, Event
from gangsched.simulation.jobs import JobRow
from gangsched.simulation.simulator import Simulator

__all__ = ["Point", "Timeline", "queue_lengths", "steps"]


@final
@frozen
class Point:
    """The state of a run after an instant.

    Attributes:
        at: The instant in seconds.
        used: The share of the capacity that running jobs hold, from 0 to 1.
        wasted: The share that jobs hold whose work has not begun.
        used_of: The resource of which *used* is the share; empty if nothing is used.
        wasted_of: The resource of which *wasted* is the share; empty if nothing is wasted.
    """

    at: float
    used: float
    wasted: float
    used_of: str = ""
    wasted_of: str = ""


@final
class Timeline:
    """Observes a simulation, and collects a point whenever something has happened.

    Attributes:
        points: The points, in time order.
    """

    def __init__(self) -> None:
        self.points: list[Point] = []
        self._simulator: Simulator | None = None

    def watch(self, simulator: Simulator) -> None:
        """Set the simulator that is observed."""
        self._simulator = simulator

    def event(self, event: Event, now: float) -> None:
        """Do nothing."""

    def effects(self, effects: tuple[Effect, ...], now: float) -> None:
        """Do nothing."""

    def settled(self, now: float) -> None:
        """Add a point."""
        simulator = self._simulator
        if simulator is None:
            return
        capacity = simulator.capacity.amounts()
        used, idle = simulator.jobs.used.amounts(), simulator.jobs.idle.amounts()
        share, name = _share(used, capacity)
        wasted, wasted_name = _share(idle, capacity)
        self.points.append(Point(now, share, wasted, name, wasted_name))


def _share(held: Mapping[str, int], capacity: Mapping[str, int]) -> tuple[float, str]:
    """Return the largest share that is held, and of which resource; the first of equal ones."""
    shares = ((held.get(name, 0) / all_, name) for name, all_ in capacity.items() if all_ > 0)
    share, name = max(shares, key=lambda each: each[0], default=(0.0, ""))
    return share, name if share else ""


def queue_lengths(jobs: Iterable[JobRow]) -> list[tuple[float, int]]:
    """Return the number of complete jobs that wait, after each instant at which it changes.

    Runtime complexity: O(jobs log jobs).
    """
    changes: dict[float, int] = {}
    for job in jobs:
        if job.submitted_at is not None:
            changes[job.submitted_at] = changes.get(job.submitted_at, 0) + 1
            if job.started_at is not None:
                changes[job.started_at] = changes.get(job.started_at, 0) - 1
    waiting, found = 0, list[tuple[float, int]]()
    for at, change in sorted(changes.items()):
        waiting += change
        found.append((at, waiting))
    return found


def steps(values: Iterable[float], *, of: int | None = None) -> list[tuple[float, float]]:
    """Return the points of an empirical distribution: value, and the share at or below it.

    Args:
        values: The values that are known.
        of: The number of all members, also of those without a value, such as the wait of a job
            that did not start; None if each has a value.
    """
    ordered = sorted(values)
    whole = len(ordered) if of is None else of
    return [(value, (place + 1) / whole) for place, value in enumerate(ordered)]
