"""A gang of which no two members are alike reads a few of many unlike nodes for each member.

Counted are the nodes that are put in order, the steps of readers and the calls of plugins, not the
time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest

from gangsched import (
    Bind,
    Coscheduling,
    Effect,
    InMemoryCluster,
    NodeAdded,
    NodeName,
    PlacementStrategy,
    PodAdded,
    PodUnschedulable,
    Scheduler,
    SchedulingUnit,
    presets,
)
from gangsched.cycle_state import CycleState
from gangsched.framework.nodes.node_class import NodeClass, Snapshot
from gangsched.framework.nodes.ranking import Ranking
from gangsched.framework.runtime import filter_and_score
from gangsched.model import Node
from gangsched.testing import make_pod

GPU = "nvidia.com/gpu"


def prepared(
    number: int, members: Iterable[Mapping[str, str]], preset: Any = presets.gang, **options: Any
) -> Scheduler:
    """Return a scheduler with unlike nodes, to which a gang of members with requests has come."""
    cluster = InMemoryCluster()
    for n in range(number):
        offers: dict[str, str | int] = {"cpu": f"{8_000 + n}m", "memory": "64Gi", GPU: 8}
        labels = {"kubernetes.io/hostname": f"n{n}"}
        cluster.apply(NodeAdded(Node(name=NodeName(f"n{n}"), allocatable=offers, labels=labels)))
    asked = list(members)
    for n, requests in enumerate(asked):
        pod = make_pod(f"g-{n}", group="g", min_available=len(asked), requests=requests)
        cluster.apply(PodAdded(pod))
    scheduler: Scheduler = preset(cluster, **options)
    scheduler.rebuild(now=0.0)
    return scheduler


def by_cpu(count: int) -> list[dict[str, str]]:
    return [{"cpu": f"{2_000 - n}m"} for n in range(count)]


def by_gpu(count: int) -> list[dict[str, str]]:
    return [{"cpu": f"{2_000 - n}m", GPU: "1"} for n in range(count)]


def binds(effects: tuple[Effect, ...] | None) -> int:
    return sum(isinstance(effect, Bind) for effect in effects or ())


class Ordered:
    """Counts the nodes that are put in order, and those that are read in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.put = self.read = 0
        make, read = Ranking.__init__, Ranking._of

        def count_put(
            ranking: Ranking,
            ranked: Iterable[tuple[Any, int, NodeClass]],
            firsts: Mapping[NodeClass, int],
        ) -> None:
            every = list(ranked)
            self.put += len(every)
            make(ranking, every, firsts)

        def count_read(ranking: Ranking, ranks: Iterable[Any]) -> Iterator[tuple[Any, NodeClass]]:
            for each in read(ranking, ranks):
                self.read += 1
                yield each

        monkeypatch.setattr(Ranking, "__init__", count_put)
        monkeypatch.setattr(Ranking, "_of", count_read)


@pytest.fixture
def ordered(monkeypatch: pytest.MonkeyPatch) -> Ordered:
    return Ordered(monkeypatch)


@pytest.mark.parametrize("number", [30, 300])
@pytest.mark.parametrize(
    ("members", "placement"),
    [
        pytest.param(by_cpu(20), PlacementStrategy.AUTO, id="by score"),
        pytest.param(by_cpu(20), PlacementStrategy.SPREAD, id="on nodes of their own"),
        pytest.param(by_cpu(20), PlacementStrategy.PACK, id="on few nodes"),
        pytest.param(by_gpu(20), PlacementStrategy.AUTO, id="with GPUs, on few nodes"),
    ],
)
def test_decision_puts_no_nodes_in_order_for_members_that_came_before(
    number: int,
    members: list[dict[str, str]],
    placement: PlacementStrategy,
    ordered: Ordered,
) -> None:
    scheduler = prepared(number, members, placement=placement)
    # each kind of member has one order, made when its pod came
    assert ordered.put == number * len(members)
    ordered.read = 0
    assert binds(scheduler.schedule_one(now=1.0)) == len(members)
    assert ordered.put == number * len(members)
    # a member reads the nodes that members before it have used, at most
    assert ordered.read <= len(members) ** 2
    scheduler._check()


def test_pods_that_are_tried_one_by_one_have_the_nodes_in_order_of_scores(
    ordered: Ordered,
) -> None:
    def by_pod(cluster: InMemoryCluster) -> Scheduler:
        return Scheduler(cluster, presets.coscheduling_profile(), unit=SchedulingUnit.POD)

    scheduler = prepared(30, by_gpu(5), by_pod)
    assert ordered.put == 30 * 5
    while scheduler.schedule_one(now=1.0) is not None:
        pass
    assert ordered.put == 30 * 5
    scheduler._check()


