"""What a scheduler reads of the cluster state, and when; contradictions are refused."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Bound,
    ClusterStateError,
    GroupKey,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    NodeUpdated,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodUID,
    PodUpdated,
    presets,
)
from gangsched.primitives.counters import MemberState
from gangsched.testing import make_node, make_pod
from support.shown import memory, shown, situation

# A cluster state that contradicts itself, or an event, is refused; nothing changes


class Mistaken(InMemoryCluster):
    """A cluster state that answers a look-up with another object."""

    wrong: bool = False

    def node(self, name: str) -> Node | None:
        found = super().node(name)
        return evolve(found, name="other") if self.wrong and found is not None else found

    def pod(self, uid: str) -> Pod | None:
        found = super().pod(uid)
        return evolve(found, uid="other") if self.wrong and found is not None else found

    def pod_group(self, key: str) -> PodGroup | None:
        found = super().pod_group(key)
        return evolve(found, name="other") if self.wrong and found is not None else found


@pytest.mark.parametrize(
    ("event", "subject"),
    [
        (PodUpdated(make_pod("a", group="g", min_available=1, cpu=1)), PodUID("default/a")),
        (PodAdded(make_pod("new", cpu=1)), PodUID("default/new")),
        (NodeAdded(Node(name="n", allocatable={"cpu": 3})), NodeName("n")),
        (NodeAdded(Node(name="new", allocatable={"cpu": 3})), NodeName("new")),
        (PodGroupAdded(PodGroup(name="g", min_available=2)), GroupKey("default/g")),
        (PodGroupAdded(PodGroup(name="new", min_available=2)), GroupKey("default/new")),
    ],
    ids=str,
)
@pytest.mark.parametrize("preset", [presets.gang, presets.coscheduling])
def test_object_shown_under_another_identity_is_refused(
    event: Any, subject: str, preset: Any
) -> None:
    cluster = Mistaken()
    scheduler = preset(cluster)
    for made in (
        NodeAdded(Node(name="n", allocatable={"cpu": 2})),
        PodAdded(make_pod("a", group="g", min_available=1, cpu=1)),
    ):
        scheduler.handle(cluster.apply(made), now=0.0)
    cluster.apply(event)
    before = memory(scheduler)
    cluster.wrong = True

    with pytest.raises(ClusterStateError, match="is shown by the cluster state as") as caught:
        scheduler.handle(event, now=0.0)

    cluster.wrong = False
    assert caught.value.subject == subject
    assert memory(scheduler) == before
    scheduler.handle(event, now=0.0)
    scheduler._check()


@pytest.mark.parametrize("call", ["advance", "schedule_one", "rebuild"])
def test_first_call_refuses_a_listing_under_other_identities(call: str) -> None:
    cluster = Mistaken()
    scheduler = presets.gang(cluster)
    cluster.apply(PodGroupAdded(PodGroup(name="g", min_available=1)))
    cluster.apply(PodAdded(make_pod("a", group="g", cpu=1)))
    cluster.wrong = True

    with pytest.raises(ClusterStateError):
        getattr(scheduler, call)(now=0.0)

    cluster.wrong = False
    assert not scheduler.pending()
    assert not len(scheduler.registry)


def test_event_that_was_not_applied_changes_nothing() -> None:
    """An event is late if its object is not shown; ``handle`` documents that it does nothing."""
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)

    assert scheduler.handle(PodAdded(make_pod("a", cpu=1)), now=0.0) == ()
    assert scheduler.handle(NodeAdded(Node(name="n")), now=0.0) == ()
    assert not scheduler.pending()
    assert scheduler.schedule_one(now=0.0) is None


def test_first_call_reads_what_no_event_has_said() -> None:
    cluster = InMemoryCluster()
    cluster.apply(NodeAdded(make_node("n")))
    scheduler = presets.gang(cluster)
    assert "nodes=0" in repr(scheduler)
    scheduler.advance(now=0.0)
    assert "nodes=1" in repr(scheduler)


# A pod that has arrived on a node is read before anything changes


def test_pod_that_arrived_and_cannot_be_read_leaves_everything_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = InMemoryCluster()
    node = make_node("n", cpu=4)
    cluster.apply(NodeAdded(node))
    pod = make_pod("p", cpu=1)
    cluster.apply(PodAdded(pod))
    scheduler = presets.gang(cluster)
    scheduler.rebuild(now=0.0)
    cluster.apply(Bound(pod.uid, node.name, 1))  # by another scheduler; its event is late
    event = cluster.apply(NodeUpdated(evolve(node, labels={"zone": "a"})))
    original = InMemoryCluster.pod

    def failing(shown: InMemoryCluster, uid: PodUID) -> Pod | None:
        if uid == pod.uid:
            raise OSError("cannot be read")
        return original(shown, uid)

    before = memory(scheduler), situation(scheduler)
    with monkeypatch.context() as patch:
        patch.setattr(InMemoryCluster, "pod", failing)
        with pytest.raises(OSError, match="cannot be read"):
            scheduler.handle(event, now=0.0)
    assert (memory(scheduler), situation(scheduler)) == before
    scheduler.handle(event, now=0.0)
    scheduler._check()
    assert [each.uid for each in scheduler.running()] == [pod.uid]


# A pending pod that has arrived on a node is read with the node, before its own event


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
    seen = shown(scheduler).pods
    assert {seen[pod.uid].state for pod in pods} == {MemberState.ASSIGNED}
    assert scheduler.schedule_one(now=1.0) is None
    info = scheduler.registry.get(GroupKey("default/g"))
    assert info is not None
    assert info.scheduled == 2
    scheduler._check()
