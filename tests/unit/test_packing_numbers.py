"""Packing by number: what a problem comes to, what passes do, how a search begins and ends."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest

from gangsched._packing.bounds import ceiling
from gangsched._packing.exact_search import Search
from gangsched._packing.pack import Demand
from gangsched._packing.passes import Pass, passes
from gangsched._packing.problem import NOWHERE, Budget, Need, Problem, States
from support.packing import ODD_NODES, ODD_SIZES, Box, Shelf, box


def by_number(
    counts: Mapping[str, int],
    requests: Mapping[str, Mapping[str, int]],
    nodes: list[tuple[Box, int]],
    *needs: Need,
    **filters: Any,
) -> Problem[Box, str]:
    demands = tuple(Demand(kind, count, requests[kind]) for kind, count in counts.items())
    states = States(Shelf(requests, **filters), counts)
    return Problem(states, demands, needs, tuple(nodes))


# Problems ---------------------------------------------------------------------------------


def test_scarcest_resource_weighs_most() -> None:
    """A resource weighs as much as is wanted of it, in shares of what is free."""
    counts, requests = {"a": 2, "b": 1}, {"a": {"gpu": 4}, "b": {"gpu": 1, "cpu": 2}}
    used, overcommitted = box(gpu=8, cpu=4), Box("y", (("gpu", -1),))
    nodes = [(used, 2), (overcommitted, 1), (box("z", gpu=1), 1)]
    problem = by_number(counts, requests, nodes, Need((0, 1), 3))
    assert problem.wanted() == {"cpu": 2, "gpu": 9}
    assert problem.free() == {"cpu": 8, "gpu": 16}
    assert problem.free_anywhere() == {"cpu": 8, "gpu": 17}
    gpu, cpu = 9 / 16 / 16, 2 / 8 / 8
    assert problem.size(problem.states.number(used)) == 8 * gpu + 4 * cpu
    assert problem.size(problem.states.number(overcommitted)) == 0
    assert problem.load((1, 0)) == 4 * gpu
    assert problem.load((2, 1)) == 9 * gpu + 2 * cpu


def test_class_without_requests_is_the_easiest() -> None:
    requests: dict[str, dict[str, int]] = {"a": {}, "b": {"gpu": 1}}
    problem = by_number({"a": 1, "b": 1}, requests, [(box(gpu=8), 1)], Need((0, 1), 2))
    assert problem.kinds == (1, 0)


def test_class_with_the_fewest_nodes_is_the_scarcest() -> None:
    requests = {"a": {"gpu": 1}, "b": {"gpu": 1}}
    nodes, banned = [(box("x", gpu=8), 1), (box("y", gpu=8), 3)], frozenset({("b", "y")})
    problem = by_number({"a": 1, "b": 1}, requests, nodes, Need((0, 1), 2), banned=banned)
    assert problem.kinds == (0, 1)
    assert problem.scarcest() == (1, 0)


def test_pods_that_no_quota_counts_are_no_part_of_the_problem() -> None:
    problem = by_number({"a": 2, "b": 2}, {"a": {}, "b": {}}, [(box(), 1)], Need((1,), 2))
    assert (problem.counts, problem.kinds) == ((0, 2), (1,))


def test_bound_uses_pods_of_one_class_and_their_lowest_cost() -> None:
    """The second is what 4 free buy: three of the cheap kind, and none of the other."""
    one = by_number(
        {"a": 8}, {"a": {"gpu": 1}}, [(box(gpu=1), 5)], Need((0,), 8), counted=frozenset()
    )
    assert ceiling(one, Need((0,), 8)) == 5
    requests = {"a": {"gpu": 4}, "b": {"gpu": 1}}
    two = by_number({"a": 1, "b": 3}, requests, [(box(gpu=4), 1)], Need((0, 1), 4))
    assert ceiling(two, Need((0, 1), 4)) == 3


# Passes -----------------------------------------------------------------------------------


def first_pass(*asked: Any, **filters: Any) -> tuple[int, ...]:
    return next(passes(by_number(*asked, **filters))).placed


def test_node_that_others_cannot_use_is_used_first() -> None:
    """The only node for b is the tighter one, which a would be given by size alone."""
    alike = {"a": {"gpu": 2}, "b": {"gpu": 2}}
    nodes = [(box("x", gpu=2), 1), (box("y", gpu=3), 1)]
    apart = frozenset({("b", "y")})
    assert first_pass({"a": 1, "b": 1}, alike, nodes, Need((0, 1), 2), banned=apart) == (1, 1)


def test_pass_counts_a_role_towards_its_group() -> None:
    counts, requests = {"a": 4, "b": 4}, {"a": {"gpu": 1}, "b": {"gpu": 4}}
    needs = Need((0, 1), 4), Need((1,), 1)
    assert first_pass(counts, requests, [(box(gpu=8), 1)], *needs) == (3, 1)


def test_node_that_one_class_fills_in_part_is_offered_to_the_next() -> None:
    counts, requests = {"a": 8, "b": 2}, {"a": {"gpu": 1}, "b": {"gpu": 1}}
    assert first_pass(counts, requests, [(box(gpu=5), 2)], Need((0, 1), 10)) == (8, 2)


def test_no_more_of_a_class_is_planned_than_its_quotas_demand() -> None:
    """One kind alone is enough for either group, and b counts for both."""
    counts, requests = {"a": 2, "b": 3}, {"a": {"gpu": 2}, "b": {"gpu": 1}}
    nodes = [(box(gpu=99), 1)]
    assert first_pass(counts, requests, nodes, Need((0, 1), 2)) == (0, 2)
    assert first_pass(counts, requests, nodes, Need((1,), 3), Need((0, 1), 5)) == (2, 3)


def test_class_without_pending_pods_is_not_placed() -> None:
    counts = {"a": 1, "b": 0}
    assert first_pass(counts, {"a": {}, "b": {}}, [(box(), 1)], Need((0, 1), 2)) == (1, 0)


def test_only_classes_of_the_same_quota_compensate_each_other() -> None:
    """No node takes a; c, which is the easiest to place, is of another group."""
    counts = {"a": 1, "b": 2, "c": 2}
    requests = {"a": {"gpu": 1}, "b": {"gpu": 2}, "c": {}}
    needs = Need((0, 1), 1), Need((2,), 1)
    banned = frozenset({("a", "n")})
    assert first_pass(counts, requests, [(box(gpu=9), 1)], *needs, banned=banned) == (0, 1, 1)
    more = Need((0, 1), 2), Need((2,), 1)
    assert first_pass(counts, requests, [(box(gpu=9), 1)], *more, banned=banned) == (0, 2, 1)


def test_single_class_has_one_greedy_pass() -> None:
    problem = by_number({"a": 5}, {"a": {"gpu": 1}}, [(box(gpu=2), 3)], Need((0,), 5))
    assert [one.placed for one in passes(problem)] == [(5,)]


def test_greedy_passes_differ_only_in_placement_when_all_are_demanded() -> None:
    """A role that has all it wants is no reason to ask for less of it."""
    counts, requests = {"a": 1, "b": 1}, {"a": {"gpu": 1}, "b": {"gpu": 1}}
    problem = by_number(counts, requests, [(box(gpu=2), 1)], Need((1,), 1), Need((0, 1), 2))
    assert [one.placed for one in passes(problem)] == [(1, 1)] * 4


def replay(problem: Problem[Box, str], one: Pass) -> None:
    """Place the pods of a pass again, one by one.

    Raises:
        AssertionError: It did not do what it says.
    """
    unused = dict(problem.nodes)
    counts = [0] * len(problem.counts)
    for group in one.bins:
        assert group.count > 0
        assert group.taken
        unused[group.origin] -= group.count
        state = group.origin
        for kind, number in group.taken:
            counts[kind] += group.count * number
            for _ in range(number):
                state = problem.states.after(state, kind)
                assert state != NOWHERE
        assert state == group.state
        assert all(this[0] != then[0] for this, then in pairwise(group.taken))
    assert min(unused.values()) >= 0
    assert tuple(counts) == one.placed


@pytest.mark.parametrize(
    ("room", "fits"),
    [([(box("x", gpu=99, cpu=99), 3), (box("y", gpu=60, cpu=60), 2)], True), (ODD_NODES, False)],
)
def test_pass_places_what_it_says_where_it_says(room: list[tuple[Box, int]], fits: bool) -> None:
    """With more than enough capacity for all, each of them places all."""
    counts, all_kinds = dict.fromkeys("abcd", 13), Need((0, 1, 2, 3), 52)
    problem = by_number(counts, ODD_SIZES, room, all_kinds)
    made = list(passes(problem))
    assert len(made) > 3
    for one in made:
        replay(problem, one)
        assert all_kinds.met(one.placed) is fits


def test_passes_choose_the_easiest_or_the_hardest_or_those_with_the_most_nodes() -> None:
    """Two of four are wanted: a and b are the smallest, b and c have the most nodes."""
    counts = dict.fromkeys("abcd", 1)
    requests = {kind: {"gpu": size} for size, kind in enumerate("abcd", 1)}
    nodes = [(box(label, gpu=99), 1) for label in "xyz"]
    banned = frozenset({("a", "y"), ("d", "y"), ("a", "z"), ("d", "z"), ("c", "z")})
    problem = by_number(counts, requests, nodes, Need((0, 1, 2, 3), 2), banned=banned)
    assert {one.placed for one in passes(problem)} == {(1, 1, 0, 0), (0, 0, 1, 1), (0, 1, 1, 0)}


def test_nodes_with_equal_capacity_are_used_in_turn() -> None:
    """A node with 3 free is what a leaves of the one, and the first b of the other's 5."""
    counts, requests = {"a": 1, "b": 2}, {"a": {"gpu": 4}, "b": {"gpu": 2}}
    problem = by_number(counts, requests, [(box(gpu=7), 2)], Need((1,), 1), Need((0, 1), 3))
    for one in passes(problem):
        replay(problem, one)
        assert one.placed == (1, 2)


