"""Kinds of nodes that no node has any more are forgotten once most are such."""

from __future__ import annotations

from gangsched.framework.nodes.node_class import NodeKind
from gangsched.framework.nodes.node_classes import _SPARE, NodeClasses
from gangsched.model import Node, NodeName, Resources
from gangsched.protocols import NodeView
from support.views import FakeNode, node_view

ONE = Resources({"cpu": 1})


def of_rack(rack: int) -> FakeNode:
    node = Node(name=NodeName("n"), allocatable={"cpu": 4}, labels={"rack": str(rack)})
    return node_view(node)


def sign(view: NodeView) -> tuple[object, ...]:
    """Sign what is free, which pods change, and the label, which they do not."""
    return (view.free.get("cpu", 0), view.node.labels["rack"])


def kind_of(classes: NodeClasses, index: int) -> NodeKind:
    kind = classes.of(index).kind
    assert kind is not None
    return kind


def test_kinds_without_nodes_are_forgotten_and_those_of_nodes_are_kept() -> None:
    classes = NodeClasses(sign, None, (0,))
    classes.put(1, of_rack(-1))
    kept = kind_of(classes, 1)
    most = 0
    for rack in range(4 * _SPARE):
        classes.put(0, of_rack(rack))
        classes.forget_unused()
        most = max(most, len(classes._kinds))
    # kinds are looked at when classes are dropped, which are as many at the most
    assert most <= 2 * (2 * 2 + _SPARE) + 1
    assert set(classes._kinds.values()) >= {kept, kind_of(classes, 0)}
    classes.put(1, node_view(of_rack(-1).node, used={"cpu": 1}, pods=1))
    assert kind_of(classes, 1) is kept
