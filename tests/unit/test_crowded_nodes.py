"""A node with more pods than is usual: an event about one of them reads that pod, not all."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    Bound,
    Event,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    NodeUpdated,
    Pod,
    PodAdded,
    PodDeleted,
    PodPhase,
    PodUpdated,
    Preemption,
    Scheduler,
    presets,
)
from gangsched.framework.nodes import node_table
from gangsched.testing import make_pod

NODE = Node(name=NodeName("n0"), allocatable={"cpu": 4, "memory": "8Gi"})


def bound(pod: Pod, name: str = "n0") -> Pod:
    return evolve(pod, node_name=NodeName(name))


def crowd(number: int) -> tuple[InMemoryCluster, Scheduler, list[Pod]]:
    """Return a scheduler that knows a node with so many small pods."""
    cluster = InMemoryCluster()
    cluster.apply(NodeAdded(NODE))
    pods = [bound(make_pod(f"r{n}", requests={"cpu": "1m"})) for n in range(number)]
    for pod in pods:
        cluster.apply(PodAdded(pod))
    scheduler = presets.coscheduling(cluster)
    scheduler.rebuild(now=0.0)
    return cluster, scheduler, pods


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the nodes of which all pods are listed from now on."""
    names: list[str] = []
    original = InMemoryCluster.pods_on

    def counted(cluster: InMemoryCluster, node: str) -> Any:
        names.append(node)
        return original(cluster, node)

    monkeypatch.setattr(InMemoryCluster, "pods_on", counted)
    return names


def test_event_about_a_pod_does_not_list_the_pods_of_a_crowded_node(listed: list[str]) -> None:
    cluster, scheduler, pods = crowd(node_table._CROWDED + 20)
    listed.clear()
    for number, pod in enumerate(pods[:10]):
        scheduler.handle(cluster.apply(PodDeleted(pod.uid)), now=1.0 + number)
    for number in range(10):
        pod = bound(make_pod(f"new{number}", requests={"cpu": "1m"}))
        scheduler.handle(cluster.apply(PodAdded(pod)), now=20.0 + number)
    assert listed == []
    scheduler._check()
    free = scheduler._state.nodes.infos[NodeName("n0")].free
    assert free["cpu"] == 4000 - len(pods)


def test_rebuild_lists_the_pods_of_a_crowded_node_once(listed: list[str]) -> None:
    _cluster, scheduler, _pods = crowd(node_table._CROWDED + 20)
    listed.clear()
    scheduler.rebuild(now=1.0)
    assert len(listed) == 1
    scheduler._check()


def test_event_about_a_crowded_node_itself_reads_all_its_pods() -> None:
    cluster, scheduler, pods = crowd(node_table._CROWDED + 1)
    cluster.apply(PodDeleted(pods[0].uid))  # its own event is late
    scheduler.handle(cluster.apply(NodeUpdated(evolve(NODE, labels={"a": "b"}))), now=1.0)
    assert pods[0].uid not in scheduler._state.nodes.infos[NodeName("n0")].holders


def test_pod_that_waits_for_capacity_starts_when_a_pod_leaves_a_crowded_node() -> None:
    cluster, scheduler, pods = crowd(node_table._CROWDED + 1)
    large = make_pod("large", requests={"cpu": f"{4000 - len(pods) + 1}m"})
    scheduler.handle(cluster.apply(PodAdded(large)), now=1.0)
    assert not [e for e in scheduler.schedule_one(now=1.0) or () if isinstance(e, Bind)]
    scheduler.handle(cluster.apply(PodDeleted(pods[0].uid)), now=20.0)
    assert [e.uid for e in scheduler.schedule_one(now=20.0) or () if isinstance(e, Bind)]


actions = st.lists(
    st.tuples(
        st.sampled_from(["add", "bind", "move", "delete", "finish", "resize", "node", "decide"]),
        st.integers(0, 5),
        st.integers(1, 3),
    ),
    max_size=25,
)


@given(actions)
def test_decisions_on_crowded_nodes_are_those_on_other_nodes(
    taken: list[tuple[str, int, int]],
) -> None:
    usual, crowded = history(taken, node_table._CROWDED), history(taken, 0)
    assert usual == crowded


def history(taken: list[tuple[str, int, int]], limit: int) -> list[Any]:
    """Return the effects of a run in which nodes with more pods than *limit* are crowded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_table, "_CROWDED", limit)
        cluster = InMemoryCluster()
        scheduler = presets.coscheduling(cluster, preemption=Preemption())
        for name in ("n0", "n1"):
            cluster.apply(NodeAdded(evolve(NODE, name=NodeName(name))))
        scheduler.rebuild(now=0.0)
        effects: list[Any] = []
        for number, (what, which, amount) in enumerate(taken):
            now = 20.0 * number
            for event in events(cluster, what, which, amount):
                effects += scheduler.handle(cluster.apply(event), now=now)
            if what != "decide":
                continue
            while (found := scheduler.schedule_one(now=now)) is not None:
                effects += found
                for effect in found:
                    if isinstance(effect, Bind):
                        report = Bound(effect.uid, effect.node, effect.attempt)
                        effects += scheduler.handle(cluster.apply(report), now=now)
                scheduler._check()
        scheduler._check()
    return effects


def events(cluster: InMemoryCluster, what: str, which: int, amount: int) -> list[Event]:
    """Return what happens to a pod, or to a node."""
    if what == "node":
        name = NodeName(f"n{which % 2}")
        return [NodeUpdated(evolve(NODE, name=name, allocatable={"cpu": amount + 2}))]
    group: dict[str, Any] = {"group": "g", "min_available": 2} if which % 2 else {}
    fresh = make_pod(f"p{which}", cpu=amount, priority=which // 4, **group)
    shown = cluster.pod(fresh.uid)
    if what == "add" or shown is None:
        return [PodAdded(fresh)] if shown is None else []
    node = NodeName(f"n{amount % 2}")
    match what:
        case "delete":
            return [PodDeleted(shown.uid)]
        case "bind" if shown.node_name is None:
            return [PodUpdated(evolve(shown, node_name=node))]
        case "move" if shown.node_name is not None:
            return [PodUpdated(evolve(shown, node_name=node))]
        case "finish" if shown.node_name is not None:
            return [PodUpdated(evolve(shown, phase=PodPhase.SUCCEEDED))]
        case "resize":
            return [PodUpdated(evolve(shown, requests={"cpu": amount}))]
        case _:
            return []
