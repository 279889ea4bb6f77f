"""Levels: a gang goes to one domain of the finest level that it can, compared with brute force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final

from attrs import evolve
from hypothesis import event, given
from hypothesis import strategies as st

from gangsched import PodAdded, PodGroup, PodGroupAdded, Topology
from gangsched.testing import make_pod
from support.level_worlds import (
    BLOCK,
    HOST,
    LEVELS,
    RACK,
    Unit,
    World,
    WorldHost,
    domain,
    fits,
    places,
    worlds,
)

TOPOLOGIES: Final = (
    Topology(BLOCK),
    Topology(RACK),
    Topology(BLOCK, prefer=RACK),
    Topology(BLOCK, prefer=HOST),
    Topology(RACK, prefer=HOST),
    Topology(RACK, required=False),
    Topology(HOST, required=False),
    Topology(BLOCK, required=False, prefer=RACK),
)


def levels_of(topology: Topology) -> list[str | None]:
    """Return the levels that are tried, the finest first; None for the cluster."""
    first = LEVELS.index(topology.prefer or topology.key or "")
    last = LEVELS.index(topology.key or "") if topology.required else 0
    return [*LEVELS[last : first + 1][::-1], *([] if topology.required else [None])]


def candidates(world: World, topology: Topology, level: str | None) -> Iterator[frozenset[str]]:
    """Yield the domains of a level, in the order of their names, within one that is required."""
    for _path, names in places(world, level):
        if topology.required and topology.key != HOST:
            names &= {name for name in names if domain(world, name, topology.key) is not None}
        if names:
            yield names


def start(world: World, sizes: Sequence[int], least: int, topology: Topology) -> dict[int, str]:
    """Add a gang, and return the node of each member by its number."""
    host = WorldHost(world)
    host.tell(PodGroupAdded(PodGroup(name="g", min_available=least, topology=topology)))
    pods = [make_pod(f"g-{n}", group="g", cpu=cpu) for n, cpu in enumerate(sizes)]
    host.tell(*map(PodAdded, pods))
    host.decide()
    return host.on


@given(
    worlds(most=7), st.lists(st.integers(1, 3), min_size=1, max_size=5), st.sampled_from(TOPOLOGIES)
)
def test_gang_shares_a_domain_of_the_finest_level_that_can_take_it(
    world: World, sizes: list[int], topology: Topology
) -> None:
    unit = Unit(tuple(range(len(sizes))), len(sizes))
    on = start(world, sizes, len(sizes), topology)
    for level in levels_of(topology):
        could = [
            each
            for each in candidates(world, topology, level)
            if fits(unit, world, sizes, {}, each)
        ]
        if could:
            assert len(on) == len(sizes)
            assert any({*on.values()} <= each for each in could)
            return
    assert on == {}


@given(worlds(most=8), st.integers(1, 6), st.data())
def test_like_members_take_the_best_domain_and_the_fewest_below_it(
    world: World, number: int, data: st.DataObject
) -> None:
    """Of a level the one that takes most, with the fewest domains below it, then the smallest."""
    topology = data.draw(st.sampled_from(TOPOLOGIES))
    topology = evolve(topology, balanced=data.draw(st.booleans()))
    # what is beyond a minimum is balanced beside it, and may need one domain more
    least = number if topology.balanced else data.draw(st.integers(1, number))
    on = start(world, [1] * number, least, topology)
    found = best(world, number, least, topology)
    event("starts" if found else "waits")
    if found is None:
        assert on == {}
        return
    names, below = found
    used = Counter(name for name in on.values() if name in names)
    room = sum(world.free[name] for name in names)
    assert used.total() == min(room, number), "some are elsewhere"
    if topology.balanced:
        finest = LEVELS.index(topology.key or "")
        depth = next((n for n in LEVELS[finest + 1 :] if n not in names_of(world, names)), None)
        below = [] if depth is None else [depth]
    if not below or room < number:
        return
    rooms = {
        path: sum(world.free[n] for n in part & names)
        for path, part in places(world, below[0])
        if part & names
    }
    taken = Counter[tuple[str, ...]]()
    for name, count in used.items():
        path = domain(world, name, below[0])
        if path is None:
            return  # a node that is in no domain of the level
        taken[path] += count
    some = few(rooms, number)
    if some is None:
        return  # together with nodes that are in none
    assert len(taken) == len(some[0])
    if topology.balanced:
        assert max(taken.values()) == min(largest(rooms, each, number) for each in some)


def names_of(world: World, names: frozenset[str]) -> list[str]:
    """Return the levels of which some nodes share a domain."""
    return [level for level in LEVELS if len({domain(world, name, level) for name in names}) == 1]


def few(
    rooms: Mapping[tuple[str, ...], int], number: int
) -> list[tuple[tuple[str, ...], ...]] | None:
    """Return the smallest sets of domains that take so many; None if all of them do not."""
    for count in range(1, len(rooms) + 1):
        some = [
            each
            for each in combinations(rooms, count)
            if sum(rooms[path] for path in each) >= number
        ]
        if some:
            return some
    return None


def largest(
    rooms: Mapping[tuple[str, ...], int], chosen: Sequence[tuple[str, ...]], number: int
) -> int:
    """Return the largest part if domains take parts as equal as can be."""
    return next(
        part
        for part in range(1, number + 1)
        if sum(min(rooms[each], part) for each in chosen) >= number
    )


def best(
    world: World, number: int, least: int, topology: Topology
) -> tuple[frozenset[str], list[str]] | None:
    """Return the nodes of the domain that like members go to, and the levels of it that matter."""
    levels = levels_of(topology)
    for at, level in enumerate(levels):
        below = [each for each in levels[:at][::-1] if each is not None]
        ranked = []
        for order, names in enumerate(candidates(world, topology, level)):
            room = sum(world.free[name] for name in names)
            if room >= least:
                counts = [fewest(world, names, each, number) for each in below]
                # the cluster is the last way, and any nodes of it will do
                ranked.append((-min(room, number), counts, room, order, names))
        if ranked:
            return min(ranked, key=lambda each: each[:4])[4], below
    return None


def fewest(world: World, names: frozenset[str], level: str, number: int) -> int:
    """Return how many domains so many members need; all of them if these are too few."""
    found = sorted([sum(world.free[n] for n in part & names) for _p, part in places(world, level)])
    left, count = number, 0
    while found and left > 0 and found[-1]:
        left, count = left - found.pop(), count + 1
    return count
