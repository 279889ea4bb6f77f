"""Equal pods are evaluated once, and as if each were evaluated separately."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis.stateful import invariant, rule

from gangsched.errors import InternalError
from gangsched.events import NodeAdded, NodeDeleted, PodAdded
from gangsched.explain import Diagnosis
from gangsched.framework.nodes.judgements import Judgement
from gangsched.framework.nodes.node_class import NodeClass
from gangsched.framework.nodes.node_classes import NodeClasses
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.memory import InMemoryCluster
from gangsched.model import Node, NodeName, Pod
from gangsched.outcomes import Unschedulable
from gangsched.plugins import NodeResources, NodeUnschedulable
from support.fleet import NAMES, FleetMachine, signature
from support.views import cycle

POD = Pod(name="p", requests={"cpu": 1, "gpu": 1})


class Judging:
    """A judge that asks two real plugins, and remembers which nodes it was asked about."""

    def __init__(self, pod: Pod = POD) -> None:
        self.pod = pod
        self.screened: list[NodeName] = []
        self.scored: list[NodeName] = []
        self.prepared = 0

    def screen(self, given: NodeClass) -> tuple[int, tuple[str, ...]]:
        info = given
        self.screened.append(info.node.name)
        for plugin in (NodeUnschedulable(), NodeResources()):
            outcome = plugin.filter(cycle(), self.pod, info)
            if isinstance(outcome, Unschedulable):
                return (0, outcome.reasons)
        return (NodeResources().headroom(self.pod, info), ())

    def before_scoring(self, found: Sequence[NodeClass]) -> None:
        self.prepared += 1

    def quick(self, given: NodeClass) -> Judgement | None:
        return None

    def score(self, given: NodeClass) -> int:
        info = given
        self.scored.append(info.node.name)
        return NodeResources().score(cycle(), self.pod, info)


def a_class(nodes: Nodes, judge: Judging | None = None) -> PodClass:
    judge = judge or Judging()
    made = PodClass(judge.pod.requests, judge.pod)
    made.judgements.refresh(nodes, judge)
    return made


class PodClassMachine(FleetMachine):
    """One class is kept through every change, the other is made again."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = PodClass(POD.requests, POD)
        self.seen: set[NodeClass | None] = set()

    @rule()
    def refresh(self) -> None:
        judge = Judging()
        self.kept.judgements.refresh(self.nodes, judge)
        here = {self.nodes.class_of(name) for name in self.nodes.infos}
        assert len(here - self.seen) <= len(judge.screened) <= len(here)
        self.seen |= here
        fresh = a_class(self.nodes)
        assert self.kept.judgements.best(self.nodes) == fresh.judgements.best(self.nodes)
        assert self.kept.judgements.diagnosis() == fresh.judgements.diagnosis()
        assert self.kept.judgements.headroom == fresh.judgements.headroom
        assert all(
            self.kept.judgements.takes(c) == fresh.judgements.takes(c)
            for c in map(self.nodes.class_of, NAMES)
        )
        self.kept.judgements._check(self.nodes, Judging(), self.kept.signature)

    @invariant()
    def the_best_is_the_first_of_the_best_scores(self) -> None:
        fresh, judge = a_class(self.nodes), Judging()
        found = {info: self.nodes.classes.of(info.index) for info in self.nodes.infos.values()}
        takers = [info for info, given in found.items() if fresh.judgements.takes(given)]
        assert all(not judge.screen(found[info])[1] for info in takers)
        best = min(takers, key=lambda info: (-judge.score(found[info]), info.index), default=None)
        assert fresh.judgements.best(self.nodes) == (None if best is None else best.node.name)


class LonelyPodClassMachine(PodClassMachine):
    """The same if no plugin has a node signature."""

    signed = False


TestPodClassMachine = PodClassMachine.TestCase
TestLonelyPodClassMachine = LonelyPodClassMachine.TestCase


def fleet(*allocatable: dict[str, int], cordoned: int = 0, signed: bool = False) -> Nodes:
    cluster = InMemoryCluster()
    nodes = Nodes(cluster, signature if signed else None)
    for number, amounts in enumerate(allocatable):
        name = NodeName(f"n{number}")
        node = Node(name=name, allocatable=amounts, unschedulable=number < cordoned)
        cluster.apply(NodeAdded(node))
        nodes.refresh(name)
    return nodes


