"""What the caller set when it made the scheduler; nothing here changes while the scheduler lives.

Rules:
  R1  the settings are given to a scheduler by its constructor. They are not part of a snapshot: a
      snapshot is restored into a scheduler with the same settings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from attrs import frozen

from gangsched._core._backoff import Backoff
from gangsched._core._quotas import Quota
from gangsched.membership import Membership
from gangsched.model import Pod
from gangsched.options.preemption import Preemption
from gangsched.options.scheduling_unit import PlacementStrategy, SchedulingUnit
from gangsched.profile import Profile
from gangsched.protocols import ClusterState

__all__ = ["Settings"]


@final
@frozen(eq=False)
class Settings:
    """The arguments of a scheduler, without the backfill policy and the grace of groups.

    The backfill policy is part of ``BackfillState``, the grace of groups of the registry.

    Attributes:
        cluster: What the scheduler reads the cluster from.
        profile: The plugins.
        membership: The function that returns the group of a pod.
        unit: Whether one scheduling cycle is about a pod or about a whole gang.
        placement: How gangs and single pods are placed.
        search_budget: The number of steps that the search for a placement of a gang may take.
        backoff: The backoff after a failed attempt.
        preemption: When pods and gangs may preempt others; None for never.
        strict_priorities: Whether a pod with another priority than its group is refused.
        can_evict: Whether the host performs evictions.
        quotas: How much the groups of some namespaces may request in total.
    """

    cluster: ClusterState
    profile: Profile
    membership: Callable[[Pod], Membership | None]
    unit: SchedulingUnit
    placement: PlacementStrategy
    search_budget: int
    backoff: Backoff
    preemption: Preemption | None = None
    strict_priorities: bool = False
    can_evict: bool = False
    quotas: tuple[Quota, ...] = ()
