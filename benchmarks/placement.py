"""What does it cost to place a gang, against a scan of all nodes for each pod?

One row per case: the median of interleaved rounds, with its ratio in the same round to a naive
scheduler that asks the same plugins about every node for each pod (measured on a sample of the
same pods, and scaled), and to pushing and popping as many items as there are pods with ``heapq``.
We would act where a figure misses its reach on the machine that it was set for, or where naive
takes less than 10 times as long as ours: classes and the plan would not be worth their code.

Rules:
  R1  facts, arrivals and what went before are outside the measured time, and binds are not
      reported back within it: what is measured is decisions;
  R2  nodes are of 3 shapes with 4 resources, a few tainted or cordoned. Each has a name label of
      its own. A gated pod selects a zone, so zones distinguish nodes;
  R3  every round begins with a new scheduler, so no answer is cached, except where a row says so.
      Pods are made once, and no contestant has more cached values of them than the others.
"""

from __future__ import annotations

import argparse
import gc
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import count, islice
from statistics import median
from time import thread_time_ns
from typing import Any, Final, TypeAlias

from attrs import evolve, field, frozen

from gangsched import (
    Bind,
    CycleState,
    Effect,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    NodeUpdated,
    Pod,
    PodAdded,
    Profile,
    Resources,
    Scheduler,
    SchedulingUnit,
    Taint,
    TaintEffect,
    Unschedulable,
    heap_implementation,
    presets,
)
from gangsched.testing import make_pod

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
GPU: Final = "nvidia.com/gpu"
LONGER_THAN_A_REST: Final = 60.0
SHAPES: Final[tuple[Mapping[str, str | int], ...]] = (
    {"cpu": "32", "memory": "128Gi", "pods": 110},
    {"cpu": "64", "memory": "256Gi", GPU: 4, "pods": 110},
    {"cpu": "96", "memory": "512Gi", GPU: 8, "pods": 110},
)
TRAINER: Final[Mapping[str, str | int]] = {"cpu": "2", "memory": "8Gi", GPU: 1}
SERVER: Final[Mapping[str, str | int]] = {"cpu": "2", "memory": "8Gi"}
ROLES: Final[tuple[Mapping[str, str | int], ...]] = (
    {"cpu": "4", "memory": "16Gi"},
    {"cpu": "8", "memory": "48Gi", GPU: 2},
    {"cpu": "8", "memory": "32Gi"},
    {"cpu": "2", "memory": "8Gi", GPU: 1},
)
NOTE: Final = (
    "noted, not measured: the in-tree benchmark of Kubernetes 1.37 takes 5.7 ms a gang in a case\n"
    "like 1; another machine, another language"
)

Gangs: TypeAlias = Sequence[Sequence[Pod]]
Run: TypeAlias = Callable[[], None]
"""What is measured; it checks what it has done in no time worth the name."""
Prepare: TypeAlias = Callable[[], Run]
"""Sets everything up, anew for each round."""


@frozen
class Sizes:
    """How large the cases are.

    Attributes:
        rounds: How often each alternative is measured.
        nodes: The cluster of every case.
        large: The cluster that it is compared to.
        gangs: Gangs of 3.
        like: Members of the gang of like pods.
        roles: Members of the gang with 4 roles.
        singles: Pods without a group.
        waiting: Gangs of 8 that do not fit.
        shapes: How many shapes they have, where they are not alike.
        eights: Gangs of 8 that do.
        by_nodes: Numbers of nodes of the curves.
        by_pods: Numbers of pods in a gang.
        by_classes: Numbers of classes of pods in a gang.
        by_members: Numbers of members of a gang, in both units.
    """

    rounds: int = 5
    nodes: int = 5_000
    large: int = 50_000
    gangs: int = 3_000
    like: int = 1_000
    roles: int = 512
    singles: int = 50_000
    waiting: int = 3_750
    shapes: int = 50
    eights: int = 1_000
    by_nodes: tuple[int, ...] = (1_000, 5_000, 20_000, 50_000)
    by_pods: tuple[int, ...] = (10, 100, 1_000, 5_000)
    by_classes: tuple[int, ...] = (1, 4, 16, 64)
    by_members: tuple[int, ...] = (1, 2, 4, 16, 64)

    @property
    def few(self) -> int:
        """How often what stands beside a case is measured."""
        return min(self.rounds, 3)