def cluster_of(nodes: Nodes) -> InMemoryCluster:
    assert isinstance(nodes._cluster, InMemoryCluster)
    return nodes._cluster


def test_diagnosis_is_in_kube_schedulers_words() -> None:
    judge = Judging(Pod(name="p", requests={"nvidia.com/gpu": 1}))
    nodes = fleet({}, {}, {}, {}, {}, cordoned=2)
    assert str(a_class(nodes, judge).judgements.diagnosis()) == (
        "0/5 nodes are available: 3 Insufficient nvidia.com/gpu, 2 node(s) were unschedulable."
    )


def test_node_counts_for_every_reason_that_it_gives() -> None:
    nodes = fleet({"cpu": 4}, {"gpu": 4}, {})
    assert str(a_class(nodes).judgements.diagnosis()) == (
        "0/3 nodes are available: 2 Insufficient cpu, 2 Insufficient gpu."
    )


def test_diagnosis_without_nodes_states_it() -> None:
    nodes = fleet()
    assert str(a_class(nodes).judgements.diagnosis()) == "no nodes available to schedule pods"
    assert a_class(nodes).judgements.best(nodes) is None
    assert (a_class(nodes).judgements.headroom, a_class(nodes).users) == (0, 0)


def test_class_that_was_never_evaluated_has_no_node() -> None:
    """Its judge may have raised; it can be asked all the same."""
    nodes, fresh = fleet({"cpu": 4, "gpu": 4}), PodClass(POD.requests, POD)
    assert (fresh.judgements.headroom, fresh.judgements.best(nodes)) == (0, None)
    assert fresh.judgements.diagnosis() == Diagnosis(0, ())
    assert not fresh.judgements.takes(nodes.class_of(NodeName("n0")))
    assert not [
        *fresh.judgements.ranked(),
        *fresh.judgements.with_max_pods(),
        *fresh.judgements.by_max_pods(False, 1),
    ]


def test_reasons_of_no_node_are_not_reported() -> None:
    nodes = fleet({}, {"cpu": 1})
    kept = a_class(nodes)
    cluster = cluster_of(nodes)
    cluster.apply(NodeDeleted(NodeName("n0")))
    nodes.refresh(NodeName("n0"))
    kept.judgements.refresh(nodes, Judging())
    assert str(kept.judgements.diagnosis()) == "0/1 nodes are available: 1 Insufficient gpu."


def test_earliest_of_equal_nodes_is_taken() -> None:
    nodes = fleet(*[{"cpu": 4, "gpu": 4}] * 3)
    assert a_class(nodes).judgements.best(nodes) == "n0"


def test_headroom_is_summed_over_the_nodes_that_fit() -> None:
    nodes = fleet({"cpu": 4, "gpu": 2}, {"cpu": 3, "gpu": 9}, {"cpu": 9}, {"cpu": 9, "gpu": 9})
    assert a_class(nodes).judgements.headroom == 2 + 3 + 0 + 9


def test_only_nodes_that_changed_are_asked_again() -> None:
    """F32."""
    nodes = fleet(*[{"cpu": 4, "gpu": 4}] * 3)
    judge = Judging()
    kept = a_class(nodes, judge)
    assert judge.screened == judge.scored == ["n0", "n1", "n2"]
    assert judge.prepared == 1
    kept.judgements.refresh(nodes, judge)
    assert len(judge.screened) == 3
    nodes.assume(Pod(name="q", requests={"gpu": 4}), NodeName("n1"))
    kept.judgements.refresh(nodes, judge)
    assert judge.screened[3:] == ["n1"]
    assert judge.scored[3:] == []
    assert judge.prepared == 1
    assert not kept.judgements.takes(nodes.class_of(NodeName("n1")))


