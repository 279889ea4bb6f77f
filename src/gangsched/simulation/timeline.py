"""What is used and what is wasted over the time of a run.

Rules:
  R1  a point is the state after an instant at which something happened; it holds until the next;
  R2  a picture has one share for each instant: that of the resource of which the largest share is
      used. It is named, because it may be another one at another instant;
  R3  how the free capacity lies in racks and blocks: the rules are those of ``fragmentation``;
  R4  what queues use: the rules are those of ``queue_usage``; how even the shares of tenants are:
      those of ``tenant_shares``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, final

from attrs import define, frozen

from gangsched.events import Effect, Event
from gangsched.model import Node, NodeName, PodUID
from gangsched.options.levels import NO_LEVELS, Levels
from gangsched.resources import NOTHING, Resources
from gangsched.simulation.fragmentation import DomainTracker, Fragmentation, FreeAreas
from gangsched.simulation.jobs import JobRow
from gangsched.simulation.metrics import largest_share
from gangsched.simulation.queue_usage import QueueTracker, QueueUse, queues_of
from gangsched.simulation.simulator import Simulator
from gangsched.simulation.tenant_shares import TenantTracker

__all__ = ["MOST_STAYS", "Point", "Stay", "Timeline", "Usage", "queue_lengths", "steps", "usages"]

MOST_STAYS: Final = 4_000
"""How many stays of jobs on nodes a timeline has: as many bars as a picture can show."""


@final
@frozen
class Point:
    """The state of a run after an instant.

    Attributes:
        at: The instant in seconds.
        used: What running jobs hold.
        wasted: What jobs hold whose work has not begun.
        capacity: What the nodes offer.
        levels: How the free capacity lies in the domains of each level; empty without levels.
        queues: What each queue uses; empty without queues.
    """

    at: float
    used: Resources
    wasted: Resources
    capacity: Resources
    levels: tuple[Fragmentation, ...] = ()
    queues: tuple[QueueUse, ...] = ()

    @property
    def used_share(self) -> tuple[float, str]:
        """The largest share of the capacity that is used, from 0 to 1, and of which resource."""
        return largest_share(self.used, self.capacity)

    @property
    def wasted_share(self) -> tuple[float, str]:
        """The largest share of the capacity that is wasted, and of which resource."""
        return largest_share(self.wasted, self.capacity)


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
        levels: How the free capacity lies in the domains of each level; empty without levels.
        queues: What each queue uses; empty without queues.
    """

    at: float
    waiting: int
    used: Resources
    wasted: Resources
    capacity: Resources
    levels: tuple[Fragmentation, ...] = ()
    queues: tuple[QueueUse, ...] = ()


@final
@define(eq=False)
class Stay:
    """The pods of a job, or of one copy of a role of it, on a node: from the first to the last.

    Attributes:
        job: The key of the job.
        part: The path of the copy, such as ``decode/0``; empty for pods that are in none.
        node: The node.
        since: When the first of them was assigned to the node, in seconds.
        until: When the last of them had ended or given the node back; None if they are there still.
    """

    job: str
    part: str
    node: NodeName
    since: float
    until: float | None = None


