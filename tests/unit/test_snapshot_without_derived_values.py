"""Snapshots leave out what the plugins of kube-scheduler's profile compute anew."""

from __future__ import annotations

from attrs import evolve

from gangsched import InMemoryCluster, NodeAdded, Pod, PodAdded, Scheduler, presets
from gangsched.constraints import (
    ContainerImage,
    LabelSelector,
    PodAffinityTerm,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
    WhenUnsatisfiable,
)
from gangsched.testing import make_node, make_pod

APP = LabelSelector(match_labels={"app": "x"})
IMAGE = ContainerImage(names=("i",), size_bytes=1)
TERM = PodAffinityTerm(topology_key="zone", label_selector=APP)


def pod(name: str) -> Pod:
    spread = [
        TopologySpreadConstraint(
            max_skew=1, topology_key="zone", when_unsatisfiable=when, label_selector=APP
        )
        for when in WhenUnsatisfiable
    ]
    made = make_pod(name, cpu=1, group="g", min_available=2)
    preferred = WeightedPodAffinityTerm(weight=3, pod_affinity_term=TERM)
    return evolve(
        made,
        labels={**made.labels, "app": "x"},
        images=["i"],
        topology_spread_constraints=spread,
        pod_affinity=[TERM],
        preferred_pod_affinity=[preferred],
    )


def decided() -> tuple[InMemoryCluster, Scheduler]:
    """Return a scheduler with two members whose binds are under way."""
    cluster = InMemoryCluster()
    scheduler = presets.kube_default(cluster)
    for number in range(2):
        node = evolve(make_node(f"n{number}", cpu=4, labels={"zone": "a"}), images=[IMAGE])
        scheduler.handle(cluster.apply(NodeAdded(node)), now=0.0)
    for number in range(2):
        scheduler.handle(cluster.apply(PodAdded(pod(f"p{number}"))), now=0.0)
    while scheduler.schedule_one(now=0.0) is not None:
        pass
    return cluster, scheduler


def test_snapshot_of_pods_with_constraints_is_restored() -> None:
    cluster, scheduler = decided()
    assert [member.pod.name for member in scheduler._state.pods.members.values() if member.cycle]
    text = scheduler.snapshot()
    restored = presets.kube_default(cluster)
    restored.restore(text)
    assert restored.snapshot() == text
    assert "PodTopologySpread.rules" not in str(text)
