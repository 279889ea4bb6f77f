"""What a decision executes where members repel each other in racks, or must be within one rack.

A full cluster of gangs of lower priority, and a gang that is placed if some of them are evicted.
Counted are calls of functions, not the time. The search has a budget, so that more nodes do not
take more calls once it is spent.
"""

from __future__ import annotations

import random

import pytest
from attrs import evolve

from gangsched import (
    Evict,
    InMemoryCluster,
    LabelSelector,
    Node,
    NodeAdded,
    NodeName,
    PodAdded,
    PodAffinityTerm,
    PodGroup,
    PodGroupAdded,
    Preemption,
    Topology,
    presets,
)
from gangsched.testing import make_pod
from support.calls import calls_for

WANTED = 8
BUDGET = 2_000


def calls_of_a_decision(nodes: int, racks: int, *, size: int, repels: bool) -> tuple[int, int]:
    """Return the calls of a decision about a gang of whole nodes, and how many pods it evicts.

    Args:
        nodes: The number of nodes, each with 8 running pods.
        racks: The number of racks.
        size: The number of members of each running gang; 1 for regular pods.
        repels: Whether no rack may have two members; otherwise all must be in one rack.
    """
    cluster, draw = InMemoryCluster(), random.Random(0)
    names = [NodeName(f"n{n}") for n in range(nodes)]
    for n, name in enumerate(names):
        labels = {"kubernetes.io/hostname": name, "rack": f"r{n % racks}"}
        offers: dict[str, str | int] = {"cpu": 8, "pods": 110}
        cluster.apply(NodeAdded(Node(name=name, allocatable=offers, labels=labels)))
    slots = names * 8
    draw.shuffle(slots)
    for n, slot in enumerate(slots):
        group, least = (None, None) if size == 1 else (f"g{n // size}", size)
        priority = n // size % 5
        pod = make_pod(f"r{n}", group=group, min_available=least, cpu=1, priority=priority)
        cluster.apply(PodAdded(evolve(pod, node_name=slot)))
    if not repels:
        spec = PodGroup(name="big", min_available=WANTED, topology=Topology("rack"))
        cluster.apply(PodGroupAdded(spec))
    for m in range(WANTED):
        pod = make_pod(f"big-{m}", group="big", min_available=WANTED, cpu=8, priority=10)
        if repels:
            selector = LabelSelector(match_labels=pod.labels)
            apart = PodAffinityTerm(topology_key="rack", label_selector=selector)
            pod = evolve(pod, pod_anti_affinity=(apart,))
        cluster.apply(PodAdded(pod))
    scheduler = presets.gang(cluster, preemption=Preemption(), search_budget=BUDGET)
    scheduler.rebuild(now=0.0)
    effects: list[object] = []
    calls = calls_for(lambda: effects.extend(scheduler.schedule_one(now=1.0) or ()))
    scheduler._check()
    return calls, sum(isinstance(effect, Evict) for effect in effects)


@pytest.mark.parametrize(
    ("size", "repels", "share"), [(1, True, 3), (4, False, None)], ids=["repelled", "within"]
)
def test_decision_about_racks_costs_less_than_in_proportion_to_nodes(
    size: int, repels: bool, share: int | None
) -> None:
    calls: list[int] = []
    for nodes in (120, 240):
        racks = 5 if share is None else nodes // share
        executed, evicted = calls_of_a_decision(nodes, racks, size=size, repels=repels)
        assert evicted
        calls.append(executed)
    assert calls[1] < 2 * calls[0], "each rack is counted, and no node"
    assert max(calls) <= 400 * BUDGET
