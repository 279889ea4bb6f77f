"""What do affinity and spreading between pods cost for gangs, against a scan of all pods and nodes?

One row per constraint and size of gang, on 5,000 nodes with about 21,550 running pods. The naive
scheduler does the same work without anything that is kept. For each member it looks at all pods
on nodes to count those that match, as ``PreFilter`` of kube-scheduler does. Then it looks at all
nodes, and puts the member on the best of these.

Rules:
  R1  arrivals are outside the measured time, which is decisions only;
  R2  a few gangs of the same kind are placed first, so that the first count is made before;
  R3  ours is the best of several rounds of CPU time, each with gangs of its own. The naive
      scheduler is measured on a few members, once, and scaled to a gang;
  R4  both must place every member.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Sequence
from time import process_time
from typing import Any, Final

from attrs import define, evolve

from gangsched import (
    LabelSelector,
    Node,
    Pod,
    PodAdded,
    PodAffinityTerm,
    PodDeleted,
    Taint,
    TaintEffect,
    TopologySpreadConstraint,
)
from placement import (
    GPU,
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


@define
class Naive:
    """A scheduler that keeps nothing but the pods on nodes and what is free.

    Attributes:
        nodes: The nodes.
        on_nodes: Each pod with its node.
        free: What is free on each node.
    """

    nodes: Sequence[Node]
    on_nodes: list[tuple[Pod, Node]]
    free: dict[str, dict[str, int]]

    @classmethod
    def of(cls, world: World) -> Naive:
        """Return one for a world."""
        by_name = {node.name: node for node in world.nodes}
        free = {str(node.name): node.allocatable.to_milli() for node in world.nodes}
        made = cls(world.nodes, [], free)
        for pod in world.running:
            if pod.node_name is not None:
                made.put(pod, by_name[pod.node_name])
        return made

    def put(self, pod: Pod, node: Node) -> None:
        """Put a pod on a node."""
        self.on_nodes.append((pod, node))
        for name, amount in pod.requests.items():
            self.free[node.name][name] -= amount

    def place(self, pod: Pod) -> Node | None:
        """Put a pod on the accepted node with the fewest free GPUs; None if none is accepted."""
        # as PreFilter: what is in each domain
        shunned: list[tuple[str, set[str]]] = []
        for term in pod.pod_anti_affinity:
            key, selector = term.topology_key, term.label_selector
            shunned.append((key, self._domains_with(selector, key)))
        fullest: list[tuple[str, int, dict[str, int]]] = []
        for one in pod.topology_spread_constraints:
            counts = self._counts(one.label_selector, one.topology_key)
            most = min(counts.values(), default=0) + one.max_skew - 1
            fullest.append((one.topology_key, most, counts))
        for other, where in self.on_nodes:
            for term in other.pod_anti_affinity:
                if term.label_selector is not None and term.label_selector.matches(pod.labels):
                    value = where.labels.get(term.topology_key)
                    if value is not None:
                        shunned.append((term.topology_key, {value}))
        # as Filter and Score: each node
        best: Node | None = None
        least = 1 << 60
        for node in self.nodes:
            if node.unschedulable or any(self._repels(taint, pod) for taint in node.taints):
                continue
            free = self.free[node.name]
            if any(free.get(name, 0) < amount for name, amount in pod.requests.items()):
                continue
            if any(node.labels.get(key) in values for key, values in shunned):
                continue
            if any(counts[node.labels[key]] > most for key, most, counts in fullest):
                continue
            if free.get(GPU, 0) < least:
                best, least = node, free.get(GPU, 0)
        if best is not None:
            self.put(pod, best)
        return best

    def _counts(self, selector: LabelSelector | None, key: str) -> dict[str, int]:
        counts = {node.labels[key]: 0 for node in self.nodes if key in node.labels}
        for pod, node in self.on_nodes:
            if selector is not None and key in node.labels and selector.matches(pod.labels):
                counts[node.labels[key]] += 1
        return counts

    def _domains_with(self, selector: LabelSelector | None, key: str) -> set[str]:
        return {
            node.labels[key]
            for pod, node in self.on_nodes
            if selector is not None and key in node.labels and selector.matches(pod.labels)
        }

    @staticmethod
    def _repels(taint: Taint, pod: Pod) -> bool:
        return taint.effect is not TaintEffect.PREFER_NO_SCHEDULE and not any(
            toleration.tolerates(taint) for toleration in pod.tolerations
        )


def naive_seconds(naive: Naive, members: Sequence[Pod], most: int = 6) -> float:
    """Return the seconds that the naive scheduler takes for a gang, by its first members."""
    some = members[:most]
    begun = process_time()
    for pod in some:
        assert naive.place(pod) is not None, pod.key
    return (process_time() - begun) * len(members) / len(some)


def main() -> None:
    """Print a row for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    world = half_full(options.nodes)
    cluster, scheduler = scheduler_of(world, ())
    naive = Naive.of(world)

    def arrive(given: Sequence[Sequence[Pod]]) -> None:
        for gang in given:
            for pod in gang:
                scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)

    def leave(given: Sequence[Sequence[Pod]]) -> None:
        for gang in given:
            for pod in gang:
                scheduler.handle(cluster.apply(PodDeleted(pod.uid)), now=0.0)

    print(
        f"{len(world.nodes):,} nodes, {len(world.running):,} running pods, {options.rounds} rounds"
    )
    print(f"{'constraint':20} {'members':>7} {'ours, ms':>9} {'naive, ms':>10} {'ratio':>6}")
    for row, (case, number, size) in enumerate(CASES):
        spent: list[float] = []
        for turn in range(options.rounds):
            name = f"{row}-{turn}-"
            first = [constrained(case, g) for g in gangs(3, 3, TRAINER, name=f"w{name}")]
            arrive(first)
            bound(decide_all(scheduler))
            measured = [constrained(case, g) for g in gangs(number, size, TRAINER, name=f"g{name}")]
            arrive(measured)
            gc.collect()
            gc.disable()
            begun = process_time()
            placed = bound(decide_all(scheduler))
            spent.append((process_time() - begun) / number)
            gc.enable()
            assert placed == number * size, (case, placed)
            leave([*first, *measured])
        gang = [evolve(pod, uid=f"naive-{pod.uid}") for pod in measured[0]]
        ours, scan = 1000 * min(spent), 1000 * naive_seconds(naive, gang)
        print(f"{case:20} {size:7,} {ours:9.2f} {scan:10.0f} {scan / ours:6.0f}", flush=True)


if __name__ == "__main__":
    main()
