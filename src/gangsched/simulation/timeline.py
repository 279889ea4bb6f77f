"""What is used and what is wasted over the time of a run.

Rules:
  R1  a point is the state after an instant at which something happened; it holds until the next;
  R2  a picture has one share for each instant: that of the resource of which the largest share is
      used. It is named, because it may be another one at another instant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import final

from attrs import frozen

from gangsched.events import Effect, Event
from gangsched.resources import NOTHING, Resources
from gangsched.simulation.jobs import JobRow
from gangsched.simulation.simulator import Simulator

__all__ = ["Point", "Timeline", "Usage", "queue_lengths", "steps", "usages"]


@final
@frozen
class Point:
    """The state of a run after an instant.

    Attributes:
        at: The instant in seconds.
        used: What running jobs hold.
        wasted: What jobs hold whose work has not begun.
        capacity: What the nodes offer.
    """

    at: float
    used: Resources
    wasted: Resources
    capacity: Resources

    @property
    def used_share(self) -> tuple[float, str]:
        """The largest share of the capacity that is used, from 0 to 1, and of which resource."""
        return _share(self.used, self.capacity)

    @property
    def wasted_share(self) -> tuple[float, str]:
        """The largest share of the capacity that is wasted, and of which resource."""
        return _share(self.wasted, self.capacity)


@final
@frozen
class Usage:
    """What was used from an instant on, until the next.

    Attributes:
        at: The instant in seconds.
        waiting: How many complete jobs have not started.
        used: What running jobs hold.
        wasted: What jobs hold whose work has not begun.
        capacity: What the nodes offer.
    """

    at: float
    waiting: int
    used: Resources
    wasted: Resources
    capacity: Resources


@final
class Timeline:
    """Observes a simulation, and collects a point whenever something has happened.

    Attributes:
        points: The points, in time order.
    """

    def __init__(self) -> None:
        self.points: list[Point] = []
        self._known: tuple[Resources, ...] = (NOTHING, NOTHING, NOTHING)
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
        accounts = (simulator.jobs.used, simulator.jobs.idle, simulator.capacity)
        found = (each.amounts() for each in accounts)
        # equal amounts are one object, since a long run has millions of points
        self._known = tuple(map(_same, found, self._known))
        self.points.append(Point(now, *self._known))


def _same(amounts: Resources, before: Resources) -> Resources:
    return before if amounts == before else amounts


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


def usages(points: Iterable[Point], jobs: Iterable[JobRow]) -> Iterator[Usage]:
    """Yield what is used and how many jobs wait, whenever that changes.

    Runtime complexity: O(points + jobs log jobs).
    """
    changes = queue_lengths(jobs)
    last: tuple[object, ...] = ()
    place = waiting = 0
    for point in points:
        while place < len(changes) and changes[place][0] <= point.at:
            waiting = changes[place][1]
            place += 1
        state = (waiting, point.used, point.wasted, point.capacity)
        if state != last:
            last = state
            yield Usage(point.at, *state)


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
