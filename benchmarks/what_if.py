"""What does a question cost, against making another scheduler from a listing of the cluster?

Gangs of 8 pods run, others of 8 to 15 have failed and wait. The questions are what would happen
with one more node, and which smallest change starts one of them. The alternative is a new scheduler
that reads a listing; it would not know backoffs and waits. The ratio should be far below 1 with
many running and few waiting gangs. We would act above 0.5 for a question about one node.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable
from statistics import median
from time import thread_time_ns
from typing import Final

from attrs import evolve

from gangsched import (
    GroupKey,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    PodAdded,
    Scheduler,
    Sufficient,
    presets,
)
from gangsched.testing import make_pod

_GPUS = 8
SHAPE: Final = Node(name=NodeName("more"), allocatable={"nvidia.com/gpu": _GPUS})


def busy(nodes: int, running: int, pending: int) -> tuple[InMemoryCluster, Scheduler]:
    """Return a full cluster with a backlog that has failed and rests no more."""
    cluster = InMemoryCluster()
    for number in range(nodes):
        cluster.apply(NodeAdded(evolve(SHAPE, name=NodeName(f"n{number}"))))
    full = min(running, nodes)
    for gang in range(full):
        for number in range(8):
            pod = make_pod(f"r{gang}-{number}", group=f"r{gang}", min_available=8, gpu=1)
            cluster.apply(PodAdded(evolve(pod, node_name=NodeName(f"n{gang}"))))
    for number in range(full, nodes):
        filler = make_pod(f"f{number}", gpu=_GPUS)
        cluster.apply(PodAdded(evolve(filler, node_name=NodeName(f"n{number}"))))
    for gang in range(pending):
        size = 8 + gang % 8
        for number in range(size):
            pod = make_pod(f"p{gang}-{number}", group=f"p{gang}", min_available=size, gpu=_GPUS)
            cluster.apply(PodAdded(pod))
    scheduler = presets.gang(cluster)
    while scheduler.schedule_one(now=0.0) is not None:
        pass
    scheduler.advance(now=60.0)
    while scheduler.schedule_one(now=60.0) is not None:
        pass
    scheduler.advance(now=120.0)
    return cluster, scheduler


def milliseconds(do: Callable[[], object], rounds: int) -> float:
    """Return the median time of some rounds."""
    times: list[int] = []
    for _round in range(rounds):
        gc.collect()
        begun = thread_time_ns()
        do()
        times.append(thread_time_ns() - begun)
    return median(times) / 1e6


def row(nodes: int, running: int, pending: int, rounds: int) -> str:
    """Return a line of the table."""
    cluster, scheduler = busy(nodes, running, pending)
    group, more = GroupKey("default/p0"), NodeAdded(SHAPE)
    found = scheduler.smallest_change(group, SHAPE)
    number = f"{found.nodes}" if isinstance(found, Sufficient) else f"> {found.most}"
    asked = milliseconds(lambda: scheduler.what_if(more), rounds)
    change = milliseconds(lambda: scheduler.smallest_change(group, SHAPE), rounds)
    anew = milliseconds(lambda: presets.gang(cluster).advance(now=0.0), rounds)
    return (
        f"{nodes:>5}{running:>9}{pending:>9}{asked:>8.1f} ms{change:>10.1f} ms ({number:>4})"
        f"{anew:>11.1f} ms{asked / anew:>9.3f}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print("nodes  running  pending   question   smallest change   from a listing   ratio")
    for nodes, running, pending in ((500, 100, 20), (5000, 1000, 20), (5000, 1000, 1000)):
        print(row(nodes, running, pending, options.rounds))


if __name__ == "__main__":
    main()
