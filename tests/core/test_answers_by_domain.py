"""Plugins whose answers depend on domains: which nodes they are asked about, and what wakes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from attrs import evolve, field, frozen

from gangsched import (
    Bind,
    Effect,
    InMemoryCluster,
    LabelSelector,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodAffinityTerm,
    PodDeleted,
    SchedulingUnit,
    presets,
)
from gangsched.core.scheduler import Scheduler
from gangsched.outcomes import SUCCESS, Outcome, Unschedulable
from gangsched.protocols import CycleView, NodeView
from gangsched.testing import make_node, make_pod

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


def test_plugin_is_asked_about_each_node_if_it_reads_host_names() -> None:
    plugin = Fences(HOST, "n0")
    cluster = cluster_of(nodes(2), [make_pod("p", cpu=1)])
    scheduler = Scheduler(cluster, presets.default_profile(plugins=[plugin]))
    assert list(bound(scheduler.schedule_one(now=0.0)).values()) == ["n1"]


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
