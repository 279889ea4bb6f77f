"""A view that was discarded starts anew: later changes are restored by the next discard."""

from __future__ import annotations

from gangsched import InMemoryCluster, Node, NodeAdded, NodeName, Pod, PodAdded
from gangsched.events import Bound
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.nodes_view import Holder, NodesView

N = NodeName("n")


def test_view_that_is_used_again_after_a_discard_restores_the_nodes_again() -> None:
    cluster = InMemoryCluster()
    nodes = Nodes(cluster)
    cluster.apply(NodeAdded(Node(name=N, allocatable={"cpu": 8})))
    bound, planned = (Pod(name=name, requests={"cpu": 1}) for name in ("bound", "planned"))
    cluster.apply(PodAdded(bound))
    cluster.apply(Bound(bound.uid, N, 1))
    nodes.refresh(N)
    before = nodes.infos[N]
    free, held = before.free.copy(), before.holders.copy()
    view = NodesView(nodes)
    for _round in range(2):
        view.assume(planned, planned.requests, before.index)
        view.remove([Holder(bound.uid, before.index, bound.requests)])
        view._check()
        assert nodes.infos[N].holders.keys() == {planned.uid}
        view.discard()
        assert nodes.infos[N] is before
        assert (before.free, before.holders) == (free, held)
        nodes._check()
