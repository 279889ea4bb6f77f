"""Nodes that no plugin can distinguish are one class, and stay so through every change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any

import pytest
from attrs import evolve
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gangsched.errors import InternalError
from gangsched.framework.nodes import in_order
from gangsched.framework.nodes.labels_read import LabelsRead
from gangsched.framework.nodes.node_class import NodeClass, Snapshot
from gangsched.framework.nodes.node_classes import _SPARE, NodeClasses
from gangsched.model import Node, NodeName, Resources
from gangsched.protocols import NodeView
from support.views import FakeNode, node_view

ONE, TWO = Resources({"cpu": 1}), Resources({"cpu": 2, "gpu": 1})
indices = st.integers(1, 5)


def a_view(cpu: int = 4, gpu: int = 0, *, name: str = "n", **labels: str) -> FakeNode:
    return node_view(Node(name=NodeName(name), allocatable={"cpu": cpu, "gpu": gpu}, labels=labels))


class Reading:
    """Says what is read of a node: what is free, how many pods, and some labels."""

    def __init__(self, *labels: str) -> None:
        self.labels = labels
        self.asked = 0

    def __call__(self, view: NodeView) -> tuple[Hashable, ...]:
        self.asked += 1
        free = tuple(sorted((name, n) for name, n in view.free.items() if n))
        found = tuple((key, view.node.labels.get(key)) for key in self.labels)
        return (free, view.pod_count, found)


def shift(view: FakeNode, requests: Resources, sign: int) -> None:
    """Let a node take a pod, or give one back."""
    view.pod_count += sign
    for name, amount in requests.items():
        view.free[name] = view.free.get(name, 0) - sign * amount


class NodeClassesMachine(RuleBasedStateMachine):
    """Classes survive every change, and are compared with a classification from scratch."""

    def __init__(self) -> None:
        super().__init__()
        self.read = Reading()
        self.classes = NodeClasses(self.read)
        self.views: dict[int, FakeNode] = {}
        self.taken: dict[int, list[Resources]] = {}
        self.remembered = 0
        self.then: Counter[NodeClass] = Counter()
        self.remember()

    def here(self) -> Counter[NodeClass]:
        return Counter({c: len(c.nodes) for c in self.classes.occupied()})

    @rule(
        index=indices,
        cpu=st.integers(0, 4),
        zone=st.sampled_from("ab"),
        pods=st.lists(st.sampled_from([ONE, TWO]), max_size=2),
    )
    def put(self, index: int, cpu: int, zone: str, pods: list[Resources]) -> None:
        """A node comes or changes, perhaps with pods on it."""
        self.views[index] = view = a_view(cpu, 1, zone=zone)
        self.taken[index] = list(pods)
        for requests in pods:
            shift(view, requests, 1)
        self.classes.put(index, view)

    @rule(index=indices)
    def remove(self, index: int) -> None:
        if self.views.pop(index, None) is not None:
            self.classes.remove(index)

    @rule(index=indices, requests=st.sampled_from([ONE, TWO]), plan=st.booleans())
    def take(self, index: int, requests: Resources, plan: bool) -> None:
        if index not in self.views:
            return
        shift(self.views[index], requests, 1)
        self.taken[index].append(requests)
        if plan:
            self.classes.move(index, self.classes.taking(self.classes.of(index), requests))
        else:
            self.classes.take(index, requests)

    @rule(index=indices)
    def give_back(self, index: int) -> None:
        if index in self.views and self.taken[index]:
            requests = self.taken[index].pop()
            shift(self.views[index], requests, -1)
            self.classes.give_back(index, requests)

    @rule(index=indices, requests=st.sampled_from([ONE, TWO]))
    def look_ahead(self, index: int, requests: Resources) -> None:
        """What a node would be changes nothing, and is what it becomes."""
        if index in self.views:
            before, version = self.here(), self.classes.version
            then = self.classes.taking(self.classes.of(index), requests)
            changed = evolve(self.views[index], free=dict(self.views[index].free))
            shift(changed, requests, 1)
            assert self.read(then) == self.read(changed) == then.key
            assert (self.here(), self.classes.version) == (before, version)

    @rule(index=indices)
    def lift(self, index: int) -> None:
        if index in self.views:
            endless = self.classes.boundless(self.classes.of(index), "cpu")
            assert endless.free["cpu"] > 1 << 50
            assert endless.free.get("gpu", 0) == self.views[index].free.get("gpu", 0)
            assert self.classes.boundless(endless, "cpu") is endless

    @precondition(lambda self: not self.read.labels)
    @rule()
    def read_more(self) -> None:
        self.read.labels = ("zone",)
        self.classes.classify_anew(dict(self.views))

    @rule()
    def forget(self) -> None:
        self.classes.forget_unused()

    @rule()
    def remember(self) -> None:
        self.remembered, self.then = self.classes.version, self.here()

    @invariant()
    def it_is_as_if_classified_from_scratch(self) -> None:
        self.classes._check(dict(self.views))
        found: dict[Hashable, list[int]] = {}
        for index in sorted(self.views):
            found.setdefault(self.read(self.views[index]), []).append(index)
        known = {each.key: list(each.nodes) for each in self.classes.occupied()}
        assert known == found
        fresh = NodeClasses(Reading(*self.read.labels))
        for index, view in self.views.items():
            fresh.put(index, view)
        assert {each.key: list(each.nodes) for each in fresh.occupied()} == known

    @invariant()
    def the_moves_lead_from_then_to_now(self) -> None:
        moves = self.classes.since(self.remembered)
        assert moves is not None
        now = Counter(self.then)
        for old, new in moves:
            if old is not None:
                now[old] -= 1
            if new is not None:
                now[new] += 1
        assert +now == self.here()


TestNodeClasses = NodeClassesMachine.TestCase


# Classes --------------------------------------------------------------------------------------


def fleet(*views: FakeNode, read: Reading | None = None) -> tuple[NodeClasses, Reading]:
    read = read or Reading()
    classes = NodeClasses(read)
    for index, view in enumerate(views):
        classes.put(index, view)
    return classes, read


def test_second_node_that_takes_the_same_is_not_looked_at_again() -> None:
    classes, read = fleet(a_view(), a_view())
    classes.take(0, ONE)
    asked = read.asked
    classes.take(1, ONE)
    classes.give_back(0, ONE)
    assert read.asked == asked
    assert classes.of(0) is not classes.of(1)


def test_second_node_that_gives_back_the_same_is_not_looked_at_again() -> None:
    """Nor one that takes it again, though it was not taken here."""
    classes, read = fleet(a_view(), a_view())
    full = classes.of(0)
    classes.give_back(0, ONE)
    asked = read.asked
    classes.give_back(1, ONE)
    assert classes.of(1) is classes.of(0) is not full
    classes.take(1, ONE)
    assert classes.of(1) is full
    assert read.asked == asked


def test_hypothetical_node_with_unlimited_resources_is_evaluated_once() -> None:
    classes, read = fleet(a_view())
    endless = classes.boundless(classes.of(0), "cpu")
    asked = read.asked
    assert classes.boundless(classes.of(0), "cpu") is endless
    assert classes.boundless(endless, "cpu") is endless
    assert read.asked == asked
    other = classes.boundless(classes.of(0), "gpu")
    assert other is not endless
    assert other.free["cpu"] == 4000


def test_node_has_less_than_nothing_of_what_it_never_offered() -> None:
    classes, _read = fleet(a_view())
    classes.take(0, Resources({"disk": 1}))
    sample = classes.of(0)
    assert (sample.free["disk"], sample.free["cpu"], sample.pod_count) == (-1000, 4000, 1)


def test_classes_are_numbered_in_the_order_in_which_they_were_made() -> None:
    classes, _read = fleet(a_view(1), a_view(3), a_view(2))
    numbers = [classes.of(index).number for index in range(3)]
    assert numbers == sorted(set(numbers))


def test_nodes_without_signatures_are_classes_of_their_own() -> None:
    classes = NodeClasses()
    for index in range(3):
        classes.put(index, a_view())
    assert len({classes.of(index) for index in range(3)}) == 3
    before = classes.of(0)
    classes.put(0, a_view())
    assert classes.of(0) is not before, "it is judged anew when it changes"


def test_nodes_of_one_class_are_ordered_by_arrival() -> None:
    classes = NodeClasses(Reading())
    for index in (3, 1, 2):
        classes.put(index, a_view())
    assert list(classes.of(1).nodes) == [1, 2, 3]


def test_classes_without_nodes_are_forgotten_before_they_outnumber_the_nodes() -> None:
    classes, _read = fleet(a_view())
    for cpu in range(5000):
        classes.put(0, a_view(cpu))
        classes.boundless(classes.of(0), "cpu")
        classes.take(0, ONE)
        classes.forget_unused()
    assert classes.epoch > 1
    assert len(classes._known) < 600
    classes._check({0: node_view(a_view(4999).node, used={"cpu": 1}, pods=1)})


def test_classes_are_forgotten_beyond_twice_the_number_of_nodes() -> None:
    classes, _read = fleet(a_view(0), a_view(0))
    most = 2 * 2 + _SPARE
    for epoch in (0, 1, 2):
        # of one the nodes are, and of each that is made here none is
        for asked in range(1, most):
            classes.taking(classes.of(0), Resources({"cpu": asked}))
            classes.forget_unused()
        assert (classes.epoch, len(classes._known)) == (epoch, most)
        classes.taking(classes.of(0), Resources({"cpu": most}))
        classes.forget_unused()
        assert list(classes._known.values()) == [classes.of(0)]
    assert classes.epoch == 3


def test_half_of_the_moves_are_forgotten_beyond_twice_the_number_of_nodes() -> None:
    classes = NodeClasses(Reading())
    assert (classes.version, classes.since(0)) == (0, [])
    for index in range(2):
        classes.put(index, a_view())
    most = 2 * 2 + _SPARE
    for cpu in range(2, most):
        classes.put(0, a_view(10 + cpu))
    assert len(classes.since(0) or ()) == most
    classes.put(0, a_view(0))
    kept = len(classes._moves)
    assert (classes.version, kept) == (most + 1, most // 2 + 1)
    assert classes.since(classes.version - kept) == classes._moves
    assert classes.since(classes.version - kept - 1) is None


def test_old_moves_are_forgotten_and_reported() -> None:
    classes, _read = fleet(a_view())
    first = classes.version
    for _turn in range(1000):
        classes.take(0, ONE)
        classes.give_back(0, ONE)
    assert classes.version == first + 2000
    assert classes.since(first) is None
    assert classes.since(classes.version) == []
    assert len(classes.since(classes.version - 3) or ()) == 3
    assert len(classes._moves) < 600


def move_in_silence(classes: NodeClasses) -> None:
    classes._of[0] = classes._of[1]


def lose_a_node(classes: NodeClasses) -> None:
    del classes._of[0]


def forget_a_class(classes: NodeClasses) -> None:
    classes._known.clear()


def keep_a_node_twice(classes: NodeClasses) -> None:
    in_order.add(classes.of(1).nodes, 7)


def take_a_class_as_occupied(classes: NodeClasses) -> None:
    classes._occupied[NodeClass(("x",), 99, Snapshot(a_view().node, {}, 0))] = None


def move_to_another(classes: NodeClasses) -> None:
    classes.move(0, classes.of(1))


@pytest.mark.parametrize(
    ("sabotage", "says"),
    [
        (lose_a_node, "the nodes and the nodes in classes differ"),
        (move_in_silence, "class 2 does not have its node 0"),
        (forget_a_class, "class 1 is not known by its key"),
        (move_to_another, "node 0 is not what its class is"),
        (keep_a_node_twice, "a class has a node that is not in it"),
        (take_a_class_as_occupied, "the classes that a node is in are miscounted"),
    ],
)
def test_check_sees_what_drifted(sabotage: Callable[[NodeClasses], None], says: str) -> None:
    views: dict[int, Any] = {0: a_view(), 1: a_view(3)}
    classes, _read = fleet(*views.values())
    classes._check(views)
    sabotage(classes)
    with pytest.raises(InternalError) as caught:
        classes._check(views)
    assert caught.value.invariant == says


# Labels ---------------------------------------------------------------------------------------


def test_label_is_read_as_long_as_it_has_a_reader() -> None:
    labels = LabelsRead()
    assert labels.add(["zone", "disk"])
    assert not labels.add(["zone"])
    assert (labels.keys, len(labels)) == (("disk", "zone"), 2)
    assert not labels.discard(["zone"])
    assert len(labels) == 2
    assert not labels.discard(["zone"])
    assert len(labels) == 1
    assert labels.keys == ("disk", "zone"), "one that may be read again is kept"
    assert not labels.add(["zone"])


def test_labels_without_readers_are_dropped_once_they_are_many() -> None:
    labels = LabelsRead()
    labels.add(["zone"])
    names = [f"label-{number}" for number in range(9)]
    labels.add(names)
    assert [labels.discard([name]) for name in names] == [False] * 8 + [True]
    assert labels.keys == ("zone",)
    assert labels.add(names[:1])
