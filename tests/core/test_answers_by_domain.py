"""Answers of plugins: about which nodes, which pods and kinds share them, and what wakes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import pytest
from attrs import evolve, field, frozen

from gangsched import (
    Bind,
    Effect,
    Event,
    InMemoryCluster,
    LabelSelector,
    Node,
    NodeAdded,
    NodeName,
    NodeUpdated,
    Pod,
    PodAdded,
    PodAffinityTerm,
    PodDeleted,
    SchedulingUnit,
    Taint,
    presets,
)
from gangsched.core.scheduler import Scheduler
from gangsched.outcomes import SUCCESS, Outcome, Unschedulable
from gangsched.protocols import CycleView, NodeView
from gangsched.testing import make_node, make_pod
from support.immediate_host import ImmediateHost

ZONE, HOST = "zone", "kubernetes.io/hostname"


@frozen
class Fences:
    """Refuse the nodes on which a label has a value, and note each node that it is asked about."""

    key: str
    value: str
    asked: list[str] = field(factory=list[str])
    name: str = "Fences"
    signs_node_alone: bool = True

    def pod_signature(self, pod: Pod) -> Hashable:
        """Return the same for all pods."""
        return None

    def node_signature(self, node: NodeView) -> Hashable:
        """Return the same for all nodes."""
        return None

    def labels_read(self, pod: Pod) -> Iterable[str]:
        """Return the label unless it differs from node to node."""
        return () if self.key == HOST else (self.key,)

    def reads_pods(self, pod: Pod) -> bool:
        """Return True."""
        return True

    def topology_keys(self, state: CycleView, pod: Pod) -> Iterable[str]:
        """Return the label."""
        return (self.key,)

    def node_group(self, state: CycleView, pod: Pod, node: NodeView) -> Hashable:
        """Return nothing."""
        return None

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        """Refuse the nodes with the value."""
        self.asked.append(node.node.name)
        return Unschedulable("fenced") if node.node.labels[self.key] == self.value else SUCCESS


def nodes(number: int) -> list[Node]:
    """Return nodes of which the last is the worst, and the only one outside of zone a."""
    return [
        make_node(
            f"n{n}",
            cpu=1 if n == number - 1 else 50 - n // 2,
            labels={ZONE: "b" if n == number - 1 else "a", HOST: f"n{n}"},
        )
        for n in range(number)
    ]


def cluster_of(shown: Iterable[Node], pods: Iterable[Pod] = ()) -> InMemoryCluster:
    """Return a cluster with nodes and pods."""
    cluster = InMemoryCluster()
    for node in shown:
        cluster.apply(NodeAdded(node))
    for pod in pods:
        cluster.apply(PodAdded(pod))
    return cluster


def bound(effects: tuple[Effect, ...] | None) -> dict[str, str]:
    """Return the node of each pod that is bound."""
    return {str(e.uid): str(e.node) for e in effects or () if isinstance(e, Bind)}


def test_plugin_is_asked_about_one_node_of_a_refused_zone() -> None:
    plugin = Fences(ZONE, "a")
    cluster = cluster_of(nodes(20), [make_pod("p", cpu=1)])
    scheduler = Scheduler(cluster, presets.default_profile(plugins=[plugin]))
    effects = scheduler.schedule_one(now=0.0)
    assert list(bound(effects).values()) == ["n19"]
    assert len(plugin.asked) == 2


def test_end_of_a_pod_with_a_term_wakes_pods_that_fit_on_other_nodes_only() -> None:
    shown = [make_node(f"n{n}", cpu=c, labels={ZONE: "a"}) for n, c in ((0, 2), (1, 8))]
    term: Any = PodAffinityTerm(topology_key=ZONE, label_selector=LabelSelector({"app": "web"}))
    loner = evolve(make_pod("loner", cpu=1), pod_anti_affinity=[term], node_name=shown[0].name)
    web = evolve(make_pod("web", cpu=4), labels={"app": "web"})
    cluster = cluster_of(shown, [loner, web])
    scheduler = Scheduler(cluster, presets.default_profile())
    assert not bound(scheduler.schedule_one(now=0.0))
    assert scheduler.schedule_one(now=0.0) is None
    scheduler.handle(cluster.apply(PodDeleted(loner.uid)), now=1.0)
    assert list(bound(scheduler.schedule_one(now=1.0)).values()) == ["n1"]


def test_pod_without_terms_that_comes_wakes_no_gang_that_does_not_fit() -> None:
    # each class of members would fit by itself, so capacity alone does not keep the gang parked
    sizes = enumerate((3, 3, 2))
    gang = [make_pod(f"g{n}", group="g", min_available=3, cpu=cpu) for n, cpu in sizes]
    cluster = cluster_of([make_node(f"n{n}", cpu=4) for n in range(2)], gang)
    scheduler = Scheduler(cluster, presets.coscheduling_profile(), unit=SchedulingUnit.GROUP)
    assert not bound(scheduler.schedule_one(now=0.0))
    assert scheduler.schedule_one(now=0.0) is None
    small = evolve(make_pod("small", cpu=1), node_name=NodeName("n0"))
    scheduler.handle(cluster.apply(PodAdded(small)), now=1.0)
    assert scheduler.schedule_one(now=1.0) is None


# Pods share the answers of plugins as far as these depend on what is signed, and no further


HOST = "kubernetes.io/hostname"
_PRESETS = [presets.gang, presets.coscheduling, presets.pod_by_pod, presets.kube_default]


class _Picks:
    """Refuses the pods without a label, and signs nothing."""

    name = "Picks"

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        return SUCCESS if "picked" in pod.labels else Unschedulable("not picked")


@pytest.mark.parametrize("make", _PRESETS)
def test_pod_is_tried_although_one_that_differs_in_labels_was_refused_by_an_unsigned_filter(
    make: Any,
) -> None:
    cluster = InMemoryCluster()
    scheduler = make(cluster, plugins=[_Picks()])
    pods = [make_pod("other", cpu=1), evolve(make_pod("this", cpu=1), labels={"picked": ""})]
    events: list[Event] = [NodeAdded(make_node("n", cpu=4)), *map(PodAdded, pods)]
    for event in events:
        scheduler.handle(cluster.apply(event), now=0.0)
    bound: list[str] = []
    while (effects := scheduler.schedule_one(now=0.0)) is not None:
        bound += [each.uid for each in effects if isinstance(each, Bind)]
    assert bound == [pods[1].uid]


@pytest.mark.parametrize("make", _PRESETS)
def test_gang_starts_with_the_members_that_an_unsigned_filter_accepts(make: Any) -> None:
    cluster = InMemoryCluster()
    scheduler = make(cluster, plugins=[_Picks()])
    scheduler.handle(cluster.apply(NodeAdded(make_node("n", cpu=4))), now=0.0)
    for n in range(4):
        pod = make_pod(f"p{n}", cpu=1, group="g", min_available=2)
        labels = {**pod.labels, **({"picked": ""} if n in (1, 3) else {})}
        scheduler.handle(cluster.apply(PodAdded(evolve(pod, labels=labels))), now=0.0)
    bound: list[str] = []
    for _cycle in range(20):
        bound += [e.uid for e in scheduler.schedule_one(now=0.0) or () if isinstance(e, Bind)]
    assert sorted(bound) == ["default/p1", "default/p3"]


class _Counts:
    """Counts how often it is asked; it reads only the name of a node."""

    name = "Counts"
    signs_node_alone = True

    def __init__(self) -> None:
        self.asked = 0

    def pod_signature(self, pod: Pod) -> Hashable:
        return None

    def node_signature(self, node: NodeView) -> Hashable:
        return node.node.name

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        self.asked += 1
        return SUCCESS


@pytest.mark.parametrize("make", _PRESETS)
def test_gangs_that_differ_in_terms_about_themselves_share_what_was_asked_about_nodes(
    make: Any,
) -> None:
    cluster, plugin = InMemoryCluster(), _Counts()
    scheduler = make(cluster, plugins=[plugin])
    for n in range(5):
        node = make_node(f"n{n}", cpu=4, labels={HOST: f"n{n}"})
        scheduler.handle(cluster.apply(NodeAdded(node)), now=0.0)
    asked: list[int] = []
    for name in ("a", "b", "c"):
        term = PodAffinityTerm(topology_key=HOST, label_selector=LabelSelector({"app": name}))
        pod = evolve(make_pod(name, cpu=1), labels={"app": name}, pod_affinity=[term])
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
        effects = scheduler.schedule_one(now=0.0)
        assert any(isinstance(each, Bind) for each in effects or ())
        asked.append(plugin.asked)
    assert asked == [5, 5, 5]


@pytest.mark.parametrize("make", _PRESETS)
def test_nodes_that_only_a_plugin_tells_apart_are_taken_in_their_order(make: Any) -> None:
    cluster = InMemoryCluster()
    scheduler = make(cluster, plugins=[_Counts()])
    for n in range(9):
        scheduler.handle(cluster.apply(NodeAdded(make_node(f"n{n}", cpu=1))), now=0.0)
    taken: list[str] = []
    for n in range(9):
        scheduler.handle(cluster.apply(PodAdded(make_pod(f"p{n}", cpu=1))), now=0.0)
        effects = scheduler.schedule_one(now=0.0) or ()
        taken += [each.node for each in effects if isinstance(each, Bind)]
    assert taken == sorted(taken)


# Nodes may be told apart by one more label while a pod waits: what it knew of kinds is void


def _node(cpu: int) -> Node:
    return make_node("n1", cpu=cpu, labels={"disk": "x"})


@pytest.mark.parametrize("make", [presets.gang, presets.coscheduling])
def test_node_wakes_a_pod_after_another_pod_has_named_a_label(make: Any) -> None:
    host = ImmediateHost()
    host.scheduler = make(host.cluster)
    tainted = evolve(make_node("n2", cpu=9), taints=[Taint("a")])
    for node in (make_node("n0", cpu=1), _node(1), tainted):
        host.tell(NodeAdded(node))
    host.tell(PodAdded(make_pod("large", cpu=4)))
    assert host.decide() == []
    # it names a label, and the second node gets the number that the tainted one had
    host.tell(PodAdded(evolve(make_pod("choosy", cpu=1), node_selector={"disk": "z"})))
    assert host.decide() == []
    host.tell(NodeUpdated(_node(4)))
    assert host.decide() == ["large"]
