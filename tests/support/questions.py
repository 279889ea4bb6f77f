"""What-if questions: events to ask about, and their real consequences.

This is an independent implementation: each effect is performed with its consequences before the
next effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import define, evolve, field
from hypothesis import strategies as st

from gangsched import (
    Backfill,
    Bind,
    BindFailed,
    Bound,
    Effect,
    Event,
    Evict,
    GroupKey,
    InMemoryCluster,
    Pod,
    PodDeleted,
    PodPhase,
    PodUID,
    PodUpdated,
    Scheduler,
)
from gangsched.cluster_objects import PersistentVolume, PersistentVolumeClaim
from gangsched.events import ObjectChanged, VolumeChoice
from gangsched.explain import Why
from support.histories import (
    Policy,
    bundle_deeds,
    group_deeds,
    node_deeds,
    pod_changes,
    pod_deeds,
)
from support.history_steps import Catch, HistoryStep
from support.world import World

__all__ = ["PerformedEffects", "asked", "events_of", "explanations"]

asked: st.SearchStrategy[list[HistoryStep]] = st.lists(
    st.one_of(node_deeds, pod_deeds, pod_deeds, pod_changes, group_deeds, bundle_deeds), max_size=6
)
"""The steps to ask about."""


def events_of(
    policy: Policy, history: Sequence[HistoryStep], steps: Sequence[HistoryStep]
) -> list[Event]:
    """Return the events of some steps after a history."""
    world = policy.world().live(*history)
    known = len(world.told)
    world.live(Catch(late=True), *steps)
    return world.told[known:]


def explanations(scheduler: Scheduler) -> dict[GroupKey, Why]:
    """Return ``why`` of each group that a scheduler knows, with nothing tried anew."""
    return {info.key: scheduler.why(info.key, budget=0) for info in scheduler.registry}


@define
class PerformedEffects:
    """A scheduler with a driver that performs every effect at once."""

    cluster: InMemoryCluster
    scheduler: Scheduler
    now: float
    timed: list[tuple[float, Effect]] = field(factory=list)

    @classmethod
    def of(cls, world: World) -> PerformedEffects:
        """Take over from the driver of a world."""
        return cls(world.driver.cluster, world.driver.scheduler, world.driver.now)

    def tell(self, event: Event) -> None:
        """Apply an event, and pass it to the scheduler."""
        self.cluster.apply(event)
        self.perform(self.scheduler.handle(event, now=self.now))

    def run(self, until: float, backfill: Backfill | None = None) -> None:
        """Decide, and let time pass; meanwhile pods end by the run times of a policy."""
        self.decide()
        passes = until > self.now
        while True:
            ends = self._ends(backfill) if passes else {}
            deadline = self.scheduler.next_deadline()
            due = min(
                (each for each in (deadline, *ends.values()) if each is not None), default=None
            )
            if due is None or due > until:
                return
            self.now = max(due, self.now)
            for pod in sorted((p for p, end in ends.items() if end <= self.now), key=_by_end(ends)):
                if self.cluster.pod(pod.uid) == pod:
                    self.tell(PodUpdated(evolve(pod, phase=PodPhase.SUCCEEDED)))
            deadline = self.scheduler.next_deadline()
            if deadline is not None and deadline <= self.now:
                self.perform(self.scheduler.advance(now=self.now))
            self.decide()

    def _ends(self, backfill: Backfill | None) -> dict[Pod, float]:
        """Return when pods on nodes end, of those that are not overdue; late ones end now."""
        if backfill is None or backfill.run_times is None:
            return {}
        found: dict[Pod, float] = {}
        for row in self.scheduler.snapshot().get("pods", ()):
            pod = self.cluster.pod(row["uid"])
            if pod is None or not pod.node_name or pod.is_finished or not row.get("node"):
                continue
            at, now = row.get("started_at"), self.now
            at = now if at is None else at
            end = backfill.run_times.expected_end(pod, started_at=at, now=now)
            if end is not None and now < end + backfill.overdue_after:
                found[pod] = end
        return found

    def decide(self) -> None:
        """Decide until no entity can be tried."""
        while True:
            effects = self.scheduler.schedule_one(now=self.now)
            if effects is None:
                return
            self.perform(effects)

    def perform(self, effects: tuple[Effect, ...]) -> None:
        """Perform effects."""
        self.timed.extend((self.now, effect) for effect in effects)
        for effect in effects:
            if isinstance(effect, Evict):
                self.tell(PodDeleted(effect.uid))
            if isinstance(effect, Bind):
                refusal = self._refusal(effect)
                if refusal:
                    self.tell(BindFailed(effect.uid, effect.attempt, refusal))
                else:
                    for choice in effect.volumes:
                        self._write(choice)
                    self.tell(Bound(effect.uid, effect.node, effect.attempt))

    def _write(self, choice: VolumeChoice) -> None:
        """Bind a claim to the volume that was chosen, as the volume controller does."""
        objects = self.cluster.objects
        claim = objects.get(PersistentVolumeClaim, choice.claim)
        volume = objects.get(PersistentVolume, choice.volume)
        if claim is not None and volume is not None and not claim.bound:
            taken = evolve(volume, claim=claim.key, claim_uid=claim.uid, available=False)
            self.tell(ObjectChanged(taken))
            self.tell(ObjectChanged(evolve(claim, volume=volume.name, bound=True)))

    def _refusal(self, bind: Bind) -> str:
        pod = self.cluster.pod(bind.uid)
        gone = self.cluster.node(bind.node) is None
        if gone or pod is None or pod.is_finished or pod.deleted_at is not None:
            return "the pod or the node is gone"
        return f"the pod is bound to {pod.node_name}" if pod.node_name else ""


def _by_end(ends: Mapping[Pod, float]) -> Callable[[Pod], tuple[float, PodUID]]:
    return lambda pod: (ends[pod], pod.uid)
