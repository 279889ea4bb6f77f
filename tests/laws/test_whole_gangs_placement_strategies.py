"""Whole gangs: where their members go, in each layout."""

from __future__ import annotations

from functools import partial
from itertools import combinations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import PlacementStrategy, SchedulingUnit, presets
from support.driver import Driver
from support.examples import one_in
from support.gangs import GPU, gang_driver, members, node, place, where
from support.small_clusters import MemberKind, NodeKind, SmallCluster

pytestmark = pytest.mark.once("says itself which unit it is about")


def rooms_for(small: SmallCluster) -> list[int]:
    """Return how many members each node takes, of a gang of like members."""
    (sort,) = small.sorts
    return [evolve(small, seats=(seat,), sorts=(sort,)).most() for seat in small.seats]


def fewest(rooms: list[int], count: int) -> int:
    """Return on how many nodes so many fit at least, by trying every set of nodes."""
    return next(
        size
        for size in range(1, len(rooms) + 1)
        if any(sum(some) >= count for some in combinations(rooms, size))
    )


plain = st.builds(NodeKind, cpu=st.integers(0, 6), zone=st.sampled_from("ab"))
asked = st.builds(
    MemberKind, count=st.integers(1, 6), cpu=st.integers(1, 2), zone=st.sampled_from([None, "a"])
)
alike = st.builds(
    lambda seats, sort: SmallCluster(tuple(seats), (sort,), sort.count),
    st.lists(plain, min_size=1, max_size=5),
    asked,
)


@one_in(2)
@given(alike)
def test_packed_equal_members_take_the_fewest_nodes(small: SmallCluster) -> None:
    driver = gang_driver(*small.nodes, placement=PlacementStrategy.PACK)
    placed = place(driver, *small.pods)
    rooms = rooms_for(small)
    assert bool(placed) is (sum(rooms) >= small.needed)
    if placed:
        assert len(set(placed.values())) == fewest(rooms, small.needed)


@one_in(2)
@given(alike, st.integers(1, 3))
def test_packed_members_beside_others_take_the_fewest_nodes(
    small: SmallCluster, spare: int
) -> None:
    """Extra members count too: all that fit are on the fewest nodes for so many."""
    (sort,) = small.sorts
    more = evolve(small, sorts=(evolve(sort, count=sort.count + spare),))
    placed = place(gang_driver(*more.nodes, placement=PlacementStrategy.PACK), *more.pods)
    if placed:
        assert len(placed) == min(sum(rooms_for(more)), sort.count + spare)
        assert len(set(placed.values())) == fewest(rooms_for(more), len(placed))


def test_last_packed_members_go_where_exactly_as_many_fit() -> None:
    driver = gang_driver(
        node("five", 5), node("two", 2), node("three", 3), placement=PlacementStrategy.PACK
    )
    placed = place(driver, *members("g", 7, cpu=1))
    assert sorted(placed.values()) == ["five"] * 5 + ["two"] * 2


def test_packed_members_of_a_second_class_fill_the_nodes_of_the_first() -> None:
    driver = gang_driver(
        node("a", 4), node("b", 9), node("c", 12), placement=PlacementStrategy.PACK
    )
    both = [*members("g", 3, 6, cpu=2), *members("g", 3, 6, prefix="s-", cpu=1)]
    assert set(place(driver, *both).values()) == {"b"}


# Nodes with something scarce ------------------------------------------------------------------


@one_in(2)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from([0, 0, 2])), min_size=1, max_size=5),
    st.integers(1, 8),
)
def test_packed_members_without_gpus_leave_gpu_nodes_free(
    seats: list[tuple[int, int]], count: int
) -> None:
    small = SmallCluster(
        tuple(NodeKind(cpu, gpu) for cpu, gpu in seats), (MemberKind(count),), count
    )
    placed = place(gang_driver(*small.nodes, placement=PlacementStrategy.PACK), *small.pods)
    without = sum(cpu for cpu, gpu in seats if not gpu)
    rich = [name for name in placed.values() if seats[int(name[1:])][1]]
    assert not placed or len(rich) == max(0, count - without)


def test_members_that_request_gpus_go_to_nodes_with_gpus() -> None:
    driver = gang_driver(node("rich", 8, 4), node("poor", 8), placement=PlacementStrategy.PACK)
    assert set(place(driver, *members("g", 2, gpu=1, cpu=1)).values()) == {"rich"}


# Spread ---------------------------------------------------------------------------------------


@one_in(2)
@given(alike)
def test_spread_members_are_on_as_many_nodes_as_there_are_members(small: SmallCluster) -> None:
    """As far as there are nodes that can take one, and no node has two more than need be."""
    placed = place(gang_driver(*small.nodes, placement=PlacementStrategy.SPREAD), *small.pods)
    if not placed:
        return
    rooms = rooms_for(small)
    counts = small.counts(placed)
    assert len(counts) == min(small.needed, sum(room > 0 for room in rooms))
    most = max(counts.values())
    assert all(counts[f"n{n}"] >= min(room, most - 1) for n, room in enumerate(rooms))


def test_score_decides_among_equal_nodes_where_a_spread_member_goes() -> None:
    driver = gang_driver(node("small", 2), node("large", 9), placement=PlacementStrategy.SPREAD)
    assert place(driver, *members("g", 1, cpu=1)) == {"g-0": "large"}


# By score, and by itself ----------------------------------------------------------------------


@one_in(2)
@given(alike, st.booleans())
def test_equal_members_are_placed_by_score_as_one_after_the_other(
    small: SmallCluster, tight: bool
) -> None:
    """The same nodes for the same members, as long as the gang fits."""
    small = evolve(small, seats=(*small.seats, NodeKind(2 * small.needed - tight)))
    one_by_one = Driver(partial(presets.coscheduling, unit=SchedulingUnit.POD))
    one_by_one.tell(*small.nodes)
    one_by_one.add(*small.pods)
    one_by_one.drain()
    assert place(
        gang_driver(*small.nodes, placement=PlacementStrategy.SCORE), *small.pods
    ) == where(one_by_one)


@pytest.mark.parametrize("resource", ["cpu", GPU])
def test_gang_with_an_extended_resource_is_packed_by_default(resource: str) -> None:
    nodes = [node(f"n{n}", 4, 4) for n in range(3)]
    pods = members("g", 3, requests={resource: 1})
    placed = place(gang_driver(*nodes), *pods)
    assert len(set(placed.values())) == (1 if resource == GPU else 3)
    if resource == GPU:
        assert placed == place(gang_driver(*nodes, placement=PlacementStrategy.PACK), *pods)
    else:
        assert placed == place(gang_driver(*nodes, placement=PlacementStrategy.SCORE), *pods)
