"""Nodes with the fewest pods are drained first; pods that are nominated for a node count too."""

from __future__ import annotations

from attrs import evolve

from gangsched import Backfill, NodeName, PodAdded, Resources
from gangsched.framework.backfill import start_estimate
from gangsched.framework.nodes.reserved_capacity import ReservedCapacity
from gangsched.model import GroupKey
from gangsched.testing import make_pod
from support.backfill_host import Host, running

BIG = GroupKey("default/big")


def test_nominated_pods_of_a_node_count_as_pods_to_be_drained() -> None:
    host = Host(Backfill(), a=4, b=4)
    for name, node in (("one", "a"), ("two", "b"), ("three", "b")):
        pod = running(make_pod(name, cpu=1), None)
        host.tell(PodAdded(evolve(pod, node_name=NodeName(node))))
    for n in range(2):
        host.pod(f"big-{n}", group="big", min_available=2, cpu=2)
    state = host.scheduler._state
    entity = state.pods.entities[BIG]
    nominated = [
        ReservedCapacity(99, NodeName("a"), 0, Resources({"cpu": 1})) for _each in range(2)
    ]
    state.nodes.reserve(nominated)
    look = start_estimate._Look(state, entity, host.now)
    look.prepare()
    found = start_estimate._by_draining(look)
    assert found is not None
    assert set(found.capacity) == {"b"}
