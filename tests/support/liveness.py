"""Liveness: the faults stop, whoever runs ends in time, and every gang that fits must start.

A *step* is one call: ``schedule_one``, ``advance`` or ``handle``. What is promised, and why it
holds, is in ``docs/explanation/liveness.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from attrs import define, evolve, field, frozen

from gangsched import (
    Bind,
    Coscheduling,
    Evict,
    NodeAdded,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodPhase,
    PodUID,
    PodUpdated,
    WhenBlocked,
)
from support.account import claim_of
from support.brute import entities
from support.driver import Driver, Told
from support.guesses import LONGEST
from support.histories import Policy
from support.room import may_go
from support.world import World

__all__ = ["Aftermath", "Backlog", "faults_stop", "gives_way"]

Entity = tuple[PodUID, ...]

_ROUNDING = 1e-6  # seconds are added up


def faults_stop(world: World) -> World:
    """Tell all facts, report all binds truthfully, and make anew who was evicted."""
    driver = world.driver
    world.end_what_is_under_way()
    for n, pod in enumerate(_evicted(world)):
        driver.add(evolve(pod, uid=PodUID(f"anew{n}"), created_at=driver.now))
    return world


def _evicted(world: World) -> Iterator[Pod]:
    evicted = {e.uid for told in world.driver.log for e in told.effects if isinstance(e, Evict)}
    for event in world.told:
        if isinstance(event, PodAdded) and event.pod.uid in evicted:
            yield event.pod


def gives_way(policy: Policy) -> bool:
    """Say whether a gang that cannot be completed keeps nodes from nobody whose turn it is."""
    if policy.when_blocked is WhenBlocked.AT_ONCE:
        return policy.reject_percentage == 0
    return policy.when_blocked is WhenBlocked.UNTIL_OTHERS_TURN


@frozen
class Backlog:
    """How much there is to do.

    Attributes:
        running: How many pods hold a node (R).
        units: How many things run: of one group all members together, else a pod (U).
        alone: How many pods of no group are pending (A).
        groups: How many groups have pending members (G).
        members: How many pending members these have (P, together with those of no group).
        largest: How many of them one group has at most (M).
        yielding: Whether gangs give way.
        hold: For how many seconds a member waits for the others at most (T).
        rest: For how many seconds who failed rests at most (B).
        kept: For how many seconds room is kept at most while nothing happens; 0 without backfill.
    """

    running: int
    units: int
    alone: int
    groups: int
    members: int
    largest: int
    yielding: bool
    hold: float
    rest: float
    kept: float = 0.0

    @property
    def moves(self) -> int:
        """How often a reservation is made, moved or given up in one round at most.

        Each pod that holds a node is overdue once; then nodes are drained once.
        """
        return self.running + self.pending + 2 if self.kept else 0

    @property
    def pending(self) -> int:
        """How many pods are pending (P)."""
        return self.alone + self.members

    @property
    def turns(self) -> int:
        """How many turns the groups have in one round at most, all together."""
        own = 2 * self.groups if self.yielding else self.groups * (self.groups + 3) // 2
        return own + self.moves * self.groups

    @property
    def tries(self) -> int:
        """How often a regular pod is tried in one round at most."""
        return (1 if self.yielding else 1 + self.groups) + self.moves

    @property
    def round(self) -> int:
        """How many decisions, looks and deadlines one round has at most."""
        return 1 + 3 * self.tries * self.alone + self.turns * (self.largest + 4)

    @property
    def seconds(self) -> float:
        """How long one round takes at most: its deadlines, one after the other."""
        own = (self.tries * self.alone + 2 * self.turns) * max(self.hold, self.rest)
        return own + self.kept

    @property
    def delay(self) -> float:
        """How long after the fact that began a round somebody is let go at the latest.

        Where gangs give way nobody waits for the deadline of another: only for its own rests.
        """
        return 2 * self.rest + self.kept if self.yielding else self.seconds

    @property
    def rounds(self) -> int:
        """How many rounds there are at most: each but the last ends something that runs."""
        return self.units + self.pending + 1

    @property
    def steps(self) -> int:
        """The bound."""
        return self.running + 2 * self.pending + self.rounds * self.round


@define(eq=False)
class Aftermath:
    """What follows when the faults have stopped.

    Attributes:
        policy: How the scheduler was made.
        driver: What drives it; its log begins anew.
        delete: Whether who ends is deleted; else it has succeeded.
        backlog: What there was to do.
        fitting: The pending entities that fit on the empty cluster.
        rounds: How many facts there were, and one: each round but the last ends with one.
        longest: How many decisions, looks and deadlines a round took at most.
        slowest: How many seconds a round took at most.
        latest: After how many seconds of a round somebody was let go at the latest.
    """

    policy: Policy
    driver: Driver
    delete: bool = False
    backlog: Backlog = field(init=False)
    fitting: list[Entity] = field(init=False)
    rounds: int = 0
    longest: int = 0
    slowest: float = 0.0
    latest: float = 0.0

    def __attrs_post_init__(self) -> None:
        self.driver.log.clear()
        self.backlog = self._backlog()
        waiting = entities(self.driver.cluster, grouped=self.policy.gangs)
        self.fitting = [entity for entity in waiting if self._fits(entity)]

    def live_on(self, choices: Sequence[int] = (0,), hasty: Sequence[bool] = (False,)) -> Aftermath:
        """Let one thing end after the other that runs; which, the choices say.

        Each ends when all is at rest; in a hasty round as soon as nothing is to be decided, while
        gangs still hold nodes and rest. What is left over of it is done in the rounds after it,
        so only rounds that begin at rest are measured, and the first.
        """
        measured = True
        while True:
            before, since = len(self.driver.log), self.driver.now
            in_haste = hasty[self.rounds % len(hasty)] and bool(self._units())
            if in_haste:
                self.driver.drain()
            else:
                self.driver.settle()
            self.rounds += 1
            if measured:
                self._measure(self.driver.log[before:], since)
            measured = not in_haste
            units = list(self._units().values())
            if not units:
                return self
            for pod in units[choices[self.rounds % len(choices)] % len(units)]:
                self._end(pod)

    def overdue(self) -> list[str]:
        """Say what took longer than it may."""
        may = self.backlog
        found: dict[str, tuple[float, float]] = {
            "steps": (self.steps, may.steps),
            "rounds": (self.rounds, may.rounds),
            "steps of a round": (self.longest, may.round),
            "seconds of a round": (self.slowest, may.seconds),
            "seconds until somebody is let go": (self.latest, may.delay),
        }
        return [
            f"{what}: {took:g} instead of {most:g}"
            for what, (took, most) in found.items()
            if took > most + _ROUNDING
        ]

    @property
    def steps(self) -> int:
        """How many calls were made."""
        return len(self.driver.log)

    def started(self) -> set[PodUID]:
        """Return who was bound."""
        effects = (effect for told in self.driver.log for effect in told.effects)
        return {effect.uid for effect in effects if isinstance(effect, Bind)}

    # Inside ---------------------------------------------------------------------------------

    def _measure(self, calls: Sequence[Told], since: float) -> None:
        self.longest = max(self.longest, sum(told.call != "handle" for told in calls))
        self.slowest = max(self.slowest, self.driver.now - since)
        if self.rounds > 1:  # in the first, attempts from before may hold nodes
            for told in calls:
                if any(isinstance(effect, Bind) for effect in told.effects):
                    self.latest = max(self.latest, told.now - since)

    def _backlog(self) -> Backlog:
        pods = list(self.driver.cluster.pods())
        groups = Counter(self._group(pod) for pod in pods if may_go(pod))
        alone = groups.pop("", 0)
        return Backlog(
            running=sum(map(_runs, pods)),
            units=len(self._units()),
            alone=alone,
            groups=len(groups),
            members=groups.total(),
            largest=max(groups.values(), default=0),
            yielding=gives_way(self.policy),
            hold=max(self._holds()),
            rest=self.policy.backoff.maximum,
            kept=self._kept(),
        )

    def _kept(self) -> float:
        """Return how long room is kept at most: for what is guessed, then drained."""
        if self.driver.scheduler._state.reserving.policy is None:
            return 0.0
        assert self.policy.backfill is not None
        guessed = 0.0 if self.policy.backfill.run_times is None else LONGEST
        return guessed + self.policy.backfill.overdue_after + self.policy.backfill.drain_for

    def _holds(self) -> Iterator[float]:
        """Yield how long members wait: by default, by a specification, and those that do."""
        yield Coscheduling().permit_timeout
        for group in self.driver.cluster.pod_groups():
            yield group.schedule_timeout or 0.0
        for waiting in self.driver.scheduler.waiting:
            yield waiting.deadline - self.driver.now

    def _group(self, pod: Pod) -> str:
        claim = claim_of(pod) if self.policy.gangs else None
        return "" if claim is None else claim[0]

    def _units(self) -> dict[str, list[Pod]]:
        units: dict[str, list[Pod]] = {}
        for pod in filter(_runs, self.driver.cluster.pods()):
            units.setdefault(self._group(pod) or pod.uid, []).append(pod)
        return units

    def _end(self, pod: Pod) -> None:
        if self.delete:
            self.driver.tell(PodDeleted(pod.uid))
        else:
            self.driver.tell(PodUpdated(evolve(pod, phase=PodPhase.SUCCEEDED)))

    def _fits(self, entity: Entity) -> bool:
        """Say whether a new scheduler starts an entity that is alone on the empty cluster.

        It hears of nodes and pods in the order in which this scheduler did: the order in which
        unlike members are tried, and nodes that are equally good.
        """
        state, cluster = self.driver.scheduler._state, self.driver.cluster
        fresh = Driver(self.policy.make, watched=False, checked=False)
        for info in sorted(state.nodes.infos.values(), key=lambda info: info.index):
            fresh.tell(NodeAdded(info.node))
        for group in cluster.pod_groups():
            fresh.tell(PodGroupAdded(group))
        for uid in sorted(state.members, key=lambda uid: state.members[uid].seq):
            pod = cluster.pod(uid)
            assert pod is not None
            if _runs(pod):
                if self.delete:
                    continue
                pod = evolve(pod, phase=PodPhase.SUCCEEDED)
            if uid in entity or not may_go(pod):
                fresh.tell(PodAdded(pod))
        fresh.drain()
        return any(isinstance(effect, Bind) for told in fresh.log for effect in told.effects)


def _runs(pod: Pod) -> bool:
    return pod.node_name is not None and not pod.is_finished