QUICK: Final = Sizes(
    rounds=2,
    nodes=300,
    large=1_500,
    gangs=100,
    like=100,
    roles=64,
    singles=1_000,
    waiting=100,
    shapes=10,
    eights=50,
    by_nodes=(150, 300),
    by_pods=(10, 100),
    by_classes=(1, 4),
    by_members=(1, 16),
)


# What there is --------------------------------------------------------------------------------


@frozen
class World:
    """A cluster before anything is asked of it.

    Attributes:
        nodes: The nodes.
        running: Pods that are assigned already.
    """

    nodes: tuple[Node, ...]
    running: tuple[Pod, ...] = ()

    @property
    def states(self) -> int:
        """How many nodes there are that differ in what plugins read of them."""
        return len(
            {
                (
                    *(view.node.allocatable, view.node.taints, view.node.unschedulable),
                    *(view.node.labels[ZONE], view.pod_count, *sorted(view.free.items())),
                )
                for view in views_of(self)
            }
        )


def empty(number: int) -> World:
    """Return nodes that nothing runs on: 1 in 25 is tainted, 1 in 50 shunned, 1 in 100 cordoned."""
    made: list[Node] = []
    for n in range(number):
        taints: tuple[Taint, ...] = ()
        if n % 25 == 7:
            taints = (Taint("dedicated", "others"),)
        elif n % 50 == 13:
            taints = (Taint("ageing", effect=TaintEffect.PREFER_NO_SCHEDULE),)
        made.append(
            Node(
                name=NodeName(f"n{n}"),
                allocatable=SHAPES[n % 3],
                labels={HOSTNAME: f"n{n}", ZONE: f"zone-{n // 3 % 3}"},
                taints=taints,
                unschedulable=n % 100 == 41,
            )
        )
    return World(tuple(made))


