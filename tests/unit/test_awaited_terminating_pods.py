"""A preemptor waits for the terminating pods that a constraint between pods is about."""

from __future__ import annotations

from attrs import evolve

from gangsched import (
    Evict,
    InMemoryCluster,
    LabelSelector,
    NodeAdded,
    Pod,
    PodAdded,
    PodAffinityTerm,
    PodUID,
    Preemption,
    Scheduler,
    presets,
)
from gangsched.model import NodeName
from gangsched.testing import make_node, make_pod

APART = PodAffinityTerm(
    topology_key="kubernetes.io/hostname", label_selector=LabelSelector({"app": "a"})
)


def cluster_with(*pods: Pod) -> tuple[InMemoryCluster, Scheduler]:
    cluster = InMemoryCluster()
    node = evolve(make_node("n", cpu=4), labels={"kubernetes.io/hostname": "n"})
    cluster.apply(NodeAdded(node))
    for pod in pods:
        cluster.apply(PodAdded(pod))
    scheduler = presets.kube_default(cluster, preemption=Preemption())
    scheduler.rebuild(now=0.0)
    return cluster, scheduler


def on_node(name: str, cpu: int, *, app: str = "", ends: bool = False, priority: int = 0) -> Pod:
    pod = make_pod(name, cpu=cpu, priority=priority)
    deleted_at = 0.0 if ends else None
    return evolve(pod, node_name=NodeName("n"), labels={"app": app}, deleted_at=deleted_at)


def decided(scheduler: Scheduler) -> tuple[list[PodUID], list[PodUID]]:
    """Return the pods that are evicted, and those that the nomination waits for."""
    evicted: list[PodUID] = []
    while (effects := scheduler.schedule_one(now=1.0)) is not None:
        evicted += [effect.uid for effect in effects if isinstance(effect, Evict)]
    scheduler._check()
    (nomination,) = scheduler._state.reservations.nominations.values()
    return evicted, list(nomination.awaited)


def high(cpu: int) -> Pod:
    pod = make_pod("high", cpu=cpu, priority=9)
    return evolve(pod, labels={"app": "high"}, pod_anti_affinity=(APART,))


def test_terminating_pods_that_keep_the_preemptor_away_are_awaited_without_victims() -> None:
    gone = [on_node(f"gone-{n}", 1, app="a" if n == 1 else "b", ends=True) for n in range(3)]
    _cluster, scheduler = cluster_with(*gone, high(1))
    evicted, awaited = decided(scheduler)
    assert evicted == []
    assert "default/gone-1" in awaited


def test_terminating_pods_are_awaited_beside_victims() -> None:
    gone = [on_node("gone", 1, app="a", ends=True), on_node("low", 3, app="b")]
    _cluster, scheduler = cluster_with(*gone, high(3))
    evicted, awaited = decided(scheduler)
    assert evicted == ["default/low"]
    assert "default/gone" in awaited
