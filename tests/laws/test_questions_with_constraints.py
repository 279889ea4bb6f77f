"""What-if questions and smallest changes honour the constraints between pods."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    InMemoryCluster,
    LabelSelector,
    Node,
    NodeAdded,
    Pod,
    PodAdded,
    PodAffinityTerm,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    Scheduler,
    Sufficient,
    TopologySpreadConstraint,
    presets,
)
from support.constrained_worlds import HOST, ZONE

pytestmark = pytest.mark.once("is about whole gangs")

OWN = LabelSelector({"app": "g"})
APART = PodAffinityTerm(topology_key=ZONE, label_selector=OWN)
SPREAD = TopologySpreadConstraint(max_skew=1, topology_key=ZONE, label_selector=OWN)


def node(name: str, zone: str, cpu: int = 1) -> Node:
    return Node(name=name, allocatable={"cpu": cpu, "pods": 9}, labels={HOST: name, ZONE: zone})


def member(n: int, *, spreads: bool) -> Pod:
    labels = {"app": "g", "pod-group.scheduling.sigs.k8s.io/name": "g"}
    pod = Pod(name=f"g-{n}", labels=labels, requests={"cpu": 1})
    if spreads:
        return evolve(pod, topology_spread_constraints=[SPREAD])
    return evolve(pod, pod_anti_affinity=[APART])


def scheduler_of(
    zones: list[str], members: int, *, spreads: bool, cpu: int = 1
) -> tuple[InMemoryCluster, Scheduler]:
    cluster = InMemoryCluster()
    for n, zone in enumerate(zones):
        cluster.apply(NodeAdded(node(f"n{n}", zone, cpu)))
    cluster.apply(PodGroupAdded(PodGroup(name="g", min_available=members)))
    for n in range(members):
        cluster.apply(PodAdded(member(n, spreads=spreads)))
    scheduler = presets.gang(cluster)
    scheduler.rebuild(now=0.0)
    return cluster, scheduler


ZONES = st.lists(st.sampled_from(["a", "b", "c"]), max_size=5)


@given(ZONES, st.integers(1, 4), st.sampled_from(["a", "c", "d"]), st.booleans())
def test_smallest_change_adds_nodes_only_if_their_zone_helps(
    zones: list[str], members: int, zone: str, spreads: bool
) -> None:
    _cluster, scheduler = scheduler_of(zones, members, spreads=spreads)
    found = scheduler.smallest_change("default/g", node("more", zone), most=4)
    starts = [added for added in range(5) if can_start([*zones, *[zone] * added], members, spreads)]
    added = found.nodes if isinstance(found, Sufficient) else None
    assert added == (min(starts) if starts else None)
    scheduler._check()


def can_start(zones: list[str], members: int, spreads: bool) -> bool:
    """Return whether a gang can start on nodes that take one member each."""
    sizes = {zone: zones.count(zone) for zone in set(zones)}
    if not spreads:
        return len(sizes) >= members
    placed = dict.fromkeys(sizes, 0)
    for _ in range(members):
        # a member may go to a zone with the fewest members only
        least = min(placed.values(), default=0)
        free = [z for z in placed if placed[z] == least and placed[z] < sizes[z]]
        if not free:
            return False
        placed[free[0]] += 1
    return True


@given(ZONES, st.integers(1, 3), st.sampled_from(["a", "d"]), st.booleans())
def test_what_if_answers_as_the_scheduler_acts(
    zones: list[str], members: int, zone: str, spreads: bool
) -> None:
    cluster, scheduler = scheduler_of(zones, members, spreads=spreads)
    added = NodeAdded(node("more", zone))
    foreseen = scheduler.what_if(added, now=0.0)
    seen = [*scheduler.handle(cluster.apply(added), now=0.0)]
    while (effects := scheduler.schedule_one(now=0.0)) is not None:
        seen += effects
    bound = {effect.uid: effect.node for effect in seen if isinstance(effect, Bind)}
    predicted = {e.uid: e.node for e in foreseen.effects if isinstance(e, Bind)}
    assert predicted == bound
    assert bool(bound) == can_start([*zones, zone], members, spreads)


def test_what_if_a_pod_leaves_that_an_anti_affinity_is_about() -> None:
    cluster, scheduler = scheduler_of([], 1, spreads=False)
    noisy = Pod(name="noisy", labels={"app": "g"}, node_name="n0")
    for event in (NodeAdded(node("n0", "a")), PodAdded(noisy)):
        scheduler.handle(cluster.apply(event), now=0.0)
    while scheduler.schedule_one(now=0.0) is not None:
        pass
    assert not any(isinstance(e, Bind) for e in scheduler.what_if(now=0.0).effects)
    foreseen = scheduler.what_if(PodDeleted(noisy.uid), now=0.0)
    assert [e.node for e in foreseen.effects if isinstance(e, Bind)] == ["n0"]
