"""A pod that has arrived on a node is read before anything changes."""

from __future__ import annotations

import pytest
from attrs import evolve

from gangsched import InMemoryCluster, NodeAdded, NodeUpdated, Pod, PodAdded, PodUID, presets
from gangsched.events import Bound
from gangsched.testing import make_node, make_pod
from support.fingerprint import fingerprint


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

    before = fingerprint(scheduler)
    with monkeypatch.context() as patch:
        patch.setattr(InMemoryCluster, "pod", failing)
        with pytest.raises(OSError, match="cannot be read"):
            scheduler.handle(event, now=0.0)
    assert fingerprint(scheduler) == before
    scheduler.handle(event, now=0.0)
    scheduler._check()
    assert scheduler._state.nodes.infos[node.name].holders.keys() == {pod.uid}
