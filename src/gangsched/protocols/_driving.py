"""What drives a scheduler, and what watches it."""

from __future__ import annotations

from typing import Protocol

from gangsched.events import Effect, Event

__all__ = ["FourCalls", "Observer"]


class FourCalls(Protocol):
    """The four calls of a scheduler, as a driver needs them; see ``Scheduler``."""

    def handle(self, *events: Event, now: float) -> tuple[Effect, ...]:
        """Process the events of one instant; return the effects."""
        ...

    def advance(self, *, now: float) -> tuple[Effect, ...]:
        """Let time pass until *now*; return the effects."""
        ...

    def schedule_one(self, *, now: float) -> tuple[Effect, ...] | None:
        """Run one scheduling cycle; return None if there is nothing to schedule or report."""
        ...

    def next_deadline(self) -> float | None:
        """Return when ``advance`` is due; None until the next event."""
        ...


class Observer(Protocol):
    """Sees every event and every effect of a scheduler, in order, under any driver.

    Notices are effects: ``GroupScheduled``, ``PodUnschedulable`` and so on. An observer that raises
    ends the run.
    """

    def event(self, event: Event, now: float) -> None:
        """Observe an event before the scheduler handles it, also a repeated or late event."""
        ...

    def effects(self, effects: tuple[Effect, ...], now: float) -> None:
        """Observe what a call of the scheduler returned, before it is performed."""
        ...

    def settled(self, now: float) -> None:
        """Observe that nothing more happens until time passes or an event arrives."""
        ...
