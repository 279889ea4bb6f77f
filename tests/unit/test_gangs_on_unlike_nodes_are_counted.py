"""What a member of a large gang costs where no two nodes are alike: counted, not timed."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    Scheduler,
    SchedulingUnit,
    Topology,
    presets,
)
from gangsched.framework.nodes.judgements import Judgements, _net
from gangsched.framework.nodes.node_class import NodeClass, Snapshot
from gangsched.framework.nodes.ranking import Ranking
from gangsched.testing import make_pod
from support.executed import executed_lines

MEMBERS = 120


def gang(name: str, members: int = MEMBERS) -> list[Pod]:
    return [
        make_pod(
            f"{name}{n}",
            group=name,
            min_available=members,
            requests={"cpu": 2, "memory": "8Gi"},
        )
        for n in range(members)
    ]


def scheduler_of(number: int, *, unlike: bool) -> tuple[InMemoryCluster, Scheduler]:
    """Return a scheduler that has placed one gang, and to which an equal one has come."""
    cluster = InMemoryCluster()
    for n in range(number):
        memory = (256 << 30) + (4096 * n if unlike else 0)
        offers: dict[str, str | int] = {"cpu": 64, "memory": memory, "pods": 110}
        name = NodeName(f"n{n}")
        cluster.apply(NodeAdded(Node(name=name, allocatable=offers)))
        if unlike:
            pod = make_pod(f"running-{n}", requests={"cpu": f"{100 + n}m"})
            cluster.apply(PodAdded(evolve(pod, node_name=name)))
    scheduler = presets.coscheduling(cluster, unit=SchedulingUnit.GROUP)
    scheduler.rebuild(now=0.0)
    for of_group in ("a", "b"):
        for pod in gang(of_group):
            scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
        if of_group == "a":
            assert decide(scheduler) == MEMBERS
    return cluster, scheduler


def decide(scheduler: Scheduler) -> int:
    effects = scheduler.schedule_one(now=0.0)
    return sum(isinstance(effect, Bind) for effect in effects or ())


@pytest.mark.parametrize("number", [40, 300])
def test_member_of_a_gang_executes_seven_tenths_more_on_unlike_nodes_at_most(number: int) -> None:
    lines: dict[bool, float] = {}
    for unlike in (False, True):
        _cluster, scheduler = scheduler_of(number, unlike=unlike)
        lines[unlike] = executed_lines(partial(decide, scheduler)) / MEMBERS
    assert lines[True] <= 1.7 * lines[False]


def test_member_of_a_gang_executes_as_much_on_more_unlike_nodes() -> None:
    lines: list[int] = []
    for number in (150, 600):  # each member takes a node of its own
        _cluster, scheduler = scheduler_of(number, unlike=True)
        lines.append(executed_lines(partial(decide, scheduler)))
    assert lines[1] <= 1.05 * lines[0]


def test_ranking_is_told_of_new_classes_and_of_no_class_that_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each member takes a node of its own, which leaves one class and joins another."""
    added: list[NodeClass] = []
    original = Ranking.add

    def add(ranking: Ranking, rank: Any, first: int, given: NodeClass) -> None:
        added.append(given)
        original(ranking, rank, first, given)

    cluster, scheduler = scheduler_of(300, unlike=True)
    monkeypatch.setattr(Ranking, "add", add)
    assert decide(scheduler) == MEMBERS
    assert len(added) == MEMBERS  # the nodes of the gang before, in one order
    assert len(set(added)) == MEMBERS
    assert all(len(given.nodes) == 1 or given.next is not None for given in added)
    scheduler._check()
    for n in range(MEMBERS):  # and back, with every node of the first gang
        scheduler.handle(cluster.apply(PodDeleted(gang("a")[n].uid)), now=1.0)
    scheduler._check()


def test_net_moves_of_a_class_are_kept_while_it_has_nodes() -> None:
    """Its first node may be another one, though it has as many."""
    sample = Snapshot(Node(name=NodeName("n")), {}, 0)
    kept, left, other = (NodeClass(None, n, sample) for n in range(3))
    kept.nodes, other.nodes = [1], [0]
    joins, leaves = (left, kept), (kept, other)
    for moves in ([joins, leaves], [leaves, joins]):
        assert _net([(None, left), *moves]) == {kept: 0, other: 1}


@pytest.mark.parametrize("topology", [None, Topology("rack")])
def test_entries_of_orders_are_bounded_while_gangs_come_and_go(topology: Topology | None) -> None:
    """No reader reads the classes to which nodes move, and from which they return."""
    cluster = InMemoryCluster()
    for n in range(10):
        offers: dict[str, str | int] = {"cpu": 64, "memory": (256 << 30) + n, "pods": 110}
        made = Node(name=NodeName(f"n{n}"), allocatable=offers, labels={"rack": f"r{n % 2}"})
        cluster.apply(NodeAdded(made))
    scheduler = presets.coscheduling(cluster, unit=SchedulingUnit.GROUP)
    # a pending pod keeps the class of pods, and with it the orders
    cluster.apply(PodAdded(gang("incomplete", 2)[0]))
    scheduler.rebuild(now=0.0)
    before: list[Pod] = []
    for turn in range(60):
        pods, now = gang(f"g{turn}-", 4), float(turn)
        if topology is not None:
            spec = PodGroup(name=f"g{turn}-", min_available=4, topology=topology)
            scheduler.handle(cluster.apply(PodGroupAdded(spec)), now=now)
        for pod in pods:
            scheduler.handle(cluster.apply(PodAdded(pod)), now=now)
        while scheduler.schedule_one(now=now) is not None:
            pass
        for judgements in judgements_of(scheduler):
            for order in orders_of(judgements):
                assert order._entries <= 2 * len(order._firsts) + 64
                assert not order._empty.keys() - order._levels.keys()
        for pod in before:  # one turn late, since what comes and goes at once changes nothing
            scheduler.handle(cluster.apply(PodDeleted(pod.uid)), now=now)
        before = pods
    scheduler._check()


def judgements_of(scheduler: Scheduler) -> set[Judgements]:
    classes = scheduler._state.pod_classes.by_signature.values()
    return {each.judgements for each in classes}


def orders_of(judgements: Judgements) -> list[Ranking]:
    orders = [judgements._order, judgements._by_max_pods]
    for values in judgements._by_label.values():
        for value in values._values.values():
            orders += [value.by_score, value.packing]
    return [order for order in orders if order is not None]
