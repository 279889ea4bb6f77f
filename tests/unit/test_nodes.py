"""Nodes with what is free on them, kept incrementally, against a count from scratch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis.stateful import invariant

from gangsched.errors import ClusterStateError, InternalError
from gangsched.events import Bound, NodeAdded, NodeDeleted, PodAdded
from gangsched.framework.nodes import Nodes
from gangsched.memory import InMemoryCluster
from gangsched.model import Node, NodeName, Pod, PodUID, Resources
from support.fleet import FleetMachine

N1, N2 = NodeName("n1"), NodeName("n2")
POD = Pod(name="p", requests={"cpu": 3})


class NodesMachine(FleetMachine):
    """What is kept is what a count from scratch gives."""

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
    """The same where nobody says what it reads of a node."""

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


def test_a_pod_that_is_assumed_and_assigned_counts_once() -> None:
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


def test_what_is_assumed_survives_the_absence_of_its_node() -> None:
    cluster, nodes = fleet(N1)
    nodes.assume(POD, N1)
    cluster.apply(NodeDeleted(N1))
    assert not nodes.refresh(N1)
    assert not nodes.infos
    cluster.apply(NodeAdded(Node(name=N1, allocatable={"cpu": 8})))
    assert nodes.refresh(N1)
    assert nodes.infos[N1].free == {"cpu": 5000}


def test_a_pod_may_be_forgotten_after_its_node_is_gone() -> None:
    cluster, nodes = fleet(N1)
    nodes.assume(POD, N1)
    cluster.apply(NodeDeleted(N1))
    nodes.refresh(N1)
    assert nodes.forget(POD.uid) == N1
    nodes._check()


def test_who_is_forgotten_holds_its_node_all_the_same_when_it_is_assigned_there() -> None:
    """Law 8: told or not, it is there."""
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


def test_nodes_of_which_nobody_says_what_it_reads_stand_alone() -> None:
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
def test_a_node_says_whether_it_may_take_more(
    change: NodeAdded | PodAdded | NodeDeleted, may_take_more: bool
) -> None:
    cluster, nodes = fleet(N1)
    cluster.apply(change)
    assert nodes.refresh(N1) is may_take_more


def test_a_cluster_state_that_contradicts_itself_is_refused() -> None:
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


def test_the_check_sees_what_drifted() -> None:
    _cluster, nodes = fleet(N1, N2)
    nodes.infos[N1].free["cpu"] -= 1
    with pytest.raises(InternalError):
        nodes._check()
    _cluster, nodes = fleet(N1, N2)
    nodes.classes.remove(nodes.infos[N1].index)
    with pytest.raises(InternalError):
        nodes._check()
    _cluster, nodes = fleet(N1)
    nodes.assumed[PodUID("ghost")] = (N1, POD)
    with pytest.raises(InternalError):
        nodes._check()