@final
class Timeline:
    """Observes a simulation, and collects a point whenever something has happened.

    Args:
        levels: The levels of which points have the fragmentation; None for those of the scheduler.
        keep: Whether points are collected. If not, only ``areas`` and ``queues`` are, which need no
            memory.

    Attributes:
        points: The points, in time order.
        stays: Which jobs were on which nodes, in the order in which they came; only the first
            ``MOST_STAYS``, so that a long run does not need memory for each of its pods.
        absences: By node that was deleted, from when until when it was not there; None for never
            again.
        areas: What was free in the domains of each level, over time from the first pod on.
        queues: What the queues of the scheduler used, likewise.
        tenants: What namespaces used, beside even shares; also if no simulator is watched.
    """

    def __init__(self, levels: Levels | None = None, *, keep: bool = True) -> None:
        self.points: list[Point] = []
        self.stays: list[Stay] = []
        self.absences: dict[NodeName, list[tuple[float, float | None]]] = {}
        self.levels: Levels = NO_LEVELS if levels is None else levels
        """The levels of the points; those of the scheduler from ``watch`` on."""
        self.areas: FreeAreas = FreeAreas()
        self.queues: QueueTracker = QueueTracker(())
        self.tenants: TenantTracker = TenantTracker()
        self._has_queues = False
        self._is_given = levels is not None
        self._keep = keep
        self._known: tuple[Resources, ...] = (NOTHING, NOTHING, NOTHING)
        self._simulator: Simulator | None = None
        self._domains: DomainTracker | None = None
        self._open: dict[tuple[str, str, NodeName], tuple[Stay, set[PodUID]]] = {}
        self._of: dict[PodUID, tuple[str, str, NodeName]] = {}

    def watch(self, simulator: Simulator) -> None:
        """Set the simulator that is observed, before it runs."""
        self._simulator = simulator
        if not self._is_given:
            self.levels = simulator.scheduler.levels
        self._domains = DomainTracker(simulator.places, self.levels)
        queues = queues_of(simulator.scheduler)
        self.queues, self._has_queues = QueueTracker(queues), bool(queues)
        simulator.places.watchers.append(self)

    def event(self, event: Event, now: float) -> None:
        """Note what tenants ask for and use."""
        self.tenants.event(event, now)

    def effects(self, effects: tuple[Effect, ...], now: float) -> None:
        """Do nothing."""

    def settled(self, now: float) -> None:
        """Add a point."""
        simulator, domains = self._simulator, self._domains
        if simulator is None or domains is None:
            return
        rows = domains.rows()
        begin = simulator.first_pod_at
        self.areas.advance(rows, now=now, begin=begin)
        if self._has_queues:
            listing, offered = simulator.scheduler.quotas(), simulator.capacity.amounts()
            self.queues.advance(listing, offered, now=now, begin=begin)
        if not self._keep:
            return
        accounts = (simulator.jobs.used, simulator.jobs.idle, simulator.capacity)
        found = (each.amounts() for each in accounts)
        # equal amounts are one object, since a long run has millions of points
        self._known = tuple(map(_same, found, self._known))
        used, wasted, capacity = self._known
        self.points.append(Point(now, used, wasted, capacity, rows, self.queues.rows))

    def node(self, name: NodeName) -> Node | None:
        """Return a node that is there, or the last version of one that is gone; None for none."""
        return None if self._simulator is None else self._simulator.places.seen.get(name)

    # What ``Places`` tells ------------------------------------------------------------------

    def changed(self, node: NodeName, now: float) -> None:
        """Note that a node has changed, was added or was deleted."""
        simulator, domains = self._simulator, self._domains
        if simulator is None or domains is None:
            return
        domains.touch(node)
        spans, is_there = self.absences.get(node), node in simulator.places.nodes
        if is_there and spans and spans[-1][1] is None:
            spans[-1] = (spans[-1][0], now)
        elif not is_there and not (spans and spans[-1][1] is None):
            self.absences.setdefault(node, []).append((now, None))

    def taken(self, uid: PodUID, node: NodeName, now: float) -> None:
        """Begin the stay of a pod, or join that of its siblings."""
        if self._simulator is None:
            return
        key = (*_part_of(uid, self._simulator), node)
        known = self._open.get(key)
        if known is None:
            if len(self.stays) >= MOST_STAYS or not self._keep:
                return
            known = self._open[key] = Stay(*key, since=now), set()
            self.stays.append(known[0])
        known[1].add(uid)
        self._of[uid] = key

    def given(self, uid: PodUID, node: NodeName, now: float) -> None:
        """End the stay of a pod; of its siblings too if it was the last one."""
        key = self._of.pop(uid, None)
        if key is None:
            return
        stay, pods = self._open[key]
        pods.discard(uid)
        if not pods:
            stay.until = now
            del self._open[key]


def _part_of(uid: PodUID, simulator: Simulator) -> tuple[str, str]:
    """Return the job of a pod, and the path of the copy of a role in which it is."""
    job = simulator.jobs.of(uid)
    if job is None:
        return str(uid), ""
    spec, pod = job.spec, job.members[uid]
    if spec is None or not spec.has_copies:
        return job.key, ""
    path = spec.path_of(job.roles.get(uid), pod.labels, pod.name) or ""
    return job.key, path.rpartition("/")[0]


def _same(amounts: Resources, before: Resources) -> Resources:
    return before if amounts == before else amounts


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
        state = (
            *(waiting, point.used, point.wasted, point.capacity),
            *(point.levels, point.queues),
        )
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
