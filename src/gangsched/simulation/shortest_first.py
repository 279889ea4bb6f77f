"""Shortest job first: whole gangs in the order of the run times that their pods carry.

It is a baseline: no scheduler knows run times exactly.
"""

from __future__ import annotations

import math

from gangsched import presets
from gangsched.coscheduling import Coscheduling
from gangsched.options import PlacementStrategy, Preemption, SchedulingUnit
from gangsched.options.levels import LevelsGiven
from gangsched.profile import Profile
from gangsched.protocols import ClusterState, EntityView, QueueSortKey
from gangsched.scheduler import Scheduler
from gangsched.simulation.workload import run_seconds

__all__ = ["shortest_first"]


class _ShortestFirst:
    """The gang policy with another order. It has no state, so that a scheduler can be forked."""

    name = "ShortestFirst"
    policy = Coscheduling()

    def queue_sort(self, entity: EntityView) -> QueueSortKey:
        seconds = run_seconds(entity.pod)
        length = math.inf if seconds is None else seconds
        return (-entity.priority, length, entity.created_at, entity.seq)

    def __getattr__(self, name: str) -> object:
        return getattr(self.policy, name)


def shortest_first(
    cluster: ClusterState,
    *,
    placement: PlacementStrategy = PlacementStrategy.AUTO,
    preemption: Preemption | None = None,
    levels: LevelsGiven = (),
) -> Scheduler:
    """Return a scheduler as ``presets.gang``, with the shortest job of a priority first.

    A job that does not fit is passed over, so long and wide jobs may starve.

    Args:
        cluster: The cluster state.
        placement: Which of the feasible nodes gangs and single pods are placed on.
        preemption: Whether pods and gangs may preempt lower priorities; None for never.
        levels: Which node labels nest, from the coarsest level to the finest; see ``Scheduler``.
    """
    _policy, *others = presets.coscheduling_profile().plugins
    return Scheduler(
        cluster,
        Profile(_ShortestFirst(), *others),
        unit=SchedulingUnit.GROUP,
        placement=placement,
        preemption=preemption,
        levels=levels,
    )
