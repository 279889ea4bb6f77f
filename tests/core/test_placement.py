"""Where gangs go, against every placement that there is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain, combinations, product
from typing import Any

import pytest
from attrs import frozen
from hypothesis import assume, given
from hypothesis import strategies as st

from gangsched import InMemoryCluster, Node, NodeAdded, NodeName, Pod, PodAdded, presets
from gangsched.core.nodes.domains import EVERYWHERE
from gangsched.core.placement.search import search
from gangsched.core.placement.task import Task
from gangsched.core.placement.tree_walk import place_elastic, place_minimum
from gangsched.core.records.gang import GangRecord
from gangsched.core.scheduler import Scheduler
from gangsched.primitives.gang_tree import SubGroup, Within
from gangsched.primitives.standing import least_needed
from support.examples import one_in

ZONE, RACK = "zone", "rack"


@frozen
class Case:
    """A cluster, a gang tree, and the cpu that each member of a leaf requests.

    Attributes:
        nodes: Each with its cpu, its zone and its rack; None for a node without labels.
        running: Members that run, each with its leaf and its node.
    """

    nodes: tuple[tuple[int, str | None, str | None], ...]
    tree: SubGroup
    members: Mapping[str, tuple[int, ...]]
    running: tuple[tuple[str, int], ...] = ()


def _withins() -> st.SearchStrategy[Within | None]:
    return st.sampled_from([None, None, Within(ZONE), Within(RACK), Within(RACK, required=False)])


@st.composite
def cases(draw: Any, *, runs: bool = False) -> Case:
    """Draw a cluster of up to four nodes, and a gang of up to three sub groups on two levels."""
    count = draw(st.integers(1, 4))
    drawn = [
        (draw(st.integers(0, 4)), f"z{draw(st.integers(0, 1))}", f"r{draw(st.integers(0, 1))}")
        for _ in range(count)
    ]
    # a rack is in one zone
    nodes: list[tuple[int, str | None, str | None]] = [(c, z, f"{z}{r}") for c, z, r in drawn]
    if runs and draw(st.booleans()):
        nodes[0] = (nodes[0][0], None, None)
    leaves: list[SubGroup] = []
    members: dict[str, tuple[int, ...]] = {}
    for name in ("a", "b", "c")[: draw(st.integers(1, 3))]:
        sizes = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
        members[name] = sizes
        least = draw(st.integers(0, len(sizes)))
        leaves.append(SubGroup(name, least, within=draw(_withins()), group=None, role=name))
    children = leaves
    if len(leaves) == 3 and draw(st.booleans()):
        inner = tuple(leaves[:2])
        wanted = len(inner) if runs else draw(st.integers(1, len(inner)))
        middle = SubGroup("ab", 0, inner, wanted=wanted, within=draw(_withins()))
        children = [middle, leaves[2]]
    total = sum(leaf.least for leaf in leaves)
    least = draw(st.integers(total, sum(map(len, members.values()))))
    wanted = len(children) if runs else draw(st.integers(1, len(children)))
    tree = SubGroup("gang", least, tuple(children), wanted=wanted, within=draw(_withins()))
    if not runs:
        return Case(tuple(nodes), tree, members)
    seat = st.tuples(st.sampled_from(sorted(members)), st.integers(0, count - 1))
    running = draw(st.lists(seat, min_size=1, max_size=2))
    return Case(tuple(nodes), tree, members, tuple(running))


def placements(case: Case) -> Iterator[dict[tuple[str, int], int | None]]:
    """Yield every way to put members on nodes, or to leave them out, within capacity."""
    names = [(leaf, n) for leaf, sizes in case.members.items() for n in range(len(sizes))]
    for choice in product(range(-1, len(case.nodes)), repeat=len(names)):
        free = [cpu for cpu, _zone, _rack in case.nodes]
        for (leaf, n), node in zip(names, choice, strict=True):
            if node >= 0:
                free[node] -= case.members[leaf][n]
        if min(free) >= 0:
            yield {
                name: None if node < 0 else node for name, node in zip(names, choice, strict=True)
            }


def domain(case: Case, within: Within, node: int) -> str | None:
    """Return the value of the label of a level on a node."""
    _cpu, zone, rack = case.nodes[node]
    return zone if within.level == ZONE else rack


def running_in(case: Case, tree: SubGroup, within: Within) -> set[str | None]:
    """Return the domains with running members of a sub group; None for an unknown one."""
    keys = {leaf.key for leaf in tree.leaves}
    return {domain(case, within, node) for leaf, node in case.running if leaf in keys}


def is_within(case: Case, tree: SubGroup, nodes: list[int]) -> bool:
    """Return whether members of a sub group share a domain, that of running ones if any run."""
    within = tree.within
    if within is None or not within.required:
        return True
    used = {domain(case, within, node) for node in nodes}
    before = running_in(case, tree, within)
    return len(used) <= 1 and None not in used and (not before or used <= before)


def ways(case: Case, tree: SubGroup, on: Mapping[str, list[int]]) -> Iterator[list[int]]:
    """Yield the nodes of members that count, for each way in which the minima are met."""
    runs = Counter(leaf for leaf, _node in case.running)
    held = sum(runs[leaf.key] for leaf in tree.leaves)
    if not tree.children:
        if len(on[tree.key]) + held >= tree.least:
            yield on[tree.key]
        return
    counts = range(tree.wanted, len(tree.children) + 1)  # the least may need more than are wanted
    for chosen in chain.from_iterable(combinations(tree.children, count) for count in counts):
        for below in product(*(list(ways(case, child, on)) for child in chosen)):
            nodes = [node for some in below for node in some]
            if len(nodes) + held >= tree.least and is_within(case, tree, nodes):
                yield nodes


def meets(case: Case, placed: dict[tuple[str, int], int | None]) -> bool:
    """Return whether a placement meets the minima and the required domains of a tree."""
    on = {
        leaf.key: [
            node for (name, _n), node in placed.items() if name == leaf.key and node is not None
        ]
        for leaf in case.tree.leaves
    }
    if not all(is_within(case, leaf, on[leaf.key]) for leaf in case.tree.leaves):
        return False
    return next(ways(case, case.tree, on), None) is not None


def task_of(case: Case) -> tuple[Task, SubGroup]:
    """Return the task to place the members of a case."""
    cluster = InMemoryCluster()
    scheduler = Scheduler(cluster, presets.default_profile())
    for number, (cpu, zone, rack) in enumerate(case.nodes):
        labels = {} if zone is None or rack is None else {ZONE: zone, RACK: rack}
        node = Node(name=f"n{number}", allocatable={"cpu": cpu}, labels=labels)
        scheduler.handle(cluster.apply(NodeAdded(node)), now=0.0)
    for leaf, sizes in case.members.items():
        for number, cpu in enumerate(sizes):
            pod = Pod(name=f"{leaf}-{number}", requests={"cpu": cpu})
            scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    for number, (leaf, where) in enumerate(case.running):
        pod = Pod(name=f"{leaf}-running-{number}", node_name=NodeName(f"n{where}"))
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    state = scheduler._state
    gang = GangRecord("gang", 10_000, 0.0)
    gang.set_tree(case.tree)
    records = list(state.records.pods.values())
    for record in records:
        record.leaf = record.pod.name.partition("-")[0]
        if record.slot >= 0:
            gang.members[record.uid] = record
    runs = Counter(leaf for leaf, _node in case.running)
    lacking = {
        each.key: each.least - sum(runs[leaf.key] for leaf in each.leaves)
        for each in case.tree.sub_groups()
    }
    pending = [record for record in records if record.slot < 0]
    return Task(gang, pending, state.records, state.cycle, lacking), case.tree


@one_in(2)
@given(cases())
def test_gang_is_placed_exactly_if_a_placement_exists(case: Case) -> None:
    is_placed_exactly(case)


@one_in(2)
@given(cases(runs=True))
def test_members_join_the_domains_of_running_ones_exactly_if_they_fit(case: Case) -> None:
    for tree in case.tree.constrained:
        assert tree.within is not None
        assume(len(running_in(case, tree, tree.within)) <= 1)  # each knows one domain, or none
    is_placed_exactly(case)


def is_placed_exactly(case: Case) -> None:
    """Fail unless the members are placed exactly if a placement exists."""
    task, tree = task_of(case)
    exists = any(meets(case, placed) for placed in placements(case))
    task.table.begin()
    is_placed = place_minimum(task, tree, EVERYWHERE) or search(task, 100_000)
    assert is_placed is exists
    if is_placed:
        place_elastic(task, tree)
        placed: dict[tuple[str, int], int | None] = {}
        for record, slot in task.nodes:
            leaf, _, index = record.pod.name.partition("-")
            placed[leaf, int(index)] = slot
        assert len(placed) == len(task.nodes)
        assert meets(case, placed)
        free = [cpu for cpu, _zone, _rack in case.nodes]
        for (leaf, number), node in placed.items():
            assert node is not None
            free[node] -= case.members[leaf][number]
        assert min(free) >= 0
    task.table.rewind()
    task.table.end()


# Slices


# What a gang tree needs at the least


REPLICAS = tuple(SubGroup(f"replica-{n}", n) for n in (3, 1, 2))


@pytest.mark.parametrize(
    ("tree", "members"),
    [
        (SubGroup("alone", 4), 4),
        (SubGroup("all", children=REPLICAS), 6),
        (SubGroup("any two", children=REPLICAS, wanted=2), 3),
        (SubGroup("none", children=REPLICAS, wanted=0), 0),
        (SubGroup("more in all", 5, children=REPLICAS, wanted=2), 5),
    ],
    ids=lambda case: case.key if isinstance(case, SubGroup) else "",
)
def test_sub_group_needs_the_smallest_of_those_it_may_choose(tree: SubGroup, members: int) -> None:
    assert least_needed(tree, lambda sub: sub.least) == members
