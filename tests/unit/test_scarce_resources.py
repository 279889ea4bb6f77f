"""A node strands an extended resource only if the pod does not request it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gangsched import InMemoryCluster, Node, NodeAdded, NodeName, Pod
from gangsched.framework.nodes.node_class import NodeClass
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.pod_class import PodClass

GPU, NIC = "example.com/gpu", "example.com/nic"


class Accepting:
    """A judge that accepts every node for one pod."""

    def quick(self, given: NodeClass) -> None: ...

    def screen(self, given: NodeClass) -> tuple[int, tuple[str, ...]]:
        return 1, ()

    def before_scoring(self, found: Sequence[NodeClass]) -> None: ...

    def score(self, given: NodeClass) -> int:
        return 0


@pytest.mark.parametrize(
    ("requests", "stranding"),
    [
        ({"cpu": 1}, {"gpu", "both"}),
        ({GPU: 1}, {"both"}),
        ({"cpu": 1, GPU: 1}, {"both"}),
        ({GPU: 1, NIC: 1}, set[str]()),
    ],
)
def test_node_with_exactly_the_requested_extended_resources_strands_none(
    requests: dict[str, int | str], stranding: set[str]
) -> None:
    cluster = InMemoryCluster()
    nodes = Nodes(cluster)
    offers: dict[str, dict[str, int | str]] = {
        "none": {},
        "gpu": {GPU: 2},
        "both": {GPU: 2, NIC: 2},
    }
    for name, more in offers.items():
        cluster.apply(NodeAdded(Node(name=NodeName(name), allocatable={"cpu": 4, **more})))
        nodes.refresh(NodeName(name))
    pods = PodClass("p", Pod(name="p", requests=requests))
    pods.judgements.refresh(nodes, Accepting())
    for strands, expected in ((True, stranding), (False, offers.keys() - stranding)):
        found = pods.judgements.by_max_pods(strands, 1)
        assert {each.node.name for each in found} == expected
