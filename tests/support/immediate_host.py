"""A host that performs binds at once; tests end pods explicitly."""

from __future__ import annotations

from gangsched import Bind, Bound, Effect, Event, InMemoryCluster, PodDeleted, PodUID, Scheduler

__all__ = ["ImmediateHost"]

_MANY = 10_000
"""More decisions at one instant than any of these clusters needs."""


class ImmediateHost:
    """A cluster, the scheduler that a subclass creates, and all effects.

    After every call, ``_check`` of the scheduler runs.
    """

    scheduler: Scheduler

    def __init__(self) -> None:
        self.cluster = InMemoryCluster()
        self.effects: list[Effect] = []
        self.now = 0.0

    def tell(self, *events: Event) -> None:
        for event in events:
            self._take(self.scheduler.handle(self.cluster.apply(event), now=self.now))

    def decide(self) -> list[str]:
        """Make all decisions; return the released pods, in order."""
        known, decisions = len(self.effects), 0
        while (effects := self.scheduler.schedule_one(now=self.now)) is not None:
            self._take(effects)
            decisions += 1
            assert decisions < _MANY, "it decides on and on"
        gone = [effect.uid for effect in self.effects[known:] if isinstance(effect, Bind)]
        return [uid.partition("/")[2] for uid in gone]

    def at(self, now: float) -> list[str]:
        """Let time pass; return the pods released by it."""
        self.now = now
        self._take(self.scheduler.advance(now=now))
        return self.decide()

    def end(self, *names: str) -> None:
        for name in names:
            self.tell(PodDeleted(PodUID(f"default/{name}")))

    def _take(self, effects: tuple[Effect, ...]) -> None:
        self.scheduler._check()
        self.effects += effects
        for effect in effects:
            if isinstance(effect, Bind):
                self.tell(Bound(effect.uid, effect.node, effect.attempt))