def test_only_changed_nodes_are_visited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """F32."""

    def gone_through(_classes: NodeClasses) -> Iterator[NodeClass]:
        pytest.fail("every class was gone through")

    nodes = fleet(*[{"cpu": 4, "gpu": 4}] * 3)
    kept = a_class(nodes)
    monkeypatch.setattr(NodeClasses, "occupied", gone_through)
    nodes.assume(Pod(name="q", requests={"gpu": 3}), NodeName("n1"))
    kept.judgements.refresh(nodes, Judging())
    assert kept.judgements.headroom == 4 + 1 + 4


def test_class_that_a_node_left_is_ranked_no_more() -> None:
    """One that was ranked from the first, and one that came between."""
    nodes = fleet({"cpu": 4, "gpu": 4}, {"cpu": 4, "gpu": 4})
    kept = a_class(nodes)
    for number in range(3):
        nodes.assume(Pod(name=f"q{number}", requests={"gpu": 1}), NodeName("n1"))
        kept.judgements.refresh(nodes, Judging())
        here = [nodes.class_of(NodeName(name)) for name in ("n0", "n1")]
        assert {found for _score, found in kept.judgements.ranked()} == set(here)
        assert dict(kept.judgements.with_max_pods()) == {here[0]: 4, here[1]: 3 - number}
        kept.judgements._check(nodes, Judging(), kept.signature)


class Failing(Judging):
    """A judge of which one method raises for one node."""

    def __init__(self, method: str) -> None:
        super().__init__()
        self.method = method

    def screen(self, given: NodeClass) -> tuple[int, tuple[str, ...]]:
        if self.method == "screen" and given.node.name == "n1":
            raise RuntimeError
        return super().screen(given)

    def before_scoring(self, found: Sequence[NodeClass]) -> None:
        if self.method == "before_scoring":
            raise RuntimeError

    def score(self, given: NodeClass) -> int:
        if self.method == "score" and given.node.name == "n1":
            raise RuntimeError
        return super().score(given)


@pytest.mark.parametrize("method", ["screen", "before_scoring", "score"])
def test_judge_that_raises_leaves_the_class_as_it_was(method: str) -> None:
    nodes = fleet({"cpu": 4, "gpu": 4}, {"cpu": 4, "gpu": 4})
    kept = a_class(nodes)
    nodes.assume(Pod(name="q", requests={"cpu": 4}), NodeName("n0"))
    nodes.assume(Pod(name="r", requests={"cpu": 1}), NodeName("n1"))
    before = (
        kept.judgements.best(nodes),
        kept.judgements.headroom,
        kept.judgements.diagnosis(),
        kept.judgements.takes(nodes.class_of(NodeName("n0"))),
    )
    with pytest.raises(RuntimeError):
        kept.judgements.refresh(nodes, Failing(method))
    assert before == (
        kept.judgements.best(nodes),
        kept.judgements.headroom,
        kept.judgements.diagnosis(),
        kept.judgements.takes(nodes.class_of(NodeName("n0"))),
    )
    kept.judgements.refresh(nodes, Judging())
    kept.judgements._check(nodes, Judging(), kept.signature)
    assert kept.judgements.best(nodes) == "n1"


def test_best_class_is_of_unchanged_nodes_until_it_is_refreshed() -> None:
    nodes = fleet(*[{"cpu": 4, "gpu": 4}] * 3)
    kept = a_class(nodes)
    nodes.assume(Pod(name="q", requests={"cpu": 1}), NodeName("n0"))
    with pytest.raises(RuntimeError):
        kept.judgements.refresh(nodes, Failing("before_scoring"))
    assert kept.judgements.best(nodes) == "n1"


def test_check_takes_classes_of_many_nodes_and_nodes_of_many_reasons() -> None:
    """And what changed since the class was last asked."""
    alike = {"cpu": 4, "gpu": 2}
    nodes = fleet(alike, alike, {"cpu": 9, "gpu": 9}, {"gpu": 1}, {}, {}, signed=True)
    kept = a_class(nodes)
    kept.judgements._check(nodes, Judging(), kept.signature)
    assert kept.judgements.headroom == 2 + 2 + 9
    assert str(kept.judgements.diagnosis()) == (
        "0/6 nodes are available: 3 Insufficient cpu, 2 Insufficient gpu."
    )
    nodes.assume(Pod(name="q", requests={"gpu": 3}), NodeName("n2"))
    kept.judgements._check(nodes, Judging(), kept.signature)
    assert kept.judgements.headroom == 2 + 2 + 6


