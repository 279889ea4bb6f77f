"""The whole life of a gang, or of a pod: it arrives, is decided, is bound, and ends.

A decision alone proves nothing, since a core may do its work when a pod arrives, or when it ends.

Rules:
  R1  what is measured are the calls of the scheduler, with one decision for each gang; objects are
      made, and the cluster shows them, outside of it;
  R2  a gang has ended before the next one arrives, so no class of pods is kept alive by others;
  R3  time passes between two lives, more than a group is remembered for;
  R4  the events of one instant are one call, as hosts hand them in, or one call each in a version
      whose ``handle`` takes a single event.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from inspect import signature
from time import process_time
from typing import Any, Final, TypeAlias

from attrs import define, evolve

from constraints import GROUP, constrained
from gangsched import (
    Bind,
    Bound,
    Event,
    InMemoryCluster,
    LabelSelector,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodAffinityTerm,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    Resources,
    Scheduler,
    Topology,
    presets,
)
from gangsched.testing import make_pod
from placement import SERVER, SHAPES, TRAINER, ZONE, gangs, half_full
from versions import Round, Row

__all__ = ["World", "nodes_of", "rows", "world_of"]

RACK: Final = "rack"
STEP: Final = 100.0
"""Seconds from one life to the next."""
TOGETHER: Final = "events" in signature(Scheduler.handle).parameters
"""Whether this version of the library handles several events in one call."""

Gangs: TypeAlias = Callable[[int], tuple[Sequence[Pod], Sequence[PodGroup]]]
"""Makes the pods of a gang of a number, and its specification if it has one."""


@define
class World:
    """A cluster with a scheduler.

    Attributes:
        cluster: The cluster.
        scheduler: The scheduler.
        now: The instant of the last call.
        deciding: The CPU seconds of the last decision.
    """

    cluster: InMemoryCluster
    scheduler: Scheduler
    now: float = 0.0
    deciding: float = 0.0

    def tell(self, events: Sequence[Event]) -> float:
        """Let the cluster show events, and hand them in; return the CPU seconds."""
        for event in events:
            self.cluster.apply(event)
        calls = [events] if TOGETHER else [[event] for event in events]
        handle, now = self.scheduler.handle, self.now
        begun = process_time()
        for call in calls:
            handle(*call, now=now)
        return process_time() - begun

    def live(self, pods: Sequence[Pod], specs: Sequence[PodGroup] = ()) -> float:
        """Let a gang arrive, start and end; return the CPU seconds."""
        self.now += STEP
        spent = self.tell([*map(PodGroupAdded, specs), *map(PodAdded, pods)])
        begun = process_time()
        effects = self.scheduler.schedule_one(now=self.now)
        self.deciding = process_time() - begun
        binds = [effect for effect in effects or () if isinstance(effect, Bind)]
        assert len(binds) == len(pods), f"{len(binds)} of {len(pods)} pods were bound"
        spent += self.deciding
        spent += self.tell([Bound(bind.uid, bind.node, bind.attempt) for bind in binds])
        ends = [PodDeleted(pod.uid) for pod in pods]
        return spent + self.tell([*ends, *(PodGroupDeleted(spec.key) for spec in specs)])


def world_of(nodes: Iterable[Node], running: Iterable[Pod], **settings: Any) -> World:
    """Return a cluster, and a scheduler that has read it."""
    cluster = InMemoryCluster()
    for node in nodes:
        cluster.apply(NodeAdded(node))
    for pod in running:
        cluster.apply(PodAdded(pod))
    scheduler = presets.gang(cluster, **settings)
    scheduler.rebuild(now=0.0)
    return World(cluster, scheduler)


def nodes_of(number: int, *, unlike: bool = False) -> list[Node]:
    """Return nodes of three sizes in racks of 100; unlike ones differ in memory."""
    made: list[Node] = []
    for n in range(number):
        labels = {"kubernetes.io/hostname": f"n{n}", RACK: f"r{n // 100}"}
        offers = Resources(SHAPES[n % 3]).to_milli()
        offers["memory"] += 4096 * 1000 * n * unlike
        allocatable = Resources.from_milli(offers)
        made.append(Node(name=NodeName(f"n{n}"), allocatable=allocatable, labels=labels))
    return made


def half_of(nodes: Iterable[Node]) -> list[Pod]:
    """Return pods that hold half of the cpu of each node, of random sizes."""
    draw, running = random.Random(0), list[Pod]()
    for node in nodes:
        cpu = node.allocatable.amount("cpu") // 1000
        half = cpu // 2
        while half > 0:
            cores = min(draw.randint(1, cpu // 4), half)
            half -= cores
            asks = {"cpu": cores, "memory": f"{draw.randint(1, 3) * cores}Gi"}
            pod = make_pod(f"running-{len(running)}", requests=asks)
            running.append(evolve(pod, node_name=node.name))
    return running


@cache
def _busy(number: int, *, unlike: bool) -> World:
    nodes = nodes_of(number, unlike=unlike)
    return world_of(nodes, half_of(nodes))


@cache
def _zoned() -> World:
    world = half_full(5_000)
    return world_of(world.nodes, world.running)


def lives(world: Callable[[], World], made: Gangs, per: int, *, parts: bool = False) -> Round:
    """Return what lets some gangs live one after the other; *parts* shows the decisions apart."""
    there = world()

    def run(number: int) -> dict[str, float]:
        spent = deciding = 0.0
        for each in range(per):
            spent += there.live(*made(number * per + each))
            deciding += there.deciding
        return {"": spent, "decision alone": deciding} if parts else {"": spent}

    return run


def _asks(kind: str, size: int, number: int) -> Mapping[str, str | int]:
    # a size has memory of its own, so that no row makes the classes of another
    return (
        {"cpu": f"{2000 + number}m", "memory": 2**33 + size} if kind == "new requests" else SERVER
    )


def plain(name: str, size: int, kind: str, number: int) -> tuple[list[Pod], list[PodGroup]]:
    """Return a gang of like pods, or a pod."""
    asks = _asks(kind, size, number)
    if size == 1:
        pods = [make_pod(f"{name}{number}", requests=asks)]
    else:
        pods = gangs(1, size, asks, name=f"{name}{number}-")[0]
    if kind == "new labels":
        pods = [evolve(pod, labels={**pod.labels, "app": f"a{number}"}) for pod in pods]
    return pods, []


def racked(name: str, kind: str, number: int) -> tuple[list[Pod], list[PodGroup]]:
    """Return a gang of 4 that belongs within one rack."""
    group = f"{name}{number}"
    spec = PodGroup(name=group, min_available=4, topology=Topology(RACK))
    asks = _asks(kind, 4, number)
    return [make_pod(f"{group}-{m}", group=group, requests=asks) for m in range(4)], [spec]


def unlike_members(name: str, number: int) -> tuple[list[Pod], list[PodGroup]]:
    """Return a gang of 24 members that all request something else; there are 40 such gangs."""
    draw = random.Random(number % 40)
    asks = [{"cpu": draw.randint(1, 8), "memory": f"{draw.randint(1, 24)}Gi"} for _ in range(24)]
    return gangs(1, 24, *asks, name=f"{name}{number}-")[0], []


def restricted(case: str, name: str, size: int, number: int) -> tuple[list[Pod], list[PodGroup]]:
    """Return a gang whose members have a constraint on each other, or on others."""
    pods = gangs(1, size, TRAINER, name=f"{name}{number}-")[0]
    if case == "zone affinity":
        own = LabelSelector({GROUP: pods[0].labels[GROUP]})
        term = PodAffinityTerm(topology_key=ZONE, label_selector=own)
        return [evolve(pod, pod_affinity=[term]) for pod in pods], []
    return constrained(case, pods), []


def rows() -> Iterator[Row]:
    """Yield the rows."""
    for unlike in (False, True):
        world = partial(_busy, number=5_000, unlike=unlike)
        on = f"5,000 {'unlike' if unlike else 'equal'} nodes"
        for size, per in ((1, 20), (3, 10), (100, 2)):
            what = "a pod" if size == 1 else f"a gang of {size}"
            for kind in ("same class", "new requests", "new labels"):
                gate = {"same class": 0.1, "new requests": 0.6}.get(kind, 0.7) if unlike else 0.7
                made = partial(plain, f"p{size}{kind[-4]}", size, kind)
                yield Row(f"{what}, {kind}, {on}", gate, partial(lives, world, made, per), per)
        like = partial(plain, "thousand", 1_000, "same class")
        yield Row(f"a gang of 1,000, {on}", 0.7, partial(lives, world, like, 1), 1)
        for kind in ("same class", "new requests"):
            made = partial(racked, f"r{kind[:1]}", kind)
            name = f"a gang of 4 in one of 50 racks, {kind}, {on}"
            yield Row(name, 1.1, partial(lives, world, made, 5), 5)
        small = partial(_busy, number=500, unlike=unlike)
        name = f"24 unlike members, 500 {on.removeprefix('5,000 ')}"
        yield Row(name, 1.0, partial(lives, small, partial(unlike_members, "u"), 2), 2)
    cases = ("zone affinity", "zone anti-affinity", "host anti-affinity", "zone spread")
    for size, some in (
        (3, (*cases, "host spread")),
        (1_000, ("zone affinity", "away from others", "zone spread")),
    ):
        for case in some:
            made = partial(restricted, case, f"c{size}{case.replace(' ', '')}", size)
            per = 5 if size == 3 else 1
            most = {"decision alone": 1_000.0 if size == 3 else 60_000.0}
            name = f"a gang of {size:,}, {case}, 21,550 running pods"
            living = partial(lives, _zoned, made, per, parts=True)
            yield Row(name, 1.0, living, per, most)