def test_one_of_the_passes_spreads_the_pods() -> None:
    """It gives each pod to the node that has the most free by then; all others fill y."""
    nodes = [(box("x", gpu=6), 1), (box("y", gpu=3), 1), (box("z", gpu=1), 1)]
    banned = frozenset({("a", "z"), ("b", "x"), ("b", "y")})
    requests = {"a": {"gpu": 1}, "b": {"gpu": 1}}
    problem = by_number({"a": 3, "b": 1}, requests, nodes, Need((0, 1), 4), banned=banned)
    ways = [[(b.origin, b.taken) for b in one.bins] for one in passes(problem)]
    assert {number for way in ways for number, taken in way if taken == ((0, 3),)} == {0, 1}


def test_pods_that_a_node_takes_meanwhile_are_reported_in_order() -> None:
    """One more of a class that was placed before makes up for c, which no node takes."""
    counts = {"a": 2, "b": 2, "c": 1}
    requests = {"a": {"gpu": 1}, "b": {"gpu": 2}, "c": {}}
    needs = Need((0, 1, 2), 3), Need((1,), 1)
    banned = frozenset({("c", "n")})
    problem = by_number(counts, requests, [(box(gpu=9), 1)], *needs, banned=banned)
    for one in passes(problem):
        replay(problem, one)
        assert sum(one.placed) == 3


