"""Plugins that are not the gang policy: each alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import presets
from gangsched.constraints import (
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Taint,
    TaintEffect,
    Toleration,
)
from gangsched.events import Bind, NodeAdded, PodAdded
from gangsched.explain import NoNodeFits
from gangsched.memory import InMemoryCluster
from gangsched.model import Node, NodeName, Pod, PodUID, QOSClass
from gangsched.outcomes import Outcome, Success, Unschedulable
from gangsched.plugins import (
    DefaultBinder,
    NodeAffinity,
    NodeResources,
    NodeUnschedulable,
    PrioritySort,
    QOSSort,
    Strategy,
    TaintToleration,
)
from gangsched.testing import make_pod
from support.views import FakeEntity, FakeNode, cycle, node_view

GPU = "nvidia.com/gpu"
STATE = cycle()


def a_node(**fields: Any) -> FakeNode:
    return node_view(Node(name=NodeName("n"), **fields))


def a_pod(**fields: Any) -> Pod:
    return Pod(name="p", **fields)


def reason(outcome: Outcome) -> str:
    assert isinstance(outcome, Unschedulable)
    return outcome.reason


def resolvable(outcome: Outcome) -> bool:
    assert isinstance(outcome, Unschedulable)
    return outcome.resolvable


@pytest.mark.parametrize(
    "plugin",
    [NodeAffinity(), NodeResources(), NodeUnschedulable(), TaintToleration()],
    ids=lambda plugin: plugin.name,
)
def test_every_filter_has_signatures_and_accepts_a_plain_pod_and_node(plugin: Any) -> None:
    assert isinstance(plugin.filter(STATE, a_pod(), a_node()), Success)
    same, other = a_pod(), a_pod(uid=PodUID("other"), labels={"a": "b"}, priority=7)
    assert plugin.pod_signature(same) == plugin.pod_signature(other)
    assert hash(plugin.pod_signature(same)) == hash(plugin.pod_signature(other))


@pytest.mark.parametrize(
    ("plugin", "name"),
    [
        (NodeAffinity(), "NodeAffinity"),
        (NodeResources(), "NodeResourcesFit"),
        (NodeUnschedulable(), "NodeUnschedulable"),
        (TaintToleration(), "TaintToleration"),
        (PrioritySort(), "PrioritySort"),
        (QOSSort(), "QOSSort"),
        (DefaultBinder(), "DefaultBinder"),
    ],
)
def test_plugins_are_named_as_in_kubernetes(plugin: Any, name: str) -> None:
    assert plugin.name == name


# What keeps a pod off a node ------------------------------------------------------------------


def test_cordoned_node_takes_only_pods_that_tolerate_cordoning() -> None:
    node = a_node(unschedulable=True)
    plugin = NodeUnschedulable()
    outcome = plugin.filter(STATE, a_pod(), node)
    assert reason(outcome) == "node(s) were unschedulable"
    assert not resolvable(outcome)
    tolerant = a_pod(tolerations=[Toleration("node.kubernetes.io/unschedulable", exists=True)])
    assert isinstance(plugin.filter(STATE, tolerant, node), Success)
    assert plugin.pod_signature(tolerant) != plugin.pod_signature(a_pod())


@pytest.mark.parametrize("effect", TaintEffect)
def test_taint_keeps_a_pod_away_unless_it_only_prefers_to(effect: TaintEffect) -> None:
    node = a_node(taints=[Taint("ok", effect="PreferNoSchedule"), Taint("team", "ml", effect)])
    plugin, pod = TaintToleration(), a_pod()
    outcome = plugin.filter(STATE, pod, node)
    if effect is TaintEffect.PREFER_NO_SCHEDULE:
        assert isinstance(outcome, Success)
    else:
        assert reason(outcome) == "node(s) had untolerated taint(s)"
        assert not resolvable(outcome)
    tolerant = a_pod(tolerations=[Toleration("x", exists=True), Toleration("team", "ml")])
    assert isinstance(plugin.filter(STATE, tolerant, node), Success)
    assert plugin.pod_signature(tolerant) != plugin.pod_signature(pod)


def test_preference_against_a_node_lowers_its_score() -> None:
    plugin = TaintToleration()
    shunned = a_node(taints=[Taint("old", effect="PreferNoSchedule")])
    assert plugin.score(STATE, a_pod(), shunned) == 0
    assert plugin.score(STATE, a_pod(tolerations=[Toleration("old")]), shunned) == 100
    assert plugin.score(STATE, a_pod(), a_node(taints=[Taint("hard")])) == 100


ZONE_A = NodeSelectorTerm([NodeSelectorRequirement("zone", "In", ("a",))])
SSD = NodeSelectorTerm([NodeSelectorRequirement("disk", "In", ("ssd",))])


@pytest.mark.parametrize(
    ("wants", "labels", "fits"),
    [
        ({"node_selector": {"zone": "a"}}, {"zone": "a"}, True),
        ({"node_selector": {"zone": "a"}}, {"zone": "b"}, False),
        ({"node_selector": {"zone": "a"}}, {}, False),
        ({"node_selector": {"zone": "a", "disk": "ssd"}}, {"zone": "a"}, False),
        ({"affinity": [ZONE_A, SSD]}, {"disk": "ssd"}, True),
        ({"affinity": [ZONE_A, SSD]}, {"disk": "hdd", "zone": "b"}, False),
        ({"node_selector": {"zone": "a"}, "affinity": [SSD]}, {"zone": "a"}, False),
        ({"node_selector": {"zone": "a"}, "affinity": [SSD]}, {"disk": "ssd"}, False),
        (
            {"node_selector": {"zone": "a"}, "affinity": [SSD]},
            {"zone": "a", "disk": "ssd"},
            True,
        ),
    ],
)
def test_node_must_match_the_selector_and_one_term(
    wants: dict[str, Any], labels: dict[str, str], fits: bool
) -> None:
    plugin, pod = NodeAffinity(), a_pod(**wants)
    outcome = plugin.filter(STATE, pod, a_node(labels=labels))
    if fits:
        assert isinstance(outcome, Success)
    else:
        assert reason(outcome) == "node(s) didn't match Pod's node affinity/selector"
        assert not resolvable(outcome)
    assert plugin.pod_signature(pod) != plugin.pod_signature(a_pod())


# What fits ------------------------------------------------------------------------------------


def test_every_scarce_resource_is_a_reason() -> None:
    node = node_view(
        Node(name=NodeName("n"), allocatable={"cpu": 4, GPU: 2, "memory": "1Gi"}), used={GPU: 1}
    )
    plugin = NodeResources()
    outcome = plugin.filter(STATE, a_pod(requests={"cpu": "4001m", GPU: 2, "memory": 1}), node)
    assert reason(outcome) == f"Insufficient cpu, Insufficient {GPU}"
    assert resolvable(outcome)
    assert isinstance(plugin.filter(STATE, a_pod(requests={"cpu": 4, GPU: 1}), node), Success)


def test_resource_that_a_pod_does_not_request_is_ignored() -> None:
    """F46: a node that is overcommitted in one thing still has the other."""
    node = node_view(Node(name=NodeName("n"), allocatable={"cpu": 2, GPU: 1}), used={"cpu": 3})
    plugin = NodeResources()
    assert isinstance(plugin.filter(STATE, a_pod(requests={GPU: 1}), node), Success)
    assert reason(plugin.filter(STATE, a_pod(requests={"cpu": 1}), node)) == "Insufficient cpu"


@pytest.mark.parametrize(("pods", "fits"), [(109, True), (110, False), (111, False)])
def test_node_takes_no_more_pods_than_it_says(pods: int, fits: bool) -> None:
    node = node_view(Node(name=NodeName("n"), allocatable={"pods": 110}), pods=pods)
    outcome = NodeResources().filter(STATE, a_pod(), node)
    assert isinstance(outcome, Success) is fits
    if not fits:
        assert reason(outcome) == "Too many pods"


@pytest.mark.parametrize("preset", [presets.gang, presets.coscheduling])
def test_scheduler_places_no_pod_on_a_node_with_zero_pods(preset: Any) -> None:
    cluster = InMemoryCluster()
    scheduler = preset(cluster)
    node = Node(name="n", allocatable={"cpu": 8, "pods": "0"})
    scheduler.handle(cluster.apply(NodeAdded(node)), now=0.0)
    scheduler.handle(cluster.apply(PodAdded(make_pod("a", cpu=1))), now=0.0)
    while scheduler.schedule_one(now=0.0) is not None:
        pass

    assert isinstance(scheduler.why("default/a"), NoNodeFits)


def test_node_that_does_not_bound_its_pods_takes_any_number() -> None:
    node = node_view(Node(name=NodeName("n")), pods=10**6)
    assert isinstance(NodeResources().filter(STATE, a_pod(), node), Success)


amounts = st.dictionaries(st.sampled_from(["cpu", "memory", GPU]), st.integers(0, 9))


@given(amounts, amounts, amounts, st.sampled_from(Strategy))
def test_score_is_a_whole_number_from_0_to_100(
    allocatable: dict[str, int], used: dict[str, int], asked: dict[str, int], strategy: Strategy
) -> None:
    view = node_view(Node(name=NodeName("n"), allocatable=dict(allocatable)), used=dict(used))
    score = NodeResources(strategy).score(STATE, a_pod(requests=dict(asked)), view)
    assert type(score) is int
    assert 0 <= score <= 100


def test_spreading_prefers_the_emptier_node_and_packing_the_fuller() -> None:
    node = Node(name=NodeName("n"), allocatable={"cpu": 10, GPU: 4})
    empty, full = node_view(node), node_view(node, used={"cpu": 5, GPU: 2})
    pod = a_pod(requests={GPU: 1})
    spread, pack = NodeResources(), NodeResources("most_allocated")
    scores = [spread.score(STATE, pod, view) for view in (empty, full)]
    assert scores == [(100 + 75) // 2, (50 + 25) // 2]
    assert [pack.score(STATE, pod, view) for view in (empty, full)] == [100 - s for s in scores]


# Order and bind -------------------------------------------------------------------------------

QOS: dict[QOSClass, dict[str, Any]] = {
    QOSClass.GUARANTEED: {"requests": {"cpu": 1, "memory": 1}, "limits": {"cpu": 1, "memory": 1}},
    QOSClass.BURSTABLE: {"requests": {"cpu": 1}},
    QOSClass.BEST_EFFORT: {},
}


@st.composite
def queues(draw: st.DrawFn) -> list[FakeEntity]:
    made = [
        FakeEntity(
            pod=a_pod(**QOS[draw(st.sampled_from(QOSClass))]),
            seq=seq,
            priority=draw(st.integers(-1, 1)),
            queued_at=draw(st.sampled_from([0.0, 1.0])),
        )
        for seq in range(draw(st.integers(1, 6)))
    ]
    return draw(st.permutations(made))


@given(queues())
def test_queue_is_ordered_by_priority_then_class_then_time_then_arrival(
    queue: list[FakeEntity],
) -> None:
    expected = sorted(queue, key=lambda e: (-e.priority, e.queued_at, e.seq))
    assert sorted(queue, key=PrioritySort().queue_sort) == expected
    expected = sorted(queue, key=lambda e: (-e.priority, e.pod.qos_class, e.queued_at, e.seq))
    assert sorted(queue, key=QOSSort().queue_sort) == expected


def test_default_binder_binds_to_the_given_node() -> None:
    expected = Bind(PodUID("default/p"), NodeName("n"), 3)
    assert DefaultBinder().bind(a_pod(), NodeName("n"), 3, now=1.0) == expected
