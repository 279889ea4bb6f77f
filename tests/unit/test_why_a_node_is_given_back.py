"""What a notice says of a pod that gives its node back because of an event."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Event,
    InMemoryCluster,
    NodeAdded,
    NodeName,
    PodAdded,
    PodPhase,
    PodRejected,
    PodUpdated,
    presets,
)
from gangsched.testing import make_node, make_pod


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"phase": PodPhase.SUCCEEDED}, "pod w0 has succeeded"),
        ({"phase": PodPhase.FAILED}, "pod w0 has failed"),
        ({"deleted_at": 1.0}, "pod w0 is terminating"),
        ({"node_name": NodeName("m")}, "pod w0 was bound to m"),
        ({"scheduling_gates": ("quota",)}, "pod w0 has scheduling gates: quota"),
    ],
)
def test_waiting_pod_that_loses_its_node_says_what_happened(
    change: dict[str, Any], says: str
) -> None:
    cluster = InMemoryCluster()
    scheduler = presets.coscheduling(cluster, permit_timeout=60.0)
    pods = [make_pod(f"w{n}", group="g", min_available=2, cpu=1) for n in range(2)]
    nodes = [make_node("n", cpu=1), make_node("m", cpu=0)]
    events: list[Event] = [*map(NodeAdded, nodes), *map(PodAdded, pods)]
    for event in events:
        scheduler.handle(cluster.apply(event), now=0.0)
    while scheduler.schedule_one(now=0.0) is not None:
        pass
    assert [waiting.uid for waiting in scheduler.waiting] == [pods[0].uid]
    effects = scheduler.handle(cluster.apply(PodUpdated(evolve(pods[0], **change))), now=1.0)
    rejected = [effect for effect in effects if isinstance(effect, PodRejected)]
    assert [(each.uid, each.reason) for each in rejected] == [(pods[0].uid, says)]
