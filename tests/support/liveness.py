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
from support.driver import Driver, Fate
from support.histories import Policy
from support.room import may_go
from support.world import World

__all__ = ["Aftermath", "Backlog", "faults_stop", "gives_way"]

Entity = tuple[PodUID, ...]


def faults_stop(world: World) -> World:
    """Tell all facts, report all binds truthfully, and make anew who was evicted."""
    driver = world.driver
    world.late = False
    driver.fate = Fate.DONE
    driver.tell_untold()
    while driver.dying:
        driver.end(0)
    while driver.under_way or driver.landing:
        while driver.under_way:
            driver.report(driver.under_way[0], Fate.DONE)
        while driver.landing:
            driver.land(0)
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
    """

    running: int
    units: int
    alone: int
    groups: int
    members: int
    largest: int
    yielding: bool

    @property
    def pending(self) -> int:
        """How many pods are pending (P)."""
        return self.alone + self.members

    @property
    def turns(self) -> int:
        """How many turns the groups have in one round at most, all together."""
        return 2 * self.groups if self.yielding else self.groups * (self.groups + 3) // 2

    @property
    def round(self) -> int:
        """How many decisions, looks and deadlines one round has at most."""
        tries = 1 if self.yielding else 1 + self.groups
        return 1 + 3 * tries * self.alone + self.turns * (self.largest + 4)

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
        rounds: How often all was at rest.
        longest: How many decisions, looks and deadlines one round took at most.
    """

    policy: Policy
    driver: Driver
    delete: bool = False
    backlog: Backlog = field(init=False)
    fitting: list[Entity] = field(init=False)
    rounds: int = 0
    longest: int = 0

    def __attrs_post_init__(self) -> None:
        self.driver.log.clear()
        self.backlog = self._backlog()
        waiting = entities(self.driver.cluster, grouped=self.policy.gangs)
        self.fitting = [entity for entity in waiting if self._fits(entity)]

    def live_on(self, choices: Sequence[int] = (0,)) -> Aftermath:
        """Whenever all is at rest let one thing end that runs; which, the choices say."""
        while True:
            before = len(self.driver.log)
            self.driver.settle()
            self.rounds += 1
            calls = [told.call for told in self.driver.log[before:]]
            self.longest = max(self.longest, len(calls) - calls.count("handle"))
            units = list(self._units().values())
            if not units:
                return self
            for pod in units[choices[self.rounds % len(choices)] % len(units)]:
                self._end(pod)

    @property
    def steps(self) -> int:
        """How many calls were made."""
        return len(self.driver.log)

    def started(self) -> set[PodUID]:
        """Return who was bound."""
        effects = (effect for told in self.driver.log for effect in told.effects)
        return {effect.uid for effect in effects if isinstance(effect, Bind)}

    # Inside ---------------------------------------------------------------------------------

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
        )

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
