"""Nodes with their free capacity, kept incrementally, against a count from scratch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import invariant

from gangsched._core._capacity import total_free
from gangsched.errors import ClusterStateError, InternalError
from gangsched.events import Bound, NodeAdded, NodeDeleted, PodAdded, PodDeleted
from gangsched.framework.nodes.node_class import NodeClass
from gangsched.framework.nodes.node_info import NodeInfo
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.nodes_view import Holder, NodesView
from gangsched.framework.nodes.reserved_capacity import ReservedCapacity
from gangsched.memory import InMemoryCluster
from gangsched.model import Node, NodeName, Pod, PodUID, Resources
from support.fleet import FleetMachine

N1, N2 = NodeName("n1"), NodeName("n2")
POD = Pod(name="p", requests={"cpu": 3})


class NodesMachine(FleetMachine):
    """Incremental amounts equal a count from scratch."""

    @invariant()
    def agrees(self) -> None:
        self.nodes._check()
        assert self.nodes.infos.keys() == {node.name for node in self.cluster.nodes()}
        for name, info in self.nodes.infos.items():
            assert info.node == self.cluster.node(name)
            holders = {pod.uid: pod.requests for pod in self.cluster.pods_on(name)}
            for uid, (where, pod) in self.nodes.assumed.items():
                if where == name:
                    holders.setdefault(uid, pod.requests)
            used = sum(holders.values(), start=Resources())
            assert Resources.from_milli(info.free) == info.node.allocatable - used
            assert info.pod_count == len(holders)

    @invariant()
    def every_node_has_a_number_of_its_own(self) -> None:
        infos = self.nodes.infos
        assert {info.index: name for name, info in infos.items()} == {
            index: info.node.name for index, info in self.nodes.by_index.items()
        }


class LonelyNodesMachine(NodesMachine):
    """The same if no plugin has a node signature."""

    signed = False


TestNodesMachine = NodesMachine.TestCase
TestLonelyNodesMachine = LonelyNodesMachine.TestCase


def fleet(*names: NodeName) -> tuple[InMemoryCluster, Nodes]:
    cluster = InMemoryCluster()
    nodes = Nodes(cluster)
    for name in names:
        cluster.apply(NodeAdded(Node(name=name, allocatable={"cpu": 8})))
        assert nodes.refresh(name)
    cluster.apply(PodAdded(POD))
    return cluster, nodes


def test_pod_that_is_assumed_and_assigned_counts_once() -> None:
    """Law 8."""
    cluster, nodes = fleet(N1)
    nodes.assume(POD, N1)
    assert nodes.infos[N1].free == {"cpu": 5000}
    cluster.apply(Bound(POD.uid, N1, 1))
    nodes.refresh(N1)
    assert nodes.infos[N1].free == {"cpu": 5000}
    nodes.confirm(POD.uid)
    assert nodes.infos[N1].free == {"cpu": 5000}
    assert not nodes.assumed


def test_assumed_pods_survive_the_absence_of_their_node() -> None:
    cluster, nodes = fleet(N1)
    nodes.assume(POD, N1)
    cluster.apply(NodeDeleted(N1))
    assert not nodes.refresh(N1)
    assert not nodes.infos
    cluster.apply(NodeAdded(Node(name=N1, allocatable={"cpu": 8})))
    assert nodes.refresh(N1)
    assert nodes.infos[N1].free == {"cpu": 5000}


def test_pod_may_be_forgotten_after_its_node_is_gone() -> None:
    cluster, nodes = fleet(N1)
    nodes.assume(POD, N1)
    cluster.apply(NodeDeleted(N1))
    nodes.refresh(N1)
    assert nodes.forget(POD.uid) == N1
    nodes._check()


def test_forget_keeps_a_pod_on_its_node_when_it_is_bound_there() -> None:
    """Law 8: it is there, with or without its event."""
    cluster, nodes = fleet(N1)
    nodes.assume(POD, N1)
    cluster.apply(Bound(POD.uid, N1, 1))
    assert nodes.forget(POD.uid) == N1
    assert (nodes.infos[N1].free, nodes.infos[N1].pod_count) == ({"cpu": 5000}, 1)
    nodes._check()
    assert not nodes.refresh(N1)


def test_forgetting_gives_back_what_assuming_took() -> None:
    _cluster, nodes = fleet(N1)
    before = dict(nodes.infos[N1].free)
    nodes.assume(POD, N1)
    assert nodes.forget(POD.uid) == N1
    assert (nodes.infos[N1].free, nodes.infos[N1].pod_count) == (before, 0)


@given(st.lists(st.tuples(st.sampled_from([N1, N2]), st.integers(1, 3)), max_size=7))
def test_assume_together_equals_assume_one_by_one(
    placed: list[tuple[NodeName, int]],
) -> None:
    _cluster, together = fleet(N1, N2)
    _cluster, singly = fleet(N1, N2)
    pods: list[tuple[Pod, Resources, int]] = []
    become: dict[int, NodeClass] = {}
    for number, (name, cpu) in enumerate(placed):
        pod = Pod(name=f"p{number}", requests={"cpu": cpu})
        singly.assume(pod, name)
        index = together.infos[name].index
        before = become.get(index) or together.classes.of(index)
        become[index] = together.classes.taking(before, pod.requests)
        pods.append((pod, pod.requests, index))
    together.assume_together(pods, become.items())
    together._check()
    assert together.assumed == singly.assumed
    assert together.total() == singly.total()
    for name in (N1, N2):
        assert together.infos[name].free == singly.infos[name].free
        assert together.infos[name].holders == singly.infos[name].holders


def test_reserved_pods_count_as_pods_on_the_node() -> None:
    _cluster, nodes = fleet(N1)
    nodes.assume(POD, N1)
    entry = ReservedCapacity.expecting(1, N1, 0, ())
    for _ in range(2):
        entry.add(Resources({"cpu": "500m"}))
    nodes.reserve([entry, ReservedCapacity(2, N1, 0, POD.requests)])
    assert nodes.infos[N1].pod_count == 4
    nodes._check()


def test_capacity_of_a_nominated_pod_is_taken_off_a_node_and_put_back() -> None:
    _cluster, nodes = fleet(N1)
    entry = ReservedCapacity(2, N1, 0, POD.requests)
    nodes.reserve([entry])
    before = nodes.class_of(N1)
    holder = Holder(POD.uid, nodes.infos[N1].index, POD.requests, entry)
    view = NodesView(nodes)
    assert view.remove([holder]) == [holder]
    assert view.remove([holder]) == []
    assert nodes.infos[N1].pod_count == 0
    assert view.original(holder.at) is before
    view.mark_ready([holder])
    assert nodes.infos[N1].pod_count == 1
    assert nodes.class_of(N1) is before
    view.remove([holder])
    view.discard()
    assert view.original(holder.at) is nodes.class_of(N1) is before
    nodes._check()


def test_nodes_view_removes_a_pod_once() -> None:
    _cluster, nodes = fleet(N1)
    others = [evolve(POD, name=name, uid=PodUID(name)) for name in ("first", "second")]
    for pod in others:
        nodes.assume(pod, N1)
    first, second = (Holder(pod.uid, nodes.infos[N1].index, pod.requests) for pod in others)
    view = NodesView(nodes)
    assert view.remove([first]) == [first]
    assert view.remove([first, second]) == [second]
    view.discard()
    assert nodes.infos[N1].pod_count == 2
    nodes._check()


def test_nodes_without_signatures_are_classes_of_their_own() -> None:
    _cluster, nodes = fleet(N1, N2)
    assert nodes.class_of(N1) is not nodes.class_of(N2)
    before = nodes.class_of(N1)
    nodes.assume(POD, N1)
    assert nodes.class_of(N1) is not before


def test_looking_twice_changes_nothing() -> None:
    _cluster, nodes = fleet(N1)
    version, info = nodes.version, nodes.infos[N1]
    assert not nodes.refresh(N1)
    assert nodes.version == version
    assert nodes.infos[N1].free == info.free


@pytest.mark.parametrize(
    ("change", "may_take_more"),
    [
        (NodeAdded(Node(name=N1, allocatable={"cpu": 9})), True),
        (NodeAdded(Node(name=N1, allocatable={"cpu": 8}, labels={"zone": "a"})), True),
        (PodAdded(Pod(name="q", node_name=N1, requests={"cpu": 1})), False),
        (NodeDeleted(N1), False),
    ],
    ids=["grows", "is-labelled", "takes-a-pod", "goes"],
)
def test_node_says_whether_it_may_take_more(
    change: NodeAdded | PodAdded | NodeDeleted, may_take_more: bool
) -> None:
    cluster, nodes = fleet(N1)
    cluster.apply(change)
    assert nodes.refresh(N1) is may_take_more


def on_n1(name: str, **requests: int | str) -> PodAdded:
    return PodAdded(Pod(name=name, node_name=N1, requests=requests))


@pytest.mark.parametrize(
    ("first", "then", "may_take_more"),
    [
        ([on_n1("q")], [PodDeleted(Pod(name="q").uid)], True),
        ([on_n1("q", cpu=2)], [on_n1("q", cpu=1)], True),
        ([on_n1("q", cpu=1)], [on_n1("q", cpu=2)], False),
        ([on_n1("q", cpu=1)], [PodDeleted(Pod(name="q").uid), on_n1("r", cpu=1)], False),
        ([], [on_n1("q", disk=1)], False),
        ([on_n1("q", disk=1)], [on_n1("r", cpu=1)], False),
    ],
    ids=[
        "loses-a-pod-that-asks-for-nothing",
        "has-one-that-shrinks",
        "has-one-that-grows",
        "has-one-in-the-place-of-another",
        "takes-one-that-asks-for-what-it-lacks",
        "has-one-that-asks-for-what-it-lacks-and-takes-another",
    ],
)
def test_node_may_take_more_when_it_has_more_of_something_or_fewer_pods(
    first: list[PodAdded], then: list[PodAdded | PodDeleted], may_take_more: bool
) -> None:
    cluster, nodes = fleet(N2)
    cluster.apply(NodeAdded(Node(name=N1, allocatable={"cpu": 8, "memory": 8})))
    for event in first:
        cluster.apply(event)
    nodes.refresh(N1)
    for change in then:
        cluster.apply(change)
    assert nodes.refresh(N1) is may_take_more
    nodes._check()


@pytest.mark.parametrize("others", [0, 7])
@pytest.mark.parametrize("had", range(-2, 3))
@pytest.mark.parametrize("has", range(-2, 3))
def test_shortage_of_one_node_is_not_taken_off_the_total_free_capacity(
    had: int, has: int, others: int
) -> None:
    """To the thousandth, on either side of nothing."""
    info = NodeInfo(Node(name=N1), 1)
    info.free["cpu"] = had
    other = {"cpu": others}
    total = total_free([info.free, other])
    requests = Resources.from_milli({"cpu": abs(has - had)})
    info.shift(requests, 1 if has > had else -1, total)
    assert info.free["cpu"] == has
    assert {name: n for name, n in total.items() if n} == total_free([info.free, other])


def test_resource_that_a_node_does_not_offer_can_be_taken_and_given_back() -> None:
    cluster, nodes = fleet(N1)
    before = dict(nodes.total())
    pod = Pod(name="q", requests={"cpu": 1, "disk": 2})
    cluster.apply(PodAdded(pod))
    nodes.assume(pod, N1)
    assert nodes.infos[N1].free == {"cpu": 7000, "disk": -2000}
    nodes._check()
    nodes.forget(pod.uid)
    assert {name: n for name, n in nodes.infos[N1].free.items() if n} == {"cpu": 8000}
    nodes._check()
    assert nodes.total() == before


def test_least_that_a_node_can_offer_counts() -> None:
    cluster, nodes = fleet()
    cluster.apply(NodeAdded(Node(name=N1, allocatable={"cpu": "1m"})))
    assert nodes.refresh(N1)
    assert nodes.total() == {"cpu": 1}


def test_each_change_makes_another_version() -> None:
    cluster, nodes = fleet(N1)
    versions = [nodes.version]
    changes: list[Callable[[], object]] = [
        lambda: nodes.assume(POD, N1),
        lambda: nodes.forget(POD.uid),
        lambda: cluster.apply(NodeDeleted(N1)) and nodes.refresh(N1),
    ]
    for change in changes:
        change()
        versions.append(nodes.version)
    assert versions == sorted(set(versions))


def test_each_changed_node_leaves_a_distinct_mark() -> None:
    """Also when all is as it was before; a pod that comes or goes leaves none."""
    cluster, nodes = fleet()
    marks = [nodes.altered]

    def tell(change: NodeAdded | NodeDeleted) -> None:
        cluster.apply(change)
        nodes.refresh(N1)
        marks.append(nodes.altered)
        nodes.refresh(N1)
        assert nodes.altered == marks[-1]

    for cpu in (8, 9, 8):
        tell(NodeAdded(Node(name=N1, allocatable={"cpu": cpu})))
    cluster.apply(on_n1("q", cpu=1))
    nodes.refresh(N1)
    assert nodes.altered == marks[-1]
    for _ in range(2):
        tell(NodeDeleted(N1))
        tell(NodeAdded(Node(name=N1, allocatable={"cpu": 8})))
    assert marks == sorted(set(marks))


def test_cluster_state_that_contradicts_itself_is_refused() -> None:
    class Confused:
        def node(self, name: NodeName) -> Node:
            return Node(name=name)

        def pods_on(self, _name: NodeName) -> Iterable[Pod]:
            return (Pod(name="p", node_name=N2),)

    confused: Any = Confused()
    with pytest.raises(ClusterStateError) as caught:
        Nodes(confused).refresh(N1)
    assert (caught.value.subject, caught.value.problem) == (
        "default/p",
        "is shown on n1, is on n2",
    )


class Asked:
    """A cluster state with one node, that knows what it was asked."""

    def __init__(self, *names: NodeName) -> None:
        self.names = names
        self.asked: list[tuple[str, NodeName]] = []

    def node(self, name: NodeName) -> Node | None:
        self.asked.append(("node", name))
        return Node(name=name) if name in self.names else None

    def pods_on(self, name: NodeName) -> Iterable[Pod]:
        self.asked.append(("pods_on", name))
        return ()


def test_read_pods_are_not_read_again() -> None:
    cluster: Any = Asked(N1)
    nodes = Nodes(cluster)
    nodes.look(N1)
    nodes.look(N1)
    assert nodes.refresh(N1)
    assert cluster.asked == [("node", N1), ("pods_on", N1)]
    nodes.forget_looks()
    nodes.refresh(N1)
    assert len(cluster.asked) == 4


def test_pods_on_a_missing_node_are_not_read() -> None:
    cluster: Any = Asked(N1)
    assert not Nodes(cluster).refresh(N2)
    assert cluster.asked == [("node", N2)]


def lose_room(nodes: Nodes) -> None:
    nodes.infos[N1].free["cpu"] -= 1


def find_room(nodes: Nodes) -> None:
    nodes.infos[N1].free["disk"] = 1


def forget_room(nodes: Nodes) -> None:
    del nodes.infos[N1].free["cpu"]


def offer_the_least_and_forget_it(nodes: Nodes) -> None:
    nodes.infos[N2].node = Node(name=N2, allocatable={"cpu": "1m"})
    del nodes.infos[N2].free["cpu"]


def lose_the_class(nodes: Nodes) -> None:
    nodes.classes.remove(nodes.infos[N1].index)


def assume_a_ghost(nodes: Nodes) -> None:
    nodes.assumed[PodUID("ghost")] = (N1, POD)


def miscount_the_total(nodes: Nodes) -> None:
    nodes._total["cpu"] += 1


@pytest.mark.parametrize(
    ("sabotage", "says"),
    [
        (lose_room, "n1: cpu is miscounted"),
        (find_room, "n1: disk is miscounted"),
        (forget_room, "n1: cpu is miscounted"),
        (lose_the_class, "the nodes and the nodes in classes differ"),
        (assume_a_ghost, "ghost is assumed on n1, and does not hold it"),
        (offer_the_least_and_forget_it, "n2: cpu is miscounted"),
        (miscount_the_total, "in all {'cpu': 16000} is free, not {'cpu': 16001}"),
    ],
)
def test_check_sees_what_drifted(sabotage: Callable[[Nodes], None], says: str) -> None:
    _cluster, nodes = fleet(N1, N2)
    nodes._check()
    sabotage(nodes)
    with pytest.raises(InternalError) as caught:
        nodes._check()
    assert caught.value.invariant == says


def test_zero_free_capacity_and_none_stated_are_alike_to_the_check() -> None:
    cluster, nodes = fleet()
    cluster.apply(NodeAdded(Node(name=N1, allocatable={"cpu": 3})))
    nodes.refresh(N1)
    nodes.assume(POD, N1)
    assert nodes.infos[N1].free.pop("cpu") == 0
    nodes._check()
