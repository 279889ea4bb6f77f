"""What a gang in levels costs, and what it is compared with.

Rules:
  R1  both sides of a pair have worlds of their own with the same nodes and running pods, and gangs
      whose members have the same requests;
  R2  a life is all calls of the scheduler from the arrival of a gang to its end, and a decision is
      one call of ``schedule_one`` within it, see ``life_of_gangs``. Every member is bound by that
      one decision, or none is where a gang fits nowhere;
  R3  there are 5,000 nodes of three sizes, and half of the cpu of each is used, at random. A rack
      has 100 nodes and a block 10 racks; of 500 nodes, a rack has 25 and a block 5 racks. Where a
      gang has a rack for itself, nothing runs in every other rack.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from time import process_time
from typing import Any, Final, TypeAlias

from attrs import evolve, frozen

from gangsched import (
    Bind,
    GroupKey,
    Node,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    Topology,
)
from gangsched.testing import make_pod
from life_of_gangs import STEP, Gangs, World, half_of, lives, nodes_of, plain, racked, world_of
from life_of_gangs import unlike_members as flat_unlike_members
from placement import HOSTNAME, SERVER
from versions import Round

__all__ = ["Pair", "pairs"]

BLOCK: Final = "block"
RACK: Final = "rack"
THREE: Final = (BLOCK, RACK, HOSTNAME)
TWO: Final = (BLOCK, RACK)
ONE: Final = "one"
OTHER: Final = "other"
SMALL: Final = "500 nodes"

Prepare: TypeAlias = Callable[[], Round]
"""Sets a world up, and returns what runs a round in it."""
Asks: TypeAlias = Mapping[str, str | int]


@frozen
class Pair:
    """Something, and what it is compared with.

    Attributes:
        name: What both are.
        bound: The wanted ratio; None if none was wanted.
        one: Sets up what is measured.
        other: Sets up what it is compared with; None for the same in the version before.
        per: How many gangs live in a round.
        rounds: How many rounds are counted at most.
    """

    name: str
    bound: float | None
    one: Prepare
    other: Prepare | None
    per: int
    rounds: int = 99


@cache
def _listing(number: int, *, half: bool) -> tuple[list[Node], list[Pod]]:
    """Return nodes and running pods; with *half*, nothing runs in every other rack."""
    per_rack, racks = (100, 10) if number >= 5_000 else (25, 5)
    nodes: list[Node] = []
    for place, node in enumerate(nodes_of(number)):
        rack = place // per_rack
        own = {RACK: f"r{rack}", BLOCK: f"b{rack // racks}"}
        nodes.append(evolve(node, labels={**node.labels, **own}))
    used = [node for place, node in enumerate(nodes) if not half or place // per_rack % 2 == 0]
    return nodes, half_of(used)


@cache
def _world(side: str, number: int, levels: Sequence[str] | None, *, half: bool = False) -> World:
    """Return a world of a side of pairs; no levels for a version that knows none."""
    known: dict[str, Any] = {} if levels is None else {"levels": levels}
    return world_of(*_listing(number, half=half), **known)


def _members(group: str, size: int, asks: Asks, first: int = 0) -> list[Pod]:
    return [make_pod(f"{group}-{first + m}", group=group, requests=asks) for m in range(size)]


def like(
    name: str, size: int, topology: Callable[[], Topology | None], number: int, asks: Asks = SERVER
) -> tuple[list[Pod], list[PodGroup]]:
    """Return a gang of like members. Its topology is made here: another version may lack it."""
    group = f"{name}{number}"
    spec = PodGroup(name=group, min_available=size, topology=topology())
    return _members(group, size, asks), [spec]


def unlike_groups(name: str, topology: Topology | None, number: int) -> Any:
    """Return 24 members that all request something else: 4 groups of 6, each in one rack."""
    draw = random.Random(number % 40)
    asks: list[Asks] = [
        {"cpu": draw.randint(1, 8), "memory": f"{draw.randint(1, 24)}Gi"} for _ in range(24)
    ]
    root = f"{name}{number}"
    specs, pods = [PodGroup(name=root, min_groups=4, topology=topology)], list[Pod]()
    for child in range(4):
        group = f"{root}-{child}"
        spec = PodGroup(name=group, min_available=6, topology=Topology(RACK))
        specs.append(evolve(spec, parent=GroupKey(f"default/{root}")))
        for place in range(6):
            pods += _members(group, 1, asks[6 * child + place], place)
    return pods, specs


def misfit(name: str, unlike: bool, topology: Topology, number: int) -> Any:
    """Return 40 members of which each needs a node of the largest size; a rack has 33 of these."""
    group = f"{name}{number}"
    spec = PodGroup(name=group, min_available=40, topology=topology)
    pods: list[Pod] = []
    for place in range(40):
        asks: Asks = {"cpu": 40, "memory": f"{64 + place * unlike}Gi"}
        pods += _members(group, 1, asks, place)
    return pods, [spec]


def misfit_group(name: str, topology: Topology | None, number: int) -> Any:
    """Return a group of groups: one of 4 members fits in a rack, and one of 40 fits in none."""
    root = f"{name}{number}"
    small, few = like(f"{name}a", 4, partial(Topology, RACK), number)
    large, many = misfit(f"{name}b", False, Topology(RACK), number)
    children = [evolve(spec, parent=GroupKey(f"default/{root}")) for spec in (*few, *many)]
    return small + large, [PodGroup(name=root, min_groups=2, topology=topology), *children]


def refused(world: Callable[[], World], made: Gangs, per: int) -> Round:
    """Return what lets some gangs that fit nowhere arrive, fail and end, one after the other."""
    there = world()

    def run(number: int) -> dict[str, float]:
        deciding = 0.0
        for each in range(number * per, (number + 1) * per):
            pods, specs = made(each)
            there.now += STEP
            there.tell([*map(PodGroupAdded, specs), *map(PodAdded, pods)])
            begun = process_time()
            effects = there.scheduler.schedule_one(now=there.now)
            deciding += process_time() - begun
            assert effects is not None, "no decision was made"
            assert not any(isinstance(effect, Bind) for effect in effects), "a gang fits"
            ends = [PodDeleted(pod.uid) for pod in pods]
            there.tell([*ends, *(PodGroupDeleted(spec.key) for spec in specs)])
        return {"decision": deciding}

    return run


def living(world: Callable[[], World], made: Gangs, per: int) -> Prepare:
    """Return what sets gangs up that live one after the other, their decisions apart."""

    def prepare() -> Round:
        run = lives(world, made, per, parts=True)

        def both(number: int) -> dict[str, float]:
            spent = run(number)
            return {"life": spent[""], "decision": spent["decision alone"]}

        return both

    return prepare


def _none() -> None:
    """Return no topology."""


def _beside_before() -> Iterator[Pair]:
    large, small = (partial(_world, ONE, size, None) for size in (5_000, 500))
    for kind in ("same class", "new requests"):
        name = f"a gang of 4 in one of 50 racks, {kind}"
        yield Pair(name, 1.0, living(large, partial(racked, f"r{kind[0]}", kind), 5), None, 5)
    flat: tuple[tuple[str, Callable[[], World], Gangs, int], ...] = (
        ("a pod", large, partial(plain, "p", 1, "same class"), 50),
        ("a gang of 4", large, partial(plain, "g", 4, "same class"), 20),
        ("a gang of 100", large, partial(plain, "h", 100, "same class"), 2),
        (f"24 unlike members, {SMALL}", small, partial(flat_unlike_members, "u"), 2),
    )
    for name, world, made, per in flat:
        yield Pair(f"without levels: {name}", 1.0, living(world, made, per), None, per)


def _slices() -> Iterator[Pair]:
    three = partial(_world, number=5_000, levels=THREE)

    def pair(name: str, size: int, slices: Mapping[str, int], per: int, rounds: int) -> Pair:
        cut = partial(like, "s", size, partial(Topology, BLOCK, slices=slices))
        flat = living(partial(three, OTHER), partial(like, "f", size, _none), per)
        sliced = living(partial(three, ONE), cut, per)
        return Pair(f"{name}, beside a flat gang", 2.0, sliced, flat, per, rounds)

    name = "a gang of 16 in a block, 8 within a rack, 4 within a node"
    yield pair(name, 16, {RACK: 8, HOSTNAME: 4}, 3, 99)
    for text, slices in (
        ("64 within a rack", {RACK: 64}),
        ("16 within a rack", {RACK: 16}),
        ("16 within a rack, 4 within a node", {RACK: 16, HOSTNAME: 4}),
    ):
        yield pair(f"a gang of 1,024 in a block, {text}", 1_024, slices, 1, 9)


def _unlike() -> Iterator[Pair]:
    two = partial(_world, number=500, levels=TWO)
    one = partial(_world, number=500, levels=(RACK,))
    inside = living(partial(two, ONE), partial(unlike_groups, "i", Topology(BLOCK)), 2)
    alone = living(partial(one, OTHER), partial(unlike_groups, "o", None), 2)
    name = f"24 unlike members in 4 groups, in racks of a block, beside in racks, {SMALL}"
    yield Pair(name, 1.5, inside, alone, 2)


def _refuted() -> Iterator[Pair]:
    two = partial(_world, ONE, 5_000, TWO)
    one = partial(_world, OTHER, 5_000, (RACK,))
    for unlike, per, rounds in ((False, 5, 99), (True, 1, 5)):
        lone = partial(misfit, f"m{unlike:d}", unlike, Topology(RACK))
        name = f"40 {'unlike' if unlike else 'like'} members that fit in no rack"
        inside, alone = (partial(refused, world, lone, per) for world in (two, one))
        yield Pair(f"{name}, two levels beside one", 1.5, inside, alone, per, rounds)
    # unlike members are left out here: their search is given up, with one level and with two
    inside = partial(refused, two, partial(misfit_group, "t", Topology(BLOCK)), 5)
    alone = partial(refused, one, partial(misfit_group, "t", None), 5)
    name = "a group of 40 like members that fits in no rack, within a block beside alone"
    yield Pair(name, 1.5, inside, alone, 5)


def _others() -> Iterator[Pair]:
    halves = partial(_world, number=5_000, levels=TWO, half=True)
    for size, per in ((4, 5), (64, 2)):
        own = partial(like, f"e{size}-", size, partial(Topology, RACK, exclusive=RACK))
        some = partial(like, f"s{size}-", size, partial(Topology, RACK))
        exclusive = living(partial(halves, ONE), own, per)
        shared = living(partial(halves, OTHER), some, per)
        name = f"a gang of {size} with a rack for itself, beside in one rack"
        yield Pair(name, None, exclusive, shared, per)
    three = partial(_world, number=5_000, levels=THREE)
    for name, apart, beside in (
        (
            "a gang of 16, slices of 4 in different racks of a block, beside in racks of it",
            partial(Topology, BLOCK, slices={RACK: 4}, apart=RACK),
            partial(Topology, BLOCK, slices={RACK: 4}),
        ),
        (
            "a gang of 16 on different nodes of a block, beside in a block",
            partial(Topology, BLOCK, apart=HOSTNAME),
            partial(Topology, BLOCK),
        ),
    ):
        one = living(partial(three, ONE), partial(like, "a", 16, apart), 4)
        other = living(partial(three, OTHER), partial(like, "t", 16, beside), 4)
        yield Pair(name, None, one, other, 4)
    for size, per in ((1, 50), (4, 20), (100, 2)):
        made = partial(plain, f"l{size}-", size, "same class")
        known = living(partial(three, ONE), made, per)
        unknown = living(partial(_world, OTHER, 5_000, None), made, per)
        what = "a pod" if size == 1 else f"a gang of {size}"
        name = f"{what} that states nothing, with `levels=` beside without"
        yield Pair(name, None, known, unknown, per)


def pairs() -> Iterator[Pair]:
    """Yield all of them, in the order of the table."""
    yield from _beside_before()
    yield from _slices()
    yield from _unlike()
    yield from _refuted()
    yield from _others()
