"""Levels: a gang goes to one domain of the finest level that it can, compared with brute force."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    NodeAdded,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    Topology,
    presets,
)
from gangsched.testing import make_node, make_pod
from support.immediate_host import ImmediateHost

BLOCK, RACK, HOST = "block", "rack", "kubernetes.io/hostname"
LEVELS = (BLOCK, RACK, HOST)
Place = tuple[str, ...]
"""The block and the rack of a node. It ends early if a label is missing."""

TOPOLOGIES = (
    Topology(BLOCK),
    Topology(RACK),
    Topology(BLOCK, prefer=RACK),
    Topology(BLOCK, prefer=HOST),
    Topology(RACK, prefer=HOST),
    Topology(RACK, required=False),
    Topology(HOST, required=False),
    Topology(BLOCK, required=False, prefer=RACK),
)


@st.composite
def nodes(draw: st.DrawFn) -> dict[str, tuple[Place, int]]:
    """Draw nodes by name, each with its path and its CPUs; racks of two blocks have one name."""
    found: dict[str, tuple[Place, int]] = {}
    for number in range(draw(st.integers(1, 7))):
        place = draw(st.sampled_from([("b0", "r0"), ("b0", "r1"), ("b1", "r0"), ("b1",), ()]))
        name = f"n{number}"
        found[name] = place, draw(st.integers(1, 4))
    return found


def levels_of(topology: Topology) -> list[int]:
    """Return the depths of the levels that are tried, the finest first; 0 for the cluster."""
    first = LEVELS.index(topology.prefer or topology.key) + 1
    last = LEVELS.index(topology.key) + 1 if topology.required else 0
    return list(range(first, last - 1, -1))


def fits(free: Sequence[int], pods: Sequence[int]) -> bool:
    """Return whether pods fit on nodes, by trying all."""
    if not pods:
        return True
    for at, left in enumerate(free):
        if left >= pods[0] and left not in free[:at]:
            rest = [*free[:at], left - pods[0], *free[at + 1 :]]
            if fits(rest, pods[1:]):
                return True
    return False


def domains(world: dict[str, tuple[Place, int]], depth: int, least: int = 0) -> Iterator[set[str]]:
    """Yield the nodes of each domain of a level; nodes within *least* levels at the deepest."""
    if depth == 3:
        yield from ({n} for n, (path, _cpu) in world.items() if len(path) >= least)
        return
    paths = {path[:depth] for path, _cpu in world.values() if len(path) >= depth}
    for domain in sorted(paths):
        yield {n for n, (path, _cpu) in world.items() if path[:depth] == domain}


def expected(
    world: dict[str, tuple[Place, int]], pods: Sequence[int], topology: Topology
) -> int | None:
    """Return the depth of the finest level of which one domain takes all pods; None for none."""
    pods = sorted(pods, reverse=True)
    least = bound(topology)
    for depth in levels_of(topology):
        if any(fits([world[n][1] for n in each], pods) for each in domains(world, depth, least)):
            return depth
    return None


def bound(topology: Topology) -> int:
    """Return how many levels a node has to be in."""
    return LEVELS.index(topology.key) + 1 if topology.required and topology.key != HOST else 0


class Host(ImmediateHost):
    """A scheduler that knows levels."""

    def __init__(self, world: dict[str, tuple[Place, int]], **options: Any) -> None:
        super().__init__()
        self.scheduler = presets.gang(self.cluster, levels=LEVELS, **options)
        for name, (path, cpu) in world.items():
            labels = dict(zip((BLOCK, RACK), path, strict=False))
            self.tell(NodeAdded(make_node(name, cpu=cpu, labels=labels)))

    def start(self, pods: Iterable[int], topology: Topology) -> list[str]:
        """Add a gang, and return the node of each member; none if it does not start."""
        sizes = list(pods)
        group = PodGroup(name="g", min_available=len(sizes), topology=topology)
        self.tell(PodGroupAdded(group))
        names = [f"p{number}" for number in range(len(sizes))]
        self.tell(
            *[PodAdded(make_pod(n, group="g", cpu=c)) for n, c in zip(names, sizes, strict=True)]
        )
        self.decide()
        return [pod.node_name for pod in self.cluster.pods() if pod.node_name is not None]


@given(nodes(), st.lists(st.integers(1, 3), min_size=1, max_size=5), st.sampled_from(TOPOLOGIES))
def test_gang_shares_a_domain_of_the_finest_level_that_can_take_it(
    world: dict[str, tuple[Place, int]], pods: list[int], topology: Topology
) -> None:
    chosen = Host(world).start(pods, topology)
    depth = expected(world, pods, topology)
    if depth is None:
        assert chosen == []
        return
    assert len(chosen) == len(pods)
    assert any({*chosen} <= each for each in domains(world, depth, bound(topology)))


@given(nodes(), st.integers(1, 6), st.sampled_from([t for t in TOPOLOGIES if t != TOPOLOGIES[3]]))
def test_like_members_take_the_fewest_domains_below_one_that_they_share(
    world: dict[str, tuple[Place, int]], number: int, topology: Topology
) -> None:
    world = {name: (path, cpu) for name, (path, cpu) in world.items() if len(path) == 2}
    chosen = Host(world).start([1] * number, topology)
    depth = expected(world, [1] * number, topology)
    if depth is None or not chosen:
        return
    fine = min(depth + 1, levels_of(topology)[0])  # coarse to fine
    fewest = min(
        count
        for each in domains(world, depth)
        for count in range(1, len(world) + 1)
        if any(
            sum(world[n][1] for domain in some for n in domain) >= number
            for some in combinations([d & each for d in domains(world, fine) if d & each], count)
        )
    )
    assert len({min(each) for each in domains(world, fine) if each & {*chosen}}) == fewest
