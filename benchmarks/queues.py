"""What do queues cost, beside a cluster without quotas, and beside one queue?

Each row has the CPU time of what is named, of what it is compared with, and the least, middle and
largest ratio within a round. Of a plan of reclaim there is the time alone. A bound is what was
wanted of the middle ratio, or of the time; we would act where it is missed.

    python benchmarks/queues.py [--rounds N] [--pending N]

Rules:
  T1  time is CPU time of one process (``process_time``), and garbage is collected between rounds;
  T2  all worlds are made first; the rounds of both sides alternate, and the first is not counted;
  T3  every gang asks for the same, and the cluster has room for 250 of them. Of 1,000 queues in
      three levels each has room for one.
"""

from __future__ import annotations

import argparse
import gc
import platform
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from statistics import median
from typing import Final, TypeAlias

from attrs import evolve, frozen

from gangsched import (
    Bind,
    Bound,
    Effect,
    Evict,
    InMemoryCluster,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodDeleted,
    PodUpdated,
    Preemption,
    Quota,
    Reclaim,
    Scheduler,
    Topology,
    gang,
    presets,
)
from gangsched.testing import make_node

_NODES: Final = 250
_QUEUES: Final = 1_000
_GPU: Final = "nvidia.com/gpu"
_ROUND: Final = 5
"""The gangs that end in one round."""

Case: TypeAlias = tuple[str, str, float | None]
"""The names of two worlds, and the bound of the ratio."""
_PLAN: Final = 30_000
"""The bound of a plan of reclaim, in microseconds."""


def tree() -> list[Quota]:
    """Return 1,000 queues in three levels."""
    middle = [Quota(name=f"m{n}", parent=f"top{n % 10}") for n in range(100)]
    leaves = [Quota(name=f"q{n}", parent=f"m{n % 100}", nominal={"cpu": 1}) for n in range(_QUEUES)]
    return [Quota(name="root"), *(Quota(name=f"top{n}", parent="root") for n in range(10)),
            *middle, *leaves]  # fmt: skip


@frozen
class World:
    """A cluster with gangs that run and gangs that wait.

    Attributes:
        cluster: The cluster.
        scheduler: The scheduler.
        clock: Gives an instant for each call.
    """

    cluster: InMemoryCluster
    scheduler: Scheduler
    clock: Iterator[int]

    def perform(self, effects: Iterable[Effect]) -> None:
        """Perform binds and evictions at once."""
        for effect in effects:
            if isinstance(effect, Bind):
                pod = self.cluster.pod(effect.uid)
                assert pod is not None
                bound = PodUpdated(evolve(pod, node_name=effect.node))
                report = Bound(effect.uid, effect.node, effect.attempt)
                for event in (self.cluster.apply(bound), report):
                    self.perform(self.scheduler.handle(event, now=float(next(self.clock))))
            elif isinstance(effect, Evict):
                deleted = self.cluster.apply(PodDeleted(effect.uid))
                self.perform(self.scheduler.handle(deleted, now=float(next(self.clock))))

    def decide(self) -> None:
        """Decide until nothing is left."""
        while (effects := self.scheduler.schedule_one(now=float(next(self.clock)))) is not None:
            self.perform(effects)

    def end_and_begin(self) -> None:
        """Let some gangs end; as many begin."""
        running = [pod for pod in self.cluster.pods() if pod.node_name is not None]
        names = list(dict.fromkeys(pod.pod_group for pod in running))[:_ROUND]
        for pod in [pod for pod in running if pod.pod_group in names]:
            deleted = self.cluster.apply(PodDeleted(pod.uid))
            self.perform(self.scheduler.handle(deleted, now=float(next(self.clock))))
        self.decide()


def world(
    quotas: Iterable[Quota], queues: int, pending: int, *, reclaim: bool = False, **more: float
) -> World:
    """Return a full cluster with so many gangs."""
    cluster = InMemoryCluster()
    for number in range(_NODES):
        cluster.apply(NodeAdded(make_node(f"n{number}", cpu=4)))
    policy = Preemption(reclaim=Reclaim.FAIR) if reclaim else None
    scheduler = presets.gang(cluster, quotas=quotas, preemption=policy, **more)
    made = World(cluster, scheduler, count(1))
    for number in range(pending):
        queue = f"q{number % queues}" if queues else None
        job = gang(f"g{number}", workers=2, cpu=2, queue=queue, created_at=float(number))
        scheduler.handle(*map(cluster.apply, job.events()), now=0.0)
    made.decide()
    return made


