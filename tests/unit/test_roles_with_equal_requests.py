"""Members of different roles count for their own role, although their requests are the same."""

from __future__ import annotations

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    InMemoryCluster,
    NodeAdded,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    Resources,
    SchedulingUnit,
    presets,
)
from gangsched.testing import make_node, make_pod

REQUESTS = Resources({"cpu": 1})


def member(name: str, role: str) -> Pod:
    """Return a member whose requests are one object for all members."""
    return evolve(make_pod(name, group="g", role=role), requests=REQUESTS)


@pytest.mark.parametrize("cpu", [4, 5])
def test_minimum_of_each_role_is_met_by_members_of_that_role(cpu: int) -> None:
    cluster = InMemoryCluster()
    cluster.apply(NodeAdded(make_node("n", cpu=cpu)))
    cluster.apply(PodGroupAdded(PodGroup(name="g", min_available=4, roles={"ps": 2, "worker": 2})))
    for n in range(3):
        cluster.apply(PodAdded(member(f"ps-{n}", "ps")))
    for n in range(2):
        cluster.apply(PodAdded(member(f"worker-{n}", "worker")))
    scheduler = presets.coscheduling(cluster, unit=SchedulingUnit.GROUP)
    scheduler.rebuild(now=0.0)
    first, second = (
        next(m for m in scheduler._state.pods.members.values() if m.role == role)
        for role in ("ps", "worker")
    )
    assert first.requests is second.requests
    assert first.pod_class is second.pod_class
    effects = scheduler.schedule_one(now=0.0) or ()
    bound = [effect.uid for effect in effects if isinstance(effect, Bind)]
    assert len(bound) == cpu
    assert sum("worker" in uid for uid in bound) == 2
