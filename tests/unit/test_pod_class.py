"""Like pods are judged once, and as if each were judged anew."""

from __future__ import annotations

import pytest
from hypothesis.stateful import invariant, rule

from gangsched.errors import InternalError
from gangsched.events import NodeAdded, NodeDeleted, PodAdded
from gangsched.framework.node_class import NodeClass
from gangsched.framework.nodes import Nodes
from gangsched.framework.pod_class import PodClass
from gangsched.memory import InMemoryCluster
from gangsched.model import Node, NodeName, Pod
from gangsched.outcomes import Unschedulable
from gangsched.plugins import NodeResources, NodeUnschedulable
from support.fleet import NAMES, FleetMachine
from support.views import cycle

POD = Pod(name="p", requests={"cpu": 1, "gpu": 1})


class Judging:
    """A judge that asks two real plugins, and remembers whom it was asked about."""

    def __init__(self, pod: Pod = POD) -> None:
        self.pod = pod
        self.screened: list[NodeName] = []
        self.scored: list[NodeName] = []
        self.prepared = 0

    def screen(self, given: NodeClass) -> tuple[int, str]:
        info = given.sample
        self.screened.append(info.node.name)
        for plugin in (NodeUnschedulable(), NodeResources()):
            outcome = plugin.filter(cycle(), self.pod, info)
            if isinstance(outcome, Unschedulable):
                return (0, outcome.reason)
        return (NodeResources().headroom(self.pod, info), "")

    def before_scoring(self) -> None:
        self.prepared += 1

    def score(self, given: NodeClass) -> int:
        info = given.sample
        self.scored.append(info.node.name)
        return NodeResources().score(cycle(), self.pod, info)


def a_class(nodes: Nodes, judge: Judging | None = None) -> PodClass:
    judge = judge or Judging()
    made = PodClass(judge.pod.requests, judge.pod)
    made.refresh(nodes, judge)
    return made


