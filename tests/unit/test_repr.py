"""The ``repr`` of values evaluates to an equal value and leaves defaults out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gangsched
from gangsched import (
    ContainerImage,
    HostPort,
    InMemoryCluster,
    LabelSelector,
    LabelSelectorRequirement,
    Node,
    NodeAdded,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    OverlayCluster,
    Pod,
    PodAdded,
    PodAffinityTerm,
    PodGroup,
    PodGroupAdded,
    PodPhase,
    PreferredSchedulingTerm,
    Resources,
    Taint,
    Toleration,
    Topology,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
    presets,
)
from gangsched._hypothesis import register_types
from gangsched.testing import make_pod

register_types()
NAMES = {name: getattr(gangsched, name) for name in gangsched.__all__}
VALUES = (
    *(Pod, PodGroup, Node, Resources, Taint, Toleration, Topology),
    *(NodeSelectorRequirement, NodeSelectorTerm),
    *(LabelSelector, LabelSelectorRequirement, PodAffinityTerm, WeightedPodAffinityTerm),
    *(TopologySpreadConstraint, HostPort, ContainerImage, PreferredSchedulingTerm),
)


@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: kind.__name__)
def test_repr_evaluates_to_an_equal_value(kind: type[Any]) -> None:
    @given(st.from_type(kind))
    def check(value: object) -> None:
        assert eval(repr(value), NAMES) == value
        assert hash(eval(repr(value), NAMES)) == hash(value)

    check()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Pod(name="a"), "Pod(name='a')"),
        (Pod(name="a", uid="default/a", priority=0), "Pod(name='a')"),
        (
            make_pod("a", cpu="500m", gpu=1),
            "Pod(name='a', requests={'cpu': '500m', 'nvidia.com/gpu': '1'})",
        ),
        (Pod(name="a", phase=PodPhase.FAILED), "Pod(name='a', phase=PodPhase.FAILED)"),
        (Node(name="n"), "Node(name='n')"),
        (Node(name="n", allocatable={"pods": 0}), "Node(name='n', allocatable={'pods': '0'})"),
        (PodGroup(name="g", min_available=2), "PodGroup(name='g', min_available=2)"),
        (PodGroup(name="g", roles={"w": 2}), "PodGroup(name='g', roles={'w': 2})"),
        (Taint("k"), "Taint(key='k')"),
        (Toleration(exists=True), "Toleration(exists=True)"),
        (Topology("rack", required=False), "Topology(key='rack', required=False)"),
        (NodeSelectorTerm([]), "NodeSelectorTerm(requirements=())"),
    ],
)
def test_repr_leaves_defaults_out(value: object, text: str) -> None:
    assert repr(value) == text


def test_repr_of_a_cluster_counts_its_objects() -> None:
    cluster = InMemoryCluster()
    cluster.apply(NodeAdded(Node(name="n")))
    cluster.apply(PodGroupAdded(PodGroup(name="g", min_available=1)))
    overlay = OverlayCluster(cluster)
    overlay.apply(PodAdded(Pod(name="p")))

    assert repr(cluster) == "<InMemoryCluster nodes=1 pods=0 pod_groups=1>"
    assert repr(overlay) == "<OverlayCluster nodes=1 pods=1 pod_groups=1>"


def test_repr_of_a_scheduler_counts_its_entities() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    assert repr(scheduler) == (
        "<Scheduler unit=group now=-inf nodes=0 pods=0"
        " waiting=0 active=0 backoff=0 unschedulable=0>"
    )
    cluster.apply(NodeAdded(Node(name="n", allocatable={"cpu": 1})))
    for name in ("a", "b"):
        scheduler.handle(cluster.apply(PodAdded(Pod(name=name, requests={"cpu": 1}))), now=2.0)
    while scheduler.schedule_one(now=2.0) is not None:
        pass

    assert repr(scheduler) == (
        "<Scheduler unit=group now=2.0 nodes=1 pods=2 waiting=0 active=0 backoff=0 unschedulable=1>"
    )
