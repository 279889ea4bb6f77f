"""How does the cost of a whole run grow with its size?

One row per quantity that a cluster can have many of. Each row is a whole run of n items: all events
are handled and all decisions are made. The sizes double, and the last column is the exponent of the
fitted power of n: 1.0 means that an item costs the same however many there are. We would act above
1.15, or say why in ``docs/explanation/known-limits.md``.

Rules:
  R1  times are CPU times of one process, the least of the rounds;
  R2  a row has a budget of CPU seconds, ``--seconds``. A size is left out if it would probably
      exceed what is left of the budget, and the row says so: its cell is ``-``;
  R3  what is measured is a run of the library alone: objects are made before, and no bind takes
      time;
  R4  time passes between two events, more than any backoff lasts: otherwise what failed once
      would not be tried again, and the row would measure nothing.
"""

from __future__ import annotations

import argparse
import gc
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import process_time
from typing import Any, Final, TypeAlias

from attrs import evolve

from gangsched import (
    Bind,
    Bound,
    Event,
    GroupKey,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    Scheduler,
    SchedulingUnit,
    Topology,
    presets,
)
from gangsched.testing import make_pod

RACK: Final = "rack"
LIMIT: Final = 1.15
STEP: Final = 20.0
"""Seconds from one event to the next; a backoff lasts 10 seconds at most."""

Run: TypeAlias = Callable[[], None]
"""The part that is measured."""
Row: TypeAlias = Callable[[int], Run]
"""Prepares a run of a size."""


class Unplaced(Exception):
    """Not as many pods were bound as fit: the budget of a decision was used up."""


def nodes(number: int, *, cpu: int = 64, unlike: bool = False, racks: int = 0) -> list[Node]:
    """Return nodes: equal ones, or ones of which each has some memory of its own."""
    return [
        Node(
            name=NodeName(f"n{n}"),
            allocatable={"cpu": cpu, "memory": 256 * 2**30 + 4096 * n * unlike},
            labels={RACK: f"r{n % racks}"} if racks else {},
        )
        for n in range(number)
    ]


def pods(number: int, name: str = "p", **asks: Any) -> list[Pod]:
    """Return like pods; one cpu each unless something else is asked for."""
    return [make_pod(f"{name}{n}", **{"cpu": 1, **asks}) for n in range(number)]


def on(node: str, given: Iterable[Pod]) -> list[Pod]:
    """Return pods that are bound to a node."""
    return [evolve(pod, node_name=NodeName(node)) for pod in given]


def scheduler_of(
    *shown: Node | Pod | PodGroup, unit: SchedulingUnit = SchedulingUnit.GROUP
) -> tuple[InMemoryCluster, Scheduler]:
    """Return a cluster, and a scheduler that has taken it in."""
    cluster = InMemoryCluster()
    for one in shown:
        cluster.apply(added(one))
    scheduler = presets.coscheduling(cluster, unit=unit)
    scheduler.rebuild(now=0.0)
    decide(cluster, scheduler)
    return cluster, scheduler


def added(one: Node | Pod | PodGroup) -> Event:
    """Return the event that an object was added."""
    if isinstance(one, Node):
        return NodeAdded(one)
    return PodAdded(one) if isinstance(one, Pod) else PodGroupAdded(one)


def decide(cluster: InMemoryCluster, scheduler: Scheduler, now: float = 0.0) -> int:
    """Decide until nothing is active, and report each bind; return the number of binds."""
    binds = 0
    while (effects := scheduler.schedule_one(now=now)) is not None:
        for effect in effects:
            if isinstance(effect, Bind):
                binds += 1
                bound = Bound(effect.uid, effect.node, effect.attempt)
                cluster.apply(bound)
                scheduler.handle(bound, now=now)
    return binds


def tell(cluster: InMemoryCluster, scheduler: Scheduler, events: Iterable[Event]) -> int:
    """Handle events one by one, and decide after each; return the number of binds."""
    binds, now = 0, 0.0
    for event in events:
        now += STEP
        cluster.apply(event)
        scheduler.handle(event, now=now)
        binds += decide(cluster, scheduler, now)
    return binds


def after(
    shown: Sequence[Node | Pod | PodGroup],
    events: Sequence[Event],
    binds: int,
    *,
    unit: SchedulingUnit = SchedulingUnit.GROUP,
) -> Run:
    """Return a run: the events, told to a scheduler that has taken in what is shown."""
    cluster, scheduler = scheduler_of(*shown, unit=unit)

    def run() -> None:
        if tell(cluster, scheduler, events) != binds:
            raise Unplaced

    return run


# Rows ------------------------------------------------------------------------------------------


def equal_nodes(n: int) -> Run:
    """Equal nodes that are added one by one, and then as many pods."""
    return after((), [*map(added, nodes(n)), *map(added, pods(n))], n)


