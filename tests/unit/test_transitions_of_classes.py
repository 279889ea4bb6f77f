"""The transitions between classes of nodes: the first is kept apart from the others."""

from __future__ import annotations

from itertools import permutations

import pytest

from gangsched.framework.nodes.node_class import NodeClass, Snapshot
from gangsched.framework.nodes.node_classes import NodeClasses
from gangsched.model import Node, NodeName, Resources
from gangsched.protocols import NodeView

ASKS = tuple(Resources({"cpu": cpu}) for cpu in (1, 2, 3))


def sign(view: NodeView) -> tuple[object, ...]:
    return (tuple(sorted(view.free.items())), view.pod_count, view.defaulted, ())


def classes_of(cpu: int = 64) -> tuple[NodeClasses, NodeClass]:
    node = Node(name=NodeName("n"), allocatable={"cpu": cpu})
    classes = NodeClasses(sign)
    classes.put(0, Snapshot(node, dict(node.allocatable), 0))
    return classes, classes.of(0)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_each_transition_is_found_again_in_any_order(order: tuple[int, ...]) -> None:
    classes, start = classes_of()
    taken = {n: classes.taking(start, ASKS[n]) for n in order}
    assert len(set(taken.values())) == 3
    for n, after in taken.items():
        equal = Resources({"cpu": n + 1})  # equal, and another object
        assert classes.taking(start, equal) is classes.taking(start, ASKS[n]) is after
        assert after.free["cpu"] == 1000 * (64 - n - 1)
        assert classes.giving_back(after, equal) is classes.giving_back(after, ASKS[n]) is start
    start.forget_others()
    assert (start.next, start.previous, start.after, start.before) == (None,) * 4
    assert classes.taking(start, ASKS[0]) is taken[0]


def test_class_that_is_reached_in_two_ways_leads_back_in_both() -> None:
    """A pod of 3 cpus takes a node where one of 1 and one of 2 cpus do, but for the number."""
    classes, start = classes_of()
    one, two, _three = ASKS
    both = classes.taking(classes.taking(start, one), two)
    assert classes.taking(classes.taking(start, two), one) is both
    assert classes.giving_back(both, two) is classes.taking(start, one)
    assert classes.giving_back(both, one) is classes.taking(start, two)


def test_requests_that_differ_in_what_is_defaulted_lead_to_other_classes() -> None:
    classes, start = classes_of()
    plain = Resources({"cpu": 1})
    defaulted = plain.with_defaulted({"memory": 1000})
    assert plain == defaulted
    after = classes.taking(start, plain)
    assert dict(after.defaulted) == {}
    assert dict(classes.taking(start, defaulted).defaulted) == {"memory": 1000}
    assert classes.taking(start, plain) is after


def test_node_that_is_alone_in_its_class_moves_and_comes_back() -> None:
    classes, start = classes_of()
    other = classes.taking(start, ASKS[0])
    for _again in range(3):
        classes.take(0, ASKS[0])
        assert (classes.of(0), list(other.nodes), list(start.nodes)) == (other, [0], [])
        assert list(classes.occupied()) == [other]
        classes.give_back(0, ASKS[0])
        assert (classes.of(0), list(other.nodes), list(start.nodes)) == (start, [], [0])
        assert list(classes.occupied()) == [start]
    assert classes.version == 7


def test_node_that_joins_others_leaves_an_empty_class() -> None:
    classes, start = classes_of()
    classes.put(1, Snapshot(start.node, dict(start.free), 0))
    classes.take(0, ASKS[0])
    assert (list(start.nodes), list(classes.of(0).nodes)) == ([1], [0])
    classes.give_back(0, ASKS[0])
    assert (list(start.nodes), list(classes.occupied())) == ([0, 1], [start])
