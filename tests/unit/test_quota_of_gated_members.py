"""Without ``min_resources``, a group is charged what its members request that may run."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    InMemoryCluster,
    NodeAdded,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodPhase,
    Quota,
    Resources,
    presets,
)
from gangsched.testing import make_node, make_pod


@pytest.mark.parametrize("how", [{"scheduling_gates": ("later",)}, {"phase": PodPhase.SUCCEEDED}])
def test_members_that_are_gated_or_have_succeeded_are_not_charged(how: dict[str, Any]) -> None:
    cluster = InMemoryCluster()
    quota = Quota(name="team", namespaces=["default"], hard={"cpu": 3})
    scheduler = presets.gang(cluster, quotas=[quota])
    scheduler.handle(cluster.apply(NodeAdded(make_node("n", cpu=9))), now=0.0)
    scheduler.handle(cluster.apply(PodGroupAdded(PodGroup(name="g", min_available=2))), now=0.0)
    members = [make_pod(f"g-{number}", group="g", cpu=1) for number in range(4)]
    members[0] = evolve(members[0], **how)
    for member in members:
        scheduler.handle(cluster.apply(PodAdded(member)), now=0.0)
    ledger = scheduler._state.pods.quotas
    # it was charged when it became complete, with 2 members that may run
    assert ledger.used("team") == Resources({"cpu": 2})
    scheduler._check()
