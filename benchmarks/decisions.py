"""How long is the longest decision, and is it within 100 ms of CPU with the default budget?

One row per case that was found to be dear: the least of some rounds, each with a new scheduler, of
the one call in which a pod or gang fails and looks for victims, gets a reservation or, on nodes
without pods, is placed. At most 3,000 nodes and 24,000 running pods. The garbage collector is off.
We would act where a row is above 100 ms on a machine without other load.
"""

from __future__ import annotations

import argparse
import gc
import random
from collections.abc import Mapping
from time import process_time_ns
from typing import Final

from attrs import evolve, frozen

from gangsched import (
    Backfill,
    Coscheduling,
    Evict,
    HostPort,
    InMemoryCluster,
    LabelSelector,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodAffinityTerm,
    PodGroup,
    PodGroupAdded,
    Preemption,
    Scheduler,
    SchedulingUnit,
    Topology,
    TopologySpreadConstraint,
    VictimSearchExhausted,
    WhenUnsatisfiable,
    presets,
)
from gangsched.testing import make_pod


@frozen
class Case:
    """A full cluster, and what comes.

    Attributes:
        name: What is special about it.
        nodes: The number of nodes, with 8 slots each.
        size: The number of members of each running gang; 1 for regular pods.
        wanted: The number of members of the gang that comes; 1 for a regular pod.
        slots: How many slots one of them needs.
        unlike: How many kinds its members are of, and whether nodes are unlike if more than 1.
        ranked: Whether a plugin ranks all nodes together.
        unlike_nodes: Whether no two nodes are alike, though the members are.
        racks: The number of racks, within one of which the gang must be; 0 for no such constraint.
        looks_ahead: Whether the gang gets a reservation by run times, instead of evicting any.
        has_ports: Whether its members need a port of the node.
        spreads: Whether its members are spread over the nodes.
        is_free: Whether no pods are running, so that the gang is placed.
        repels: Whether no two of its members may be in one rack.
    """

    name: str
    nodes: int
    size: int
    wanted: int
    slots: int = 8
    unlike: int = 1
    ranked: bool = False
    unlike_nodes: bool = False
    racks: int = 0
    looks_ahead: bool = False
    has_ports: bool = False
    spreads: bool = False
    is_free: bool = False
    repels: bool = False


CASES: Final = (
    Case("a gang of whole nodes among gangs of 40", 3_000, 40, 24),
    Case("a gang of whole nodes among gangs of 2", 3_000, 2, 24),
    Case("a gang of 24 kinds among gangs of 2", 3_000, 2, 24, unlike=24),
    Case("a gang that no eviction helps", 3_000, 40, 64, slots=9),
    Case("a gang of 200 kinds among single pods", 500, 1, 200, slots=2, unlike=200),
    Case("a pod among single pods", 3_000, 1, 1),
    Case("a pod on unlike nodes", 3_000, 1, 1, unlike=2),
    Case("a pod, with a plugin that ranks nodes", 1_000, 1, 1, ranked=True),
    Case("a gang, ranked, on unlike nodes", 1_000, 1, 200, ranked=True, unlike_nodes=True),
    Case("a gang of 24, ranked, on unlike nodes", 3_000, 1, 24, ranked=True, unlike_nodes=True),
    Case("a gang of 1,000 kinds on unlike nodes", 3_000, 1, 1_000, 2, unlike=1_000, is_free=True),
    Case("a gang of which a rack has one member", 3_000, 1, 24, racks=1_000, repels=True),
    Case("a gang within one of 1,000 racks", 3_000, 1, 24, racks=1_000),
    Case("a gang within a rack, among gangs of 4", 3_000, 4, 24, racks=50),
    Case("a gang that gets a reservation", 3_000, 1, 24, looks_ahead=True),
    Case("a gang with host ports", 3_000, 1, 24, has_ports=True),
    Case("a gang that is spread over nodes", 3_000, 1, 24, spreads=True),
)


