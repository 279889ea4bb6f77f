"""The scheduling framework: extension points, and the one loop that runs them."""

from __future__ import annotations

from gangsched.options.backfill import Backfill, Reservation
from gangsched.framework.config.cycle_state import CycleState
from gangsched.options.preemption import Preemption
from gangsched.framework.config.profile import POINTS, Profile
from gangsched.options.scheduling_unit import PlacementStrategy, SchedulingUnit
from gangsched.framework.scheduler import Scheduler

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
