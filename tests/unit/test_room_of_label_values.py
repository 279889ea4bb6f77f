"""A value of a label has the nodes that take pods, also where it is unknown how many they take."""

from __future__ import annotations

from gangsched.framework.nodes.label_values import LabelValues
from gangsched.framework.nodes.node_class import NodeClass, Snapshot
from gangsched.model import Node, NodeName

RACK = "rack"


def a_class(number: int, rack: str) -> NodeClass:
    node = Node(name=NodeName(f"n{number}"), labels={RACK: rack})
    made = NodeClass(None, number, Snapshot(node, {}, 0))
    made.nodes = [number]
    return made


def ranks(_given: NodeClass) -> tuple[int, tuple[bool, int]]:
    return (0, (False, 0))


def test_value_whose_nodes_have_no_room_for_more_is_there_with_its_nodes() -> None:
    values, empty, roomy = LabelValues(RACK), a_class(0, "a"), a_class(1, "b")
    values.count(empty, 0)
    values.move(empty, 0, ranks)
    values.count(roomy, 3)
    values.move(roomy, 1, ranks)
    assert list(values.in_order()) == [(0, "a"), (3, "b")]
    assert [given for _rank, given in values.by_score("a", ranks)] == [empty]
    room: dict[NodeClass, int] = {empty: 0, roomy: 3}
    values._check({empty: 0, roomy: 1}, room.__getitem__)
    values.move(empty, -1, ranks)
    assert list(values.in_order()) == [(3, "b")]
