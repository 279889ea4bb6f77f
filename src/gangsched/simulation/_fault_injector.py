"""Counts what happens in a run, and returns each fault of a plan at its place.

Invariant: a fault is returned at most once.
"""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias, final

from gangsched.model import GroupKey
from gangsched.simulation.faults import (
    BindAnswerLost,
    BindFails,
    BindSlow,
    ClockJumps,
    EventDelayed,
    EventDropped,
    EventDuplicated,
    EventReordered,
    Fault,
    FaultPlan,
    NodeVanishes,
    SchedulerRestarts,
)

__all__ = ["FaultInjector"]

_Place: TypeAlias = tuple[str, GroupKey | None, int]


@final
class FaultInjector:
    """The faults of a plan that are still to come.

    Attributes:
        injected_faults: The faults that have been injected, each with its instant.
        is_spent: Whether no fault is left that a bind, an assignment, an event or a call could
            have. It is asked several times with each event, so it is not computed.
    """

    def __init__(self, plan: FaultPlan) -> None:
        self.injected_faults: list[tuple[float, Fault]] = []
        self._at: dict[_Place, list[Fault]] = {}
        self._jumps: list[ClockJumps] = []
        self._counts: Counter[tuple[str, GroupKey | None]] = Counter()
        for fault in plan.faults:
            match fault:
                case BindFails(n, group) | BindAnswerLost(n, group) | BindSlow(n, group):
                    self._put("bind", group, n, fault)
                case NodeVanishes(n, group):
                    self._put("member", group, n, fault)
                case EventDelayed(n) | EventDropped(n) | EventDuplicated(n) | EventReordered(n):
                    self._put("event", None, n, fault)
                case SchedulerRestarts(n):
                    self._put("call", None, n, fault)
                case ClockJumps():
                    self._jumps.append(fault)
        self._jumps.sort(key=lambda jump: jump.at, reverse=True)
        self.is_spent = not self._at

    def on_bind(self, group: GroupKey | None, now: float) -> list[Fault]:
        """Count a bind; return its faults."""
        return self._take("bind", group, now)

    def on_assignment(self, group: GroupKey | None, now: float) -> list[Fault]:
        """Count a pod that is assigned to a node; return its faults."""
        return self._take("member", group, now)

    def on_event(self, now: float) -> list[Fault]:
        """Count an event; return its faults."""
        return self._take("event", None, now)

    def on_call(self, now: float) -> bool:
        """Count a call; return whether the scheduler restarts before it."""
        return bool(self._take("call", None, now))

    def next_jump(self) -> float | None:
        """Return when the clock jumps next; None for never."""
        return self._jumps[-1].at if self._jumps else None

    def jump(self, when: float) -> float:
        """Return the time after every jump that is due by *when*."""
        now = when
        while self._jumps and self._jumps[-1].at <= now:
            fault = self._jumps.pop()
            self.injected_faults.append((now, fault))
            now += fault.seconds
        return now

    def _put(self, what: str, group: GroupKey | None, number: int, fault: Fault) -> None:
        self._at.setdefault((what, group, number), []).append(fault)

    def _take(self, what: str, group: GroupKey | None, now: float) -> list[Fault]:
        found: list[Fault] = []
        if self.is_spent:
            return found  # no fault is left that could apply, so nothing needs to be counted
        for counted in (None,) if group is None else (None, group):
            self._counts[what, counted] += 1
            found += self._at.pop((what, counted, self._counts[what, counted]), [])
        self.is_spent = not self._at
        self.injected_faults += [(now, fault) for fault in found]
        return found
