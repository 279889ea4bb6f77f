"""Small worlds with nested levels, and every placement that there is of a gang in them.

The oracle reads what was drawn, and asks the library nothing. Members are numbers.

Rules:
  R1  ``Unit`` is a node of the tree of a gang: what shares a domain, and what is apart in it;
  R2  ``ways`` yields what is free after each placement of a unit, so an empty answer is a proof;
  R3  members that run count as placed. What they take is not in ``World.free``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from typing import Any, Final, TypeAlias

from attrs import field, frozen
from hypothesis import strategies as st

from gangsched import Event, Node, NodeAdded, Scheduler, presets
from gangsched.testing import make_node
from support.immediate_host import ImmediateHost

__all__ = [
    "BLOCK",
    "HOST",
    "LEVELS",
    "Place",
    "RACK",
    "Unit",
    "World",
    "WorldHost",
    "domain",
    "domains",
    "fits",
    "is_legal",
    "near",
    "node",
    "places",
    "units",
    "ways",
    "worlds",
]

BLOCK, RACK, HOST = LEVELS = ("block", "rack", "kubernetes.io/hostname")
Place: TypeAlias = tuple[str, ...]
"""The block and the rack of a node. It ends early if a label is missing."""
_PLACES: Final[tuple[Place, ...]] = (
    *[(block, rack) for block in ("b0", "b1") for rack in ("r0", "r1")],
    ("b0",),
    (),
)

Names: TypeAlias = frozenset[str]


@frozen
class World:
    """Nodes, by name.

    Attributes:
        places: Where each one is.
        free: How many CPUs are free.
        shut: By level the nodes that are in no domain of it, or in one with pods of others.
    """

    places: Mapping[str, Place]
    free: Mapping[str, int]
    shut: Mapping[str, Names] = field(factory=dict[str, Names])


@st.composite
def worlds(draw: st.DrawFn, *, most: int = 6, cpus: int = 4, bare: bool = True) -> World:
    """Draw one to *most* nodes. Racks of two blocks have one name.

    Args:
        draw: Draws.
        most: The largest number of nodes.
        cpus: The most CPUs of a node.
        bare: Whether nodes may lack labels.
    """
    some = _PLACES if bare else _PLACES[:4]
    names = [f"n{number}" for number in range(draw(st.integers(1, most)))]
    where = {name: draw(st.sampled_from(some)) for name in names}
    return World(where, {name: draw(st.integers(1, cpus)) for name in names})


def places(world: World, level: str | None) -> Iterator[tuple[Place, Names]]:
    """Yield the domains of a level, each with its nodes; of no level, one with all nodes."""
    found: dict[Place, set[str]] = {}
    for name in world.places:
        path = domain(world, name, level)
        if path is not None:
            found.setdefault(path, set()).add(name)
    yield from ((path, frozenset(found[path])) for path in sorted(found))


def domains(world: World, level: str | None) -> list[Names]:
    """Return the nodes of each domain of a level; of no level, all nodes."""
    return [names for _path, names in places(world, level)]


def domain(world: World, name: str, level: str | None) -> Place | None:
    """Return the domain of a node; None if it is in none."""
    if level is None:
        return ()
    if level == HOST:
        return (name,)
    depth, path = LEVELS.index(level) + 1, world.places[name]
    return path[:depth] if len(path) >= depth else None


# What a gang needs -------------------------------------------------------------------------------


@frozen
class Unit:
    """A node of the tree of a gang.

    Attributes:
        members: The members of a leaf.
        least: How many of them start together, at least.
        children: What it consists of; empty for a leaf.
        wanted: How many of the children start together, at least.
        level: The level of which its members share a domain; None for no matter.
        apart: The level of which no two children, or members of a leaf, share a domain.
        exclusive: The level of which nobody else's pods share a domain with its members.
        is_whole: Whether it starts as a whole, or not at all.
    """

    members: tuple[int, ...] = ()
    least: int = 0
    children: tuple[Unit, ...] = ()
    wanted: int = 0
    level: str | None = None
    apart: str | None = None
    exclusive: str | None = None
    is_whole: bool = False

    @cached_property
    def below(self) -> frozenset[int]:
        """All members at or below it."""
        return frozenset(self.members).union(*(child.below for child in self.children))

    def is_met(self, on: Collection[int]) -> bool:
        """Return whether members that run are enough for it."""
        if not self.children:
            return sum(member in on for member in self.members) >= self.least
        return sum(child.is_met(on) for child in self.children) >= self.wanted


def units(unit: Unit) -> Iterator[Unit]:
    """Yield a unit and all below it."""
    yield unit
    for child in unit.children:
        yield from units(child)


def is_legal(unit: Unit, world: World, on: Mapping[int, str]) -> bool:
    """Return whether members may be where they are, whatever is free."""
    used = {name for member, name in on.items() if member in unit.below}
    if not any(used <= each for each in domains(world, unit.level)):
        return False
    if used & world.shut.get(unit.exclusive or "", frozenset()):
        return False
    if unit.apart is not None:
        parts = [each.below for each in unit.children] or [
            frozenset((each,)) for each in unit.members
        ]
        taken = [{domain(world, on[m], unit.apart) for m in part if m in on} for part in parts]
        shares = any(one & other for one, other in combinations(taken, 2))
        if shares or any(None in each or len(each) > 1 for each in taken):
            return False
    return all(is_legal(child, world, on) for child in unit.children)


def ways(
    unit: Unit,
    world: World,
    sizes: Sequence[int],
    on: Mapping[int, str],
    allowed: Names | None = None,
) -> Iterator[World]:
    """Yield the worlds after each way to meet a unit; each once.

    Args:
        unit: The unit.
        world: The nodes.
        sizes: The CPUs of each member.
        on: The nodes of the members that run.
        allowed: Where its members may be; None for everywhere.
    """
    seen: set[tuple[int, ...]] = set()
    for after in _ways(
        unit, world, sizes, on, frozenset(world.free) if allowed is None else allowed
    ):
        key = tuple(after.free.values())
        if key not in seen:
            seen.add(key)
            yield after


def _ways(
    unit: Unit, world: World, sizes: Sequence[int], on: Mapping[int, str], allowed: Names
) -> Iterator[World]:
    here = {on[member] for member in unit.below if member in on}
    allowed -= world.shut.get(unit.exclusive or "", frozenset())
    for names in domains(world, unit.level):
        if not here <= names:
            continue
        if unit.children:
            for some in combinations(unit.children, unit.wanted):
                yield from _of_children(unit, some, world, sizes, on, allowed & names)
        else:
            left = [member for member in unit.members if member not in on]
            lacking = max(unit.least - len(unit.members) + len(left), 0)
            tried: set[tuple[int, ...]] = set()
            for chosen in combinations(left, lacking):
                wanted = tuple(sorted([sizes[member] for member in chosen], reverse=True))
                if wanted not in tried:
                    tried.add(wanted)
                    free = _without(allowed & names, world, unit.apart, here)
                    yield from _of_members(wanted, world, free, unit.apart, set())


def _of_children(
    unit: Unit,
    chosen: Sequence[Unit],
    world: World,
    sizes: Sequence[int],
    on: Mapping[int, str],
    allowed: Names,
    taken: Names = frozenset(),
) -> Iterator[World]:
    if not chosen:
        yield world
        return
    first, rest = chosen[0], chosen[1:]
    others = taken | {on[member] for member in unit.below - first.below if member in on}
    free = _without(allowed, world, unit.apart, others)
    mine = frozenset(on[member] for member in first.below if member in on)
    if not mine <= _without(frozenset(world.free), world, unit.apart, others):
        return
    for after in ways(first, world, sizes, on, free):
        used = mine.union(name for name in world.free if after.free[name] < world.free[name])
        if unit.apart and len({domain(world, name, unit.apart) for name in used}) > 1:
            continue
        yield from _of_children(unit, rest, after, sizes, on, allowed, taken | used)


def _of_members(
    wanted: Sequence[int],
    world: World,
    allowed: Names,
    apart: str | None,
    seen: set[Any],
) -> Iterator[World]:
    if not wanted:
        yield world
        return
    if sum(world.free[name] for name in allowed) < sum(wanted):
        return
    for name in sorted(allowed):
        if world.free[name] >= wanted[0]:
            free = {**world.free, name: world.free[name] - wanted[0]}
            after = World(world.places, free, world.shut)
            left = _without(allowed, world, apart, {name})
            key = (len(wanted), left, tuple(after.free.values()))
            if key not in seen:
                seen.add(key)
                yield from _of_members(wanted[1:], after, left, apart, seen)


def _without(names: Names, world: World, apart: str | None, others: Collection[str]) -> Names:
    """Return the nodes that are in a domain of a level, and in none that others are in."""
    if apart is None:
        return names
    taken = {None, *[domain(world, name, apart) for name in others]}
    return frozenset(name for name in names if domain(world, name, apart) not in taken)


def fits(
    unit: Unit,
    world: World,
    sizes: Sequence[int],
    on: Mapping[int, str],
    allowed: Names | None = None,
) -> bool:
    """Return whether a unit can be met, by trying all ways."""
    return next(ways(unit, world, sizes, on, allowed), None) is not None


def near(
    root: Unit, unit: Unit, world: World, on: Mapping[int, str], allowed: Names | None = None
) -> Names | None:
    """Return where running members leave nodes to a unit; None if it is not in the tree."""
    allowed = frozenset(world.free) if allowed is None else allowed
    if root is unit:
        return allowed
    here = {on[member] for member in root.below if member in on}
    allowed -= world.shut.get(root.exclusive or "", frozenset())
    allowed &= frozenset().union(*[n for n in domains(world, root.level) if here <= n])
    for child in root.children:
        others = {on[member] for member in root.below - child.below if member in on}
        found = near(child, unit, world, on, _without(allowed, world, root.apart, others))
        if found is not None:
            return found
    return None


# The scheduler -----------------------------------------------------------------------------------


def node(name: str, place: Place, cpu: int) -> Node:
    """Return a node."""
    return make_node(name, cpu=cpu, labels=dict(zip(LEVELS, place, strict=False)))


class WorldHost(ImmediateHost):
    """A scheduler that knows levels, and the nodes of a world."""

    def __init__(self, world: World, *events: Event, **options: Any) -> None:
        super().__init__()
        self.options = {"levels": LEVELS, **options}
        self.scheduler = self.fresh()
        self.tell(*[NodeAdded(node(n, world.places[n], world.free[n])) for n in world.free])
        self.tell(*events)

    def fresh(self) -> Scheduler:
        """Return a scheduler of the cluster that knows nothing yet."""
        return presets.gang(self.cluster, **self.options)

    @property
    def on(self) -> dict[int, str]:
        """The node of each running member, by the number that ends its name after ``g-``."""
        return {
            int(pod.name.rpartition("-")[2]): pod.node_name
            for pod in self.cluster.pods()
            if pod.node_name is not None and pod.name.startswith("g-")
        }
