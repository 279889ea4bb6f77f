"""Where gangs go, against every placement that there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, product
from typing import Any

from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from gangsched import InMemoryCluster, Node, NodeAdded, Pod, PodAdded, presets
from gangsched.core.domains import EVERYWHERE
from gangsched.core.gang_tree import SubGroup, Within
from gangsched.core.placement.search import search
from gangsched.core.placement.task import Task
from gangsched.core.records import Gang
from gangsched.core.scheduler import Scheduler

ZONE, RACK = "zone", "rack"


@frozen
class Case:
    """A cluster, a gang tree, and the cpu that each member of a leaf requests."""

    nodes: tuple[tuple[int, str, str], ...]
    tree: SubGroup
    members: Mapping[str, tuple[int, ...]]


def _withins() -> st.SearchStrategy[Within | None]:
    return st.sampled_from([None, None, Within(ZONE), Within(RACK), Within(RACK, required=False)])


@st.composite
def cases(draw: Any) -> Case:
    """Draw a cluster of up to four nodes, and a gang of up to three sub groups."""
    count = draw(st.integers(1, 4))
    nodes = tuple(
        (draw(st.integers(0, 4)), f"z{draw(st.integers(0, 1))}", f"r{draw(st.integers(0, 1))}")
        for _ in range(count)
    )
    # a rack is in one zone
    nodes = tuple((cpu, zone, f"{zone}{rack}") for cpu, zone, rack in nodes)
    leaves: list[SubGroup] = []
    members: dict[str, tuple[int, ...]] = {}
    for name in ("a", "b", "c")[: draw(st.integers(1, 3))]:
        sizes = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
        members[name] = sizes
        least = draw(st.integers(0, len(sizes)))
        leaves.append(SubGroup(name, least, within=draw(_withins()), group=None, role=name))
    total = sum(leaf.least for leaf in leaves)
    least = draw(st.integers(total, sum(map(len, members.values()))))
    wanted = draw(st.integers(1, len(leaves)))
    tree = SubGroup("gang", least, tuple(leaves), wanted=wanted, within=draw(_withins()))
    return Case(nodes, tree, members)


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


def meets(case: Case, placed: dict[tuple[str, int], int | None]) -> bool:
    """Return whether a placement meets the minima and the required domains of a tree."""
    on = {
        leaf.key: [
            node for (name, _n), node in placed.items() if name == leaf.key and node is not None
        ]
        for leaf in case.tree.leaves
    }

    def is_within(tree: SubGroup, nodes: list[int]) -> bool:
        within = tree.within
        if within is None or not within.required:
            return True
        return len({case.nodes[node][1 if within.level == ZONE else 2] for node in nodes}) <= 1

    if not all(is_within(leaf, on[leaf.key]) for leaf in case.tree.leaves):
        return False
    for chosen in combinations(case.tree.leaves, case.tree.wanted):
        nodes = [node for leaf in chosen for node in on[leaf.key]]
        minima = all(len(on[leaf.key]) >= leaf.least for leaf in chosen)
        if minima and len(nodes) >= case.tree.least and is_within(case.tree, nodes):
            return True
    return False


def task_of(case: Case) -> tuple[Task, SubGroup]:
    """Return the task to place the members of a case."""
    cluster = InMemoryCluster()
    scheduler = Scheduler(cluster, presets.default_profile())
    for number, (cpu, zone, rack) in enumerate(case.nodes):
        node = Node(name=f"n{number}", allocatable={"cpu": cpu}, labels={ZONE: zone, RACK: rack})
        scheduler.handle(cluster.apply(NodeAdded(node)), now=0.0)
    for leaf, sizes in case.members.items():
        for number, cpu in enumerate(sizes):
            pod = Pod(name=f"{leaf}-{number}", requests={"cpu": cpu})
            scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    state = scheduler._state
    gang = Gang("gang", 10_000, 0.0, state.table)
    gang.set_tree(case.tree)
    records = list(state.records.pods.values())
    for record in records:
        record.leaf = record.pod.name.partition("-")[0]
    lacking = {each.key: each.least for each in case.tree.sub_groups()}
    return Task(gang, records, state.records, state.cycle, lacking), case.tree


@given(cases())
def test_gang_is_placed_exactly_if_a_placement_exists(case: Case) -> None:
    task, tree = task_of(case)
    exists = any(meets(case, placed) for placed in placements(case))
    task.table.begin()
    is_placed = task.minimum(tree, EVERYWHERE) or search(task, 100_000)
    assert is_placed is exists
    if is_placed:
        task.elastic(tree)
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
