"""The watch: how events reach the scheduler.

Rules:
  R1  each event is counted once; it is delivered once and at once, unless a fault applies to it;
  R2  a reordered event is held back. It is delivered after the number of other events in its
      fault, or when nothing else will happen in the run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from attrs import define

from gangsched.events import Event
from gangsched.simulation._fault_injector import FaultInjector
from gangsched.simulation.faults import (
    EventDelayed,
    EventDropped,
    EventDuplicated,
    EventReordered,
)

__all__ = ["EventDelivery"]


@define(eq=False)
class _HeldBack:
    """An event that is held back, and how many other events are still to be delivered before it."""

    event: Event
    left: int


@final
class EventDelivery:
    """Delivers events to the scheduler, with the faults of a plan.

    Args:
        injector: Returns the faults of each event.
        deliver: Delivers an event to the scheduler.
        later: Does something after some seconds: delivers an event, or relists for None.
    """

    def __init__(
        self,
        injector: FaultInjector,
        deliver: Callable[[Event], None],
        later: Callable[[float, Event | None], None],
    ) -> None:
        self._injector = injector
        self._deliver = deliver
        self._later = later
        self._held_back: list[_HeldBack] = []

    @property
    def has_held_back(self) -> bool:
        """Whether some events are held back."""
        return bool(self._held_back)

    def send(self, event: Event, now: float) -> None:
        """Send an event that the cluster shows already; its faults decide when it is delivered."""
        if self._injector.is_spent and not self._held_back:
            self._deliver(event)
            return
        before = tuple(self._held_back)
        delivered, again = True, list[float]()
        for fault in self._injector.on_event(now):
            match fault:
                case EventDuplicated(_, seconds):
                    again.append(seconds)
                case EventDelayed(_, seconds) if delivered:
                    self._later(seconds, event)
                    delivered = False
                case EventDropped(_, seconds) if delivered:
                    self._later(seconds, None)
                    delivered = False
                case EventReordered(_, by) if delivered:
                    self._held_back.append(_HeldBack(event, by))
                    delivered = False
                case _:
                    pass
        if delivered:
            self._deliver(event)
        for seconds in again:
            if seconds:
                self._later(seconds, event)
            else:
                self._deliver(event)
        for one in before:
            one.left -= 1
            if one.left <= 0:
                self._release(one)

    def flush(self) -> None:
        """Deliver every event that is held back, because nothing else will happen."""
        for one in tuple(self._held_back):
            self._release(one)

    def clear(self) -> None:
        """Drop every event that is held back, because a listing has shown its object."""
        self._held_back.clear()

    def _release(self, one: _HeldBack) -> None:
        if one in self._held_back:
            self._held_back.remove(one)
            self._deliver(one.event)
