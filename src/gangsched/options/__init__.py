"""What a scheduler is told beside its plugins: unit, placement, preemption, quotas, levels."""

from __future__ import annotations

from gangsched.options.backfill import Backfill, Reservation
from gangsched.options.levels import Levels
from gangsched.options.preemption import Preemption, Reclaim
from gangsched.options.quota import Quota, ReclaimFrom
from gangsched.options.scheduling_unit import PlacementStrategy, SchedulingUnit

__all__ = [
    "Backfill",
    "Levels",
    "PlacementStrategy",
    "Preemption",
    "Quota",
    "Reclaim",
    "ReclaimFrom",
    "Reservation",
    "SchedulingUnit",
]