# Searches ---------------------------------------------------------------------------------


def test_node_that_leaves_no_choice_is_filled_before_the_search() -> None:
    """Each x takes one a, whatever else is done, and then one y is enough."""
    counts, requests = {"a": 2, "b": 1}, {"a": {"gpu": 1}, "b": {"gpu": 2}}
    nodes = [(box("x", gpu=1), 2), (box("y", gpu=2), 2)]
    problem = by_number(counts, requests, nodes, Need((0, 1), 3))
    assert Search(problem, Budget(100)).place() == [(0, 2, (1, 0)), (1, 1, (0, 1))]


def test_nothing_is_searched_when_no_node_leaves_a_choice() -> None:
    problem = by_number({"a": 3}, {"a": {"gpu": 1}}, [(box(gpu=1), 2)], Need((0,), 3))
    budget = Budget(100)
    search = Search(problem, budget)
    spent = budget.steps
    assert search.place() is None
    assert budget.steps == spent


def test_nodes_that_leave_little_choice_are_filled_first() -> None:
    """A node x takes two of b and c, in three ways; y takes one of a and c."""
    counts, requests = {"a": 1, "b": 2, "c": 2}, {kind: {"gpu": 1} for kind in "abc"}
    nodes = [(box("x", gpu=2), 1), (box("y", gpu=1), 1)]
    banned = frozenset({("a", "x"), ("b", "y")})
    problem = by_number(counts, requests, nodes, Need((0, 1, 2), 3), banned=banned)
    found = Search(problem, Budget(100)).place()
    assert found is not None
    assert [state for state, _count, _fill in found] == [1, 0]


def test_pods_that_do_not_request_the_exhausted_resource_may_be_placed() -> None:
    """No gpu is left to hold, and none is needed."""
    requests: dict[str, dict[str, int]] = {"a": {"gpu": 1}, "b": {}, "c": {}}
    nodes, need = [(box(most=1), 2)], Need((0, 1, 2), 2)
    problem = by_number(dict.fromkeys("abc", 1), requests, nodes, need)
    found = Search(problem, Budget(100)).place()
    assert found is not None
    assert {fill for _state, _count, fill in found} == {(0, 1, 0), (0, 0, 1)}


def test_amounts_are_whole_numbers_however_large() -> None:
    """They fill the second node to the last thousandth, and a float is not as exact."""
    requests = {"a": {"gpu": 2**61 - 2}, "b": {"gpu": 2**62 // 3 - 2}}
    nodes = [(box("x", gpu=2**61 - 1), 1), (box("y", gpu=2 * requests["b"]["gpu"]), 1)]
    problem = by_number({"a": 1, "b": 2}, requests, nodes, Need((0, 1), 3))
    assert Search(problem, Budget(100)).place() == [(0, 1, (1, 0)), (1, 1, (0, 2))]


def test_search_for_the_most_ends_when_all_are_placed() -> None:
    problem = by_number({"a": 1}, {"a": {"gpu": 1}}, [(box(gpu=1), 1)], Need((0,), 1))
    assert Search(problem, Budget(100)).most(0, 1) == 1
