"""What do affinity and spreading between pods cost for gangs, against a scan of all pods?

One row per constraint and size of gang, on 5,000 nodes with about 21,550 running pods. The naive
scheduler counts the matching pods of each domain anew for every pod, as ``PreFilter`` of
kube-scheduler does, and then looks at each node. It is measured on a few pods, and scaled.

Rules:
  R1  arrivals are outside the measured time, which is decisions only;
  R2  a few gangs of the same kind are placed first, so that the first count is made before.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Sequence
from time import process_time
from typing import Any, Final

from attrs import evolve

from gangsched import (
    LabelSelector,
    Pod,
    PodAdded,
    PodAffinityTerm,
    TopologySpreadConstraint,
)
from placement import (
    HOSTNAME,
    TRAINER,
    ZONE,
    World,
    bound,
    decide_all,
    gangs,
    half_full,
    scheduler_of,
)

GROUP: Final = "pod-group.scheduling.sigs.k8s.io/name"
CASES: Final = (
    ("no constraint", 200, 3),
    ("zone anti-affinity", 200, 3),
    ("zone spread", 200, 3),
    ("host anti-affinity", 100, 3),
    ("host spread", 100, 3),
    ("no constraint", 1, 1_000),
    ("zone spread", 1, 1_000),
    ("away from others", 1, 1_000),
)


def constrained(case: str, pods: Sequence[Pod]) -> list[Pod]:
    """Return the pods of a gang with a constraint on each other."""
    own = LabelSelector({GROUP: pods[0].labels[GROUP]})
    noisy = LabelSelector({"app": "noisy"})
    more: dict[str, Any] = {}
    match case:
        case "zone anti-affinity" | "host anti-affinity":
            key = ZONE if case.startswith("zone") else HOSTNAME
            more["pod_anti_affinity"] = [PodAffinityTerm(topology_key=key, label_selector=own)]
        case "zone spread" | "host spread":
            key = ZONE if case.startswith("zone") else HOSTNAME
            spread = TopologySpreadConstraint(max_skew=1, topology_key=key, label_selector=own)
            more["topology_spread_constraints"] = [spread]
        case "away from others":
            more["pod_anti_affinity"] = [PodAffinityTerm(topology_key=ZONE, label_selector=noisy)]
        case _:
            pass
    return [evolve(pod, **more) for pod in pods]


def naive(world: World, pod: Pod) -> float:
    """Return the seconds that one pod takes if matching pods are counted anew."""
    domains = {node.name: node.labels.get(ZONE) for node in world.nodes}
    constraints = (*pod.pod_anti_affinity, *pod.topology_spread_constraints)
    begun = process_time()
    for one in constraints:
        counts: dict[str | None, int] = {}
        selector = one.label_selector
        for other in world.running:
            if selector is not None and selector.matches(other.labels):
                where = domains.get(other.node_name or "")
                counts[where] = counts.get(where, 0) + 1
        for node in world.nodes:
            counts.get(node.labels.get(one.topology_key), 0)
    return process_time() - begun


def main() -> None:
    """Print a row for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5_000)
    world = half_full(parser.parse_args().nodes)
    cluster, scheduler = scheduler_of(world, ())
    print(f"{len(world.nodes)} nodes, {len(world.running)} running pods")
    for row, (case, number, size) in enumerate(CASES):
        first = [constrained(case, g) for g in gangs(3, 3, TRAINER, name=f"w{row}-")]
        measured = [constrained(case, g) for g in gangs(number, size, TRAINER, name=f"g{row}-")]
        for gang in first:
            for pod in gang:
                scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
        bound(decide_all(scheduler))
        for gang in measured:
            for pod in gang:
                scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
        gc.collect()
        gc.disable()
        begun = process_time()
        placed = bound(decide_all(scheduler))
        spent = process_time() - begun
        gc.enable()
        assert placed == number * size, (case, placed)
        scan = naive(world, measured[0][0]) * size
        print(
            f"{case:20} {size:5} members: {1000 * spent / number:8.2f} ms a gang,"
            f" counting anew {1000 * scan:9.2f} ms"
        )


if __name__ == "__main__":
    main()
