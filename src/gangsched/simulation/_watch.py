"""The watch: how the scheduler comes to hear of what happens.

Rules:
  R1  each event that happens is counted once, and told once, at once, unless the plan says
      otherwise;
  R2  what is kept back is told when as many others have happened as the plan says, or when nothing
      else happens any more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from attrs import define

from gangsched.events import Event
from gangsched.simulation._strikes import Strikes
from gangsched.simulation.faults import (
    EventDelayed,
    EventDropped,
    EventDuplicated,
    EventReordered,
)

__all__ = ["Watch"]


@define(eq=False)
class _Overtaken:
    """An event that others are told before, and how many of them are still to come."""

    event: Event
    left: int


@final
class Watch:
    """Tells events, or what a plan of faults makes of that.

    Args:
        strikes: The plan.
        tell: Tells an event to the scheduler.
        later: Does something so many seconds later: tells an event, or, for None, lists.
    """

    def __init__(
        self,
        strikes: Strikes,
        tell: Callable[[Event], None],
        later: Callable[[float, Event | None], None],
    ) -> None:
        self._strikes = strikes
        self._tell = tell
        self._later = later
        self._overtaken: list[_Overtaken] = []

    @property
    def keeps_some(self) -> bool:
        """Whether it keeps events that others are to be told before."""
        return bool(self._overtaken)

    def see(self, event: Event, now: float) -> None:
        """Tell a fact that is true by now."""
        before = tuple(self._overtaken)
        told, again = True, list[float]()
        for fault in self._strikes.event(now):
            match fault:
                case EventDuplicated(_, seconds):
                    again.append(seconds)
                case EventDelayed(_, seconds) if told:
                    self._later(seconds, event)
                    told = False
                case EventDropped(_, seconds) if told:
                    self._later(seconds, None)
                    told = False
                case EventReordered(_, by) if told:
                    self._overtaken.append(_Overtaken(event, by))
                    told = False
                case _:
                    pass
        if told:
            self._tell(event)
        for seconds in again:
            if seconds:
                self._later(seconds, event)
            else:
                self._tell(event)
        for one in before:
            one.left -= 1
            if one.left <= 0:
                self._release(one)

    def release(self) -> None:
        """Tell what is kept, as nothing else happens any more."""
        for one in tuple(self._overtaken):
            self._release(one)

    def forget(self) -> None:
        """Keep nothing any more: a listing has shown it all."""
        self._overtaken.clear()

    def _release(self, one: _Overtaken) -> None:
        if one in self._overtaken:
            self._overtaken.remove(one)
            self._tell(one.event)
