"""First come, first served and EASY backfill, as one would write them without a scheduler.

A plain event loop on instants: jobs end, jobs arrive, then starts are decided. It shares no code
with the library. Which nodes a job takes is given, since it matters here only how much is free.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from attrs import field, frozen, mutable

__all__ = ["Job", "Loop", "first_fit", "strict", "with_easy"]


@frozen
class Job:
    """A job of equal pods, each of which stays on one node; the number is the order of arrival."""

    number: int
    at: int
    pods: int
    gpus: int
    seconds: int
    priority: int = 0

    @property
    def turn(self) -> tuple[int, int, bool, int]:
        """The order of the queue: at one instant, a single pod goes before a gang."""
        return (-self.priority, self.at, self.pods > 1, self.number)


Places = Mapping[int, int]
"""How many pods of a job are on each node."""


@mutable
class Loop:
    """The state: what is free on each node, what waits in order, and what runs until when."""

    free: list[int]
    places: Callable[[Job, Sequence[int]], Places]
    now: float = 0.0
    queue: list[Job] = field(factory=list)
    running: list[tuple[float, Job, Places]] = field(factory=list)
    started: dict[int, float] = field(factory=dict)
    tried: set[int] = field(factory=set)
    passed_over: set[int] = field(factory=set)

    def run(self, jobs: Sequence[Job], decide: Callable[[Loop], None]) -> dict[int, float]:
        """Return when each job starts that does; a policy decides at each instant."""
        coming = sorted(jobs, key=lambda job: job.at)
        while coming or self.running:
            instants = [float(job.at) for job in coming[:1]] + [end for end, *_ in self.running]
            self.now = min(instants)
            for ended in [each for each in self.running if each[0] <= self.now]:
                self.running.remove(ended)
                for node, count in ended[2].items():
                    self.free[node] += count * ended[1].gpus
            while coming and coming[0].at <= self.now:
                self.queue.append(coming.pop(0))
            self.queue.sort(key=lambda job: job.turn)
            decide(self)
        return self.started

    def fits(self, job: Job) -> bool:
        """Return whether all pods of a job fit now."""
        return sum(free // job.gpus for free in self.free) >= job.pods

    def start(self, job: Job) -> None:
        """Start a job on its nodes."""
        places = self.places(job, self.free)
        assert sum(places.values()) == job.pods, f"{job} is on {places}"
        for node, count in places.items():
            self.free[node] -= count * job.gpus
            assert self.free[node] >= 0, f"{job} oversubscribes node {node}"
        self.queue.remove(job)
        self.started[job.number] = self.now
        self.running.append((self.now + job.seconds, job, places))


def strict(loop: Loop) -> None:
    """First come, first served: no job starts before one that goes before it.

    A job that does not fit on the empty cluster is passed over from then on.
    """
    if not loop.running:
        loop.passed_over |= {
            j.number for j in loop.queue if j.number in loop.tried and not loop.fits(j)
        }
    for job in list(loop.queue):
        if loop.fits(job):
            loop.start(job)
        elif not loop.running:
            loop.passed_over.add(job.number)
        elif job.number not in loop.passed_over:
            loop.tried.add(job.number)
            return


def first_fit(loop: Loop) -> None:
    """Each job in order that fits."""
    for job in list(loop.queue):
        if loop.fits(job):
            loop.start(job)


def with_easy(loop: Loop) -> None:
    """EASY backfill on one node: no job delays the first that does not fit (Lifka 1995)."""
    shadow, extra = math.inf, math.inf
    head: Job | None = None
    for job in list(loop.queue):
        need = job.pods * job.gpus
        if head is None and not loop.fits(job):
            free, ends = loop.free[0], sorted((end, j.pods * j.gpus) for end, j, _ in loop.running)
            if free + sum(gpus for _end, gpus in ends) < need:
                continue  # it never fits
            head = job
            for end, gpus in ends:
                free += gpus
                if free >= need and end < shadow:
                    shadow = end
            at_shadow = sum(gpus for end, gpus in ends if end <= shadow)
            extra = loop.free[0] + at_shadow - need
        elif loop.fits(job) and (head is None or loop.now + job.seconds <= shadow or need <= extra):
            if head is not None and loop.now + job.seconds > shadow:
                extra -= need
            loop.start(job)
