"""Where the faults of a plan strike: counts what happens, and hands each out at its place.

Invariant: a fault is handed out once, when its place comes, or never.
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

__all__ = ["Strikes"]

_Place: TypeAlias = tuple[str, GroupKey | None, int]


@final
class Strikes:
    """What is left of a plan.

    Attributes:
        struck: The faults that struck: when, and which.
    """

    def __init__(self, plan: FaultPlan) -> None:
        self.struck: list[tuple[float, Fault]] = []
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

    def bind(self, group: GroupKey | None, now: float) -> list[Fault]:
        """Count a bind; return what strikes it."""
        return self._strike("bind", group, now)

    def member(self, group: GroupKey | None, now: float) -> list[Fault]:
        """Count a pod that is given a node; return what strikes it."""
        return self._strike("member", group, now)

    def event(self, now: float) -> list[Fault]:
        """Count an event; return what strikes it."""
        return self._strike("event", None, now)

    def call(self, now: float) -> bool:
        """Count a call; say whether the scheduler restarts before it."""
        return bool(self._strike("call", None, now))

    def next_jump(self) -> float | None:
        """Return when the clock leaps next."""
        return self._jumps[-1].at if self._jumps else None

    def leap(self, when: float) -> float:
        """Return what the clock shows, when what is due by *when* has leapt."""
        now = when
        while self._jumps and self._jumps[-1].at <= now:
            jump = self._jumps.pop()
            self.struck.append((now, jump))
            now += jump.seconds
        return now

    def _put(self, what: str, group: GroupKey | None, number: int, fault: Fault) -> None:
        self._at.setdefault((what, group, number), []).append(fault)

    def _strike(self, what: str, group: GroupKey | None, now: float) -> list[Fault]:
        found: list[Fault] = []
        for counted in (None,) if group is None else (None, group):
            self._counts[what, counted] += 1
            found += self._at.pop((what, counted, self._counts[what, counted]), [])
        self.struck += [(now, fault) for fault in found]
        return found
