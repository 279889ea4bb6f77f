"""Liveness: when faults stop and running pods end, every gang that fits must start.

A *step* is one call: ``schedule_one``, ``advance`` or ``handle``. The bound and its proof are in
``docs/explanation/liveness.md``.
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
from support.brute_force import entities
from support.driver import Driver, Told
from support.estimates import LONGEST
from support.histories import Policy
from support.placement_oracle import may_be_placed
from support.shown import shown
from support.world import World

__all__ = ["Aftermath", "Backlog", "faults_stop", "gives_way"]

Entity = tuple[PodUID, ...]

_ROUNDING = 1e-6  # for sums of floats


def faults_stop(world: World) -> World:
    """Deliver all events, report the true outcome of binds, and recreate evicted pods."""
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
    """Return whether a gang that cannot be completed yields to other entities."""
    if policy.when_blocked is WhenBlocked.AT_ONCE:
        return policy.reject_percentage == 0
    return policy.when_blocked is WhenBlocked.UNTIL_OTHERS_TURN


@frozen
class Backlog:
    """The amount of pending work.

    Attributes:
        running: The number of pods that hold a node (R).
        units: The number of running groups and regular pods (U).
        alone: The number of pending regular pods (A).
        groups: The number of groups with pending members (G).
        members: The number of these members (P, together with regular pods).
        largest: The largest number of them in one group (M).
        yielding: Whether gangs give way.
        hold: The longest permit timeout in seconds (T).
        rest: The longest backoff in seconds (B).
        kept: The longest time in seconds that a reservation lasts without events; 0 without it.
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
        """A bound on how often a reservation changes in one round.

        Each pod that holds a node is overdue once; then nodes are drained once.
        """
        return self.running + self.pending + 2 if self.kept else 0

    @property
    def pending(self) -> int:
        """The number of pending pods (P)."""
        return self.alone + self.members

    @property
    def turns(self) -> int:
        """A bound on the scheduling cycles of all groups in one round."""
        own = 2 * self.groups if self.yielding else self.groups * (self.groups + 3) // 2
        return own + self.moves * self.groups

    @property
    def tries(self) -> int:
        """A bound on the tries of one regular pod in one round."""
        return (1 if self.yielding else 1 + self.groups) + self.moves

    @property
    def round(self) -> int:
        """A bound on the decisions, looks and deadlines of one round."""
        return 1 + 3 * self.tries * self.alone + self.turns * (self.largest + 4)

    @property
    def seconds(self) -> float:
        """A bound on the duration of one round: the sum of its deadlines."""
        own = (self.tries * self.alone + 2 * self.turns) * max(self.hold, self.rest)
        return own + self.kept

    @property
    def delay(self) -> float:
        """A bound on the time from the event that begins a round to its last release.

        If gangs yield, an entity waits only for its own backoffs, not for others' deadlines.
        """
        return 2 * self.rest + self.kept if self.yielding else self.seconds

    @property
    def rounds(self) -> int:
        """A bound on the number of rounds: each but the last ends a running unit."""
        return self.units + self.pending + 1

    @property
    def steps(self) -> int:
        """The bound."""
        return self.running + 2 * self.pending + self.rounds * self.round


@define(eq=False)
class Aftermath:
    """The run after the faults have stopped.

    Attributes:
        policy: The policy of the scheduler.
        driver: Its driver, with an empty log.
        delete: Whether ending pods are deleted, or succeed.
        backlog: The pending work at the beginning.
        fitting: The pending entities that fit on the empty cluster.
        rounds: The number of rounds; each but the last ends with an event.
        longest: The most decisions, looks and deadlines of a round.
        slowest: The longest round in seconds.
        latest: The latest release in a round, in seconds from its beginning.
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
        """End one running unit after the other, in the order of the choices.

        A unit ends when the scheduler has settled; in a hasty round as soon as nothing is left to
        decide, while gangs still wait or are in backoff. Later rounds finish that work, so only
        the first round and rounds that begin settled are measured.
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
        """Return what exceeded its bound."""
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
        """The number of calls."""
        return len(self.driver.log)

    def started(self) -> set[PodUID]:
        """Return the bound pods."""
        effects = (effect for told in self.driver.log for effect in told.effects)
        return {effect.uid for effect in effects if isinstance(effect, Bind)}

    # Inside ---------------------------------------------------------------------------------

    def _measure(self, calls: Sequence[Told], since: float) -> None:
        self.longest = max(self.longest, sum(told.call != "handle" for told in calls))
        self.slowest = max(self.slowest, self.driver.now - since)
        if self.rounds > 1:  # in the first round, earlier attempts may hold nodes
            for told in calls:
                if any(isinstance(effect, Bind) for effect in told.effects):
                    self.latest = max(self.latest, told.now - since)

    def _backlog(self) -> Backlog:
        pods = list(self.driver.cluster.pods())
        groups = Counter(self._group(pod) for pod in pods if may_be_placed(pod))
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
        """Return the longest time of a reservation: by guessed run times, then by draining."""
        if not self.policy.reserves:
            return 0.0
        assert self.policy.backfill is not None
        guessed = 0.0 if self.policy.backfill.run_times is None else LONGEST
        return guessed + self.policy.backfill.overdue_after + self.policy.backfill.drain_for

    def _holds(self) -> Iterator[float]:
        """Yield the permit timeouts: the default, those of groups, and of waiting members."""
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
        """Return whether a new scheduler starts an entity alone on the empty cluster.

        It gets nodes and pods in the same order as this scheduler, because the order decides
        which unlike member is tried first, and which of equally good nodes is taken.
        """
        seen, cluster = shown(self.driver.scheduler), self.driver.cluster
        fresh = Driver(self.policy.make, watched=False, checked=False)
        for node in sorted(cluster.nodes(), key=lambda node: seen.node_numbers.get(node.name, 0)):
            fresh.tell(NodeAdded(node))
        for group in cluster.pod_groups():
            fresh.tell(PodGroupAdded(group))
        for uid in sorted(seen.pods, key=lambda uid: seen.pods[uid].number):
            pod = cluster.pod(uid)
            assert pod is not None
            if _runs(pod):
                if self.delete:
                    continue
                pod = evolve(pod, phase=PodPhase.SUCCEEDED)
            if uid in entity or not may_be_placed(pod):
                fresh.tell(PodAdded(pod))
        fresh.drain()
        return any(isinstance(effect, Bind) for told in fresh.log for effect in told.effects)


def _runs(pod: Pod) -> bool:
    return pod.node_name is not None and not pod.is_finished
