"""A pod that a node shows before its own event is handled has no known end."""

from __future__ import annotations

from attrs import evolve

from gangsched import NodeAdded, NodeName, NodeUpdated, PodAdded
from gangsched.framework.backfill import run_times
from gangsched.testing import make_node, make_pod
from support.backfill_host import Host, running


def test_pod_that_only_its_node_shows_has_no_known_end() -> None:
    host = Host(n0=4)
    known = running(make_pod("known", cpu=1), "10")
    host.tell(PodAdded(evolve(known, node_name=NodeName("n0"))))
    early = running(make_pod("early", cpu=1), "20")
    host.cluster.apply(PodAdded(evolve(early, node_name=NodeName("n0"))))
    host.tell(NodeUpdated(make_node("n0", cpu=4, labels={"a": "b"})))
    host.tell(NodeAdded(make_node("n1", cpu=1)))
    state = host.scheduler._state
    assert set(state.nodes.infos[NodeName("n0")].holders) == {known.uid, early.uid}
    assert run_times.ends(state, 0.0) == {known.uid: 10.0}
