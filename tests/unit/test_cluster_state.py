"""A cluster state that contradicts itself, or an event, is refused; nothing changes."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    ClusterStateError,
    GroupKey,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodUID,
    PodUpdated,
    presets,
)
from gangsched.testing import make_pod
from support.fingerprint import fingerprint


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
    before = fingerprint(scheduler._state)
    cluster.wrong = True

    with pytest.raises(ClusterStateError, match="is shown by the cluster state as") as caught:
        scheduler.handle(event, now=0.0)

    cluster.wrong = False
    assert caught.value.subject == subject
    assert fingerprint(scheduler._state) == before
    scheduler.handle(event, now=0.0)
    scheduler._check()


@pytest.mark.parametrize("preset", [presets.gang, presets.coscheduling])
def test_rebuild_refuses_a_listing_under_other_identities(preset: Any) -> None:
    cluster = Mistaken()
    scheduler = preset(cluster)
    cluster.apply(PodGroupAdded(PodGroup(name="g", min_available=1)))
    cluster.apply(PodAdded(make_pod("a", group="g", cpu=1)))
    cluster.wrong = True

    with pytest.raises(ClusterStateError):
        scheduler.rebuild(now=0.0)

    assert not scheduler._state.pods.members
    assert not len(scheduler.registry)


def test_event_that_was_not_applied_changes_nothing() -> None:
    """An event is late if its object is not shown; ``handle`` documents that it does nothing."""
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)

    assert scheduler.handle(PodAdded(make_pod("a", cpu=1)), now=0.0) == ()
    assert scheduler.handle(NodeAdded(Node(name="n")), now=0.0) == ()
    assert not scheduler._state.pods.members
    assert scheduler.schedule_one(now=0.0) is None
