"""Pending demand: how many nodes of which kind would start which gangs.

Theory of operation. Gangs are asked about one after the other, in the order of the queue. For each,
``what_if`` is asked with 1, 2, 3 more nodes of each kind, beside the nodes that the gangs before it
need. The first number with which it starts, and they too, is its own. The kind that needs the
fewest is chosen; of equal ones, the most frequent in the cluster. So all nodes together start all
gangs that are named. It is ``smallest_change`` for many gangs at once.

Rules:
  R1  a gang that lacks members has no demand: nodes create no members. One that runs below its
      minimum, since a node was lost for example, has the demand of its pending members; elastic
      ones of a gang that runs whole have none;
  R2  a gang that fits now has no demand either;
  R3  the work is bounded: by the number of gangs, kinds and nodes that are tried;
  R4  a running scheduler is not asked while more than ``MOST_WAITING`` gangs and pods wait. A
      question copies all of them, alike or not, and nothing is decided meanwhile;
  R5  a question is followed by a pause ten times as long. So questions take a tenth of the time at
      most, and a decision waits for one of them;
  R6  a question that took longer than ``SLOW`` ends the measurement, such as one beside a gang of
      many unlike members. The next begins after 200 times as long, so that slow questions take
      half a percent of the time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Container, Generator, Iterable, Sequence
from typing import Any, Final, final

from attrs import frozen

from gangsched.errors import GangschedError
from gangsched.events import GroupScheduled, NodeAdded
from gangsched.explain import NotEnoughMembers, PartlyRunning, Why
from gangsched.model import GroupKey, Node
from gangsched.model._node_kinds import kinds_of_nodes, one_more
from gangsched.scheduler import Scheduler

__all__ = [
    "MOST_WAITING",
    "SLOW",
    "MOST_GANGS",
    "MOST_KINDS",
    "MOST_NODES",
    "PendingDemand",
    "DemandMeter",
    "pending_demand",
]

MOST_GANGS: Final = 16
MOST_KINDS: Final = 4
MOST_NODES: Final = 16
MOST_WAITING: Final = 256
"""A question takes 50 to 100 ms beside so many."""
SLOW: Final = 0.2
"""Seconds of processor time."""
_PAUSE: Final = 200.0
"""Times the seconds of a slow question."""
_REST: Final = 10.0
"""Times the seconds of any other."""

_log = logging.getLogger("gangsched.kubernetes")


@final
@frozen
class PendingDemand:
    """Nodes of one kind that would start gangs.

    Attributes:
        like: One more node of this kind; its name begins with that of a node of the cluster.
        gangs: The gangs that would start, in the order of the queue; each with the number of nodes
            that it needs beside those of the gangs before it.
    """

    like: Node
    gangs: tuple[tuple[GroupKey, int], ...]

    @property
    def nodes(self) -> int:
        """How many nodes of this kind start them all."""
        return sum(nodes for _key, nodes in self.gangs)

    @property
    def groups(self) -> tuple[GroupKey, ...]:
        """The gangs that would start."""
        return tuple(key for key, _nodes in self.gangs)

    @property
    def shape(self) -> str:
        """The allocatable resources, such as ``cpu=8,nvidia.com/gpu=2``."""
        amounts = self.like.allocatable
        return ",".join(f"{name}={amounts.quantity(name)}" for name in sorted(amounts))

    def to_dict(self) -> dict[str, Any]:
        """Return the demand as plain data."""
        amounts = self.like.allocatable
        return {
            "like": self.like.name.removesuffix("-more"),
            "allocatable": {name: amounts.quantity(name) for name in sorted(amounts)},
            "labels": dict(self.like.labels),
            "nodes": self.nodes,
            "groups": list(self.groups),
        }


def pending_demand(
    scheduler: Scheduler,
    nodes: Iterable[Node],
    *,
    now: float,
    groups: int = MOST_GANGS,
    kinds: int = MOST_KINDS,
    most: int = MOST_NODES,
) -> list[PendingDemand]:
    """Return what would start the pending gangs, by kind of node, the largest demand first.

    Args:
        scheduler: The scheduler; it is not changed.
        nodes: The nodes of the cluster; more of these kinds are tried.
        now: The current instant.
        groups: How many pending gangs are asked about, in the order of the queue.
        kinds: How many kinds of nodes are tried, the most frequent first.
        most: How many nodes are tried for one gang.
    """
    steps = _steps(scheduler, nodes, lambda: now, groups=groups, kinds=kinds, most=most)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: list[PendingDemand] = end.value
            return found


@final
class DemandMeter:
    """Measures the pending demand again and again, a little at a time.

    Each question runs forks of the scheduler, and nothing else runs meanwhile. So between two
    questions other tasks run, and no question is asked while binds wait.

    Args:
        scheduler: The scheduler.
        nodes: Returns the nodes of the cluster.
        clock: Returns the current instant.
        give_way: Waits while binds have to go first; called with the instant of the question.
        show: Called with what was found.
        interval: Seconds between two measurements.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        nodes: Callable[[], Iterable[Node]],
        clock: Callable[[], float],
        give_way: Callable[[float], Awaitable[object]],
        show: Callable[[Sequence[PendingDemand]], object],
        *,
        interval: float,
    ) -> None:
        self._scheduler = scheduler
        self._nodes = nodes
        self._clock = clock
        self._give_way = give_way
        self._show = show
        self._interval = interval
        self._is_paused = False
        self._slowest = 0.0

    async def run(self) -> None:
        """Measure until cancelled, or until the scheduler cannot be asked."""
        while True:
            await asyncio.sleep(max(self._interval, _PAUSE * self._slowest))
            try:
                found = await self.measure()
            except GangschedError as error:  # such as a plugin that has state and no fork
                _log.warning("the pending demand is not measured any more: %s", error)
                self._show(())
                return
            self._show(found)

    async def measure(self) -> list[PendingDemand]:
        """Return the pending demand; nothing while too many wait, or if it is slow: see R4, R6."""
        steps = _steps(self._scheduler, self._nodes(), self._clock)
        self._slowest = 0.0
        while True:
            await self._give_way(time.monotonic())
            await asyncio.sleep(0)
            if self._are_too_many():
                return []
            began = time.thread_time()
            try:
                next(steps)
            except StopIteration as end:
                found: list[PendingDemand] = end.value
                return found
            took = time.thread_time() - began
            if took > SLOW:
                self._slowest = took
                _log.warning(
                    "the pending demand is not measured for %.0f s: a question took %.1f s",
                    *(_PAUSE * took, took),
                )
                return []
            await asyncio.sleep(_REST * took)

    def _are_too_many(self) -> bool:
        """Return whether too many wait to ask; log it when that begins."""
        before, self._is_paused = self._is_paused, len(self._scheduler.queue) > MOST_WAITING
        if self._is_paused and not before:
            _log.warning(
                "the pending demand is not measured while more than %d gangs and pods wait",
                MOST_WAITING,
            )
        return self._is_paused


