"""A node with assumed siblings of one gang is read again when one of them is bound."""

from __future__ import annotations

import pytest

from gangsched import Bind, Bound, InMemoryCluster, NodeAdded, NodeName, PodAdded, presets
from gangsched.testing import make_node, make_pod


@pytest.mark.parametrize("count", [2, 3])
def test_assumed_sibling_keeps_its_node_when_another_is_bound(count: int) -> None:
    """Like members share one object of requests, which is not that of each pod."""
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    scheduler.handle(cluster.apply(NodeAdded(make_node("n", cpu=4))), now=0.0)
    for number in range(count):
        pod = make_pod(f"g-{number}", group="g", min_available=count, cpu=1)
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    effects = scheduler.schedule_one(now=0.0) or ()
    for bind in [each for each in effects if isinstance(each, Bind)]:
        bound = cluster.apply(Bound(bind.uid, bind.node, bind.attempt))
        scheduler.handle(bound, now=0.0)
        scheduler._check()
        node = scheduler._state.nodes.infos[NodeName("n")]
        assert (node.pod_count, node.free["cpu"]) == (count, (4 - count) * 1000)
