"""The laws of restarts, with every effect that was seen."""

from __future__ import annotations

from typing import TypeVar

from gangsched import Effect, Event
from gangsched.simulation import Simulator
from gangsched.testing import RestartLaw

__all__ = ["RecordedRestarts"]

T = TypeVar("T")


class RecordedRestarts:
    """Checks the laws, and keeps each effect with its instant."""

    def __init__(self, *, with_faults: bool = False) -> None:
        self.seen: list[tuple[float, Effect]] = []
        self._law = RestartLaw(with_faults=with_faults)

    def watch(self, run: Simulator) -> None:
        self._law.watch(run)

    def of(self, kind: type[T]) -> list[tuple[float, T]]:
        return [(at, effect) for at, effect in self.seen if isinstance(effect, kind)]

    def event(self, event: Event, now: float) -> None:
        self._law.event(event, now)

    def settled(self, now: float) -> None:
        self._law.settled(now)

    def effects(self, effects: tuple[Effect, ...], now: float) -> None:
        self.seen += [(now, effect) for effect in effects]
        self._law.effects(effects, now)
