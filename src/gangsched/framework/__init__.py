"""The scheduling framework: extension points, and the one loop that runs them."""

from __future__ import annotations

from gangsched.cycle_state import CycleState
from gangsched.framework.scheduler import Scheduler
from gangsched.options.backfill import Backfill, Reservation
from gangsched.options.preemption import Preemption
from gangsched.options.scheduling_unit import PlacementStrategy, SchedulingUnit
from gangsched.profile import POINTS, Profile

__all__ = [
    "POINTS",
    "Backfill",
    "CycleState",
    "PlacementStrategy",
    "Preemption",
    "Profile",
    "Reservation",
    "Scheduler",
    "SchedulingUnit",
]