def test_nodes_that_are_ranked_in_order_of_arrival_are_not_sorted() -> None:
    sample = Snapshot(Node(name=NodeName("n")), {}, 0)
    classes = [NodeClass(None, n, sample) for n in range(6)]
    firsts = {given: n for n, given in enumerate(classes)}
    ranking = Ranking(((n % 2, n, given) for given, n in firsts.items()), firsts)
    assert [level.is_sorted for level in ranking._levels.values()] == [True, True]
    before = [level.line for level in ranking._levels.values()]
    assert [given for _rank, given in ranking] == classes[::2] + classes[1::2]
    after = [level.line for level in ranking._levels.values()]
    assert all(one is other for one, other in zip(before, after, strict=True))
    backwards = Ranking(((0, n, given) for given, n in reversed(firsts.items())), firsts)
    assert not backwards._levels[0].is_sorted
    assert [given for _rank, given in backwards] == classes
    backwards._check()


def test_class_takes_the_entry_of_a_class_that_had_its_node() -> None:
    """A pod that is placed makes a class of its node, often with the same score."""
    sample = Snapshot(Node(name=NodeName("n")), {}, 0)
    classes = [NodeClass(None, n, sample) for n in range(4)]
    firsts = {given: n for n, given in enumerate(classes)}
    ranking = Ranking(((0, n, given) for given, n in firsts.items()), firsts)
    assert ranking.first() is classes[0]
    made = NodeClass(None, 9, sample)
    firsts[made] = 2
    ranking.add(0, 2, made)
    del firsts[classes[2]]
    ranking.tidy()
    assert [given for _rank, given in ranking] == [classes[0], classes[1], made, classes[3]]
    assert len(ranking._levels[0].line) == 4
    ranking._check()


def test_class_that_comes_back_takes_an_entry_that_is_passed_over() -> None:
    sample = Snapshot(Node(name=NodeName("n")), {}, 0)
    classes = [NodeClass(None, n, sample) for n in range(4)]
    firsts = {given: 10 * n for n, given in enumerate(classes)}
    ranking = Ranking(((0, first, given) for given, first in firsts.items()), firsts)
    assert ranking.first() is classes[0]
    del firsts[classes[0]]
    ranking.tidy()
    assert ranking.first() is classes[1]
    made = NodeClass(None, 9, sample)
    firsts[made] = 5
    ranking.add(0, 5, made)
    assert ranking._levels[0].at == [5, 10, 20, 30]
    assert [given for _rank, given in ranking] == [made, *classes[1:]]
    ranking._check()


def whole(cluster: InMemoryCluster, **options: Any) -> Scheduler:
    unit = SchedulingUnit.GROUP
    return presets.kube_default(cluster, policy=Coscheduling(), unit=unit, **options)


@pytest.mark.parametrize("number", [8, 40])
def test_search_scores_no_node_of_which_none_is_preferred(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where scores are normalized, to score a node with more capacity is a pass over nodes."""
    scheduler = prepared(number, [{"cpu": "6"}] * (number + 1), whole)
    scored: list[int] = []
    original = filter_and_score._Judge.before_scoring

    def before_scoring(judge: Any, found: Any) -> None:
        scored.append(len(found))
        original(judge, found)

    monkeypatch.setattr(filter_and_score._Judge, "before_scoring", before_scoring)
    effects = scheduler.schedule_one(now=1.0)
    assert binds(effects) == 0
    (refused,) = {e.reason for e in effects or () if isinstance(e, PodUnschedulable)}
    assert "cpu is free in pieces too small" in refused
    # all nodes once, and each node as it is after it has taken a member if it takes another
    assert sum(scored) <= number


@pytest.mark.parametrize("preset", [presets.gang, whole])
def test_refusal_without_a_score_is_the_refusal_of_the_judgement(preset: Any) -> None:
    scheduler = prepared(6, [{"cpu": "6"}] * 2, preset)
    state = scheduler._state
    (pod_class, *_others) = {member.pod_class for member in state.pods.members.values()}
    asked: list[tuple[bool, bool]] = []
    member = next(iter(state.pods.members.values()))
    cycle = CycleState(member.group, state.nodes.infos, state.settings.cluster, state.nodes.counts)
    _class, judge, _outcome = filter_and_score.evaluate_nodes(
        state.settings, state.nodes, cycle, member, 1.0
    )
    classes = state.nodes.classes
    for given in list(classes.occupied()):
        step = classes.taking(given, member.requests)
        refused = pod_class.judgements.refuses(step, judge)
        asked.append((refused, bool(pod_class.judgements.judgement(step, judge).reasons)))
        assert pod_class.judgements.refuses(given, judge) is False
        assert pod_class.judgements.refuses(step, judge) is refused
    assert asked == [(True, True)] * 6


def test_pod_alone_is_packed_where_gangs_are_packed(ordered: Ordered) -> None:
    cluster = InMemoryCluster()
    for n, cpu in enumerate(("4", "9", "6")):
        node = Node(name=NodeName(f"n{n}"), allocatable={"cpu": cpu})
        cluster.apply(NodeAdded(node))
    cluster.apply(PodAdded(make_pod("alone", cpu=1)))
    scheduler = presets.gang(cluster, placement=PlacementStrategy.PACK)
    scheduler.rebuild(now=0.0)
    bound = [e.node for e in scheduler.schedule_one(now=1.0) or () if isinstance(e, Bind)]
    assert bound == ["n0"]
    assert ordered.put == 3
