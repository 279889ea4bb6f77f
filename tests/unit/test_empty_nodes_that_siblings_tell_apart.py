"""Of empty nodes of one class only the first is tried, unless a sibling names one of them."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from gangsched import (
    LabelSelector,
    Node,
    NodeAdded,
    NodeName,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAdded,
    PodAffinityTerm,
    presets,
)
from gangsched.options import PlacementStrategy
from gangsched.outcomes import SUCCESS, Outcome, Unschedulable
from gangsched.protocols import CycleView, NodeView
from support.immediate_host import ImmediateHost

pytestmark = pytest.mark.once("siblings are placed together with the unit group only")

_HOST = "kubernetes.io/hostname"
_BESIDE = PodAffinityTerm(topology_key=_HOST, label_selector=LabelSelector({"app": "x"}))


def _names(operator: str, *names: str) -> dict[str, Any]:
    requirements = [NodeSelectorRequirement("metadata.name", operator, [name]) for name in names]
    return {"affinity": [NodeSelectorTerm((), requirements)]}


class _Last:
    """Accepts for a pod with the role ``last`` only the node ``n2``, which it names."""

    name = "Last"

    def pod_signature(self, pod: Pod) -> object:
        return pod.role == "last"

    def node_signature(self, node: NodeView) -> object:
        return None

    def reads_pods(self, pod: Pod) -> bool:
        return pod.role == "last"

    def nodes_named(self, pod: Pod) -> tuple[NodeName, ...] | None:
        return (NodeName("n2"),) if pod.role == "last" else None

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        is_accepted = pod.role != "last" or node.node.name == "n2"
        return SUCCESS if is_accepted else Unschedulable("not n2")


@pytest.mark.parametrize("order", list(permutations(range(2))))
@pytest.mark.parametrize("placement", list(PlacementStrategy))
@pytest.mark.parametrize(
    "more",
    [_names("In", "n2"), _names("NotIn", "n0", "n1"), {"role": "last"}],
    ids=["In", "NotIn", "named by a plugin"],
)
def test_member_goes_to_the_node_by_name_of_the_sibling_that_must_be_beside_it(
    more: dict[str, Any], placement: PlacementStrategy, order: tuple[int, ...]
) -> None:
    host = ImmediateHost()
    host.scheduler = presets.gang(host.cluster, placement=placement, plugins=[_Last()])
    for n in range(3):
        node = Node(name=f"n{n}", allocatable={"pods": 2}, labels={_HOST: f"n{n}"})
        host.tell(NodeAdded(node))
    each: dict[str, Any] = {"pod_group": "g", "min_available": 2}
    members = [
        Pod(name="friend", labels={"app": "x"}, **each),
        Pod(name="affine", labels={"app": "y"}, pod_affinity=[_BESIDE], **each, **more),
    ]
    for n in order:
        host.tell(PodAdded(members[n]))
    host.decide()
    assert {pod.name: pod.node_name for pod in host.cluster.pods()} == {
        "friend": "n2",
        "affine": "n2",
    }
