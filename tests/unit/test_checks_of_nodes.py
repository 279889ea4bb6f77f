"""``_check`` of the orders and counts of nodes sees what is miscounted, and names it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from gangsched import (
    GroupKey,
    InMemoryCluster,
    NodeAdded,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    Scheduler,
    Topology,
    presets,
)
from gangsched.errors import InternalError
from gangsched.framework.backfill.room import Room
from gangsched.framework.nodes.node_class import NodeClass, Snapshot
from gangsched.framework.nodes.ranking import Ranking
from gangsched.framework.runtime import filter_and_score
from gangsched.model import Node, NodeName
from gangsched.testing import make_node, make_pod
from support.busy import NOW
from support.views import cycle

RACK = "rack"
G = GroupKey("default/g")


def pending(nodes: Iterable[Node], count: int = 2) -> Scheduler:
    """Return a scheduler with nodes, and a gang that belongs within one rack and was not tried."""
    cluster = InMemoryCluster()
    for node in nodes:
        cluster.apply(NodeAdded(node))
    group = PodGroup(name="g", min_available=count, topology=Topology(RACK))
    cluster.apply(PodGroupAdded(group))
    for n in range(count):
        cluster.apply(PodAdded(make_pod(f"g-{n}", group="g", cpu=1)))
    scheduler = presets.gang(cluster)
    scheduler.rebuild(now=NOW)
    return scheduler


def on_racks(*racks: str) -> Scheduler:
    named = enumerate(racks)
    return pending(
        Node(name=NodeName(f"n{n}"), allocatable={"cpu": 4, "pods": 9}, labels={RACK: rack})
        for n, rack in named
    )


def found_by_check(scheduler: Scheduler) -> str:
    with pytest.raises(InternalError) as caught:
        scheduler._check()
    return caught.value.invariant


@pytest.mark.parametrize("change", [1, -1])
def test_check_sees_that_the_nodes_of_a_shape_are_miscounted(change: int) -> None:
    scheduler = on_racks("a", "a", "b")
    scheduler._check()
    next(iter(scheduler._state.nodes.classes._shapes.values())).nodes += change
    assert found_by_check(scheduler) == "the nodes of a shape are miscounted"


def test_check_sees_that_the_nodes_of_a_forgotten_shape_are_miscounted() -> None:
    scheduler = on_racks("a", "b")
    classes = scheduler._state.nodes.classes
    classes._shapes.clear()
    scheduler._check()
    for kept in classes._of.values():
        assert kept.shape is not None
        kept.shape.nodes = 0
    assert found_by_check(scheduler) == "the nodes of a shape are miscounted"


@pytest.mark.parametrize("change", [1, -1])
def test_check_of_judgements_sees_what_a_label_value_miscounts(change: int) -> None:
    scheduler = on_racks("a", "a", "b")
    state = scheduler._state
    member = next(iter(state.pods.members.values()))
    pod_class, judge, _outcome = filter_and_score.evaluate_nodes(
        state.settings, state.nodes, cycle(), member, NOW
    )
    values = pod_class.judgements.values_of(RACK)
    pod_class._check(state.nodes, judge)
    values._values["a"].total += change
    with pytest.raises(InternalError, match=rf"label rack: the totals {{'a': {8 + change}"):
        pod_class._check(state.nodes, judge)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("change", [1, -1])
def test_check_sees_that_the_room_for_a_kind_of_members_is_miscounted(
    number: int, change: int
) -> None:
    cluster = InMemoryCluster()
    cluster.apply(NodeAdded(make_node("n", cpu=4)))
    for n, cpu in enumerate((1, 2)):
        cluster.apply(PodAdded(make_pod(f"g-{n}", group="g", min_available=2, cpu=cpu)))
    scheduler = presets.gang(cluster)
    scheduler.rebuild(now=NOW)
    state = scheduler._state
    room = Room(state.settings, state.pods, state.call, state.pods.entities[G]).fill(state.nodes)
    room._check()
    total = list(room._total)
    room._total[number] += change
    with pytest.raises(InternalError) as caught:
        room._check()
    expected = f"room of kind {number} is {total[number] + change}, not {total[number]}"
    assert caught.value.invariant == expected


def test_check_sees_that_a_rank_without_a_reader_has_lost_a_class() -> None:
    sample = Snapshot(Node(name=NodeName("n")), {}, 0)
    given = [(0, n, NodeClass(None, n, sample)) for n in range(3)]
    ranking = Ranking(given, {each: n for _rank, n, each in given})
    ranking._check()
    del ranking._levels[0].at[1], ranking._levels[0].line[1]
    with pytest.raises(InternalError) as caught:
        ranking._check()
    assert caught.value.invariant == "a class of nodes has not one rank"
