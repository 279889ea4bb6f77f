"""A pending pod that has arrived on a node is read with the node, before its own event."""

from __future__ import annotations

from attrs import evolve

from gangsched import GroupKey, InMemoryCluster, NodeAdded, NodeUpdated, PodAdded, presets
from gangsched._core._counters import MemberState
from gangsched.events import Bound
from gangsched.testing import make_node, make_pod


def test_pod_that_another_scheduler_bound_is_assigned_with_an_event_of_its_node() -> None:
    cluster = InMemoryCluster()
    node = make_node("n", cpu=4)
    cluster.apply(NodeAdded(node))
    pods = [make_pod(f"g-{number}", group="g", min_available=2, cpu=1) for number in range(2)]
    for pod in pods:
        cluster.apply(PodAdded(pod))
    scheduler = presets.gang(cluster)
    scheduler.rebuild(now=0.0)
    for pod in pods:
        cluster.apply(Bound(pod.uid, node.name, 1))  # by another scheduler; the events are late
    event = cluster.apply(NodeUpdated(evolve(node, labels={"zone": "a"})))
    scheduler.handle(event, now=1.0)
    members = scheduler._state.pods.members
    assert {members[pod.uid].state for pod in pods} == {MemberState.ASSIGNED}
    assert scheduler.schedule_one(now=1.0) is None
    info = scheduler._state.pods.registry.get(GroupKey("default/g"))
    assert info is not None
    assert info.scheduled == 2
    scheduler._check()
