"""Runs of a drawn gang: before and after its changes, with a host that binds volumes.

A scheduler may be replaced by one that is restored from its snapshot before each event.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve, frozen

from gangsched import (
    Bind,
    Bound,
    ClusterState,
    Coscheduling,
    Effect,
    GroupKey,
    InMemoryCluster,
    NodeName,
    PodAdded,
    Preemption,
    Scheduler,
    SchedulingUnit,
    presets,
)
from gangsched.cluster_objects import PersistentVolume, PersistentVolumeClaim
from gangsched.events import ObjectChanged, VolumeChoice
from gangsched.explain import SearchBudgetExhausted
from gangsched.model import PodUID
from support.gang_and_events import Gang
from support.restored import posted

__all__ = ["KEY", "LATER", "PREEMPTING", "PRESETS", "Make", "Outcome", "Run"]

Make = Callable[[ClusterState], Scheduler]


def _kube_default(cluster: ClusterState) -> Scheduler:
    return presets.kube_default(cluster, policy=Coscheduling(), unit=SchedulingUnit.GROUP)


def _preempting(cluster: ClusterState) -> Scheduler:
    return presets.gang(cluster, preemption=Preemption())


PRESETS: dict[str, Make] = {"gang": presets.gang, "kube_default": _kube_default}
PREEMPTING: Make = _preempting
KEY = GroupKey("one/g")
LATER = 1000.0
"""An instant after every backoff."""


@frozen
class Outcome:
    """What became of a gang: its nodes after each of both attempts, and whether it was decided."""

    first: dict[PodUID, NodeName]
    second: dict[PodUID, NodeName]
    undecided: tuple[bool, bool]


class Run:
    """A scheduler, which is replaced by a restored one before each event if it is told so."""

    def __init__(self, gang: Gang, make: Make, *, restores: bool) -> None:
        self.gang = gang
        self.make = make
        self.restores = restores
        self.cluster = InMemoryCluster()
        self.bound: dict[PodUID, NodeName] = {}
        for event in gang.before():
            self.cluster.apply(event)
        self.scheduler = make(self.cluster)
        self.scheduler.rebuild(now=0.0)

    def begin(self) -> None:
        """Let the gang arrive, and decide."""
        for pod in self.gang.members:
            self._restore()
            self._took(self.scheduler.handle(self.cluster.apply(PodAdded(pod)), now=0.0), 0.0)
        self._settle(0.0)

    def play(self) -> Outcome:
        """Let the gang arrive, and decide; let the changes follow, and decide at once and later."""
        self.begin()
        first, undecided = dict(self.bound), self._is_undecided()
        for change in self.gang.changes:
            self._restore()
            self._took(self.scheduler.handle(self.cluster.apply(change), now=1.0), 1.0)
        for now in (1.0, LATER):
            self._restore()
            self._took(self.scheduler.advance(now=now), now)
            self._settle(now)
        return Outcome(first, dict(self.bound), (undecided, self._is_undecided()))

    def _restore(self) -> None:
        if self.restores:
            data = posted(self.scheduler.snapshot())
            self.scheduler = self.make(self.cluster)
            self.scheduler.restore(data)
            self.scheduler._check()

    def _settle(self, now: float) -> None:
        for _ in range(100):
            effects = self.scheduler.schedule_one(now=now)
            self.scheduler._check()
            if effects is None:
                return
            self._took(effects, now)
        raise AssertionError("the scheduler does not come to an end")

    def _took(self, effects: tuple[Effect, ...], now: float) -> None:
        for effect in effects:
            if isinstance(effect, Bind):
                self.bound[effect.uid] = effect.node
                for choice in effect.volumes:
                    self._write(choice, now)
                event = Bound(effect.uid, effect.node, effect.attempt)
                self._took(self.scheduler.handle(self.cluster.apply(event), now=now), now)

    def _write(self, choice: VolumeChoice, now: float) -> None:
        """Bind a claim to its volume, as the volume controller does."""
        objects = self.cluster.objects
        claim = objects.get(PersistentVolumeClaim, choice.claim)
        volume = objects.get(PersistentVolume, choice.volume)
        assert claim is not None
        assert volume is not None
        changes = (
            evolve(volume, claim=claim.key, claim_uid=claim.uid, available=False),
            evolve(claim, volume=volume.name, bound=True),
        )
        for each in changes:
            self._took(self.scheduler.handle(self.cluster.apply(ObjectChanged(each)), now=now), now)

    def _is_undecided(self) -> bool:
        """Return whether it is said that the search budget was not enough."""
        found = getattr(self.scheduler.why(KEY), "unschedulable_member", None)
        return isinstance(getattr(found, "proof", None), SearchBudgetExhausted)
