"""The scheduling framework: extension points, and the one loop that runs them."""

from __future__ import annotations

from gangsched.framework.backfill import Backfill, Reservation
from gangsched.framework.cycle_state import CycleState
from gangsched.framework.preemption import Preemption
from gangsched.framework.profile import POINTS, Profile
from gangsched.framework.scheduler import Scheduler
from gangsched.framework.unit import Layout, Unit

__all__ = [
    "POINTS",
    "Backfill",
    "CycleState",
    "Layout",
    "Preemption",
    "Profile",
    "Reservation",
    "Scheduler",
    "Unit",
]
