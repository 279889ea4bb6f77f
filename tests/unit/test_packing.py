"""Packing: the cases that it is for, the sentences, what it refuses, what it never searches."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
from attrs import frozen

from gangsched import (
    Bind,
    Event,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    PlacementStrategy,
    Pod,
    PodAdded,
    Success,
    presets,
)
from gangsched.errors import InvalidValueError
from gangsched.outcomes import SUCCESS
from gangsched.primitives.packing import pack as packing
from gangsched.primitives.packing.pack import (
    BudgetExhausted,
    Impossible,
    Packed,
    PackingDemand,
    PackingQuota,
    pack,
)
from gangsched.resources import Resources
from gangsched.testing import make_node, make_pod
from support.examples import IS_DEEP
from support.packing import (
    ODD_NODES,
    ODD_SIZES,
    Answer,
    Box,
    Case,
    Oracle,
    Shelf,
    box,
    random_case,
    solve,
)

# Packing: the stories that it is for, the sentences, and what it refuses

GPU = 1000
ALL = frozenset("abcd")


def ask(
    counts: Mapping[str, int],
    requests: Mapping[str, Mapping[str, int]],
    nodes: list[tuple[Box, int]],
    *quotas: PackingQuota[str],
    budget: int = 10_000,
    **filters: Any,
) -> Answer:
    whole = PackingQuota(frozenset(counts), sum(counts.values()))
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


def test_amounts_are_whole_numbers_however_large() -> None:
    """They fill the second node to the last unit, and a float is not as exact."""
    requests = {"a": {"gpu": 2**61 - 2}, "b": {"gpu": 2**62 // 3 - 2}}
    nodes = [(box("x", gpu=2**61 - 1), 1), (box("y", gpu=2 * requests["b"]["gpu"]), 1)]
    assert placed(ask({"a": 1, "b": 2}, requests, nodes)) == {"a": 1, "b": 2}


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
    assert Packed((), 0) == ask({"a": 2}, {"a": {"gpu": 1}}, nodes, PackingQuota(ALL, 0))
    assert Packed((), 0) == pack([], [], nodes, Shelf({}))


# Scale ------------------------------------------------------------------------------------


@frozen
class Counting:
    """A node model that counts its calls."""

    room: Shelf
    asked: list[tuple[Box, str]]

    @property
    def binding(self) -> frozenset[str]:
        return self.room.binding

    def after(self, node: Box, pod: str) -> Box | None:
        self.asked.append((node, pod))
        return self.room.after(node, pod)

    def free(self, node: Box) -> Mapping[str, int]:
        return self.room.free(node)

    def without(self, resource: str) -> Counting:
        return Counting(self.room.without(resource), [])


def test_equal_nodes_are_asked_once() -> None:
    requests = {"a": {"gpu": 1, "cpu": 2}, "b": {"gpu": 3, "cpu": 1}, "c": {"cpu": 5}}
    demands = [PackingDemand(kind, 150, requests[kind]) for kind in "abc"]
    nodes = [(box(gpu=gpu, cpu=cpu), 20) for gpu in range(9) for cpu in range(0, 40, 2)]
    room = Counting(Shelf(requests), [])
    answer = pack(demands, [PackingQuota(ALL, 450)], nodes, room)
    assert isinstance(answer, Packed)
    assert answer.steps == 0
    assert len(set(room.asked)) == len(room.asked) < 5 * len(nodes)


def test_every_pod_may_be_of_a_class_of_its_own() -> None:
    kinds = [f"p{number}" for number in range(120)]
    demands = [PackingDemand(kind, 1, {"gpu": 1}) for kind in kinds]
    room = Shelf({kind: {"gpu": 1} for kind in kinds})
    quota = PackingQuota(frozenset(kinds), 120)
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


# Certificates -----------------------------------------------------------------------------

ABC = tuple(PackingQuota(frozenset(kind), 1, kind) for kind in "abc")
APART = {"rivals": frozenset({frozenset("ab")})}
EVERY_PAIR_APART = {"rivals": frozenset({frozenset("ab"), frozenset("bc"), frozenset("ac")})}
CORDONED = {"banned": frozenset({("a", "cordoned")})}

SAID: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "short resource": (
        ({"a": 8}, {"a": {"gpu": GPU, "cpu": 1}}, [(box(gpu=GPU, cpu=9), 5)]),
        {"budget": 0},
        "at most 5 of 8 members fit: gpu is short",
    ),
    "fragmented resource": (
        ({"a": 2}, {"a": {"gpu": 4}}, [(box(gpu=3), 5)]),
        {},
        "at most 0 of 2 members fit: gpu is free in pieces too small",
    ),
    "capacity of nodes that take no pod is not counted": (
        ({"a": 2}, {"a": {"gpu": 3}}, [(box("usable", gpu=4), 1), (box("cordoned", gpu=64), 3)]),
        CORDONED,
        "at most 1 of 2 members fit: gpu is short",
    ),
    "neither of two short resources": (
        ({"a": 2}, {"a": {"gpu": 1, "cpu": 1}}, [(box(gpu=1, cpu=1), 1)]),
        {},
        "at most 1 of 2 members fit at once",
    ),
    "scarcer of two sufficient resources": (
        (
            {"a": 2, "b": 2},
            {"a": {"cpu": 4}, "b": {"gpu": 4}},
            [(box(cpu=3, gpu=2), 1)],
            PackingQuota(ALL, 2),
        ),
        {},
        "at most 0 of 2 members fit: gpu is short",
    ),
    "missing members": (
        ({"a": 3}, {"a": {"gpu": 1}}, [(box(gpu=8), 1)], PackingQuota(ALL, 5)),
        {},
        "at most 3 of 5 members fit: only 3 are pending",
    ),
    "role": (
        (
            {"a": 4, "b": 2},
            {"a": {"cpu": 1}, "b": {"gpu": 4}},
            [(box(cpu=9, gpu=4), 1)],
            PackingQuota(ALL, 4, "group"),
            PackingQuota(frozenset("b"), 2, "role worker"),
        ),
        {},
        "at most 1 of 2 members of role worker fit: gpu is short",
    ),
    "groups that fit singly": (
        (
            {"a": 2, "b": 3},
            {"a": {"gpu": 2}, "b": {"gpu": 2}},
            [(box(gpu=8), 1)],
            PackingQuota(frozenset("a"), 2, "ns/one"),
            PackingQuota(frozenset("b"), 3, "ns/two"),
        ),
        {},
        "at most 2 of 3 members of ns/two fit beside the others: gpu is short",
    ),
    "first incompatible quotas": (
        (
            dict.fromkeys("abc", 1),
            {"a": {"gpu": 2}, "b": {"gpu": 2}, "c": {"cpu": 1}},
            [(box(cpu=1, gpu=3), 1)],
            *ABC,
        ),
        {},
        "at most 0 of 1 members of b fit beside the others: gpu is short",
    ),
    "no nodes": (
        ({"a": 1}, {"a": {"gpu": 1}}, []),
        {},
        "at most 0 of 1 members fit at once",
    ),
    "equal nodes in one order only": (
        (dict.fromkeys("abc", 7), {kind: {"gpu": 1} for kind in "abc"}, [(box(gpu=2), 11)]),
        {"budget": 2_000, **EVERY_PAIR_APART},
        "at most 20 of 21 members fit: gpu is free in pieces too small",
    ),
}


@pytest.mark.parametrize(("case", "options", "said"), SAID.values(), ids=SAID)
def test_proof_says_what_is_short_of_which_members(
    case: tuple[Any, ...], options: dict[str, Any], said: str
) -> None:
    answer = impossible(ask(*case, **options))
    assert (str(answer), answer.exact) == (said, True)


def test_bound_counts_each_node_at_its_best() -> None:
    """Each of 4 nodes takes one a or two b, so 8 at most; the search, if it may, ends at 6."""
    counts, requests = {"a": 5, "b": 5}, {"a": {"gpu": 5}, "b": {"cpu": 5}}
    nodes = [(box(gpu=5, cpu=10), 4)]
    told = [impossible(ask(counts, requests, nodes, budget=n, **APART)) for n in range(60)]
    fits = [answer.fits for answer in told]
    assert fits == sorted(fits, reverse=True)
    assert {(answer.fits, answer.exact) for answer in told} == {(9, False), (8, False), (6, True)}


# Budgets ----------------------------------------------------------------------------------


def test_only_greedy_passes_are_made_without_a_budget() -> None:
    answer = ask(*TRAP, budget=0)
    assert BudgetExhausted(steps=0, placed=3) == answer
    assert str(answer) == "not decided within 0 steps: no pass placed more than 3 members"


def test_search_that_the_budget_ends_says_so() -> None:
    answer = ask(*TRAP, budget=5)
    assert BudgetExhausted(steps=5, placed=3) == answer


def test_search_takes_at_most_ten_thousand_steps_by_default() -> None:
    """There are more ways than that to choose 20 pods of five kinds for one node."""
    demands = [PackingDemand(kind, 30, {}) for kind in "abcde"]
    answer = pack(demands, [PackingQuota(frozenset("abcde"), 41)], [(20, 2)], Plain())
    assert answer == BudgetExhausted(steps=10_000, placed=40)


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

AMOUNTS = "a mapping of names to thousandths"
COUNT = "an int >= 0"
WRONG: Any = object()
NUMBERED: Any = {1: 1}
LISTED: Any = ["a"]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        *(
            (lambda bad=bad: pack([], [], [], Shelf({}), budget=bad), f"budget must be {COUNT}")
            for bad in (-1, 1.0, True, None, "10")
        ),
        *(
            (lambda bad=bad: PackingDemand("a", bad, {}), f"count must be {COUNT}")
            for bad in (-1, 0.5)
        ),
        *(
            (lambda bad=bad: PackingQuota(ALL, bad), f"at_least must be {COUNT}")
            for bad in (-1, False)
        ),
        (lambda: pack([], [], [(box(), 1), (box("x"), WRONG)], Shelf({})), "nodes[1]"),
        *(
            (
                lambda kinds=kinds: pack(
                    [PackingDemand(k, 1, {}) for k in kinds], [], [], Shelf({})
                ),
                f"demands must be unique by kind of pod, got {kinds[-1]!r}",
            )
            for kinds in ("aba", "abb")
        ),
        *(
            (lambda bad=bad: PackingDemand("a", 1, bad), f"requests must be {AMOUNTS}")
            for bad in (None, 7)
        ),
        (lambda: PackingDemand("a", 1, NUMBERED), "requests must be"),
        *(
            (lambda bad=bad: PackingDemand("a", 1, {"gpu": bad}), "requests.gpu must be")
            for bad in (-1, 0.5, "1")
        ),
        (lambda: PackingQuota(LISTED, 1), "kinds must be a frozenset of kinds of pods, got ['a']"),
        (lambda: PackingQuota(ALL, 1, WRONG), "name must be"),
    ],
    ids=itertools.count(),
)
def test_refusal_names_the_argument_and_what_was_expected(call: Any, says: str) -> None:
    with pytest.raises(InvalidValueError, match="^" + re.escape(says)):
        call()


def test_requests_may_be_those_of_a_pod() -> None:
    requests = Resources({"gpu": 1})
    assert PackingDemand("a", 1, requests) == PackingDemand("a", 1, {"gpu": 1000, "cpu": 0})


# A gang is packed on the fewest nodes, whether its plugins tell which pods are alike or not


class AcceptsAll:
    """A filter that does not tell what it reads of a pod."""

    name = "AcceptsAll"

    def filter(self, _state: object, _pod: Pod, _node: object) -> Success:
        return SUCCESS


class AcceptsAllBeside(AcceptsAll):
    """The same, declared as a reader of the pods on a node."""

    def reads_pods(self, _pod: Pod) -> bool:
        return True


def nodes_used(sizes: Mapping[str, int], members: int, *plugins: object, cpu: int = 1) -> list[str]:
    """Return the node of each member of a gang, sorted."""
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, placement=PlacementStrategy.PACK, plugins=plugins)
    events: list[Any] = [
        NodeAdded(Node(name=NodeName(name), allocatable={"cpu": size}))
        for name, size in sizes.items()
    ]
    events += [
        PodAdded(make_pod(f"g-{n}", group="g", min_available=members, cpu=cpu))
        for n in range(members)
    ]
    for event in events:
        scheduler.handle(cluster.apply(event), now=0.0)
    found: list[str] = []
    while (effects := scheduler.schedule_one(now=0.0)) is not None:
        found += [effect.node for effect in effects if isinstance(effect, Bind)]
    return sorted(found)


@pytest.mark.parametrize("plugin", [AcceptsAll, AcceptsAllBeside])
@pytest.mark.parametrize(
    ("sizes", "members"),
    [
        ({"x": 2, "y": 2, "z": 4}, 4),  # one large node takes all
        ({"x": 2, "y": 2, "z": 8, "w": 4}, 4),  # the smallest that takes all
        ({"x": 2, "y": 1, "z": 4}, 6),  # the largest, then the smallest that takes the rest
        ({"x": 1, "y": 2, "z": 4}, 5),
    ],
)
def test_gang_is_packed_alike_with_and_without_signatures(
    plugin: type[AcceptsAll], sizes: dict[str, int], members: int
) -> None:
    assert nodes_used(sizes, members, plugin()) == nodes_used(sizes, members)


def test_members_with_other_requests_are_no_reason_for_a_larger_node() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, placement=PlacementStrategy.PACK, plugins=(AcceptsAll(),))
    for name, size in {"small": 1, "large": 4}.items():
        node = Node(name=NodeName(name), allocatable={"cpu": size, "memory": size})
        scheduler.handle(cluster.apply(NodeAdded(node)), now=0.0)
    for name, resource in {"g-0": "cpu", "g-1": "memory"}.items():
        pod = make_pod(name, group="g", min_available=2, requests={resource: 1})
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    effects = scheduler.schedule_one(now=0.0) or ()
    assert {effect.node for effect in effects if isinstance(effect, Bind)} == {"small"}


# Where only the plan of a gang is wanted, no search for the reasons of a failure is made


@pytest.mark.parametrize("seed", range(150))
def test_answer_without_reasons_is_of_the_same_kind(seed: int) -> None:
    case = random_case(Random(seed))
    demands = [
        PackingDemand(kind, count, case.room.requests[kind]) for kind, count in case.counts.items()
    ]
    arguments: Any = (demands, case.quotas, case.nodes, case.room)
    explained = pack(*arguments, budget=case.budget)
    bare = pack(*arguments, budget=case.budget, explains=False)
    assert type(bare) is type(explained)
    assert bare.steps <= explained.steps
    if isinstance(bare, Impossible):
        assert not bare.exact
        assert bare.fits < bare.quota.at_least


# Packing against the oracle: small instances, every way to place every pod


TESTS = Path(__file__).parents[1]
INSTANCES = 200_000 if IS_DEEP else 2_000


def search_alone(monkeypatch: pytest.MonkeyPatch, seed: int) -> Answer:
    """Decide an instance by nothing but the search."""

    def no_passes(problem: Any) -> Iterator[Any]:
        return iter(())

    with monkeypatch.context() as patch:
        patch.setattr(packing, "passes", no_passes)
        return solve(random_case(Random(seed)))


def test_every_answer_is_what_all_ways_to_place_the_pods_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: Counter[object] = Counter()
    for seed in range(INSTANCES):
        case = random_case(Random(seed))
        oracle = Oracle(case)
        for answer in (solve(case), search_alone(monkeypatch, seed)):
            oracle.judge(answer)
            searched = answer.steps > 0
            if isinstance(answer, packing.Impossible):
                seen["impossible", searched, answer.alone, answer.resource, answer.in_pieces] += 1
            else:
                seen["packed", searched] += 1
    everything = {
        ("packed", False),
        ("packed", True),
        *(("impossible", s, True, r, False) for s in (True, False) for r in ("cpu", "gpu", None)),
        *(("impossible", True, True, resource, True) for resource in ("cpu", "gpu")),
        ("impossible", True, False, "gpu", True),
    }
    assert everything <= seen.keys()


def test_small_budget_is_never_a_wrong_answer() -> None:
    """Answers within a budget are true, and the budget is respected."""
    for seed in range(INSTANCES // 4):
        random = Random(seed)
        case = random_case(random)
        oracle = Oracle(case)
        budget = random.randint(0, 40)
        answer = packing.pack(
            [packing.PackingDemand(k, n, case.room.requests[k]) for k, n in case.counts.items()],
            case.quotas,
            case.nodes,
            case.room,
            budget=budget,
        )
        assert answer.steps <= budget
        if isinstance(answer, packing.Packed):
            oracle.judge(answer)
        elif isinstance(answer, packing.Impossible):
            assert not oracle.possible(), case
            earlier = () if answer.alone else oracle.quotas[: oracle.quotas.index(answer.quota)]
            fits = max(
                (oracle.count(way, answer.quota) for way in oracle.meeting(earlier)), default=0
            )
            assert fits <= answer.fits < answer.quota.at_least, case
            assert not answer.exact or fits == answer.fits, case


def test_answer_is_the_same_whatever_the_hashes_are() -> None:
    script = (
        "from random import Random\n"
        "from support.packing import random_case, solve\n"
        "for seed in range(150): print(solve(random_case(Random(seed))))\n"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", script],
            check=True,
            capture_output=True,
            text=True,
            cwd=TESTS,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0].count("\n") >= 150
    assert told[0] == told[1]


# Which members are packed


@pytest.mark.parametrize(("resource", "nodes"), [("nvidia.com/gpu", 1), ("cpu", 2)])
def test_members_with_extended_resources_are_packed(resource: str, nodes: int) -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    pods = [make_pod(f"p-{n}", group="g", requests={resource: 1}, min_available=2) for n in (0, 1)]
    nodes_added = [NodeAdded(make_node(name, cpu=4, gpu=4)) for name in "ab"]
    events: list[Event] = [*nodes_added, *map(PodAdded, pods)]
    for event in events:
        scheduler.handle(cluster.apply(event), now=0.0)
    effects = scheduler.schedule_one(now=0.0) or ()
    assert len({effect.node for effect in effects if isinstance(effect, Bind)}) == nodes


class ReadsPods(AcceptsAll):
    """A filter that says that it reads the pods on nodes."""

    def pod_signature(self, _pod: Pod) -> None:
        return None

    def node_signature(self, _node: Any) -> None:
        return None

    def reads_pods(self, _pod: Pod) -> bool:
        return True


@pytest.mark.parametrize("plugins", [(), (AcceptsAll(),), (ReadsPods(),)], ids=["", "any", "pods"])
@pytest.mark.parametrize(("members", "most"), [(3, 1), (5, 2)])
def test_members_spread_beside_a_plugin_that_is_asked_about_single_nodes(
    plugins: tuple[Any, ...], members: int, most: int
) -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, plugins=plugins, placement=PlacementStrategy.SPREAD)
    for name, cpus in {"big": 8, "a": 2, "b": 2}.items():
        allocatable = {"cpu": cpus, "pods": 9}
        scheduler.handle(
            cluster.apply(NodeAdded(Node(name=NodeName(name), allocatable=allocatable))), now=0.0
        )
    for n in range(members):
        pod = make_pod(f"g-{n}", group="g", min_available=members, cpu=1)
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    effects = scheduler.schedule_one(now=0.0) or ()
    nodes = Counter(effect.node for effect in effects if isinstance(effect, Bind))
    assert (nodes.total(), max(nodes.values())) == (members, most)