def prepared(case: Case, share: float) -> Scheduler:
    """Return a scheduler to which the pod or gang has come."""
    draw, cluster = random.Random(0), InMemoryCluster()
    slots: list[NodeName] = []
    for n in range(max(int(case.nodes * share), 20)):
        milli = 8_000 + (n if case.unlike > 1 or case.unlike_nodes else 0)
        labels = {"kubernetes.io/hostname": f"n{n}", "rack": f"r{n % max(case.racks, 1)}"}
        offers: dict[str, str | int] = {"cpu": f"{milli}m", "pods": 110}
        node = Node(name=NodeName(f"n{n}"), allocatable=offers, labels=labels)
        cluster.apply(NodeAdded(node))
        slots += [node.name] * 8
    draw.shuffle(slots)
    if case.is_free:
        slots.clear()
    for g in range(len(slots) // case.size):
        priority = draw.randrange(5)
        for m in range(case.size):
            group = f"g{g}" if case.size > 1 else None
            least = case.size if group else None
            pod = make_pod(f"g{g}-{m}", group=group, min_available=least, cpu=1, priority=priority)
            cluster.apply(PodAdded(evolve(pod, node_name=slots.pop(), created_at=float(g))))
    if case.racks and not case.repels:
        spec = PodGroup(name="big", min_available=case.wanted, topology=Topology("rack"))
        cluster.apply(PodGroupAdded(spec))
    for m in range(case.wanted):
        group = "big" if case.wanted > 1 else None
        cpu = f"{case.slots * 1000 - m % case.unlike}m"
        least = case.wanted if group else None
        pod = make_pod(f"big-{m}", group=group, min_available=least, cpu=cpu, priority=10)
        if case.has_ports:
            pod = evolve(pod, host_ports=(HostPort(8080),))
        if case.spreads:
            pod = evolve(pod, topology_spread_constraints=(_spread(pod.labels),))
        if case.repels:
            selector = LabelSelector(match_labels=pod.labels)
            apart = PodAffinityTerm(topology_key="rack", label_selector=selector)
            pod = evolve(pod, pod_anti_affinity=(apart,))
        cluster.apply(PodAdded(pod))
    scheduler = _scheduler(case, cluster)
    scheduler.rebuild(now=0.0)
    if case.looks_ahead:  # the first attempt fails, and the next call looks ahead
        scheduler.schedule_one(now=1.0)
    return scheduler


def _scheduler(case: Case, cluster: InMemoryCluster) -> Scheduler:
    if case.looks_ahead:
        return presets.gang(cluster, backfill=Backfill(run_times=_RunTimes()))
    if not case.ranked:
        return presets.gang(cluster, preemption=Preemption())
    if case.wanted == 1:
        return presets.kube_default(cluster, preemption=Preemption())
    whole = SchedulingUnit.GROUP
    policy = Coscheduling()
    return presets.kube_default(cluster, policy=policy, unit=whole, preemption=Preemption())


def _spread(labels: Mapping[str, str]) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        max_skew=1,
        topology_key="kubernetes.io/hostname",
        when_unsatisfiable=WhenUnsatisfiable.DO_NOT_SCHEDULE,
        label_selector=LabelSelector(match_labels=labels),
    )


@frozen
class _RunTimes:
    """Each pod ends within 1,000 seconds, at an instant by its age."""

    def expected_end(self, pod: Pod, *, started_at: float | None, now: float) -> float:
        return (now if started_at is None else started_at) + 100 + pod.created_at * 7_919 % 1_000


def main() -> None:
    """Print a row for each case."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--rounds", type=int, default=3, help="how often each case is measured")
    asked = parser.parse_args()
    print(f"{'case':<44}{'ms':>8}{'evicted':>9}{'cut short':>11}")
    for case in CASES:
        times: list[float] = []
        evicted, is_cut = 0, False
        for _ in range(asked.rounds):
            scheduler = prepared(case, 0.02 if asked.quick else 1.0)
            gc.collect()
            gc.disable()
            begun = process_time_ns()
            effects = scheduler.schedule_one(now=1.0) or ()
            times.append((process_time_ns() - begun) / 1e6)
            gc.enable()
            evicted = sum(isinstance(effect, Evict) for effect in effects)
            is_cut = any(isinstance(effect, VictimSearchExhausted) for effect in effects)
        print(f"{case.name:<44}{min(times):>8.1f}{evicted:>9}{is_cut!s:>11}", flush=True)


if __name__ == "__main__":
    main()
