"""A run of a decision log: the logged calls at their instants, and nothing else.

Rules:
  R1  no effect is performed: the log has the events that followed from the effects;
  R2  usage is tracked as in any run, so that a report can be made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from gangsched.memory import InMemoryCluster
from gangsched.protocols import ClusterState, Observer
from gangsched.replay import Call, Divergence, Log, Replay
from gangsched.scheduler import Scheduler
from gangsched.simulation._usage import UsageTracker

__all__ = ["LogRun"]


@final
class LogRun:
    """A decision log that is run again; see ``Simulator.from_log``."""

    def __init__(
        self,
        log: Log,
        make: Callable[[ClusterState], Scheduler] | None,
        *,
        observers: Sequence[Observer],
    ) -> None:
        self._replay = Replay(log, make)
        self.usage = UsageTracker(self._replay.cluster)
        self.decisions = 0
        self._calls = iter(log)
        self._observers = observers
        self.now = 0.0
        self._next = self._advance_to_an_instant()
        if self._next is not None and self._next.now is not None:
            self.now = self._next.now
        self.last_event_at = self.now

    @property
    def cluster(self) -> InMemoryCluster:
        """The cluster as the log shows it by now."""
        return self._replay.cluster

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler."""
        return self._replay.scheduler

    @property
    def divergence(self) -> Divergence | None:
        """The first call with another result; None while there is none."""
        return self._replay.divergence

    def next(self) -> float | None:
        """Return the instant of the next call; None after the last call, or after a divergence."""
        call = self._next
        if call is None or call.now is None or self.divergence is not None:
            return None
        return max(call.now, self.now)

    def step(self, when: float) -> None:
        """Make the calls of one instant."""
        self.now = self.last_event_at = when
        while self.divergence is None:
            call = self._next
            if call is None or call.now is None or call.now > when:
                break
            self._make(call)
            self._next = self._advance_to_an_instant()

    def _advance_to_an_instant(self) -> Call | None:
        """Process lines up to the next call with an instant; return that call."""
        for call in self._calls:
            if call.now is not None:
                return call
            self._make(call)
        return None

    def _make(self, call: Call) -> None:
        self._replay.show(call, then=lambda event: self.usage.record_event(event, self.now))
        if call.call == "restart":
            self.usage.record_restart(self.now)
        for event in call.events:
            for observer in self._observers:
                observer.event(event, self.now)
        found = self._replay.perform(call)
        self.decisions += call.call == "schedule_one" and found is not None
        if found is not None:
            self.usage.record_effects(found, self.now)
            for observer in self._observers:
                observer.effects(found, self.now)