def miscount_the_headroom(kept: PodClass) -> None:
    kept.judgements.headroom += 1


def lose_the_order(kept: PodClass) -> None:
    assert kept.judgements._order is not None
    kept.judgements._order._levels.popitem()
    kept.judgements._order._ranks.clear()


def keep_another_score(kept: PodClass) -> None:
    kept.judgements._judged = {
        c: known._replace(score=-1) for c, known in kept.judgements._judged.items()
    }


def keep_another_reason(kept: PodClass) -> None:
    kept.judgements._reasons["why"] = 1


def miscount_the_nodes(kept: PodClass) -> None:
    kept.judgements._nodes += 1


@pytest.mark.parametrize(
    ("sabotage", "says"),
    [
        (miscount_the_headroom, "headroom 5 is wrong"),
        (lose_the_order, "the order of nodes is wrong"),
        (keep_another_score, "a node is not judged as it is"),
        (keep_another_reason, "reasons Counter({'Insufficient cpu': 1, 'why': 1}) are wrong"),
        (miscount_the_nodes, "reasons Counter({'Insufficient cpu': 1}) are wrong"),
    ],
)
def test_check_sees_a_class_that_drifted(sabotage: Callable[[PodClass], None], says: str) -> None:
    nodes, judge = fleet({"cpu": 4, "gpu": 4}, {"gpu": 1}), Judging()
    kept = PodClass("alike", POD)
    kept.judgements._check(nodes, judge, kept.signature)
    sabotage(kept)
    with pytest.raises(InternalError) as caught:
        kept.judgements._check(nodes, judge, kept.signature)
    assert caught.value.invariant == f"class alike: {says}"


def test_pod_on_a_node_uses_its_requests() -> None:
    nodes = fleet({"cpu": 2, "gpu": 2})
    cluster = cluster_of(nodes)
    name = NodeName("n0")
    cluster.apply(PodAdded(Pod(name="q", node_name=name, requests={"gpu": 1})))
    nodes.refresh(name)
    assert a_class(nodes).judgements.headroom == 1


def test_transitions_of_forgotten_classes_are_forgotten_without_a_node_change() -> None:
    """F38: a pod that waits for long thinks of many nodes as they would be."""
    nodes, judge = fleet({"cpu": 4, "gpu": 4}), Judging()
    kept = a_class(nodes, judge)
    here = nodes.class_of(NodeName("n0"))
    assert here is not None
    would_be = nodes.classes.taking(here, POD.requests)
    assert kept.judgements.judgement(would_be, judge).max_pods == 3
    nodes.classes._forget_empty()
    kept.judgements.refresh(nodes, judge)
    assert list(kept.judgements._judged) == [here]
    kept.judgements._check(nodes, judge, kept.signature)


def test_computed_transitions_are_kept_until_classes_are_forgotten() -> None:
    nodes, judge = fleet({"cpu": 4, "gpu": 4}, {"cpu": 4, "gpu": 4}), Judging()
    kept = PodClass(POD.requests, POD)
    # a judge notes them while the first nodes are judged
    kept.judgements.answers["part"] = "answer"
    kept.judgements.refresh(nodes, judge)
    here = nodes.class_of(NodeName("n0"))
    assert here is not None
    would_be = nodes.classes.taking(here, POD.requests)
    kept.judgements.judgement(would_be, judge)
    nodes.assume(Pod(name="q", requests={"gpu": 4}), NodeName("n1"))
    kept.judgements.refresh(nodes, judge)
    kept.judgements.refresh(nodes, judge)
    asked = len(judge.screened)
    assert kept.judgements.judgement(would_be, judge).max_pods == 3
    assert len(judge.screened) == asked
    assert kept.judgements.answers == {"part": "answer"}
    nodes.classes._forget_empty()
    kept.judgements.refresh(nodes, judge)
    assert kept.judgements.answers == {}
    kept.judgements.answers["part"] = "another answer"
    kept.judgements.refresh(nodes, judge)
    assert kept.judgements.answers == {"part": "another answer"}, "once for each time"
