"""Late members that differ in a role of which the group lacks none are alike."""

from __future__ import annotations

import pytest

from gangsched import InMemoryCluster, NodeAdded, PodAdded, Scheduler, presets
from gangsched.testing import make_node, make_pod
from support.settled import settle

pytestmark = pytest.mark.once("says itself which unit it is about")


def told(presented: list[str | None]) -> tuple[InMemoryCluster, Scheduler]:
    """Return a started group on a full node, and one late member after another, by role."""
    cluster = InMemoryCluster()
    scheduler = presets.coscheduling(cluster)
    scheduler.handle(cluster.apply(NodeAdded(make_node("n", cpu=1))), now=0.0)
    for number, role in enumerate(["worker", *presented]):
        pod = make_pod(f"p{number}", group="g", min_available=1, cpu=1, role=role)
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
        settle(cluster, scheduler, most=10)
    return cluster, scheduler


@pytest.mark.parametrize("roles", [["worker", None], [None, "worker"], ["worker", "server", None]])
def test_snapshot_of_late_members_of_several_roles_is_restored(roles: list[str | None]) -> None:
    cluster, scheduler = told(roles)
    data = scheduler.snapshot()
    restored = presets.coscheduling(cluster)
    restored.restore(data)
    assert restored.snapshot() == data