def _steps(
    scheduler: Scheduler,
    nodes: Iterable[Node],
    clock: Callable[[], float],
    *,
    groups: int = MOST_GANGS,
    kinds: int = MOST_KINDS,
    most: int = MOST_NODES,
) -> Generator[None, None, list[PendingDemand]]:
    """Ask one question after the other; return what was found."""
    known = list(nodes)
    taken = {node.name for node in known}
    shapes = kinds_of_nodes(known)[:kinds]
    rows = [row for row in scheduler.pending() if not isinstance(row.why, NotEnoughMembers)]
    asked = [row.group for row in rows if row.group is not None]
    partial = [row.group for row in rows if row.group is not None and _is_partial(row.why)]
    added: list[Node] = []
    by_kind: dict[Node, list[tuple[GroupKey, int]]] = {}
    answered: frozenset[GroupKey] = frozenset()
    started: frozenset[GroupKey] | None = None
    for key in asked[:groups] if shapes else ():
        if started is None:
            yield
            started = _started(scheduler, (), clock(), partial)
        if key in started:
            continue
        best: list[Node] = []
        kind = shapes[0]
        for shape in shapes:
            limit = len(best) - 1 if best else most
            for count in range(1, limit + 1):
                yield
                more = [one_more(shape, _new_name(shape, taken, added, n)) for n in range(count)]
                found = _started(scheduler, (*added, *more), clock(), partial)
                if key in found and answered <= found:
                    best, kind, started = more, shape, found
                    break
        if best:
            added += best
            answered |= {key}
            by_kind.setdefault(kind, []).append((key, len(best)))
    demands = [PendingDemand(like, tuple(gangs)) for like, gangs in by_kind.items()]
    return sorted(demands, key=lambda demand: -demand.nodes)


def _started(
    scheduler: Scheduler, added: Iterable[Node], now: float, partial: Iterable[GroupKey]
) -> frozenset[GroupKey]:
    """Return the gangs that would start if nodes were added, or have their minima again."""
    answer = scheduler.what_if(*map(NodeAdded, added), now=now)
    whole = [key for key in partial if not _is_partial(answer.why.get(key))]
    starts = (each.group for each in answer.effects if isinstance(each, GroupScheduled))
    return frozenset([*starts, *whole])


def _is_partial(why: Why | None) -> bool:
    """Return whether a gang runs below its minimum."""
    return isinstance(why, PartlyRunning) and why.is_below_minimum


def _new_name(shape: Node, taken: Container[str], added: Sequence[Node], number: int) -> str:
    """Return a name that no node of the cluster has, and no added one."""
    name = f"{shape.name}-{len(added) + number}"
    while name in taken:
        name = f"{name}-more"
    return name