def worlds(pending: int) -> dict[str, World]:
    """Return the worlds that are compared."""
    one = [Quota(name="q0", nominal={"cpu": 4 * _NODES})]
    return {
        "no quotas": world([], 0, pending),
        "one queue": world(one, 1, pending),
        "one queue, reclaim": world(one, 1, pending, reclaim=True),
        "1,000 queues": world(tree(), _QUEUES, pending),
        "1,000 queues, history": world(tree(), _QUEUES, pending, history=86_400.0),
        "1,000 queues, reclaim": world(tree(), _QUEUES, pending, reclaim=True),
    }


def timed(action: Callable[[], None]) -> float:
    """Return the CPU seconds of an action."""
    gc.collect()
    begun = time.process_time()
    action()
    return time.process_time() - begun


def reclaiming() -> World:
    """Return 1,000 nodes in racks with 500 gangs of three queues, of which one has borrowed."""
    cluster = InMemoryCluster()
    names = [f"n{number}" for number in range(1_000)]
    for number, name in enumerate(names):
        node = make_node(name, gpu=1, labels={"rack": f"r{number // 40}"})
        cluster.apply(NodeAdded(node))
    quotas = [Quota(name="org")]
    quotas += [Quota(name=name, parent="org", nominal={_GPU: 333}) for name in "abc"]
    for number in range(500):
        for member in range(2):
            pod = Pod(
                name=f"p{number}-{member}",
                pod_group=f"p{number}",
                min_available=2,
                queue="b" if number % 10 else "c",
                requests={_GPU: 1},
                node_name=NodeName(names[2 * number + member]),
                created_at=float(number),
            )
            cluster.apply(PodAdded(pod))
    policy = Preemption(reclaim=Reclaim.FAIR)
    made = World(cluster, presets.gang(cluster, quotas=quotas, preemption=policy), count(1))
    made.decide()
    return made


def plan() -> float:
    """Return the CPU seconds of the plan for a gang of 32 within a rack."""
    made = reclaiming()
    job = gang("g", workers=32, gpu=1, queue="a", topology=Topology("rack"), created_at=9_999.0)
    for event in job.events():
        made.scheduler.handle(made.cluster.apply(event), now=float(next(made.clock)))
    found: list[Effect] = []

    def decide() -> None:
        found.extend(made.scheduler.schedule_one(now=float(next(made.clock))) or ())

    seconds = timed(decide)
    assert sum(isinstance(effect, Evict) for effect in found) >= 32
    return seconds


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--pending", type=int, default=10_000)
    options = parser.parse_args()
    print(f"CPython {platform.python_version()}, {options.pending:,} gangs of two pods\n")
    print("| CPU time | \N{MICRO SIGN}s | beside, \N{MICRO SIGN}s | min / median / max | bound | |")
    print("|---|---:|---:|---:|---:|---|")
    made = worlds(options.pending)
    cases: list[Case] = [
        ("one queue", "no quotas", None),
        ("1,000 queues", "one queue", 2.0),
        ("1,000 queues, history", "one queue", 2.0),
        ("1,000 queues, reclaim", "one queue, reclaim", 2.0),
    ]
    for name, beside, bound in cases:
        one, other = list[float](), list[float]()
        for number in range(options.rounds + 1):
            pair = [(name, one), (beside, other)]
            for each, times in pair if number % 2 else reversed(pair):
                times.append(timed(made[each].end_and_begin) / _ROUND)
        found = sorted(a / b for a, b in zip(one[1:], other[1:], strict=True))
        shown = f"{found[0]:.2f} / {median(found):.2f} / {found[-1]:.2f}"
        both = f"{median(one[1:]) * 1e6:,.0f} | {median(other[1:]) * 1e6:,.0f}"
        wanted = "" if bound is None else f"{bound:.1f}"
        missed = "missed " if bound is not None and median(found) > bound else ""
        what = f"{name}, beside {beside}: a gang ends, another begins"
        print(f"| {what} | {both} | {shown} | {wanted} | {missed}|")
    found = [plan() * 1e6 for _round in range(3)]
    missed = "missed " if min(found) > _PLAN else ""
    what = "a plan of reclaim for 32 pods in a rack, 500 gangs on 1,000 nodes"
    print(f"| {what} | {min(found):,.0f} | | | {_PLAN:,} \N{MICRO SIGN}s | {missed}|")


if __name__ == "__main__":
    main()
