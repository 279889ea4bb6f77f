"""A victim may be spared only because another one was: then it is looked at again."""

from __future__ import annotations

import pytest

from gangsched import (
    LabelSelector,
    Node,
    NodeAdded,
    Pod,
    PodAdded,
    PodAffinityTerm,
    PodGroup,
    PodGroupAdded,
    Preemption,
    TopologySpreadConstraint,
    presets,
)
from gangsched.events import Bind, Evict
from support.immediate_host import ImmediateHost

pytestmark = pytest.mark.once("is about whole gangs")

_COUNTED = LabelSelector({"app": "s"})
_EVEN = TopologySpreadConstraint(
    max_skew=1, topology_key="zone", label_selector=_COUNTED, node_affinity_policy="Ignore"
)
_APART = PodAffinityTerm(topology_key="region", label_selector=_COUNTED)


def test_pod_of_each_zone_stays_where_only_one_in_the_way_must_leave() -> None:
    """Without the pod of the other zone, the spread constraint would need its own to leave."""
    host = ImmediateHost()
    host.scheduler = presets.gang(host.cluster, preemption=Preemption())
    for name in ("a", "b"):
        labels = {"zone": name, "region": "r"}
        host.tell(NodeAdded(Node(name=name, allocatable={"pods": 9}, labels=labels)))
    running = [
        Pod(name="of-a", labels={"app": "s"}, node_name="a", created_at=1.0),
        Pod(name="in-the-way", pod_anti_affinity=[_APART], node_name="b", created_at=2.0),
        Pod(name="of-b", labels={"app": "s"}, node_name="b", created_at=3.0),
    ]
    for pod in running:
        host.tell(PodAdded(pod))
    host.tell(PodGroupAdded(PodGroup(name="g", min_available=1)))
    host.tell(
        PodAdded(
            Pod(
                name="g-0",
                pod_group="g",
                priority=5,
                labels={"app": "s"},
                node_selector={"zone": "a"},
                topology_spread_constraints=[_EVEN],
            )
        )
    )
    host.decide()
    assert [e.uid for e in host.effects if isinstance(e, Evict)] == ["default/in-the-way"]
    host.end("in-the-way")
    host.decide()
    assert [e.node for e in host.effects if isinstance(e, Bind)] == ["a"]
