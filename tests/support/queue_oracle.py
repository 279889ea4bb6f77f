"""What jobs in queues may take, and from whom: every plan of a small world, found by trying all.

The oracle shares no code with the library. Amounts are thousandths, shares are exact fractions.

Rules:
  R1  what a queue may use: its *pool* is its nominal and what its children lend; a parent is drawn
      on for what its children use beyond what they keep. Roots lend each other nothing. A resource
      that no queue of a tree names is not limited, so no queue is over its nominal in it;
  R2  ``hard`` limits what all jobs below a queue request;
  R3  a job *lacks* a resource if its request exceeds what its queue may use, a ``hard`` on its
      path, or the capacity of the cluster;
  R4  a victim in the same queue has a lower priority than the job. A victim in another queue of the
      tree satisfies ``reclaim`` of the job's queue. Each queue on its path below the common parent
      is over its pool in a resource that the victim uses and that the job lacks;
  R5  besides, the branch of the job below the common parent is within its pool, with the job, in
      all that the job requests. Or queues are shared fairly, and the share of that branch with the
      job is not larger than the share of the victim's branch without the victim, in what the
      victim uses and the job lacks;
  R6  victims are taken one after the other, and each satisfies R4 and R5 when it is taken.

Source: KEP-79 of Kueue, "Hierarchical Cohorts", for R1; its fair sharing for shares.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Final, TypeAlias

from attrs import define, field, frozen

__all__ = ["Amounts", "Job", "Plan", "Queue", "QueueWorld", "cost"]

Amounts: TypeAlias = Mapping[str, int]
_NOTHING: Final[Amounts] = MappingProxyType({})
Plan: TypeAlias = frozenset[str]
"""The names of jobs that are evicted together."""
Share: TypeAlias = tuple[bool, Fraction]
"""Whether a queue borrows without a weight, and what it borrows divided by its weight."""


@frozen
class Queue:
    """A queue.

    Attributes:
        name: The name.
        parent: The name of the queue above; None for a root.
        nominal: What it has by itself; None for a queue without a part in its tree.
        borrow: How much it uses beyond its pool at the most; no limit for other resources.
        lend: How much of its pool others may use; all of it for other resources.
        hard: What all jobs below request at the most; no limit for other resources.
        weight: What its share is divided by.
        reclaim: From whom its jobs reclaim: ``never``, ``lower``, ``lower-or-equal`` or ``any``.
    """

    name: str
    parent: str | None = None
    nominal: Amounts | None = None
    borrow: Amounts = _NOTHING
    lend: Amounts = _NOTHING
    hard: Amounts = _NOTHING
    weight: float = 1.0
    reclaim: str = "any"


@frozen
class Job:
    """A job.

    Attributes:
        name: The name.
        queue: The name of its queue, which has no queues below it.
        requests: What it requests.
        priority: Its priority.
        is_preemptible: Whether it may be evicted.
    """

    name: str
    queue: str
    requests: Amounts
    priority: int = 0
    is_preemptible: bool = True


def cost(victims: Iterable[Job]) -> tuple[list[int], int]:
    """Return what plans are compared by: priorities, higher ones first, then the number."""
    priorities = sorted((job.priority for job in victims), reverse=True)
    return priorities, len(priorities)


@define(eq=False)
class QueueWorld:
    """Queues, and jobs that run.

    Attributes:
        queues: The queues, by name; those above a queue included.
        running: The jobs that run, by name.
        capacity: What the cluster has; no limit for other resources.
        is_fair: Whether a queue may reclaim for more than its nominal, see R5.
    """

    queues: Mapping[str, Queue]
    running: Mapping[str, Job]
    capacity: Amounts = _NOTHING
    is_fair: bool = False
    _usages: dict[Plan, Mapping[str, Amounts]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._usages = {}

    # Plans --------------------------------------------------------------------------------------

    def plans(self, job: Job) -> list[Plan]:
        """Return each smallest set of victims that may be evicted, and lets a job run.

        It is one empty set if the job fits as it is, and no set if the job cannot run.
        """
        found = list[Plan]()
        known = {frozenset[str]()}
        reached = list(known)
        for gone in reached:
            if not self.lacks(job, gone):
                found.append(gone)
                continue
            for name in self.victims(job, gone):
                more = gone | {name}
                if more not in known:
                    known.add(more)
                    reached.append(more)
        return [plan for plan in found if not any(other < plan for other in found)]

    def victims(self, job: Job, gone: Plan) -> Iterator[str]:
        """Yield the jobs that may be evicted for a job once others have gone; R4 and R5."""
        lacking = self.lacks(job, gone)
        for victim in self.running.values():
            if victim.name not in gone and victim.is_preemptible:
                if victim.queue == job.queue:
                    if victim.priority < job.priority:
                        yield victim.name
                elif self._may_reclaim(job, victim, gone, lacking):
                    yield victim.name

    def _may_reclaim(self, job: Job, victim: Job, gone: Plan, lacking: set[str]) -> bool:
        own, other = self._branches(job.queue, victim.queue)
        if not own or not _satisfies(self.queues[job.queue].reclaim, victim, job):
            return False
        before = self._usage(gone)
        wanted = [name for name in lacking if victim.requests.get(name, 0) > 0]
        for queue in other:
            if not any(self._over(queue, name, before) > 0 for name in wanted):
                return False
        with_job = self._usage(gone, job)
        if self._is_within(own[-1], job, with_job):
            return True
        after = self._usage(gone | {victim.name})
        share = self._share(other[-1], after, wanted)
        return self.is_fair and self._share(own[-1], with_job) <= share

    def _branches(self, one: str, other: str) -> tuple[list[str], list[str]]:
        """Return the queues of two paths below their common parent; none if there is none."""
        path, another = self._path(one), self._path(other)
        common = next((name for name in path if name in another), None)
        if common is None:
            return [], []
        return path[: path.index(common)], another[: another.index(common)]

    # What a job lacks ---------------------------------------------------------------------------

    def lacks(self, job: Job, gone: Plan = frozenset()) -> set[str]:
        """Return the resources in which a job does not fit once others have gone; R3."""
        usage = self._usage(gone)
        left = [each for each in self.running.values() if each.name not in gone]
        return {
            name
            for name, amount in job.requests.items()
            if amount > 0
            and amount > min(self._available(job.queue, name, usage), self._free(job, name, left))
        }

    def _free(self, job: Job, name: str, left: Iterable[Job]) -> float:
        """Return what ``hard`` and the cluster leave of a resource; R2."""
        jobs = list(left)
        free = self.capacity.get(name, math.inf) - _total(jobs, name)
        for above in self._path(job.queue):
            if name in self.queues[above].hard:
                below = [each for each in jobs if above in self._path(each.queue)]
                free = min(free, self.queues[above].hard[name] - _total(below, name))
        return free

    def _available(self, queue: str, name: str, usage: Mapping[str, Amounts]) -> float:
        """Return how much more a queue may use; R1."""
        if not self._has_part(queue) or name not in self._named(queue):
            return math.inf
        spec, used = self.queues[queue], usage[queue].get(name, 0)
        pool, kept = self.pool(queue, name), self._kept(queue, name)
        if spec.parent is None:
            return pool - used
        above = self._available(spec.parent, name, usage)
        if name in spec.borrow:
            above = min(above, pool - kept - max(0, used - kept) + spec.borrow[name])
        return max(0, kept - used) + above

    # Shares -------------------------------------------------------------------------------------

    def share(self, queue: str) -> Share:
        """Return the share of a queue among its siblings."""
        return self._share(queue, self._usage(frozenset()))

    def _share(
        self, queue: str, usage: Mapping[str, Amounts], among: Collection[str] | None = None
    ) -> Share:
        parent, largest = self.queues[queue].parent, Fraction(0)
        for name in self._named(queue) if parent is not None else ():
            if among is not None and name not in among:
                continue
            assert parent is not None
            over, lendable = self._over(queue, name, usage), self._potential(parent, name)
            if over > 0 and lendable > 0:
                largest = max(largest, Fraction(over, lendable))
        weight = Fraction(self.queues[queue].weight)
        if not largest:
            return False, largest
        return (False, largest / weight) if weight else (True, largest)

    def _potential(self, queue: str, name: str) -> int:
        """Return what a queue could use if all others used nothing."""
        spec, pool = self.queues[queue], self.pool(queue, name)
        if spec.parent is None:
            return pool
        most = self._kept(queue, name) + self._potential(spec.parent, name)
        return min(most, pool + spec.borrow[name]) if name in spec.borrow else most

    # The tree -----------------------------------------------------------------------------------

    def pool(self, queue: str, name: str) -> int:
        """Return what a queue has by itself and what its children lend; R1."""
        lent = [self.pool(each, name) - self._kept(each, name) for each in self._below(queue)]
        return (self.queues[queue].nominal or {}).get(name, 0) + sum(lent)

    def _kept(self, queue: str, name: str) -> int:
        """Return what a queue does not lend."""
        lend = self.queues[queue].lend
        return max(0, self.pool(queue, name) - lend[name]) if name in lend else 0

    def _over(self, queue: str, name: str, usage: Mapping[str, Amounts]) -> int:
        """Return by how much a queue is over its pool."""
        return (
            usage[queue].get(name, 0) - self.pool(queue, name) if self._limits(queue, name) else 0
        )

    def _is_within(self, queue: str, job: Job, usage: Mapping[str, Amounts]) -> bool:
        """Return whether a queue is within its pool in all that a job requests."""
        wanted = [name for name, amount in job.requests.items() if amount > 0]
        return all(self._over(queue, name, usage) <= 0 for name in wanted)

    def _usage(self, gone: Plan, *more: Job) -> Mapping[str, Amounts]:
        """Return what queues use of their tree without some jobs, and with more; R1."""
        if not more and gone in self._usages:
            return self._usages[gone]
        jobs = [*(job for job in self.running.values() if job.name not in gone), *more]
        found: dict[str, Amounts] = {}
        for queue in sorted(self.queues, key=lambda each: -len(self._path(each))):
            found[queue] = self._used(queue, jobs, found)
        if not more:
            self._usages[gone] = found
        return found

    def _used(self, queue: str, jobs: Iterable[Job], found: Mapping[str, Amounts]) -> Amounts:
        used: dict[str, int] = {}
        for job in jobs:
            if job.queue == queue and self._has_part(queue):
                for name, amount in job.requests.items():
                    used[name] = used.get(name, 0) + amount
        for child in self._below(queue):
            for name, amount in found[child].items():
                used[name] = used.get(name, 0) + max(0, amount - self._kept(child, name))
        return used

    def _below(self, queue: str) -> list[str]:
        return [each.name for each in self.queues.values() if each.parent == queue]

    def _path(self, queue: str) -> list[str]:
        """Return a queue and all above it, the root last."""
        parent = self.queues[queue].parent
        return [queue] if parent is None else [queue, *self._path(parent)]

    def _has_part(self, queue: str) -> bool:
        return self.queues[queue].nominal is not None or any(
            map(self._has_part, self._below(queue))
        )

    def _named(self, queue: str) -> set[str]:
        """Return the resources that the queues of a tree name."""
        root = self._path(queue)[-1]
        tree = [each for each in self.queues.values() if self._path(each.name)[-1] == root]
        return {name for each in tree for name in each.nominal or {}}

    def _limits(self, queue: str, name: str) -> bool:
        return self._has_part(queue) and name in self._named(queue)


_RECLAIMS: Final[Mapping[str, float]] = {
    "never": -math.inf,
    "lower": -1,
    "lower-or-equal": 0,
    "any": math.inf,
}
"""By how much the priority of a victim may be higher than that of the job."""


def _satisfies(reclaim: str, victim: Job, job: Job) -> bool:
    return victim.priority - job.priority <= _RECLAIMS[reclaim]


def _total(jobs: Iterable[Job], name: str) -> int:
    return sum(job.requests.get(name, 0) for job in jobs)
