"""The simulator: the same scheduler on virtual time.

Rules:
  R1  time jumps from one instant at which something happens to the next; nothing polls;
  R2  at one instant: first what ends, then what arrives, then decisions until none is left;
  R3  one input and one seed give one history, byte for byte: the seed draws how long binds take.
"""

from __future__ import annotations

import enum
import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Protocol, final

from attrs import evolve

from gangsched.errors import InvalidValueError
from gangsched.events import (
    Bind,
    Bound,
    Effect,
    Event,
    Evict,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodRejected,
    PodUpdated,
    PodWaiting,
)
from gangsched.framework import Scheduler
from gangsched.memory import InMemoryCluster
from gangsched.model import Node, NodeName, PodPhase, PodUID
from gangsched.protocols import ClusterState
from gangsched.quantity import is_seconds
from gangsched.simulation.jobs import Jobs
from gangsched.simulation.metrics import Account
from gangsched.simulation.workload import Workload, run_seconds

__all__ = ["Observer", "Simulator"]


class Observer(Protocol):
    """Sees everything that goes in and comes out, in order."""

    def event(self, event: Event, now: float) -> None:
        """Be told of a fact, before the scheduler is."""
        ...

    def effects(self, effects: tuple[Effect, ...], now: float) -> None:
        """Be told what the scheduler returned."""
        ...

    def settled(self, now: float) -> None:
        """Be told that nothing more happens at this instant."""
        ...


class _Kind(enum.IntEnum):
    """What happens first of what happens at one instant."""

    FINISH = 0
    BIND = 1


