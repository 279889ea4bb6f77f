"""A node is crowded with more pods than the limit, and not with as many."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Backfill,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodDeleted,
    Scheduler,
    presets,
)
from gangsched.framework.nodes import node_table
from gangsched.testing import make_pod
from support.backfill_host import EXACT, running

N0, N1 = NodeName("n0"), NodeName("n1")
LIMIT = 3


@pytest.fixture(autouse=True)
def low_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_table, "_CROWDED", LIMIT)


def on(name: str, node: NodeName = N0, cpu: int = 1) -> Pod:
    return evolve(make_pod(name, cpu=cpu), node_name=node)


def crowd(number: int, **options: Any) -> tuple[InMemoryCluster, Scheduler, list[Pod]]:
    """Return a scheduler that knows a node with so many pods."""
    cluster = InMemoryCluster()
    cluster.apply(NodeAdded(Node(name=N0, allocatable={"cpu": 8})))
    pods = [running(on(f"r{n}"), str(50 + n)) for n in range(number)]
    for pod in pods:
        cluster.apply(PodAdded(pod))
    scheduler = presets.gang(cluster, **options)
    scheduler.rebuild(now=0.0)
    return cluster, scheduler, pods


@pytest.mark.parametrize(("more", "listings"), [(0, 1), (1, 0)])
def test_node_with_as_many_pods_as_the_limit_is_read_whole(
    monkeypatch: pytest.MonkeyPatch, more: int, listings: int
) -> None:
    cluster, scheduler, pods = crowd(LIMIT + more)
    names: list[str] = []
    original = InMemoryCluster.pods_on

    def counted(shown: InMemoryCluster, node: NodeName) -> Any:
        names.append(node)
        return original(shown, node)

    monkeypatch.setattr(InMemoryCluster, "pods_on", counted)
    scheduler.handle(cluster.apply(PodDeleted(pods[0].uid)), now=1.0)
    assert names == [N0] * listings


def test_pod_that_leaves_a_crowded_node_of_a_reservation_supplies_nothing_more() -> None:
    cluster, scheduler, pods = crowd(LIMIT + 3, backfill=Backfill(EXACT))
    for n in range(4):
        gang = make_pod(f"g{n}", group="g", min_available=4, cpu=1)
        scheduler.handle(cluster.apply(PodAdded(gang)), now=1.0)
    while scheduler.schedule_one(now=1.0) is not None:
        pass
    ledger = scheduler._state.nodes.ledger
    assert ledger.expecting
    assert any(pods[0].uid in (entry.returning or ()) for entry in ledger.expected())
    scheduler.handle(cluster.apply(PodDeleted(pods[0].uid)), now=2.0)
    scheduler._check()
    assert not any(pods[0].uid in (entry.returning or ()) for entry in ledger.expected())


def test_late_report_of_a_pod_that_a_crowded_node_never_had_changes_nothing() -> None:
    _cluster, scheduler, pods = crowd(LIMIT + 1)
    nodes = scheduler._state.nodes
    before = nodes.infos[N0].free.copy()
    nodes.look(N0, of_pod=True)
    assert not nodes.refresh_pod(N0, make_pod("stranger").uid, None)
    assert nodes.infos[N0].free == before
    assert nodes.refresh_pod(N0, pods[0].uid, None)
    assert nodes.infos[N0].free["cpu"] == before["cpu"] + 1000
    nodes.forget_looks()
