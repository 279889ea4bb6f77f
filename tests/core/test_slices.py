"""Slices: a gang starts if and only if they fit, compared with brute force; and as it lives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from attrs import evolve
from hypothesis import example, given
from hypothesis import strategies as st

from gangsched import (
    GroupKey,
    NodeAdded,
    NodeDeleted,
    NodeName,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodGroupUpdated,
    Role,
    Topology,
    presets,
)
from gangsched.testing import make_node, make_pod
from support.immediate_host import ImmediateHost

HOST = "kubernetes.io/hostname"
LEVELS = ("block", "rack", HOST)
Place = tuple[str, str]
Nodes = dict[str, tuple[Place, int]]
"""By name the block and the rack of a node, and its CPUs."""

TOPOLOGIES = (
    Topology(slices={"rack": 2}),
    Topology("block", slices={"rack": 2}),
    Topology("block", slices={"rack": 3}),
    Topology("block", slices={HOST: 2}),
    Topology("block", slices={"rack": 4, HOST: 2}),
    Topology("rack", slices={HOST: 2}),
)


@st.composite
def nodes(draw: st.DrawFn) -> Nodes:
    """Draw nodes; racks of two blocks have one name."""
    places = [("b0", "r0"), ("b0", "r1"), ("b1", "r0")]
    return {
        f"n{number}": (draw(st.sampled_from(places)), draw(st.integers(1, 4)))
        for number in range(draw(st.integers(1, 6)))
    }


def cuts(numbers: Sequence[int], slices: Sequence[tuple[str, int]]) -> Iterator[Any]:
    """Yield slices of members, each as its level and what it consists of."""
    if not slices:
        yield from numbers
        return
    (level, size), inner = slices[0], slices[1:]
    for first in range(0, len(numbers), size):
        yield level, [*cuts(numbers[first : first + size], inner)]


def fits(parts: Sequence[Any], sizes: Sequence[int], world: Nodes, within: frozenset[str]) -> bool:
    """Return whether parts can be placed within some nodes, by trying all."""
    return any(True for _ in placements(parts, sizes, world, within))


def placements(
    parts: Sequence[Any], sizes: Sequence[int], world: Nodes, within: frozenset[str]
) -> Iterator[Nodes]:
    """Yield what is free after each way to place parts within some nodes."""
    if not parts:
        yield world
        return
    first, rest = parts[0], parts[1:]
    if isinstance(first, int):
        for name in within:
            place, free = world[name]
            if free >= sizes[first]:
                after = {**world, name: (place, free - sizes[first])}
                yield from placements(rest, sizes, after, within)
        return
    level, below = first
    for domain in domains(world, level):
        for after in placements(below, sizes, world, domain & within):
            yield from placements(rest, sizes, after, within)


def domains(world: Nodes, level: str | None) -> list[frozenset[str]]:
    """Return the nodes of each domain of a level."""
    if level is None:
        return [frozenset(world)]
    depth = LEVELS.index(level) + 1
    paths = {name: (*place, name)[:depth] for name, (place, _cpu) in world.items()}
    return [frozenset(n for n in paths if paths[n] == path) for path in sorted({*paths.values()})]


class Host(ImmediateHost):
    """A scheduler that knows levels."""

    def __init__(self, world: Nodes) -> None:
        super().__init__()
        self.scheduler = presets.gang(self.cluster, levels=LEVELS)
        self.world = world
        for name, ((block, rack), cpu) in world.items():
            labels = {"block": block, "rack": rack}
            self.tell(NodeAdded(make_node(name, cpu=cpu, labels=labels)))

    def start(self, sizes: Sequence[int], topology: Topology, minimum: int) -> dict[int, str]:
        """Add a gang, and return the node of each member by its number."""
        self.tell(PodGroupAdded(PodGroup(name="g", min_available=minimum, topology=topology)))
        pods = [make_pod(f"g-{n}", group="g", cpu=cpu) for n, cpu in enumerate(sizes)]
        self.tell(*map(PodAdded, pods))
        self.decide()
        return self.on

    @property
    def on(self) -> dict[int, str]:
        """The node of each running member, by its number."""
        return {
            int(pod.name.rpartition("-")[2]): pod.node_name
            for pod in self.cluster.pods()
            if pod.node_name is not None
        }

    def check(self, topology: Topology, minimum: int) -> None:
        """Check that no slice, and no required domain, is broken."""
        on, world = self.on, self.world
        for level, some in _all_cuts(topology, minimum):
            used = {on[number] for number in some if number in on}
            assert any(used <= domain for domain in domains(world, level)), (level, some, on)
        assert any({*on.values()} <= domain for domain in domains(world, topology.key))


def _all_cuts(topology: Topology, minimum: int) -> Iterator[tuple[str, list[int]]]:
    for level, size in topology.slices:
        for first in range(0, minimum, size):
            yield level, list(range(first, min(first + size, minimum)))


@given(
    nodes(),
    st.lists(st.integers(1, 2), min_size=1, max_size=6),
    st.integers(0, 2),
    st.sampled_from(TOPOLOGIES),
)
@example({"n0": (("b0", "r0"), 3), "n1": (("b0", "r1"), 3)}, [1] * 4, 0, TOPOLOGIES[1])
def test_gang_starts_if_and_only_if_its_slices_fit(
    world: Nodes, sizes: list[int], more: int, topology: Topology
) -> None:
    minimum = max(len(sizes) - more, 1)
    host = Host(world)
    on = host.start(sizes, topology, minimum)
    parts = list(cuts(range(minimum), topology.slices))
    can = any(fits(parts, sizes, world, domain) for domain in domains(world, topology.key))
    assert set(range(minimum)) <= on.keys() if can else on == {}
    if can:
        host.check(topology, minimum)


@given(nodes(), st.integers(1, 4), st.sampled_from(TOPOLOGIES[:4]))
def test_like_slices_take_the_fewest_domains(world: Nodes, count: int, topology: Topology) -> None:
    ((level, size),) = topology.slices
    host = Host(world)
    on = host.start([1] * (count * size), topology, count * size)
    if not on:
        return
    rooms = {d: sum(world[n][1] for n in d) // size for d in domains(world, level)}
    fewest = min(
        _fewest([room for domain, room in rooms.items() if domain <= whole], count)
        for whole in domains(world, topology.key)
    )
    used = {domain for domain in rooms if domain & {*on.values()}}
    assert len(used) == fewest


def _fewest(rooms: Sequence[int], count: int) -> int:
    left, used = count, 0
    for room in sorted(rooms, reverse=True):
        if left <= 0:
            break
        left, used = left - room, used + 1
    return used if left <= 0 else 99


@given(nodes(), st.integers(2, 6), st.data())
def test_slices_stay_whole_while_members_and_nodes_are_replaced(
    world: Nodes, minimum: int, data: st.DataObject
) -> None:
    topology = data.draw(st.sampled_from(TOPOLOGIES))
    host = Host(world)
    if not host.start([1] * minimum, topology, minimum):
        return
    for turn in range(4):
        if data.draw(st.booleans()) and (on := host.on):
            number = data.draw(st.sampled_from(sorted(on)))
            name = next(p.name for p in host.cluster.pods() if p.name.endswith(f"-{number}"))
            host.end(name)
            host.tell(PodAdded(make_pod(f"x{turn}-{number}", group="g", cpu=1)))
        if data.draw(st.booleans()):
            fresh = presets.gang(host.cluster, levels=LEVELS)
            fresh.restore(host.scheduler.snapshot())
            host.scheduler = fresh
        host.decide()
        host.check(topology, minimum)


# Stories ----------------------------------------------------------------------------------------


def rack_world(*cpus: int) -> Nodes:
    """Return one node in each rack of one block."""
    return {f"n{n}": (("b0", f"r{n}"), cpu) for n, cpu in enumerate(cpus)}


def test_member_that_replaces_another_one_goes_where_its_slice_is() -> None:
    host = Host(rack_world(3, 2))
    topology = Topology("block", slices={"rack": 2})
    assert host.start([1] * 4, topology, 4) == {0: "n0", 1: "n0", 2: "n1", 3: "n1"}
    host.end("g-3")
    host.tell(PodAdded(make_pod("new-3", group="g", cpu=1)))
    host.decide()
    assert host.on[3] == "n1", "n0 has room, too"


def test_member_whose_slice_has_no_room_waits_and_says_where() -> None:
    host = Host(rack_world(3, 2))
    host.start([1] * 4, Topology("block", slices={"rack": 2}), 4)
    host.end("g-3")
    other = make_pod("other-9", cpu=1)
    host.tell(PodAdded(evolve(other, node_name=NodeName("n1"))))
    host.tell(PodAdded(make_pod("new-3", group="g", cpu=1)))
    host.decide()
    assert 3 not in host.on
    assert "not within rack=b0/r1" in str(host.scheduler.why("default/g"))


def test_members_beyond_the_minimum_are_in_no_slice() -> None:
    host = Host(rack_world(2, 3))
    on = host.start([1] * 5, Topology("block", slices={"rack": 2}), 4)
    assert Counter(on.values()) == {"n0": 2, "n1": 3}


def test_shortage_of_slices_is_said() -> None:
    host = Host(rack_world(3, 3))
    assert host.start([1] * 6, Topology("block", slices={"rack": 2}), 6) == {}
    assert "at most 2 of 3 slices" in str(host.scheduler.why("default/g"))


def test_role_is_cut_by_the_numbers_of_its_own_pods() -> None:
    host = Host(rack_world(2, 2, 1))
    worker = Role(4, topology=Topology(slices={"rack": 2}))
    host.tell(PodGroupAdded(PodGroup(name="g", roles={"worker": worker, "driver": 1})))
    pods = [make_pod(f"w-{n}", group="g", role="worker", cpu=1) for n in range(4)]
    host.tell(*map(PodAdded, pods), PodAdded(make_pod("d-0", group="g", role="driver", cpu=1)))
    host.decide()
    at = {pod.name: pod.node_name for pod in host.cluster.pods()}
    assert at["w-0"] == at["w-1"] != at["w-2"] == at["w-3"]
    assert at["d-0"] == "n2"


def test_pod_without_a_number_is_refused_and_says_so() -> None:
    host = Host(rack_world(2))
    topology = Topology(slices={"rack": 2})
    host.tell(PodGroupAdded(PodGroup(name="g", min_available=2, topology=topology)))
    host.tell(PodAdded(make_pod("nameless", group="g", cpu=1)))
    assert "a name that ends with its number" in str(host.scheduler.why("default/nameless"))


def test_completion_index_goes_before_the_name() -> None:
    host = Host(rack_world(1, 1))
    topology = Topology(slices={"rack": 1})
    host.tell(PodGroupAdded(PodGroup(name="g", min_available=2, topology=topology)))
    for index in range(2):
        labels = {"batch.kubernetes.io/job-completion-index": str(index)}
        pod: Pod = evolve(make_pod(f"job-{index}-77", group="g", cpu=1), labels=labels)
        host.tell(PodAdded(pod))
    host.decide()
    assert len({pod.node_name for pod in host.cluster.pods()} - {None}) == 2


def test_slices_that_are_changed_while_members_wait_are_read_again() -> None:
    host = Host(rack_world(1, 1, 1, 1))
    topology = Topology("block", slices={"rack": 2})
    assert host.start([1] * 4, topology, 4) == {}
    spec = host.cluster.pod_group(GroupKey("default/g"))
    assert spec is not None
    host.tell(PodGroupUpdated(evolve(spec, topology=Topology("block", slices={"rack": 1}))))
    host.decide()
    assert len({*host.on.values()}) == 4
    host.tell(NodeDeleted(NodeName("n0")))
    host.check(Topology("block", slices={"rack": 1}), 4)