def half_full(number: int, seed: int = 0) -> World:
    """Return nodes of which a random mix of pods holds half the cpu."""
    draw = random.Random(seed)
    bare = empty(number)
    running: list[Pod] = []
    for node in bare.nodes:
        cpu = node.allocatable.amount("cpu") // 1000
        gpu = node.allocatable.amount(GPU) // 1000
        half = cpu // 2
        while half > 0:
            cores = min(draw.randint(1, cpu // 4), half)
            half -= cores
            cards = min(draw.choice((0, 0, 1, 2)), gpu)
            gpu -= cards
            asked: dict[str, str | int] = {
                "cpu": cores,
                "memory": f"{draw.randint(1, 3) * cores}Gi",
                GPU: cards,
            }
            pod = make_pod(f"running-{len(running)}", requests=asked)
            running.append(evolve(pod, node_name=node.name))
    return evolve(bare, running=tuple(running))


def unlike(number: int) -> World:
    """Return nodes of which no two are alike: in memory, in a label, and in what is used."""
    made: list[Node] = []
    running: list[Pod] = []
    for n, node in enumerate(empty(number).nodes):
        offers = node.allocatable.to_milli()
        offers["memory"] += 4096 * 1000 * n
        labels = {**node.labels, "own": f"v{n}"}
        made.append(evolve(node, allocatable=Resources.from_milli(offers), labels=labels))
        pod = make_pod(f"running-{n}", requests={"cpu": f"{100 + n % 5000}m"})
        running.append(evolve(pod, node_name=node.name))
    return World(tuple(made), tuple(running))


def full(number: int) -> World:
    """Return nodes of which one pod each holds all GPUs."""
    bare = empty(number)
    running: list[Pod] = []
    for node in bare.nodes:
        gpu = node.allocatable.amount(GPU) // 1000
        if gpu:
            pod = make_pod(
                f"running-{len(running)}", requests={"cpu": 8, "memory": "32Gi"}, gpu=gpu
            )
            running.append(evolve(pod, node_name=node.name))
    return evolve(bare, running=tuple(running))


def gangs(
    number: int, size: int, *roles: Mapping[str, str | int], name: str = "g"
) -> list[list[Pod]]:
    """Return gangs that need all their members; the roles have equal shares."""
    return [
        [
            make_pod(
                f"{name}{g}-{m}",
                group=f"{name}{g}",
                min_available=size,
                requests=roles[m * len(roles) // size],
            )
            for m in range(size)
        ]
        for g in range(number)
    ]


def singles(number: int, *roles: Mapping[str, str | int]) -> list[list[Pod]]:
    """Return pods without a group, of one role after another."""
    return [[make_pod(f"p{n}", requests=roles[n % len(roles)])] for n in range(number)]


def misfits(number: int, shapes: int, *, tried: bool) -> list[list[Pod]]:
    """Return gangs of 8 members with 2 GPUs each, for which a node with 8 free is not enough.

    Args:
        number: How many.
        shapes: How many shapes they have.
        tried: Make it worth a try: the members are of two kinds, and each kind alone would fit.
    """
    made: list[list[Pod]] = []
    for g in range(number):
        milli = 2000 + g % shapes
        one: dict[str, str | int] = {"cpu": f"{milli}m", "memory": "8Gi", GPU: 2}
        two = {**one, "memory": "4Gi"} if tried else one
        made += gangs(1, 8, one, two, name=f"g{g}-")
    return made


def selector(key: str, value: str) -> Pod:
    """Return a pod that is gated, and for which a label is read all the same."""
    pod = make_pod(f"selects-{value}", cpu=1)
    return evolve(pod, node_selector={key: value}, scheduling_gates=("wait",))


# Ours -----------------------------------------------------------------------------------------


def scheduler_of(
    world: World,
    given: Gangs,
    *,
    unit: SchedulingUnit = SchedulingUnit.GROUP,
    hostname: bool = False,
) -> tuple[InMemoryCluster, Scheduler]:
    """Return a cluster and a scheduler that has taken everything in."""
    cluster = InMemoryCluster()
    for node in world.nodes:
        cluster.apply(NodeAdded(node))
    labels = [selector(ZONE, "zone-1")] + [selector(HOSTNAME, "n1")] * hostname
    for pod in (*labels, *world.running, *(pod for gang in given for pod in gang)):
        cluster.apply(PodAdded(pod))
    scheduler = presets.coscheduling(cluster, unit=unit)
    scheduler.rebuild(now=0.0)
    return cluster, scheduler


def decide_all(scheduler: Scheduler, now: float = 0.0) -> Iterator[tuple[Effect, ...]]:
    """Make decisions until there is none to make."""
    while (effects := scheduler.schedule_one(now=now)) is not None:
        yield effects


def bound(decisions: Iterable[tuple[Effect, ...]]) -> int:
    """Count the pods that are let go."""
    return sum(type(effect) is Bind for effects in decisions for effect in effects)


def ours(
    world: World,
    given: Gangs,
    *,
    unit: SchedulingUnit = SchedulingUnit.GROUP,
    hostname: bool = False,
    before: Gangs = (),
) -> Run:
    """Set a scheduler up; what is measured places everything.

    Args:
        world: The cluster.
        given: What is to be placed.
        unit: What one decision is about.
        hostname: Let a pod select a hostname: each node is like no other then.
        before: What is placed before, outside the measured time.
    """
    cluster, scheduler = scheduler_of(world, before, unit=unit, hostname=hostname)
    assert bound(decide_all(scheduler)) == sum(map(len, before))
    for gang in given:
        for pod in gang:
            scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    wanted = sum(map(len, given))

    def run() -> None:
        assert bound(decide_all(scheduler)) == wanted

    return run


class Waiting:
    """Gangs that do not fit, and a node that grows, by a little less each time.

    The scheduler is kept over the rounds. Each has a fact of its own, and none before it is about
    a node like that: so it is judged.

    Args:
        world: The cluster.
        given: The gangs.
        tries: How many of them are to be tried again: one for each shape, or none.
    """

    def __init__(self, world: World, given: Gangs, tries: int) -> None:
        self._tries = tries
        self._cluster, self._scheduler = scheduler_of(world, given)
        self._node = world.nodes[2]
        self._numbers = count(1)
        self._now = 0.0
        self._settle()

    def _settle(self) -> None:
        """Let all that can be decided be decided, and all rests end."""
        assert bound(decide_all(self._scheduler, self._now)) == 0
        self._now += LONGER_THAN_A_REST
        assert self._scheduler.advance(now=self._now) == ()
        assert bound(decide_all(self._scheduler, self._now)) == 0
        assert self._scheduler.next_deadline() is None

    def prepare(self) -> Run:
        """Let the node be as it was; what is measured is told that it has grown."""
        cluster, scheduler, tries = self._cluster, self._scheduler, self._tries
        scheduler.handle(cluster.apply(NodeUpdated(self._node)), now=self._now)
        self._settle()
        now = self._now
        fact = cluster.apply(NodeUpdated(grown(self._node, next(self._numbers))))

        def run() -> None:
            scheduler.handle(fact, now=now)
            decisions = list(decide_all(scheduler, now))
            # the next in line may have its turn too, before the first is known to fail
            assert tries <= len(decisions) <= 2 * tries
            assert bound(decisions) == 0

        return run


def grown(node: Node, number: int) -> Node:
    """Return a node with 8 GPUs more, like no other."""
    more = Resources({GPU: 8, "cpu": f"{8000 - number}m"})
    return evolve(node, allocatable=node.allocatable + more)


# What it is compared to -----------------------------------------------------------------------


class View:
    """A node with what is free on it; see ``gangsched.protocols.NodeView``."""

    __slots__ = ("free", "node", "pod_count")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.free = dict(node.allocatable)
        self.pod_count = 0

    def take(self, pod: Pod, sign: int = 1) -> None:
        """Let a pod hold the node, or give it back."""
        self.pod_count += sign
        for name, amount in pod.requests.items():
            self.free[name] = self.free.get(name, 0) - sign * amount


def views_of(world: World) -> list[View]:
    """Return the nodes with what is free on them."""
    views = {node.name: View(node) for node in world.nodes}
    for pod in world.running:
        assert pod.node_name is not None
        views[pod.node_name].take(pod)
    return list(views.values())


def scan(profile: Profile, views: Sequence[View], given: Gangs) -> int:
    """Place gangs without equivalence classes; return how many fit."""
    cycle = CycleState(None, {})
    fitting = 0
    for gang in given:
        taken: list[tuple[View, Pod]] = []
        for pod in gang:
            best: View | None = None
            top = -1
            for view in views:
                for filtering in profile.filter:
                    if isinstance(filtering.filter(cycle, pod, view), Unschedulable):
                        break
                else:
                    score = 0
                    for scoring in profile.score:
                        score += scoring.score(cycle, pod, view)
                    if score > top:
                        best, top = view, score
            if best is None:
                for view, placed in taken:
                    view.take(placed, -1)
                break
            best.take(pod)
            taken.append((best, pod))
        else:
            fitting += 1
    return fitting


def naive(world: World, given: Gangs, *, fits: bool = True) -> Run:
    """Set the naive scheduler up; what is measured places everything, or finds that none fits."""
    views, profile = views_of(world), presets.coscheduling_profile()

    def run() -> None:
        assert scan(profile, views, given) == (len(given) if fits else 0)

    return run


def heapq_of(items: int) -> Run:
    """Return what pushes and pops as many items, in shuffled order."""
    draw = random.Random(0)
    given = [(-draw.randrange(3), float(n // 8), 1, n, 0) for n in range(items)]
    draw.shuffle(given)

    def run() -> None:
        heap: list[tuple[int, float, int, int, int]] = []
        for key in given:
            heappush(heap, key)
        while heap:
            heappop(heap)

    return run


# Measuring ------------------------------------------------------------------------------------


def race(rivals: Mapping[str, Prepare], rounds: int) -> dict[str, list[float]]:
    """Return nanoseconds of each alternative in each round."""
    times: dict[str, list[float]] = {name: [] for name in rivals}
    for turn in range(rounds):
        for name in random.Random(turn).sample(list(rivals), len(rivals)):
            run = rivals[name]()
            gc.collect()
            begun = thread_time_ns()
            run()
            times[name].append(float(thread_time_ns() - begun))
            del run
    return times


def ratio(over: Sequence[float], under: Sequence[float], scale: float = 1.0) -> float:
    """Return the median of the ratios within a round."""
    return scale * median(o / u for o, u in zip(over, under, strict=True))


def line(*cells: str) -> None:
    """Print a line of the table."""
    label, value, unit, reach, *ratios, spread = cells
    shown = " ".join(f"{cell:>9}" for cell in ratios)
    print(f"{label:<56} {value:>9} {unit:<12} {reach:>9} {shown}  {spread}", flush=True)


def figure(number: float) -> str:
    """Return a number with three digits that mean something."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


@frozen
class Case:
    """Something to measure, with what it is compared to.

    Attributes:
        label: What it is.
        unit: Of the figure: nanoseconds by *per*, or pods by second where it is a rate.
        per: How many nanoseconds make one of the unit in all.
        items: How many items ``heapq`` has.
        ours: What is measured.
        naive: What the naive scheduler does of it; None where it is not compared.
        share: How many times as much the whole is.
        reach: What we want it to be; empty where nothing is said.
        rate: The figure is *items* by second.
    """

    label: str
    unit: str
    per: float
    items: int
    ours: Prepare
    naive: Prepare | None = None
    share: float = 1.0
    reach: str = ""
    rate: bool = field(default=False, kw_only=True)

    def value(self, nanoseconds: float) -> float:
        """Return the figure of one round."""
        return self.items * 1e9 / nanoseconds if self.rate else nanoseconds / self.per

    def measure(self, rounds: int) -> list[float]:
        """Print the row of a case; return the nanoseconds of the rounds."""
        rivals: dict[str, Prepare] = {"ours": self.ours, "heapq": partial(heapq_of, self.items)}
        if self.naive is not None:
            rivals["naive"] = self.naive
        times = race(rivals, rounds)
        self.show(times)
        return times["ours"]

    def show(self, times: Mapping[str, Sequence[float]]) -> None:
        """Print the row of a case."""
        taken = times["ours"]
        values = sorted(map(self.value, taken))
        slower = figure(ratio(times["naive"], taken, self.share)) if "naive" in times else "-"
        line(
            self.label,
            figure(median(values)),
            self.unit,
            self.reach or "-",
            slower,
            figure(ratio(taken, times["heapq"])),
            f"{figure(values[0])} to {figure(values[-1])}",
        )


def case_of(
    label: str,
    shown: str,
    per: float,
    world: World,
    given: Gangs,
    *,
    sample: Gangs | None = None,
    reach: str = "",
    rate: bool = False,
    **options: Any,
) -> Case:
    """Return a case in which everything is placed, compared to naive on a sample of the pods."""
    items = sum(map(len, given))
    mine = partial(ours, world, given, **options)
    if sample is None:
        return Case(label, shown, per, items, mine, reach=reach, rate=rate)
    share = items / sum(map(len, sample))
    slow = partial(naive, world, sample)
    return Case(label, shown, per, items, mine, slow, share, reach, rate=rate)


def some(gang: Sequence[Pod], number: int) -> list[list[Pod]]:
    """Return a gang of a few of the members, evenly chosen."""
    return [list(islice(gang, 0, None, max(len(gang) // number, 1)))]


def small_gangs(sizes: Sizes, world: World) -> None:
    """Measure case 1."""
    given = gangs(sizes.gangs, 3, TRAINER)
    per = 1e6 * sizes.gangs
    label = f"1 {sizes.gangs:,} gangs of 3"
    case_of(label, "ms/gang", per, world, given, sample=given[:5], reach="<= 0.25").measure(
        sizes.rounds
    )
    case_of(
        f"{label}, a pod selects a hostname", "ms/gang", per, world, given, hostname=True
    ).measure(sizes.few)


def like_pods(sizes: Sizes, world: World, large: World) -> None:
    """Measure case 2."""
    for what, role in (("", TRAINER), (", without GPUs", SERVER)):
        given = gangs(1, sizes.like, role)
        label = f"2 a gang of {sizes.like:,}{what}"
        cases = {
            n: case_of(
                f"{label}, {n:,} nodes",
                "ms",
                1e6,
                w,
                given,
                sample=some(given[0], sample),
                reach=reach,
            )
            for n, w, sample, reach in (
                (sizes.nodes, world, 10, "<= 15"),
                (sizes.large, large, 2, ""),
            )
        }
        rivals: dict[str, Prepare] = {"heapq": partial(heapq_of, sizes.like)}
        for n, one in cases.items():
            assert one.naive is not None
            rivals |= {f"ours {n}": one.ours, f"naive {n}": one.naive}
        times = race(rivals, sizes.rounds)
        for n, one in cases.items():
            parts = {"ours": times[f"ours {n}"], "naive": times[f"naive {n}"]}
            one.show({**parts, "heapq": times["heapq"]})
        over, under = times[f"ours {sizes.large}"], times[f"ours {sizes.nodes}"]
        show_ratio(f"2 {sizes.large:,} nodes over {sizes.nodes:,}{what}", over, under, "<= 1.3")
    given = gangs(1, sizes.like, TRAINER)
    label = f"2 a gang of {sizes.like:,}, a pod selects a hostname"
    case_of(label, "ms", 1e6, world, given, hostname=True).measure(sizes.few)


def show_ratio(label: str, over: Sequence[float], under: Sequence[float], reach: str) -> None:
    """Print a row that is a ratio."""
    ratios = sorted(o / u for o, u in zip(over, under, strict=True))
    spread = f"{figure(ratios[0])} to {figure(ratios[-1])}"
    line(label, figure(median(ratios)), "times", reach, "-", "-", spread)


def four_roles(sizes: Sizes, half: World) -> None:
    """Measure case 3."""
    given = gangs(1, sizes.roles, *ROLES)
    twin = gangs(1, sizes.roles, *ROLES, name="before")
    sample = some(given[0], 12)
    label = f"3 a gang of {sizes.roles} in 4 roles, half full"
    for what, before in (("never asked", ()), ("one went before", twin)):
        case_of(
            f"{label}, {what}",
            "ms",
            1e6,
            half,
            given,
            sample=sample,
            reach="<= 25",
            before=before,
        ).measure(sizes.rounds)


def single_pods(sizes: Sizes, world: World) -> None:
    """Measure case 4."""
    eight = [{"cpu": 1 + n % 4, "memory": f"{2 + 2 * (n // 4)}Gi"} for n in range(8)]
    for what, roles, rounds in (
        ("alike", [SERVER], sizes.rounds),
        ("of 8 sizes", eight, sizes.few),
    ):
        given = singles(sizes.singles, *roles)
        label = f"4 {sizes.singles:,} single pods, {what}"
        case_of(
            label, "pods/s", 1.0, world, given, sample=given[:10], reach=">= 20,000", rate=True
        ).measure(rounds)


def asked_again(sizes: Sizes) -> None:
    """Measure case 5."""
    world = full(sizes.nodes)
    changed = evolve(world, nodes=(*world.nodes[:2], grown(world.nodes[2], 0), *world.nodes[3:]))
    for tried in (False, True):
        for shapes in (1, sizes.shapes):
            given = misfits(sizes.waiting, shapes, tried=tried)
            waiting = Waiting(world, given, shapes if tried else 0)
            what = "alike" if shapes == 1 else f"of {shapes} shapes"
            label = f"5 {sizes.waiting:,} gangs of 8 that wait, {what}"
            Case(
                label + (", tried" if tried else ""),
                "us/gang",
                1e3 * sizes.waiting,
                sizes.waiting,
                waiting.prepare,
                partial(naive, changed, given[:3], fits=False),
                sizes.waiting / 3,
                "<= 5",
            ).measure(sizes.rounds)


def by_unit(sizes: Sizes, world: World) -> None:
    """Measure case 6."""
    given = gangs(sizes.eights, 8, TRAINER)
    cases = {
        unit: case_of(
            f"6 {sizes.eights:,} gangs of 8, unit {unit.value}",
            "ms/gang",
            1e6 * sizes.eights,
            world,
            given,
            sample=given[:2],
            unit=unit,
        )
        for unit in (SchedulingUnit.GROUP, SchedulingUnit.POD)
    }
    slow = cases[SchedulingUnit.GROUP].naive
    assert slow is not None
    rivals: dict[str, Prepare] = {unit.value: one.ours for unit, one in cases.items()}
    rivals |= {"heapq": partial(heapq_of, 8 * sizes.eights), "naive": slow}
    times = race(rivals, sizes.rounds)
    for unit, one in cases.items():
        one.show({"ours": times[unit.value], "naive": times["naive"], "heapq": times["heapq"]})
    show_ratio("6 unit pod over unit group", times["pod"], times["group"], ">= 5")
    for size in sizes.by_members:
        by_size(sizes.few, world, gangs(max(8 * sizes.eights // size, 1), size, TRAINER))


def by_size(rounds: int, world: World, given: Gangs) -> None:
    """Measure case 6 with gangs of another size."""
    pods, number = sum(map(len, given)), len(given)
    rivals: dict[str, Prepare] = {"heapq": partial(heapq_of, pods)}
    rivals |= {unit.value: partial(ours, world, given, unit=unit) for unit in SchedulingUnit}
    times = race(rivals, rounds)
    label = f"6 {number:,} gangs of {pods // number}, unit"
    for unit in (SchedulingUnit.GROUP.value, SchedulingUnit.POD.value):
        one = Case(f"{label} {unit}", "us/gang", 1e3 * number, pods, rivals[unit])
        one.show({"ours": times[unit], "heapq": times["heapq"]})
    show_ratio(f"{label} pod over group", times["pod"], times["group"], "-")


def curves(sizes: Sizes, world: World, half: World) -> None:
    """Measure case 9."""
    rounds = sizes.few
    small, large = gangs(sizes.gangs, 3, TRAINER), gangs(1, sizes.like, TRAINER)
    for n in sizes.by_nodes:
        there = empty(n)
        fitting = small[: 2 * n // 3]  # each 3 nodes have 12 GPUs
        label = f"9 {len(fitting):,} gangs of 3, {n:,} nodes"
        case_of(label, "ms/gang", 1e6 * len(fitting), there, fitting).measure(rounds)
        label = f"9 a gang of {sizes.like:,}, {n:,} nodes"
        case_of(label, "ms", 1e6, there, large).measure(rounds)
    for size in sizes.by_pods:
        given = gangs(1, size, TRAINER)
        label = f"9 a gang of {size:,}"
        case_of(label, "us/pod", 1e3 * size, world, given).measure(rounds)
    for kinds in sizes.by_classes:
        asked = [{"cpu": f"{1000 + 10 * kind}m", "memory": "4Gi"} for kind in range(kinds)]
        given = gangs(1, sizes.roles, *asked)
        label = f"9 a gang of {sizes.roles} in {kinds} classes, half full"
        case_of(label, "ms", 1e6, half, given).measure(rounds)


def first_of_a_class(world: World) -> Run:
    """Set a scheduler up; what is measured is the arrival of a pod of a new class, and its node.

    The nodes are judged when the pod arrives, so the arrival belongs to the first decision.
    """
    cluster, scheduler = scheduler_of(world, ())
    ((pod,),) = singles(1, SERVER)
    arrival = cluster.apply(PodAdded(pod))

    def run() -> None:
        scheduler.handle(arrival, now=0.0)
        assert bound(decide_all(scheduler)) == 1

    return run


def unlike_nodes(sizes: Sizes) -> None:
    """Measure case 10: nodes that are all a little different, beside equal ones.

    Each kind of gang has two rows of as many pods: all decisions, and those after the first. What
    the first decision of a class costs has a row of its own.
    """
    asked = {
        "single pods": (500, partial(singles, 501, SERVER)),
        "gangs of 3": (50, partial(gangs, 51, 3, TRAINER)),
        f"a gang of {sizes.like:,}": (1, partial(gangs, 2, sizes.like, SERVER)),
    }
    for n in sizes.by_nodes:
        worlds = {"like": empty(n), "unlike": unlike(n)}
        first: dict[str, Prepare] = {
            name: partial(first_of_a_class, world) for name, world in worlds.items()
        }
        beside_each_other(f"10 first pod of a class, {n:,} nodes", 1, first, sizes.few)
        for what, (number, make) in asked.items():
            given = make()
            pods = sum(map(len, given[:number]))
            every: dict[str, Prepare] = {
                name: partial(ours, world, given[:number]) for name, world in worlds.items()
            }
            beside_each_other(f"10 {what}, {n:,} nodes", pods, every, sizes.few)
            later: dict[str, Prepare] = {
                name: partial(ours, world, given[1:], before=given[:1])
                for name, world in worlds.items()
            }
            beside_each_other(f"10 {what}, later, {n:,} nodes", pods, later, sizes.few)


def beside_each_other(label: str, pods: int, rivals: Mapping[str, Prepare], rounds: int) -> None:
    """Print a row for like nodes, one for unlike nodes, and their ratio."""
    times = race({"heapq": partial(heapq_of, pods), **rivals}, rounds)
    for name, prepare in rivals.items():
        one = Case(f"{label}, {name}", "us/pod", 1e3 * pods, pods, prepare)
        one.show({"ours": times[name], "heapq": times["heapq"]})
    show_ratio(f"{label}: unlike over like", times["unlike"], times["like"], "<= 1.5")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes: only whether it runs")
    parser.add_argument("--rounds", type=int)
    parser.add_argument(
        "--unlike",
        type=int,
        nargs="+",
        metavar="NODES",
        help="measure case 10 only, with these numbers of nodes, such as 500 5000 50000",
    )
    options = parser.parse_args()
    sizes = QUICK if options.quick else Sizes()
    if options.rounds is not None:
        sizes = evolve(sizes, rounds=options.rounds)
    if options.unlike is not None:
        line("case", "measured", "unit", "reach", "naive/x", "x/heapq", "spread")
        unlike_nodes(evolve(sizes, by_nodes=tuple(options.unlike)))
        return
    world, large, half = empty(sizes.nodes), empty(sizes.large), half_full(sizes.nodes)
    print(
        f"{sizes.nodes:,} nodes; half full: {len(half.running):,} pods run, and the nodes are in"
        f" {half.states:,} states; heap: {heap_implementation}"
    )
    print(NOTE)
    if options.quick:
        print("small sizes: the figures say nothing about the reaches")
    line("case", "measured", "unit", "reach", "naive/x", "x/heapq", "spread")
    small_gangs(sizes, world)
    like_pods(sizes, world, large)
    four_roles(sizes, half)
    single_pods(sizes, world)
    asked_again(sizes)
    by_unit(sizes, world)
    curves(sizes, world, half)
    unlike_nodes(sizes)


if __name__ == "__main__":
    main()
