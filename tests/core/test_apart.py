"""Members apart from each other, and domains without anybody else: compared with brute force."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, Final

import pytest
from attrs import evolve, frozen
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Evict,
    GroupKey,
    Node,
    NodeAdded,
    NodeDeleted,
    NodeName,
    NodeUpdated,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodUID,
    Preemption,
    Role,
    Scheduler,
    Topology,
    presets,
)
from gangsched.testing import make_node, make_pod
from support.immediate_host import ImmediateHost

HOST: Final = "kubernetes.io/hostname"
LEVELS: Final = ("block", "rack", HOST)
PLACES: Final = (
    {},
    {"block": "b0"},
    *({"block": b, "rack": r} for b in ("b0", "b1") for r in "rs"),
)


@frozen
class Shape:
    """What is asked of a gang.

    Attributes:
        units: Which members, by number, are one unit; units that are apart share no domain.
        within: The level of which each unit shares a domain, if they are not apart.
        topology: The constraint.
        kind: How it is spelled: of pods, of slices, of copies, of children.
    """

    units: tuple[tuple[int, ...], ...]
    topology: Topology
    kind: str
    within: str | None = None

    @property
    def groups(self) -> list[PodGroup]:
        """The specifications."""
        size = sum(map(len, self.units))
        if self.kind in ("pods", "slices"):
            return [PodGroup(name="g", min_available=size, topology=self.topology)]
        if self.kind == "copies":
            role = Role(len(self.units), roles={"w": len(self.units[0])}, topology=self.topology)
            return [PodGroup(name="g", min_available=size, roles={"r": role})]
        parent = PodGroup(name="g", min_groups=len(self.units), topology=self.topology)
        key = GroupKey("default/g")
        sizes = [len(unit) for unit in self.units]
        below = [PodGroup(name=f"g{n}", parent=key, min_available=m) for n, m in enumerate(sizes)]
        return [parent, *below]

    def pods(self, sizes: Sequence[int]) -> Iterator[Pod]:
        """Yield the members, given the CPUs of each."""
        for number, unit in enumerate(self.units):
            for member in unit:
                role = f"r/{number}/w" if self.kind == "copies" else None
                group = f"g{number}" if self.kind == "children" else "g"
                name = f"g-{member}"
                yield evolve(make_pod(name, group=group, cpu=sizes[member]), role=role)


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """Draw what is asked of a gang of two to six members."""
    kind = draw(st.sampled_from(["pods", "slices", "copies", "children"]))
    size = 1 if kind == "pods" else draw(st.integers(1, 2))
    number = draw(st.integers(2, 4 if size == 1 else 3))
    units = tuple([tuple(range(n * size, (n + 1) * size)) for n in range(number)])
    apart = draw(st.sampled_from([None, "block", "rack", HOST]))
    exclusive = draw(st.sampled_from([None, "block", "rack", HOST]))
    key = draw(st.sampled_from([None, "block", "rack"]))
    within = None
    more: dict[str, Any] = {}
    if kind == "slices":
        within = draw(st.sampled_from(["rack", HOST]))
        more["slices"] = {within: size}
        if apart == HOST:
            apart = within
    if kind == "copies":
        within, key = key, key if key is not None and apart in (None, "block") else None
        within = key
    depth = [*LEVELS, None].index
    if kind != "copies" and apart is not None and key is not None and depth(key) >= depth(apart):
        key = None
    if kind == "slices" and key is not None and depth(key) >= depth(within):
        key = None
    if not (key or apart or exclusive or more):
        exclusive = "rack"
    topology = Topology(key, apart=apart, exclusive=exclusive, **more)
    return Shape(units, topology, kind, within)


World = dict[str, tuple[dict[str, str], int]]
"""By name the labels of a node, and its CPUs."""
Others = list[tuple[str, int, bool]]
"""The pods of others: node, CPUs, and whether every node has one."""


@st.composite
def worlds(draw: st.DrawFn) -> tuple[World, Others]:
    """Draw one to six nodes, and the pods of others that run there."""
    world = {
        f"n{number}": (draw(st.sampled_from(PLACES)), draw(st.integers(1, 3)))
        for number in range(draw(st.integers(1, 6)))
    }
    on = draw(st.lists(st.sampled_from(sorted(world)), max_size=2, unique=True))
    return world, [(name, 1, draw(st.booleans())) for name in on]


def domain(world: World, node: str, level: str) -> tuple[str, ...] | None:
    """Return the domain of a node; None if it has none."""
    if level == HOST:
        return (node,)
    keys, labels = LEVELS[: LEVELS.index(level) + 1], world[node][0]
    return tuple(labels[key] for key in keys) if all(key in labels for key in keys) else None


def is_right(shape: Shape, world: World, others: Others, on: dict[int, str]) -> bool:
    """Return whether members may be where they are, whatever is free."""
    of, running = shape.topology, [[on[m] for m in unit if m in on] for unit in shape.units]

    def met(level: str | None, nodes: list[str]) -> bool:
        found = {domain(world, node, level) for node in nodes} if level else set()
        return len(found) <= 1 and None not in found

    of_each = of.key if shape.kind == "copies" else None
    if not all(met(level, unit) for unit in running for level in (of.apart, of_each, shape.within)):
        return False
    if shape.kind != "copies" and not met(of.key, [node for unit in running for node in unit]):
        return False
    if of.apart:
        used = [{domain(world, node, of.apart) for node in unit} for unit in running]
        if any(a & b for a, b in combinations(used, 2)):
            return False
    if of.exclusive:
        mine = {domain(world, node, of.exclusive) for node in on.values()}
        theirs = {domain(world, n, of.exclusive) for n, _cpu, is_daemon in others if not is_daemon}
        if None in mine or mine & theirs:
            return False
    return True


def fits(shape: Shape, world: World, others: Others, sizes: Sequence[int]) -> bool:
    """Return whether all members can be placed, by trying all ways."""
    free = {name: cpu for name, (_labels, cpu) in world.items()}
    for name, cpu, _is_daemon in others:
        free[name] -= cpu

    def place(member: int, on: dict[int, str]) -> bool:
        if not is_right(shape, world, others, on):
            return False
        if member == len(sizes):
            return True
        for name in world:
            if free[name] >= sizes[member]:
                free[name] -= sizes[member]
                found = place(member + 1, {**on, member: name})
                free[name] += sizes[member]
                if found:
                    return True
        return False

    return place(0, {})


class Host(ImmediateHost):
    """A scheduler that knows levels, with the pods of others."""

    def __init__(self, world: World, others: Others, **options: Any) -> None:
        super().__init__()
        self.scheduler = presets.gang(self.cluster, levels=LEVELS, **options)
        self.tell(*[NodeAdded(node(name, *world[name])) for name in world])
        for number, (name, cpu, is_daemon) in enumerate(others):
            self.tell(PodAdded(other(number, name, cpu, is_daemon=is_daemon)))

    @property
    def on(self) -> dict[int, str]:
        """The node of each running member, by its number."""
        return {
            int(pod.name.rpartition("-")[2]): pod.node_name
            for pod in self.cluster.pods()
            if pod.node_name is not None and pod.name.startswith("g-")
        }

    def start(self, shape: Shape, sizes: Sequence[int]) -> None:
        """Add a gang, and decide."""
        self.tell(*map(PodGroupAdded, shape.groups))
        self.tell(*map(PodAdded, shape.pods(sizes)))
        self.decide()


def node(name: str, labels: dict[str, str], cpu: int) -> Node:
    """Return a node."""
    return make_node(name, cpu=cpu, labels=labels)


def other(number: int, name: str, cpu: int, *, is_daemon: bool) -> Pod:
    """Return a pod of others that runs."""
    controller = "apps/v1/DaemonSet/logs" if is_daemon else ""
    pod = make_pod(f"o{number}", cpu=cpu)
    return evolve(pod, node_name=NodeName(name), controller=controller)


_OPS: Final = st.lists(
    st.one_of(
        st.tuples(st.just("other"), st.integers(1, 3)),
        st.tuples(st.just("delete"), st.integers(0, 9)),
        st.tuples(st.just("restore"), st.just(0)),
        st.tuples(st.just("renew"), st.integers(0, 9)),
        st.tuples(st.just("relabel"), st.integers(0, 9)),
        st.tuples(st.just("gone"), st.integers(0, 9)),
    ),
    max_size=8,
)


class Life:
    """A gang that starts, and what comes and goes beside it."""

    def __init__(self, world: World, shape: Shape, sizes: Sequence[int], *, preempts: bool) -> None:
        self.world, self.shape = dict(world), shape
        self.preemption = Preemption() if preempts else None
        self.host = Host(world, [])
        self.host.scheduler = self.fresh()
        self.made = 0
        self.is_moved = False
        self.tell_all()
        self.host.start(shape, sizes)

    def fresh(self) -> Scheduler:
        """Return a scheduler of the cluster that knows nothing yet."""
        return presets.gang(self.host.cluster, levels=LEVELS, preemption=self.preemption)

    def tell_all(self) -> None:
        """Let the scheduler list the cluster."""
        self.host.scheduler.rebuild(now=self.host.now)

    def other(self, number: int) -> None:
        """Add a gang of ordinary pods."""
        name = f"x{self.made}"
        self.made += 1
        self.host.tell(PodGroupAdded(PodGroup(name=name, min_available=number)))
        self.host.tell(
            *[
                PodAdded(make_pod(f"{name}-{n}", group=name, cpu=1, priority=-1))
                for n in range(number)
            ]
        )

    def delete(self, number: int) -> None:
        """Delete a pod."""
        pods = sorted(self.host.cluster.pods(), key=lambda pod: pod.name)
        if pods:
            self.host.tell(PodDeleted(pods[number % len(pods)].uid))

    def restore(self, _number: int) -> None:
        """Restore the scheduler from its snapshot."""
        fresh = self.fresh()
        fresh.restore(self.host.scheduler.snapshot())
        self.host.scheduler = fresh

    def renew(self, number: int) -> None:
        """Create a member anew that was deleted."""
        there = {pod.name for pod in self.host.cluster.pods()}
        gone = [pod for pod in self.shape.pods([1] * 6) if pod.name not in there]
        if gone:
            pod = gone[number % len(gone)]
            self.made += 1
            self.host.tell(PodAdded(evolve(pod, uid=PodUID(f"{pod.name}#{self.made}"))))

    def relabel(self, number: int) -> None:
        """Put a node in another place, though pods may run there."""
        name = sorted(self.world)[number % len(self.world)]
        labels, cpu = self.world[name]
        self.world[name] = (PLACES[(PLACES.index(labels) + 1) % len(PLACES)], cpu)
        self.host.tell(NodeUpdated(node(name, *self.world[name])))
        self.is_moved = True

    def gone(self, number: int) -> None:
        """Take a node away, with its pods."""
        name = sorted(self.world)[number % len(self.world)]
        if len(self.world) > 1:
            del self.world[name]
            self.host.tell(NodeDeleted(NodeName(name)))
            on = [pod for pod in self.host.cluster.pods() if pod.node_name == name]
            self.host.tell(*[PodDeleted(pod.uid) for pod in on])

    def decide(self) -> None:
        """Decide, and end the pods that are evicted, until there is nothing to do."""
        host = self.host
        host.decide()
        while evicted := [e for e in host.effects if isinstance(e, Evict)]:
            host.effects.clear()
            there = {pod.uid for pod in host.cluster.pods()}
            host.tell(*[PodDeleted(each.uid) for each in evicted if each.uid in there])
            host.decide()

    def check(self) -> None:
        """Check that nobody is where the gang keeps others away, and that the gang is apart."""
        self.host.scheduler._check()
        pods = [pod for pod in self.host.cluster.pods() if pod.node_name is not None]
        others = [(str(p.node_name), 1, False) for p in pods if not p.name.startswith("g-")]
        if not self.is_moved:
            assert is_right(self.shape, self.world, others, self.host.on)


SIZES: Final = st.lists(st.sampled_from([1, 1, 1, 2]), min_size=6, max_size=6)


@given(worlds(), shapes(), SIZES)
def test_gang_starts_exactly_if_all_can_be_placed(
    world: tuple[World, Others], shape: Shape, sizes: list[int]
) -> None:
    nodes, others = world
    free = {
        name: cpu - sum(c for n, c, _d in others if n == name) for name, (_l, cpu) in nodes.items()
    }
    if min(free.values()) < 0:
        return
    sizes = sizes[: sum(map(len, shape.units))]
    host = Host(nodes, others)
    host.start(shape, sizes)
    host.scheduler._check()
    on = host.on
    assert bool(on) == fits(shape, nodes, others, sizes), host.scheduler.why(GroupKey("default/g"))
    assert not on or (len(on) == len(sizes) and is_right(shape, nodes, others, on))


@given(worlds(), shapes(), SIZES, _OPS, st.booleans())
def test_gang_stays_apart_whatever_comes_and_goes(
    world: tuple[World, Others],
    shape: Shape,
    sizes: list[int],
    ops: list[tuple[str, int]],
    preempts: bool,
) -> None:
    life = Life(world[0], shape, sizes, preempts=preempts)
    life.decide()
    life.check()
    for name, number in ops:
        getattr(life, name)(number)
        life.decide()
        life.check()


def test_check_changes_nothing() -> None:
    host = Host({"n0": ({"block": "b0"}, 3), "n1": ({"block": "b0"}, 3)}, [("n0", 1, False)])
    host.tell(PodGroupAdded(PodGroup(name="o", min_available=1, topology=Topology(exclusive=HOST))))
    host.tell(PodAdded(evolve(make_pod("o-0", group="o", cpu=1), node_name="n1")))
    before = host.scheduler.snapshot()
    host.scheduler._check()
    assert host.scheduler.snapshot() == before
    assert host.scheduler.schedule_one(now=0.0) is None
    host.scheduler._check()
    assert host.scheduler.advance(now=0.0) == ()


@pytest.mark.parametrize(
    ("topology", "roles", "reason"),
    [
        (
            Topology("rack", apart=HOST),
            {},
            "at most 2 of 4 members fit within rack=b0/r0, no two in one kubernetes.io/hostname",
        ),
        (
            Topology("block"),
            {"r": Role(1, roles={"w": 5}, topology=Topology(HOST))},
            "at most 0 of 1 copies of role r fit within block=b0",
        ),
        (
            Topology("block"),
            {"r": Role(1, roles={"w": 8}, topology=Topology(HOST))},
            "5 or fewer of 8 members fit within block=b0",
        ),
        (Topology(apart="rack"), {}, "at most 2 of 4 members fit, no two in one rack"),
        (Topology(slices={HOST: 1}, apart="rack"), {}, "at most 2 of 4 slices fit"),
    ],
)
def test_reason_counts_what_is_apart(topology: Topology, roles: Any, reason: str) -> None:
    world: World = {
        "n0": ({"block": "b0", "rack": "r0"}, 4),
        "n1": ({"block": "b0", "rack": "r0"}, 1),
        "n2": ({"block": "b1", "rack": "r0"}, 1),
    }
    host = Host(world, [])
    size = sum(role.least for role in roles.values()) or 4
    host.tell(
        PodGroupAdded(PodGroup(name="g", min_available=size, topology=topology, roles=roles)),
        *[
            PodAdded(evolve(make_pod(f"g-{n}", group="g", cpu=1), role="r/0/w" if roles else None))
            for n in range(size)
        ],
    )
    host.decide()
    assert host.on == {}
    assert reason in str(host.scheduler.why(GroupKey("default/g")))


def test_reason_of_a_family_without_a_domain_counts_its_members() -> None:
    host = Host({"n0": ({}, 3)}, [])
    host.tell(PodGroupAdded(PodGroup(name="g", min_groups=1, topology=Topology("rack"))))
    child = PodGroup(name="k", min_available=2, parent=GroupKey("default/g"))
    host.tell(PodGroupAdded(child), *[PodAdded(make_pod(f"k-{n}", group="k")) for n in range(2)])
    host.decide()
    assert "no node that can take it has the label rack" in str(host.scheduler.why("default/g"))