def unlike_nodes(n: int) -> Run:
    """Nodes that are added one by one, each with memory of its own, and then as many pods."""
    return after((), [*map(added, nodes(n, unlike=True)), *map(added, pods(n))], n)


def pending_pods(n: int) -> Run:
    """Like pods that arrive one by one on a full cluster, and leave again."""
    given = pods(n)
    leave = [PodDeleted(pod.uid) for pod in given]
    return after(full(10), [*map(added, given), *leave], 0)


def full(number: int) -> list[Node | Pod]:
    """Return nodes of one cpu each, and a pod on each of them."""
    running = [evolve(pod, node_name=NodeName(f"n{k}")) for k, pod in enumerate(pods(number, "r"))]
    return [*nodes(number, cpu=1), *running]


def groups_of_one(n: int) -> Run:
    """Groups of one member each, placed one by one."""
    given = [make_pod(f"g{g}", group=f"g{g}", min_available=1, cpu=1) for g in range(n)]
    return after(nodes(n // 32 + 1), list(map(added, given)), n)


def members_one_by_one(n: int) -> Run:
    """Members of one group that arrive one by one, and start together with the last."""
    given = pods(n, group="g", min_available=n)
    return after(nodes(n // 32 + 1), list(map(added, given)), n)


def late_members(n: int) -> Run:
    """Members of a started group that arrive one by one on a full cluster."""
    first = pods(1, "first", group="g", min_available=1)
    late = pods(n, "late", group="g", min_available=1)
    return after([*nodes(1, cpu=1), *first], list(map(added, late)), 0)


def waiting_late_members(n: int) -> Run:
    """Nodes that are added one by one while as many members of a started group wait for them."""
    first = pods(1, "first", group="g", min_available=1)
    late = pods(n, "late", group="g", min_available=1)
    more = [evolve(node, name=NodeName(f"m{k}")) for k, node in enumerate(nodes(n, cpu=1))]
    return after([*nodes(1, cpu=1), *first, *late], list(map(added, more)), n)


def groups_of_a_bundle(n: int) -> Run:
    """Groups of one bundle whose members arrive one by one, and start together."""
    keys = tuple(GroupKey(f"default/g{g}") for g in range(n))
    specs = [PodGroup(name=f"g{g}", min_available=1, bundle=keys) for g in range(n)]
    given = [make_pod(f"g{g}-0", group=f"g{g}", cpu=1) for g in range(n)]
    return after([*nodes(n // 32 + 1), *specs], list(map(added, given)), n)


def pods_on_a_node(n: int) -> Run:
    """Pods that are bound to one node and leave it, one by one."""
    running = on("n0", pods(n, "r"))
    leave = [PodDeleted(pod.uid) for pod in running]
    return after(nodes(1, cpu=2 * n), [*map(added, running), *leave], 0)


def distinct_shapes(n: int) -> Run:
    """Pods of which no two ask for the same, on a full cluster with 10 nodes."""
    given = [make_pod(f"p{k}", requests={"cpu": f"{1000 + k}m"}) for k in range(n)]
    return after(full(10), list(map(added, given)), 0)


def events_with_distinct_shapes(n: int) -> Run:
    """Pods that end on a full cluster, beside as many pending pods of which no two are alike."""
    given = [make_pod(f"p{k}", requests={"cpu": f"{90_000 + k}m"}) for k in range(n)]
    small = on("n0", pods(n, "r", cpu="1m"))
    shown: list[Node | Pod | PodGroup] = [*nodes(1), *small, *given]
    return after(shown, [PodDeleted(pod.uid) for pod in small], 0)


def refused_members(n: int) -> Run:
    """Members that contradict the first of their group, and leave again."""
    first = make_pod("first", group="g", min_available=2, cpu=1)
    given = pods(n, group="g", min_available=3)
    leave = [PodDeleted(pod.uid) for pod in given]
    return after([*nodes(1), first], [*map(added, given), *leave], 0)


def members_beside_refused_ones(n: int) -> Run:
    """Members that leave a group one by one, beside as many that contradict it."""
    given = pods(n, group="g", min_available=2 * n)
    refused = pods(n, "refused", group="g", min_available=3)
    leave = [PodDeleted(pod.uid) for pod in given[1:]]
    return after([*nodes(1), *given, *refused], leave, 0)


def unlike_members(n: int) -> Run:
    """A gang of which no two members ask for the same, placed in one decision."""
    given = [
        make_pod(f"g-{k}", group="g", min_available=n, requests={"cpu": f"{1000 + k % 997}m"})
        for k in range(n)
    ]
    return after(nodes(n // 16 + 1), list(map(added, given)), n)


def topology_values(n: int) -> Run:
    """Gangs of 4 within one rack of 4 nodes, as many gangs as racks."""
    topology = Topology(RACK)
    specs = [PodGroup(name=f"g{g}", min_available=4, topology=topology) for g in range(n // 4)]
    given = [make_pod(f"g{k // 4}-{k}", group=f"g{k // 4}", cpu=40) for k in range(n // 4 * 4)]
    shown: list[Node | Pod | PodGroup] = [*nodes(n // 4 * 4, racks=n // 4), *specs]
    return after(shown, list(map(added, given)), n // 4 * 4)


def priorities(n: int) -> Run:
    """Pods of which each has a priority of its own."""
    given = [make_pod(f"p{k}", cpu=1, priority=k) for k in range(n)]
    return after(nodes(n // 32 + 1), list(map(added, given)), n)


def namespaces(n: int) -> Run:
    """Groups of one in a namespace of their own."""
    given = [
        evolve(
            make_pod(f"p{k}", group="g", min_available=1, cpu=1), namespace=f"ns{k}", uid=f"u{k}"
        )
        for k in range(n)
    ]
    return after(nodes(n // 32 + 1), list(map(added, given)), n)


def what_if(n: int) -> Run:
    """One question about the future of a cluster with so many pending pods."""
    _cluster, scheduler = scheduler_of(*nodes(10, cpu=1), *pods(n))

    def run() -> None:
        scheduler.what_if(NodeAdded(evolve(nodes(1)[0], name=NodeName("another"))))

    return run


ROWS: Final[Mapping[str, tuple[Row, int]]] = {
    "nodes, each with a pod": (equal_nodes, 1),
    "unlike nodes, each with a pod": (unlike_nodes, 1),
    "pending pods that do not fit": (pending_pods, 1),
    "groups of one": (groups_of_one, 1),
    "members of a group, one by one": (members_one_by_one, 1),
    "late members on a full cluster": (late_members, 1),
    "nodes for waiting late members": (waiting_late_members, 1),
    "groups of a bundle": (groups_of_a_bundle, 10),
    "pods on a node": (pods_on_a_node, 1),
    "distinct shapes": (distinct_shapes, 1),
    "events beside distinct shapes": (events_with_distinct_shapes, 1),
    "refused members": (refused_members, 1),
    "members beside refused ones": (members_beside_refused_ones, 1),
    "unlike members of a gang": (unlike_members, 10),
    "values of a topology label": (topology_values, 1),
    "priorities": (priorities, 1),
    "namespaces": (namespaces, 1),
    "pending pods of a what_if": (what_if, 1),
}
"""Each row, with how many times smaller its sizes are."""


# Measuring -------------------------------------------------------------------------------------


def measure(row: Row, size: int, rounds: int) -> tuple[float, float]:
    """Return the CPU seconds of the fastest run, and those of all rounds with their preparation."""
    best, begun_all = math.inf, process_time()
    for _round in range(rounds):
        run = row(size)
        gc.collect()
        begun = process_time()
        run()
        best = min(best, process_time() - begun)
    return best, process_time() - begun_all


def figures(row: Row, sizes: Iterable[int], rounds: int, budget: float) -> dict[int, float]:
    """Return the CPU seconds of a run by size, as far as the budget of the row allows."""
    found: dict[int, float] = {}
    left, last, cost = budget, 0, 0.0
    for size in sizes:
        # a run of the next size costs at least in proportion
        if last and cost * size / last > left:
            break
        try:
            found[size], cost = measure(row, size, rounds)
        except Unplaced:
            break
        left, last = left - cost, size
    return found


def exponent(found: Mapping[int, float]) -> float:
    """Return the exponent of the power of the size that fits the figures best."""
    points = [(math.log(size), math.log(figure)) for size, figure in found.items()]
    if len(points) < 2:
        return math.nan
    x, y = (sum(each) / len(points) for each in zip(*points, strict=True))
    above = sum((a - x) * (b - y) for a, b in points)
    return float(above / sum((a - x) ** 2 for a, _b in points))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000 * 2**k for k in range(7)])
    parser.add_argument("--seconds", type=float, default=60.0, help="the budget of a row")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    options = parser.parse_args(arguments)
    if options.quick:
        options.sizes, options.rounds = [40, 80], 1
    print(f"{'us an item':<34}", *(f"{size:>8,}" for size in options.sizes), f"{'exponent':>9}")
    for name, (row, smaller) in ROWS.items():
        if options.only not in name:
            continue
        sizes = [max(size // smaller, 4) for size in options.sizes]
        found = figures(row, sizes, options.rounds, options.seconds)
        cells = [f"{seconds / size * 1e6:8.0f}" for size, seconds in found.items()]
        cells += [f"{'-':>8}"] * (len(sizes) - len(cells))
        steep = exponent(found)
        label = f"{name} / {smaller}" if smaller > 1 else name
        ended = (
            ""
            if len(found) == len(sizes)
            else f"  budget of {options.seconds:.0f} s, or of a decision, used up"
        )
        mark = " *" if steep > LIMIT else ""
        print(f"{label:<34}", *cells, f"{steep:9.2f}{mark}{ended}", flush=True)


if __name__ == "__main__":
    main()
