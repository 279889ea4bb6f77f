"""What groups are charged by a scheduler that begins with a listing."""

from __future__ import annotations

import pytest
from attrs import evolve

from gangsched import InMemoryCluster, NodeAdded, PodAdded, PodGroup, PodGroupAdded, Quota, presets
from gangsched.testing import make_node, make_pod

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

TEAM = Quota(name="team", namespaces=["default"], hard={"cpu": 4})


@pytest.mark.parametrize(("bound", "used"), [(0, ""), (1, "3"), (3, "3")])
def test_gang_that_is_partly_bound_is_charged_as_a_whole(bound: int, used: str) -> None:
    cluster = InMemoryCluster()
    cluster.apply(NodeAdded(make_node("n", cpu=9)))
    for name, size in (("first", 3), ("second", 2)):
        cluster.apply(PodGroupAdded(PodGroup(name=name, min_available=size)))
        for n in range(size):
            pod = make_pod(f"{name}-{n}", group=name, cpu=1, created_at=float(name == "first"))
            on = "n" if name == "first" and n < bound else None
            cluster.apply(PodAdded(evolve(pod, node_name=on)))
    scheduler = presets.gang(cluster, quotas=[TEAM])
    scheduler.advance(now=2.0)
    while scheduler.schedule_one(now=2.0) is not None:
        pass
    scheduler._check()
    if used:
        reason = f"exceeded quota team: requested cpu=2, used cpu={used}, limited cpu=4"
        assert str(scheduler.why("default/second")) == f"not admitted: {reason}"
    else:
        assert "exceeded quota team: requested cpu=3" in str(scheduler.why("default/first"))


def test_gated_members_of_a_running_gang_are_not_charged() -> None:
    cluster = InMemoryCluster()
    cluster.apply(NodeAdded(make_node("n", cpu=9)))
    cluster.apply(PodGroupAdded(PodGroup(name="first", min_available=2)))
    for n in range(4):
        pod = make_pod(f"first-{n}", group="first", cpu=1)
        gates = ("wait",) if n >= 2 else ()
        placed = evolve(pod, node_name="n" if n < 2 else None, scheduling_gates=gates)
        cluster.apply(PodAdded(placed))
    scheduler = presets.gang(cluster, quotas=[TEAM])
    scheduler.advance(now=2.0)
    assert str(scheduler._state.pods.quotas.used("team")) == "cpu=2"
