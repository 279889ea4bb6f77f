"""Packing: the stories that it is for, the sentences, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from attrs import field, frozen

from gangsched._packing.bounds import ceiling
from gangsched._packing.pack import (
    BudgetExhausted,
    Demand,
    Impossible,
    Packed,
    Quota,
    pack,
)
from gangsched._packing.passes import passes
from gangsched._packing.problem import Need, Problem, States
from gangsched.errors import InvalidValueError
from gangsched.resources import Resources
from support.packing import ODD_NODES, ODD_SIZES, Answer, Box, Case, Oracle, Shelf, box, solve

GPU = 1000
ALL = frozenset("abcd")


def ask(
    counts: Mapping[str, int],
    requests: Mapping[str, Mapping[str, int]],
    nodes: list[tuple[Box, int]],
    *quotas: Quota[str],
    budget: int = 10_000,
    **filters: Any,
) -> Answer:
    whole = Quota(frozenset(counts), sum(counts.values()))
    room = Shelf(requests, **filters)
    case = Case(counts, quotas or (whole,), tuple(nodes), room, budget)
    answer = solve(case)
    if isinstance(answer, Packed):
        Oracle(case).judge(answer)
    return answer


def placed(answer: Answer) -> dict[str, int]:
    assert isinstance(answer, Packed), answer
    total: dict[str, int] = {}
    for _node, taken in answer.nodes:
        for pod, number in taken:
            total[pod] = total.get(pod, 0) + number
    return total


def impossible(answer: Answer) -> Impossible[str]:
    assert isinstance(answer, Impossible), answer
    return answer


TRAP: tuple[dict[str, int], dict[str, dict[str, int]], list[tuple[Box, int]]] = (
    {"a": 2, "b": 1, "c": 1},
    {"a": {"cpu": 5, "gpu": 3}, "b": {"cpu": 4, "gpu": 3}, "c": {"cpu": 6, "gpu": 2}},
    [
        (box(cpu=8, gpu=4), 1),
        (box(cpu=9, gpu=7), 1),
        (box(cpu=3, gpu=5), 1),
        (box(cpu=11, gpu=3), 1),
    ],
)
"""Four pods that fit in one arrangement only, which no greedy pass finds."""


# Placements -------------------------------------------------------------------------------


def test_gang_that_arrival_order_would_split_is_placed() -> None:
    """The small pods come first, and each would go where only a large one fits."""
    nodes = [(box("x", gpu=4), 1), (box("y", gpu=2), 1)]
    answer = ask({"a": 2, "b": 1}, {"a": {"gpu": 1}, "b": {"gpu": 4}}, nodes)
    assert placed(answer) == {"a": 2, "b": 1}
    assert isinstance(answer, Packed)
    assert answer.steps == 0


def test_gang_that_fits_in_one_arrangement_only_is_placed() -> None:
    answer = ask(*TRAP)
    assert placed(answer) == {"a": 2, "b": 1, "c": 1}
    assert answer.steps > 0


def test_three_of_five_are_chosen_so_that_they_fit() -> None:
    """Only one large one fits, and then no small one; the three small ones do."""
    answer = ask(
        {"a": 2, "b": 3}, {"a": {"gpu": 6}, "b": {"gpu": 2}}, [(box(gpu=7), 1)], Quota(ALL, 3)
    )
    assert placed(answer) == {"b": 3}


def test_hard_classes_complete_the_number_when_easy_ones_are_too_few() -> None:
    counts, requests = {"a": 3, "b": 1}, {"a": {"gpu": 2}, "b": {"cpu": 1}}
    answer = ask(counts, requests, [(box(cpu=1, gpu=4), 1)], Quota(ALL, 3))
    assert placed(answer) == {"a": 2, "b": 1}


def test_easy_class_that_no_node_takes_is_not_counted_on() -> None:
    counts, requests = {"a": 2, "b": 2}, {"a": {"gpu": 4}, "b": {"gpu": 1}}
    banned = frozenset({("b", "n")})
    answer = ask(counts, requests, [(box(gpu=8), 1)], Quota(ALL, 2), banned=banned)
    assert placed(answer) == {"a": 2}


def test_role_gets_its_minimum_and_counts_for_the_group() -> None:
    answer = ask(
        {"a": 4, "b": 4},
        {"a": {"gpu": 1}, "b": {"gpu": 4}},
        [(box(gpu=8), 1)],
        Quota(ALL, 4, "group"),
        Quota(frozenset("b"), 1, "launcher"),
    )
    assert placed(answer) == {"a": 3, "b": 1}


def test_bundle_of_groups_is_placed_whole() -> None:
    answer = ask(
        {"a": 3, "b": 3},
        {"a": {"gpu": 2}, "b": {"gpu": 3}},
        [(box(gpu=5), 2)],
        Quota(frozenset("a"), 2),
        Quota(frozenset("b"), 2),
    )
    assert placed(answer) == {"a": 2, "b": 2}


def test_no_more_is_placed_than_is_asked_for() -> None:
    answer = ask({"a": 9}, {"a": {"gpu": 1}}, [(box(gpu=99), 3)], Quota(ALL, 4))
    assert placed(answer) == {"a": 4}


def test_fewest_nodes_are_used_and_large_ones_left_whole() -> None:
    answer = ask({"a": 4}, {"a": {"gpu": 2}}, [(box("big", gpu=99), 1), (box("fit", gpu=8), 2)])
    assert isinstance(answer, Packed)
    assert ((box("fit", gpu=8), (("a", 4),)),) == answer.nodes


def test_gang_that_only_fits_when_it_is_spread_is_placed_without_a_search() -> None:
    """No node takes two b: one goes beside the single a, where filling puts a pair of a."""
    answer = ask(
        {"a": 3, "b": 2},
        {"a": {"gpu": 4}, "b": {"gpu": 6}},
        [(box("x", gpu=8), 2), (box("y", gpu=11), 1)],
        rivals=frozenset({frozenset("b")}),
        budget=0,
    )
    assert placed(answer) == {"a": 3, "b": 2}


def test_nothing_asked_is_nothing_placed() -> None:
    nodes = [(box(gpu=8), 1)]
    assert Packed((), 0) == ask({"a": 2}, {"a": {"gpu": 1}}, nodes, Quota(ALL, 0))
    assert Packed((), 0) == pack([], [], nodes, Shelf({}))


def test_pods_that_no_quota_counts_are_not_placed() -> None:
    answer = ask({"a": 2, "b": 2}, {"a": {}, "b": {}}, [(box(most=3), 1)], Quota(frozenset("b"), 2))
    assert placed(answer) == {"b": 2}


def test_same_kind_of_node_may_be_given_twice() -> None:
    answer = ask({"a": 2}, {"a": {"gpu": 8}}, [(box(gpu=8), 1), (box(gpu=8), 1)])
    assert placed(answer) == {"a": 2}


def test_overcommitted_node_takes_pods_that_do_not_request_the_resource() -> None:
    answer = ask({"a": 1}, {"a": {"gpu": 1}}, [(box(cpu=-5, gpu=1), 1)])
    assert placed(answer) == {"a": 1}


def test_filters_that_fit_no_resource_are_kept() -> None:
    pods = {"a": 2, "b": 2}, {"a": {"gpu": 1}, "b": {"gpu": 1}}
    apart = frozenset({frozenset("ab")})
    assert placed(ask(*pods, [(box(gpu=9), 2)], rivals=apart)) == {"a": 2, "b": 2}
    answer = impossible(ask(*pods, [(box(gpu=9), 1)], rivals=apart))
    assert (answer.fits, answer.exact, answer.resource) == (2, True, None)
    assert str(answer) == "at most 2 of 4 members fit at once"


def test_pods_placed_beyond_the_need_are_dropped() -> None:
    """The only node for d is filled with all there are, and one is asked for."""
    counts, requests, nodes = TRAP
    kept_apart = frozenset({("d", "n"), ("a", "x"), ("b", "x"), ("c", "x")})
    answer = ask(
        {**counts, "d": 2},
        {**requests, "d": {}},
        [*nodes, (box("x"), 1)],
        Quota(frozenset("abc"), 4),
        Quota(frozenset("d"), 1),
        banned=kept_apart,
    )
    assert placed(answer) == {"a": 2, "b": 1, "c": 1, "d": 1}
    assert isinstance(answer, Packed)
    assert answer.steps > 0


# Scale ------------------------------------------------------------------------------------


@frozen
class Counting:
    """A node model that counts its calls."""

    room: Shelf
    asked: list[tuple[Box, str]]
    weighed: list[Box] = field(factory=list)

    @property
    def binding(self) -> frozenset[str]:
        return self.room.binding

    def after(self, node: Box, pod: str) -> Box | None:
        self.asked.append((node, pod))
        return self.room.after(node, pod)

    def free(self, node: Box) -> Mapping[str, int]:
        self.weighed.append(node)
        return self.room.free(node)

    def without(self, resource: str) -> Counting:
        return Counting(self.room.without(resource), [])


def test_equal_nodes_are_asked_once() -> None:
    requests = {"a": {"gpu": 1, "cpu": 2}, "b": {"gpu": 3, "cpu": 1}, "c": {"cpu": 5}}
    demands = [Demand(kind, 150, requests[kind]) for kind in "abc"]
    nodes = [(box(gpu=gpu, cpu=cpu), 20) for gpu in range(9) for cpu in range(0, 40, 2)]
    room = Counting(Shelf(requests), [])
    answer = pack(demands, [Quota(ALL, 450)], nodes, room)
    assert isinstance(answer, Packed)
    assert answer.steps == 0
    assert len(set(room.asked)) == len(room.asked) < 5 * len(nodes)


def test_node_is_asked_about_no_more_pods_than_there_are() -> None:
    room = Counting(Shelf({"a": {"gpu": 1}}), [])
    assert isinstance(
        pack([Demand("a", 2, {"gpu": 1})], [Quota(ALL, 2)], [(box(gpu=9), 1)], room), Packed
    )
    assert len(room.asked) == 2


def test_node_is_weighed_once() -> None:
    room = Counting(Shelf({"a": {"gpu": 1}}), [])
    demand = Demand("a", 2, {"gpu": 1})
    problem = Problem(States(room, "a"), (demand,), (Need((0,), 2),), ((box(gpu=9), 1),))
    room.weighed.clear()
    assert problem.size(0) == problem.size(0) > 0
    assert room.weighed == [box(gpu=9)]


def test_every_pod_may_be_of_a_class_of_its_own() -> None:
    kinds = [f"p{number}" for number in range(120)]
    demands = [Demand(kind, 1, {"gpu": 1}) for kind in kinds]
    room = Shelf({kind: {"gpu": 1} for kind in kinds})
    quota = Quota(frozenset(kinds), 120)
    answer = pack(demands, [quota], [(box(gpu=1), 119)], room, budget=100)
    assert str(answer) == "at most 119 of 120 members fit: gpu is short"


class Plain:
    """A packing problem in which a node is the number of pods that it takes, of any class."""

    binding: tuple[str, ...] = ()

    def after(self, node: int, pod: object) -> int | None:
        return node - 1 if node else None

    def free(self, node: int) -> Mapping[str, int]:
        return {}

    def without(self, resource: str) -> Plain:
        return self


class Boasting(Plain):
    """A packing problem that claims to count gpu, and takes pods where there is none."""

    binding = ("gpu",)

    def free(self, node: int) -> Mapping[str, int]:
        return {3: {"gpu": 2}, 2: {"gpu": -1}}.get(node, {})


def test_reservation_is_accepted_if_it_states_what_it_counts() -> None:
    """As plugins may say what they like: of three nodes one has two gpu, and the others none."""
    demands, needs = (Demand("a", 9, {"gpu": 1}),), (Need((0,), 9),)
    problem = Problem(States(Boasting(), "a"), demands, needs, ((3, 1), (2, 1), (1, 1)))
    assert ceiling(problem, needs[0]) == 2


def test_classes_need_no_order_and_may_share_a_hash() -> None:
    class Kind:
        def __hash__(self) -> int:
            return 1

    one, two = Kind(), Kind()
    answer = pack(
        [Demand(one, 2, {}), Demand(two, 1, {})],
        [Quota(frozenset({one, two}), 3)],
        [(3, 1)],
        Plain(),
    )
    assert Packed(((3, ((one, 2), (two, 1))),), 0) == answer


def test_search_of_many_nodes_is_not_too_deep() -> None:
    requests = {"a": {"gpu": 3}, "b": {"gpu": 2}}
    counts = {"a": 2_500, "b": 2_501}
    demands = [Demand(kind, counts[kind], requests[kind]) for kind in "ab"]
    problem = Problem(
        States(Shelf(requests), "ab"),
        tuple(demands),
        (Need((0, 1), 5_001),),
        ((box(gpu=5), 2_500), (box("other", gpu=2), 1)),
    )
    assert any(one.placed == (2_500, 2_501) for one in passes(problem))
    answer = pack(demands, [Quota(ALL, 5_001)], [(box(gpu=5), 2_500)], Shelf(requests))
    assert str(answer) == "at most 5000 of 5001 members fit: gpu is short"


# Certificates -----------------------------------------------------------------------------


def test_short_resource_is_named_with_the_number_that_fits() -> None:
    answer = impossible(ask({"a": 8}, {"a": {"gpu": GPU, "cpu": 1}}, [(box(gpu=GPU, cpu=9), 5)]))
    assert str(answer) == "at most 5 of 8 members fit: gpu is short"
    assert (answer.fits, answer.exact, answer.alone, answer.in_pieces) == (5, True, True, False)


def test_fragmented_resource_is_told_from_a_short_one() -> None:
    answer = impossible(ask({"a": 2}, {"a": {"gpu": 4}}, [(box(gpu=3), 5)]))
    assert str(answer) == "at most 0 of 2 members fit: gpu is free in pieces too small"


def test_capacity_of_nodes_that_take_no_pod_is_not_counted() -> None:
    """As of a cordoned node: what is free there is of no use, so the resource is short."""
    nodes = [(box("usable", gpu=4), 1), (box("cordoned", gpu=64), 3)]
    answer = impossible(
        ask({"a": 2}, {"a": {"gpu": 3}}, nodes, banned=frozenset({("a", "cordoned")}))
    )
    assert str(answer) == "at most 1 of 2 members fit: gpu is short"
    nodes = [(box("usable", gpu=4), 2), (box("cordoned", gpu=64), 3)]
    answer = impossible(
        ask({"a": 2}, {"a": {"gpu": 4, "cpu": 1}}, nodes, banned=frozenset({("a", "cordoned")}))
    )
    assert "in pieces" not in str(answer)


def test_neither_of_two_short_resources_is_blamed() -> None:
    answer = impossible(ask({"a": 2}, {"a": {"gpu": 1, "cpu": 1}}, [(box(gpu=1, cpu=1), 1)]))
    assert (answer.fits, answer.resource, answer.in_pieces) == (1, None, False)


def test_scarcer_of_two_sufficient_resources_is_named() -> None:
    """Either of the kinds would be enough, were its own resource boundless."""
    counts, requests = {"a": 2, "b": 2}, {"a": {"cpu": 4}, "b": {"gpu": 4}}
    answer = impossible(ask(counts, requests, [(box(cpu=3, gpu=2), 1)], Quota(ALL, 2)))
    assert str(answer) == "at most 0 of 2 members fit: gpu is short"


def test_resource_of_which_nothing_is_free_is_the_scarcest_and_short() -> None:
    """Either of the pods would be enough; of cpu three quarters are there."""
    counts, requests = {"a": 1, "b": 1}, {"a": {"cpu": 4}, "b": {"gpu": 1}}
    answer = impossible(
        ask(counts, requests, [(Box("n", (("cpu", 3),)), 1)], Quota(ALL, 1), budget=100)
    )
    assert str(answer) == "at most 0 of 1 members fit: gpu is short"


def test_members_that_do_not_exist_are_said_to_be_missing() -> None:
    answer = impossible(ask({"a": 3}, {"a": {"gpu": 1}}, [(box(gpu=8), 1)], Quota(ALL, 5)))
    assert str(answer) == "at most 3 of 5 members fit: only 3 are pending"
    assert (answer.fits, answer.pending, answer.exact) == (3, 3, True)
    assert (answer.resource, answer.in_pieces) == (None, False)


def test_quota_of_classes_without_demand_cannot_be_met() -> None:
    answer = impossible(ask({"a": 1}, {"a": {}}, [(box(), 1)], Quota(frozenset("z"), 1)))
    assert str(answer) == "at most 0 of 1 members fit: only 0 are pending"


def test_role_that_is_short_is_named() -> None:
    answer = impossible(
        ask(
            {"a": 4, "b": 2},
            {"a": {"cpu": 1}, "b": {"gpu": 4}},
            [(box(cpu=9, gpu=4), 1)],
            Quota(ALL, 4, "group"),
            Quota(frozenset("b"), 2, "role worker"),
        )
    )
    assert str(answer) == "at most 1 of 2 members of role worker fit: gpu is short"


def test_groups_that_fit_singly_but_not_together_are_reported() -> None:
    answer = impossible(
        ask(
            {"a": 2, "b": 3},
            {"a": {"gpu": 2}, "b": {"gpu": 2}},
            [(box(gpu=8), 1)],
            Quota(frozenset("a"), 2, "ns/one"),
            Quota(frozenset("b"), 3, "ns/two"),
        )
    )
    assert str(answer) == "at most 2 of 3 members of ns/two fit beside the others: gpu is short"
    assert (answer.alone, answer.exact) == (False, True)


def test_first_incompatible_quotas_are_reported() -> None:
    answer = impossible(
        ask(
            {"a": 1, "b": 1, "c": 1},
            {"a": {"gpu": 2}, "b": {"gpu": 2}, "c": {"cpu": 1}},
            [(box(cpu=1, gpu=3), 1)],
            *(Quota(frozenset(kind), 1, kind) for kind in "abc"),
        )
    )
    assert (
        answer.quota.name,
        answer.alone,
        answer.fits,
        answer.resource,
    ) == ("b", False, 0, "gpu")


def test_no_quota_is_blamed_for_the_demand_of_a_later_one() -> None:
    """Two of the first three fit; the last one asks for something else."""
    answer = impossible(
        ask(
            dict.fromkeys("abcd", 1),
            {**{kind: {"gpu": 2} for kind in "abc"}, "d": {"cpu": 1}},
            [(box(cpu=1, gpu=5), 1)],
            *(Quota(frozenset(kind), 1, kind) for kind in "abcd"),
        )
    )
    assert (answer.quota.name, answer.alone, answer.fits) == ("c", False, 0)


def test_fit_of_the_last_quota_is_the_fit_beside_all_others() -> None:
    """Of 5 free the first two leave 1; beside the first alone there would be 3."""
    answer = impossible(
        ask(
            {"a": 1, "b": 1, "c": 3},
            {"a": {"gpu": 2}, "b": {"gpu": 2}, "c": {"gpu": 1}},
            [(box(gpu=5), 1)],
            Quota(frozenset("a"), 1, "a"),
            Quota(frozenset("b"), 1, "b"),
            Quota(frozenset("c"), 3, "c"),
        )
    )
    assert str(answer) == "at most 1 of 3 members of c fit beside the others: gpu is short"
    assert answer.exact


def test_sum_that_is_too_small_needs_no_budget() -> None:
    requests = {"a": {"gpu": 1}}
    answer = impossible(ask({"a": 8}, requests, [(box(gpu=1), 5)], budget=0))
    assert (answer.fits, answer.exact, answer.steps) == (5, True, 0)


def test_proof_needs_no_budget_and_gives_a_bound() -> None:
    """Either kind alone fits five times over, and only the search knows about both."""
    counts, requests = {"a": 5, "b": 5}, {"a": {"gpu": 5}, "b": {"cpu": 5}}
    apart = frozenset({frozenset("ab")})
    nodes = [(box(gpu=5, cpu=15), 5)]
    known = impossible(ask(counts, requests, nodes, Quota(ALL, 11), rivals=apart))
    bound = impossible(ask(counts, requests, nodes, Quota(ALL, 11), rivals=apart, budget=0))
    assert (known.fits, known.exact) == (8, True)
    assert (bound.fits, bound.exact, bound.steps) == (10, False, 0)


def test_capacity_below_one_whole_pod_proves_nothing() -> None:
    """Of 3 free on each node only 2 are of use, whichever kind takes them."""
    counts, requests = {"a": 2, "b": 2}, {"a": {"gpu": 2}, "b": {"gpu": 2, "cpu": 1}}
    answer = impossible(ask(counts, requests, [(box(gpu=3, cpu=9), 2)], Quota(ALL, 3), budget=0))
    assert (answer.fits, answer.exact) == (2, True)


def test_capacity_of_nodes_that_take_no_requesting_pod_is_not_counted() -> None:
    counts, requests = {"a": 2, "b": 2, "c": 1}, {"a": {"gpu": 2}, "b": {"gpu": 2}, "c": {}}
    nodes = [(box("x", gpu=4), 1), (box("y", gpu=9), 1)]
    apart = frozenset({("a", "y"), ("b", "y")})
    answer = impossible(ask(counts, requests, nodes, Quota(ALL, 4), budget=0, banned=apart))
    assert (answer.fits, answer.exact) == (3, True)


def test_equal_nodes_are_filled_in_one_order_only() -> None:
    """Three kinds that keep apart on 11 nodes: in order, three to the power of eleven ways."""
    counts, requests = dict.fromkeys("abc", 7), {kind: {"gpu": 1} for kind in "abc"}
    apart = frozenset({frozenset("ab"), frozenset("bc"), frozenset("ac")})
    answer = impossible(ask(counts, requests, [(box(gpu=2), 11)], rivals=apart, budget=2_000))
    assert (answer.fits, answer.exact) == (20, True)


def test_bound_counts_each_node_at_its_best() -> None:
    """Each of 4 nodes takes one a or two b, so 8 at most; the search, if it may, ends at 6."""
    counts, requests = {"a": 5, "b": 5}, {"a": {"gpu": 5}, "b": {"cpu": 5}}
    apart = frozenset({frozenset("ab")})
    nodes = [(box(gpu=5, cpu=10), 4)]
    told = [impossible(ask(counts, requests, nodes, rivals=apart, budget=n)) for n in range(60)]
    assert [answer.fits for answer in told] == sorted(
        (answer.fits for answer in told), reverse=True
    )
    assert {(answer.fits, answer.exact) for answer in told} == {(9, False), (8, False), (6, True)}


def test_no_nodes_have_no_capacity() -> None:
    answer = impossible(ask({"a": 1}, {"a": {"gpu": 1}}, []))
    assert (answer.fits, answer.exact, answer.resource, answer.steps) == (0, True, None, 0)


# Budgets ----------------------------------------------------------------------------------


def test_only_greedy_passes_are_made_without_a_budget() -> None:
    answer = ask(*TRAP, budget=0)
    assert BudgetExhausted(steps=0, placed=3) == answer
    assert str(answer) == "not decided within 0 steps: no pass placed more than 3 members"


def test_largest_number_of_any_pass_is_reported() -> None:
    """The last pass places four."""
    requests = {"a": {"gpu": 2, "cpu": 1}, "b": {"gpu": 3, "cpu": 2}, "c": {"gpu": 3, "cpu": 2}}
    nodes = [(box("x", cpu=5, gpu=11), 1), (box("y", cpu=7, gpu=6), 1)]
    answer = ask({"a": 2, "b": 2, "c": 2}, requests, nodes, budget=0)
    assert answer == BudgetExhausted(steps=0, placed=5)


def test_search_that_the_budget_ends_says_so() -> None:
    answer = ask(*TRAP, budget=5)
    assert BudgetExhausted(steps=5, placed=3) == answer


def test_search_takes_at_most_ten_thousand_steps_by_default() -> None:
    """There are more ways than that to choose 20 pods of five kinds for one node."""
    demands = [Demand(kind, 30, {}) for kind in "abcde"]
    answer = pack(demands, [Quota(frozenset("abcde"), 41)], [(20, 2)], Plain())
    assert answer == BudgetExhausted(steps=10_000, placed=40)


def test_no_and_its_reasons_are_looked_for_once() -> None:
    """The node takes all of b, or one a and less of b: five steps to see that, two to try both.

    That is for the no, and once more without gpu; that none of a fits is seen without trying.
    """
    requests: dict[str, dict[str, int]] = {"a": {"gpu": 1}, "b": {}}
    quotas = Quota(frozenset("b"), 3, "b"), Quota(frozenset("a"), 1, "a")
    answer = impossible(ask({"a": 1, "b": 3}, requests, [(box(gpu=1, most=3), 1)], *quotas))
    assert str(answer) == "at most 0 of 1 members of a fit beside the others at once"
    assert answer.steps == (5 + 2) + 5 + (5 + 2)


def test_more_budget_never_takes_an_answer_away() -> None:
    decided = [not isinstance(ask(*TRAP, budget=budget), BudgetExhausted) for budget in range(60)]
    assert sorted(decided) == decided
    assert decided[-1]


@pytest.mark.parametrize(
    ("each", "budget", "told"),
    [
        (13, 400, "52 placed"),
        (14, 50, "not decided within 50 steps: no pass placed more than 50 members"),
        (14, 1_000, "at most 54 of 56 members fit: cpu is free in pieces too small"),
    ],
)
def test_gang_of_odd_sizes_is_decided_to_the_last_member(each: int, budget: int, told: str) -> None:
    """Greedy passes end at 50 of 52: the search finds the others, and proves where it ends.

    The budgets suffice to look at each position once, except at those that the later nodes
    cannot make up for.
    """
    answer = ask(dict.fromkeys("abcd", each), ODD_SIZES, ODD_NODES, budget=budget)
    if isinstance(answer, Packed):
        assert told == f"{sum(placed(answer).values())} placed"
    else:
        assert told == str(answer)
        assert isinstance(answer, BudgetExhausted) or answer.exact


# Refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [-1, 1.0, True, None, "10"])
def test_budget_that_is_no_count_is_refused(budget: Any) -> None:
    with pytest.raises(InvalidValueError, match="budget") as refused:
        pack([], [], [], Shelf({}), budget=budget)
    assert budget is refused.value.value


@pytest.mark.parametrize("count", [-1, 0.5, False, None])
def test_count_that_is_none_is_refused(count: Any) -> None:
    with pytest.raises(InvalidValueError, match=r"nodes\[1\]"):
        pack([], [], [(box(), 1), (box("x"), count)], Shelf({}))
    with pytest.raises(InvalidValueError, match="count"):
        Demand("a", count, {})
    with pytest.raises(InvalidValueError, match="at_least"):
        Quota(ALL, count)


@pytest.mark.parametrize("kinds", [["a", "b", "a"], ["a", "a"], ["a", "b", "b"]])
def test_class_demanded_twice_is_refused(kinds: list[str]) -> None:
    with pytest.raises(InvalidValueError, match="demands") as refused:
        pack([Demand(kind, 1, {}) for kind in kinds], [], [], Shelf({}))
    assert kinds[-1] == refused.value.value


@pytest.mark.parametrize(
    ("requests", "field"),
    [
        ({"gpu": -1}, "requests.gpu"),
        ({"gpu": 0.5}, "requests.gpu"),
        ({"gpu": "1"}, "requests.gpu"),
        ({1: 1}, "requests"),
        (None, "requests"),
        (7, "requests"),
    ],
)
def test_requests_that_are_no_amounts_are_refused(requests: Any, field: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        Demand("a", 1, requests)
    assert field == refused.value.field


def test_requests_may_be_those_of_a_pod() -> None:
    requests = Resources({"gpu": 1})
    assert Demand("a", 1, requests) == Demand("a", 1, {"gpu": 1000, "cpu": 0})


LISTED: Any = ["a"]
NAMELESS: Any = None


def test_quota_without_classes_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="kinds"):
        Quota(LISTED, 1)
    with pytest.raises(InvalidValueError, match="name"):
        Quota(ALL, 1, NAMELESS)


AMOUNTLESS: Any = 7
PARTIAL: Any = 0.5
COUNT = "an int >= 0"


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: pack([], [], [], Shelf({}), budget=-1), f"budget must be {COUNT}, got -1"),
        (
            lambda: pack([Demand("a", 1, {}), Demand("a", 2, {})], [], [], Shelf({})),
            "demands must be unique by kind of pod, got 'a'",
        ),
        (
            lambda: Demand("a", 1, AMOUNTLESS),
            "requests must be a mapping of names to thousandths, got 7",
        ),
        (
            lambda: Demand("a", 1, {"gpu": PARTIAL}),
            "requests.gpu must be an int (thousandths), got 0.5",
        ),
        (lambda: Quota(LISTED, 1), "kinds must be a frozenset of kinds of pods, got ['a']"),
    ],
)
def test_refusal_says_what_was_expected(call: Callable[[], object], says: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        call()
    assert str(refused.value) == says
