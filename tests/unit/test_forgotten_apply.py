"""A host that forgets to apply an event to its cluster state.

It can be told from a late event only where the scheduler waits for that very event: the report of
a bind that it has asked for.
"""

from __future__ import annotations

import pytest

from gangsched import Bind, Bound, InMemoryCluster, NodeAdded, PodAdded, presets
from gangsched.errors import ClusterStateError
from gangsched.testing import make_node, make_pod


def test_pod_that_the_cluster_state_does_not_show_counts_as_deleted() -> None:
    scheduler = presets.gang(InMemoryCluster())
    assert scheduler.handle(PodAdded(make_pod("p", cpu=1)), now=0.0) == ()
    assert scheduler.handle(NodeAdded(make_node("n", cpu=1)), now=0.0) == ()
    assert scheduler.schedule_one(now=0.0) is None


def test_bind_that_the_cluster_state_does_not_show_is_refused_and_changes_nothing() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    for event in (NodeAdded(make_node("n", cpu=1)), PodAdded(make_pod("p", cpu=1))):
        scheduler.handle(cluster.apply(event), now=0.0)
    (bind,) = (e for e in scheduler.schedule_one(now=0.0) or () if isinstance(e, Bind))
    done = Bound(bind.uid, bind.node, bind.attempt)
    before = scheduler.snapshot()
    with pytest.raises(ClusterStateError, match="the cluster state does not show it"):
        scheduler.handle(done, now=0.0)
    assert scheduler.snapshot() == before
    assert scheduler.handle(cluster.apply(done), now=0.0)
