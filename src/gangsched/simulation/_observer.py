"""Who watches a run."""

from __future__ import annotations

from typing import Protocol

from gangsched.events import Effect, Event

__all__ = ["Observer"]


class Observer(Protocol):
    """Sees everything that goes in and comes out, in order."""

    def event(self, event: Event, now: float) -> None:
        """Be told of a fact, before the scheduler is; as often as it is, and as late."""
        ...

    def effects(self, effects: tuple[Effect, ...], now: float) -> None:
        """Be told what the scheduler returned."""
        ...

    def settled(self, now: float) -> None:
        """Be told that nothing more happens at this instant."""
        ...
