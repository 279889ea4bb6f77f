"""How a run of ``growth.py`` is prepared: a cluster, a scheduler, and events one after the other.

Rules:
  R1  what is measured is a run of the library alone: objects are made before, and no bind or
      eviction takes time;
  R2  time passes between two events, more than any backoff lasts: otherwise what failed once
      would not be tried again, and a row would measure nothing;
  R3  a run that binds another number of pods than expected is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

from attrs import evolve

from gangsched import (
    Bind,
    Bound,
    Effect,
    Event,
    Evict,
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
    presets,
)
from gangsched.cluster_objects import ClusterObject
from gangsched.events import ObjectChanged
from gangsched.testing import make_pod

RACK: Final = "rack"
HOST: Final = "kubernetes.io/hostname"
STEP: Final = 20.0
"""Seconds from one event to the next; a backoff lasts 10 seconds at most."""

Run: TypeAlias = Callable[[], None]
"""The part that is measured."""
Row: TypeAlias = Callable[[int], Run]
"""Prepares a run of a size."""
Shown: TypeAlias = Node | Pod | PodGroup | ClusterObject
"""An object that a cluster shows."""


class Unplaced(Exception):
    """Not as many pods were bound as fit: the budget of a decision was used up."""


def nodes(
    number: int, *, cpu: int = 64, unlike: bool = False, racks: int = 0, named: bool = False
) -> list[Node]:
    """Return nodes: equal ones, or ones of which each has some memory, or a label, of its own."""
    return [
        Node(
            name=NodeName(f"n{n}"),
            allocatable={"cpu": cpu, "memory": 256 * 2**30 + 4096 * n * unlike},
            labels={
                **({RACK: f"r{n % racks}"} if racks else {}),
                **({HOST: f"n{n}"} if named else {}),
            },
        )
        for n in range(number)
    ]


def pods(number: int, name: str = "p", **asks: Any) -> list[Pod]:
    """Return like pods; one cpu each unless something else is asked for."""
    return [make_pod(f"{name}{n}", **{"cpu": 1, **asks}) for n in range(number)]


def on(node: str, given: Iterable[Pod]) -> list[Pod]:
    """Return pods that are bound to a node."""
    return [evolve(pod, node_name=NodeName(node)) for pod in given]


def one_on_each(given: Iterable[Pod]) -> list[Pod]:
    """Return pods of which the first is bound to the first node, and so on."""
    return [evolve(pod, node_name=NodeName(f"n{k}")) for k, pod in enumerate(given)]


def full(number: int, *, cpu: int = 1) -> list[Node | Pod]:
    """Return nodes of some cpus each, and a pod on each of them that uses it up."""
    return [*nodes(number, cpu=cpu), *one_on_each(pods(number, "r", cpu=cpu))]


def scheduler_of(
    *shown: Shown, unit: SchedulingUnit = SchedulingUnit.GROUP, **options: Any
) -> tuple[InMemoryCluster, Scheduler]:
    """Return a cluster, and a scheduler that has taken it in."""
    cluster = InMemoryCluster()
    for one in shown:
        cluster.apply(added(one))
    scheduler = presets.coscheduling(cluster, unit=unit, **options)
    scheduler.rebuild(now=0.0)
    decide(cluster, scheduler)
    return cluster, scheduler


def added(one: Shown) -> Event:
    """Return the event that an object was added."""
    if isinstance(one, Node):
        return NodeAdded(one)
    if isinstance(one, Pod):
        return PodAdded(one)
    return PodGroupAdded(one) if isinstance(one, PodGroup) else ObjectChanged(one)


def decide(cluster: InMemoryCluster, scheduler: Scheduler, now: float = 0.0) -> int:
    """Decide until nothing is active; report each bind and eviction. Return the number of binds."""
    binds = 0
    while (effects := scheduler.schedule_one(now=now)) is not None:
        binds += perform(cluster, scheduler, effects, now)
    return binds


def perform(
    cluster: InMemoryCluster, scheduler: Scheduler, effects: Iterable[Effect], now: float
) -> int:
    """Report each bind and eviction; return the number of binds."""
    binds = 0
    for effect in effects:
        if isinstance(effect, Bind):
            binds += 1
            report: Event = Bound(effect.uid, effect.node, effect.attempt)
        elif isinstance(effect, Evict):
            report = PodDeleted(effect.uid)
        else:
            continue
        cluster.apply(report)
        binds += perform(cluster, scheduler, scheduler.handle(report, now=now), now)
    return binds


def tell(cluster: InMemoryCluster, scheduler: Scheduler, events: Iterable[Event]) -> int:
    """Handle events one by one, and decide after each; return the number of binds."""
    binds, now = 0, 0.0
    for event in events:
        now += STEP
        cluster.apply(event)
        binds += perform(cluster, scheduler, scheduler.handle(event, now=now), now)
        binds += decide(cluster, scheduler, now)
    return binds


def after(
    shown: Sequence[Shown],
    events: Sequence[Event],
    binds: int,
    *,
    unit: SchedulingUnit = SchedulingUnit.GROUP,
    **options: Any,
) -> Run:
    """Return a run: the events, told to a scheduler that has taken in what is shown."""
    cluster, scheduler = scheduler_of(*shown, unit=unit, **options)

    def run() -> None:
        found = tell(cluster, scheduler, events)
        if found != binds:
            raise Unplaced(f"{found} pods were bound instead of {binds}")

    return run