@final
class Simulator:
    """Runs a workload through a scheduler on virtual time.

    Args:
        workload: What arrives, and when.
        make: Makes the scheduler over the simulated cluster.
        bind_seconds: How long a bind takes at most; each draws its own time below.
        seed: What the draws come from; a whole number.
        observers: Who watches.

    Attributes:
        now: The current instant.
        last_event_at: The last instant at which anything happened.
        decisions: How many decisions were made.
        cluster: The simulated cluster.
        scheduler: The scheduler.
        jobs: The jobs, and what they hold.
        capacity: What the nodes offer, over time.
    """

    def __init__(
        self,
        workload: Workload,
        make: Callable[[ClusterState], Scheduler],
        *,
        bind_seconds: float = 0.0,
        seed: int = 0,
        observers: Sequence[Observer] = (),
    ) -> None:
        if not is_seconds(bind_seconds) or bind_seconds < 0:
            raise InvalidValueError(
                "bind_seconds", bind_seconds, "seconds, finite and not negative"
            )
        # by type: of None a seed would be drawn from the machine, and no run would be like another
        if type(seed) is not int:
            raise InvalidValueError("seed", seed, "a whole number")
        arrivals = workload.arrivals
        self.now = arrivals[0].at if arrivals else 0.0
        self.last_event_at = self.now
        self.decisions = 0
        self.cluster = InMemoryCluster()
        self.scheduler = make(self.cluster)
        self.jobs = Jobs()
        self.capacity = Account()
        self._arrivals = deque(arrivals)
        self._bind_seconds = bind_seconds
        self._draws = random.Random(seed)
        self._observers = tuple(observers)
        self._agenda: list[tuple[float, _Kind, int, Bound | PodUID]] = []
        self._numbers = 0
        self._nodes: dict[NodeName, Node] = {}

    def run(self, *, until: float = math.inf) -> float:
        """Run until nothing happens any more, or until an instant; return the last instant.

        With *until*, what the run counts over time is counted to that instant.

        Raises:
            InvalidValueError: *until* is no instant, and not infinite; nothing has happened.
        """
        _check_until(until)
        while self.step(until=until) is not None:
            pass
        if until < math.inf:
            self.now = max(self.now, until)
        return self.now

    def step(self, *, until: float = math.inf) -> float | None:
        """Run through the next instant at which something happens; None when there is none.

        Raises:
            InvalidValueError: *until* is no instant, and not infinite; nothing has happened.
        """
        _check_until(until)
        when = self._next()
        if when is None or when > until:
            return None
        self.now = self.last_event_at = when
        self._perform(self.scheduler.advance(now=when))
        while self._agenda and self._agenda[0][0] <= when:
            _at, _kind, _number, what = heappop(self._agenda)
            if isinstance(what, Bound):
                self._report(what)
            else:
                self._finish(what)
        while self._arrivals and self._arrivals[0].at <= when:
            self._tell(self._arrivals.popleft().event)
        while (effects := self.scheduler.schedule_one(now=when)) is not None:
            self.decisions += 1
            self._perform(effects)
        for observer in self._observers:
            observer.settled(when)
        return when

    @property
    def arrivals_left(self) -> int:
        """How many arrivals are still to come."""
        return len(self._arrivals)

    @property
    def is_quiescent(self) -> bool:
        """Whether nothing happens any more, however long one waits."""
        return self._next() is None

    def _next(self) -> float | None:
        candidates = [self.scheduler.next_deadline()]
        if self._arrivals:
            candidates.append(self._arrivals[0].at)
        if self._agenda:
            candidates.append(self._agenda[0][0])
        found = min((when for when in candidates if when is not None), default=None)
        return None if found is None else max(found, self.now)

    def _tell(self, event: Event) -> None:
        """Make a fact true, then tell everybody."""
        self.cluster.apply(event)
        self._note(event)
        for observer in self._observers:
            observer.event(event, self.now)
        self._perform(self.scheduler.handle(event, now=self.now))
        if isinstance(event, NodeDeleted):
            # as the garbage collection of pods does: who ran there is gone
            for pod in self.cluster.pods_on(event.name):
                self._tell(PodDeleted(pod.uid))

    def _note(self, event: Event) -> None:
        now = self.now
        match event:
            case PodAdded(pod) | PodUpdated(pod):
                self.jobs.add_pod(pod, now=now)
                if pod.is_finished:
                    self.jobs.finish(pod.uid, now=now)
                elif pod.node_name is not None:
                    self._begin(self.jobs.bind(pod.uid, now=now))
            case PodDeleted(uid):
                self.jobs.remove_pod(uid, now=now)
            case PodGroupAdded(group) | PodGroupUpdated(group):
                self.jobs.add_group(group, now=now)
            case PodGroupDeleted(key):
                self.jobs.remove_group(key)
            case NodeAdded(node) | NodeUpdated(node):
                self._note_node(node.name, node)
            case NodeDeleted(name):
                self._note_node(name, None)
            case _:
                pass

    def _note_node(self, name: NodeName, node: Node | None) -> None:
        before = self._nodes.pop(name, None)
        if before is not None:
            self.capacity.subtract(before.allocatable, now=self.now)
        if node is not None:
            self._nodes[name] = node
            self.capacity.add(node.allocatable, now=self.now)

    def _perform(self, effects: tuple[Effect, ...]) -> None:
        for observer in self._observers:
            observer.effects(effects, self.now)
        for effect in effects:
            match effect:
                case PodWaiting(uid):
                    self.jobs.hold(uid, now=self.now)
                case PodRejected(uid):
                    self.jobs.give_back(uid, now=self.now)
                case Bind(uid, node, attempt):
                    self.jobs.hold(uid, now=self.now)
                    bound = Bound(uid, node, attempt)
                    if self._bind_seconds:
                        delay = self._draws.uniform(0, self._bind_seconds)
                        self._schedule(self.now + delay, _Kind.BIND, bound)
                    else:
                        self._report(bound)
                case Evict(uid):
                    self._make_anew(uid)
                case _:
                    pass

    def _make_anew(self, uid: PodUID) -> None:
        """Delete a pod, and make another in its place, as its controller does."""
        pod = self.cluster.pod(uid)
        if pod is None:
            return
        self._tell(PodDeleted(uid))
        self._numbers += 1
        fresh = PodUID(f"{uid}~{self._numbers}")
        self._tell(PodAdded(evolve(pod, uid=fresh, node_name=None, created_at=self.now)))

    def _report(self, bound: Bound) -> None:
        if self.cluster.pod(bound.uid) is None:
            return
        self._begin(self.jobs.bind(bound.uid, now=self.now))
        self._tell(bound)

    def _begin(self, uids: Sequence[PodUID]) -> None:
        for uid in uids:
            pod = self.cluster.pod(uid)
            seconds = None if pod is None else run_seconds(pod)
            if seconds is not None:
                self._schedule(self.now + seconds, _Kind.FINISH, uid)

    def _finish(self, uid: PodUID) -> None:
        pod = self.cluster.pod(uid)
        if pod is None or pod.is_finished:
            return
        self._tell(PodUpdated(evolve(pod, phase=PodPhase.SUCCEEDED)))

    def _schedule(self, when: float, kind: _Kind, what: Bound | PodUID) -> None:
        self._numbers += 1
        heappush(self._agenda, (when, kind, self._numbers, what))


def _check_until(until: object) -> None:
    if until != math.inf and not is_seconds(until):
        raise InvalidValueError("until", until, "seconds, or infinity")