class PodClassMachine(FleetMachine):
    """One class is kept through every change, the other is made anew."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = PodClass(POD.requests, POD)
        self.seen: set[NodeClass | None] = set()

    @rule()
    def refresh(self) -> None:
        judge = Judging()
        self.kept.refresh(self.nodes, judge)
        here = {self.nodes.class_of(name) for name in self.nodes.infos}
        assert len(here - self.seen) <= len(judge.screened) <= len(here)
        self.seen |= here
        fresh = a_class(self.nodes)
        assert self.kept.best(self.nodes) == fresh.best(self.nodes)
        assert self.kept.diagnosis() == fresh.diagnosis()
        assert self.kept.headroom == fresh.headroom
        assert all(self.kept.takes(c) == fresh.takes(c) for c in map(self.nodes.class_of, NAMES))
        self.kept._check(self.nodes, Judging())

    @invariant()
    def the_best_is_the_first_of_the_best_scores(self) -> None:
        fresh, judge = a_class(self.nodes), Judging()
        found = {info: self.nodes.classes.of(info.index) for info in self.nodes.infos.values()}
        takers = [info for info, given in found.items() if fresh.takes(given)]
        assert all(not judge.screen(found[info])[1] for info in takers)
        best = min(takers, key=lambda info: (-judge.score(found[info]), info.index), default=None)
        assert fresh.best(self.nodes) == (None if best is None else best.node.name)


class LonelyPodClassMachine(PodClassMachine):
    """The same where nobody says what it reads of a node."""

    signed = False


TestPodClassMachine = PodClassMachine.TestCase
TestLonelyPodClassMachine = LonelyPodClassMachine.TestCase


def fleet(*allocatable: dict[str, int], cordoned: int = 0) -> Nodes:
    cluster = InMemoryCluster()
    nodes = Nodes(cluster)
    for number, amounts in enumerate(allocatable):
        name = NodeName(f"n{number}")
        node = Node(name=name, allocatable=amounts, unschedulable=number < cordoned)
        cluster.apply(NodeAdded(node))
        nodes.refresh(name)
    return nodes


def cluster_of(nodes: Nodes) -> InMemoryCluster:
    assert isinstance(nodes._cluster, InMemoryCluster)
    return nodes._cluster


def test_the_diagnosis_is_in_kube_schedulers_words() -> None:
    judge = Judging(Pod(name="p", requests={"nvidia.com/gpu": 1}))
    nodes = fleet({}, {}, {}, {}, {}, cordoned=2)
    assert str(a_class(nodes, judge).diagnosis()) == (
        "0/5 nodes are available: 3 Insufficient nvidia.com/gpu, 2 node(s) were unschedulable."
    )


def test_a_node_counts_for_every_reason_that_it_gives() -> None:
    nodes = fleet({"cpu": 4}, {"gpu": 4}, {})
    assert str(a_class(nodes).diagnosis()) == (
        "0/3 nodes are available: 2 Insufficient cpu, 2 Insufficient gpu."
    )


def test_without_nodes_the_diagnosis_says_so() -> None:
    nodes = fleet()
    assert str(a_class(nodes).diagnosis()) == "no nodes available to schedule pods"
    assert a_class(nodes).best(nodes) is None
    assert (a_class(nodes).headroom, a_class(nodes).users) == (0, 0)


def test_reasons_that_no_node_gives_any_more_are_not_told() -> None:
    nodes = fleet({}, {"cpu": 1})
    kept = a_class(nodes)
    cluster = cluster_of(nodes)
    cluster.apply(NodeDeleted(NodeName("n0")))
    nodes.refresh(NodeName("n0"))
    kept.refresh(nodes, Judging())
    assert str(kept.diagnosis()) == "0/1 nodes are available: 1 Insufficient gpu."


def test_of_equal_nodes_the_first_to_come_is_taken() -> None:
    nodes = fleet(*[{"cpu": 4, "gpu": 4}] * 3)
    assert a_class(nodes).best(nodes) == "n0"


def test_the_headroom_is_summed_over_the_nodes_that_fit() -> None:
    nodes = fleet({"cpu": 4, "gpu": 2}, {"cpu": 3, "gpu": 9}, {"cpu": 9}, {"cpu": 9, "gpu": 9})
    assert a_class(nodes).headroom == 2 + 3 + 0 + 9


def test_only_nodes_that_changed_are_asked_again() -> None:
    """F32."""
    nodes = fleet(*[{"cpu": 4, "gpu": 4}] * 3)
    judge = Judging()
    kept = a_class(nodes, judge)
    assert judge.screened == judge.scored == ["n0", "n1", "n2"]
    assert judge.prepared == 1
    kept.refresh(nodes, judge)
    assert len(judge.screened) == 3
    nodes.assume(Pod(name="q", requests={"gpu": 4}), NodeName("n1"))
    kept.refresh(nodes, judge)
    assert judge.screened[3:] == ["n1"]
    assert judge.scored[3:] == []
    assert judge.prepared == 1
    assert not kept.takes(nodes.class_of(NodeName("n1")))


class Failing(Judging):
    """A judge of which one method raises for one node."""

    def __init__(self, method: str) -> None:
        super().__init__()
        self.method = method

    def screen(self, given: NodeClass) -> tuple[int, str]:
        if self.method == "screen" and given.sample.node.name == "n1":
            raise RuntimeError
        return super().screen(given)

    def before_scoring(self) -> None:
        if self.method == "before_scoring":
            raise RuntimeError

    def score(self, given: NodeClass) -> int:
        if self.method == "score" and given.sample.node.name == "n1":
            raise RuntimeError
        return super().score(given)


@pytest.mark.parametrize("method", ["screen", "before_scoring", "score"])
def test_a_judge_that_raises_leaves_the_class_as_it_was(method: str) -> None:
    nodes = fleet({"cpu": 4, "gpu": 4}, {"cpu": 4, "gpu": 4})
    kept = a_class(nodes)
    nodes.assume(Pod(name="q", requests={"cpu": 4}), NodeName("n0"))
    nodes.assume(Pod(name="r", requests={"cpu": 1}), NodeName("n1"))
    before = (
        kept.best(nodes),
        kept.headroom,
        kept.diagnosis(),
        kept.takes(nodes.class_of(NodeName("n0"))),
    )
    with pytest.raises(RuntimeError):
        kept.refresh(nodes, Failing(method))
    assert before == (
        kept.best(nodes),
        kept.headroom,
        kept.diagnosis(),
        kept.takes(nodes.class_of(NodeName("n0"))),
    )
    kept.refresh(nodes, Judging())
    kept._check(nodes, Judging())
    assert kept.best(nodes) == "n1"


def test_the_check_sees_a_class_that_drifted() -> None:
    nodes = fleet({"cpu": 4, "gpu": 4})
    kept = a_class(nodes)
    kept.headroom += 1
    with pytest.raises(InternalError):
        kept._check(nodes, Judging())
    kept = a_class(nodes)
    kept._order.clear()
    with pytest.raises(InternalError):
        kept._check(nodes, Judging())
    kept = a_class(nodes)
    with pytest.raises(InternalError):
        kept._check(nodes, Judging(Pod(name="p", requests={"cpu": 2})))


def test_a_pod_on_a_node_takes_its_room() -> None:
    nodes = fleet({"cpu": 2, "gpu": 2})
    cluster = cluster_of(nodes)
    name = NodeName("n0")
    cluster.apply(PodAdded(Pod(name="q", node_name=name, requests={"gpu": 1})))
    nodes.refresh(name)
    assert a_class(nodes).headroom == 1


def test_what_was_thought_of_classes_that_are_forgotten_is_forgotten_though_no_node_changed() -> (
    None
):
    """F38: a pod that waits for long thinks of many nodes as they would be."""
    nodes, judge = fleet({"cpu": 4, "gpu": 4}), Judging()
    kept = a_class(nodes, judge)
    here = nodes.class_of(NodeName("n0"))
    assert here is not None
    would_be = nodes.classes.taking(here, POD.requests)
    assert kept.judgement(would_be, judge).room == 3
    nodes.classes._forget_empty()
    kept.refresh(nodes, judge)
    assert list(kept._judged) == [here]
    kept._check(nodes, judge)
