"""The lines that everyone would write."""

from __future__ import annotations

from gangsched._core._backoff import Backoff
from gangsched._core._ordering import Order
from gangsched._core._quorum import MatchPolicy
from gangsched.coscheduling import Coscheduling, WhenBindFails, WhenBlocked
from gangsched.framework import (
    Backfill,
    PlacementStrategy,
    Preemption,
    Profile,
    Scheduler,
    SchedulingUnit,
)
from gangsched.membership import ungrouped
from gangsched.plugins import (
    DefaultBinder,
    NodeAffinity,
    NodeResources,
    NodeUnschedulable,
    PrioritySort,
    Strategy,
    TaintToleration,
)
from gangsched.protocols import ClusterState

__all__ = ["coscheduling", "coscheduling_profile", "default_profile", "gang", "pod_by_pod"]


def default_profile(*, strategy: Strategy = Strategy.LEAST_ALLOCATED) -> Profile:
    """Return kube-scheduler's defaults as far as they concern fitting: no gangs."""
    return Profile(PrioritySort(), *_placement(strategy))


def coscheduling_profile(
    policy: Coscheduling | None = None, *, strategy: Strategy = Strategy.LEAST_ALLOCATED
) -> Profile:
    """Return the defaults with the gang policy in the place of the priority sort."""
    return Profile(policy or Coscheduling(), *_placement(strategy))


def pod_by_pod(
    cluster: ClusterState,
    *,
    backoff: Backoff | None = None,
    preemption: Preemption | None = None,
) -> Scheduler:
    """Return a scheduler that knows no gangs: each pod goes when it fits."""
    return Scheduler(
        cluster, default_profile(), membership=ungrouped, backoff=backoff, preemption=preemption
    )


def coscheduling(
    cluster: ClusterState,
    *,
    permit_timeout: float = 10.0,
    order: Order = Order.LAST_FAILURE,
    when_blocked: WhenBlocked = WhenBlocked.UNTIL_OTHERS_TURN,
    reject_percentage: int = 0,
    match_policy: MatchPolicy = MatchPolicy.ONCE_SATISFIED,
    when_bind_fails: WhenBindFails = WhenBindFails.RETRY_MEMBER,
    unit: SchedulingUnit = SchedulingUnit.POD,
    backoff: Backoff | None = None,
    preemption: Preemption | None = None,
    backfill: Backfill | None = None,
) -> Scheduler:
    """Return a scheduler that starts gangs together or not at all, pod by pod with a permit.

    Args:
        cluster: The cluster state.
        permit_timeout: For how many seconds members that hold a node wait for the others.
        order: Which of the two published queue orders.
        when_blocked: What they do when the group cannot be completed as things stand.
        reject_percentage: See ``Coscheduling``.
        match_policy: Which members count for the quorum.
        when_bind_fails: What becomes of a group whose bind fails after it was let go.
        unit: Whether one decision is about a pod, or about a gang as a whole.
        backoff: How long what failed rests.
        preemption: Whether lower priorities may be displaced; None for never.
        backfill: With the unit ``group``, for whom room is reserved; None for nobody.
    """
    policy = Coscheduling(
        permit_timeout=permit_timeout,
        order=order,
        when_blocked=when_blocked,
        reject_percentage=reject_percentage,
        match_policy=match_policy,
        when_bind_fails=when_bind_fails,
    )
    return Scheduler(
        cluster,
        coscheduling_profile(policy),
        unit=unit,
        backoff=backoff,
        preemption=preemption,
        backfill=backfill,
    )


def gang(
    cluster: ClusterState,
    *,
    placement: PlacementStrategy = PlacementStrategy.AUTO,
    order: Order = Order.LAST_FAILURE,
    match_policy: MatchPolicy = MatchPolicy.ONCE_SATISFIED,
    when_bind_fails: WhenBindFails = WhenBindFails.RETRY_MEMBER,
    search_budget: int = 10_000,
    backoff: Backoff | None = None,
    preemption: Preemption | None = None,
    backfill: Backfill | None = None,
) -> Scheduler:
    """Return a scheduler that starts gangs together or not at all, a gang in one decision.

    No member ever waits on a node for the others.

    Args:
        cluster: The cluster state.
        placement: Where the members of a gang go.
        order: Which of the two published queue orders.
        match_policy: Which members count for the quorum.
        when_bind_fails: What becomes of a group whose bind fails after it was let go.
        search_budget: How many steps the search for a placement may take where placing one member
            after the other leaves too few.
        backoff: How long what failed rests.
        preemption: Whether lower priorities may be displaced; None for never.
        backfill: For whom room is reserved; None for nobody.
    """
    policy = Coscheduling(order=order, match_policy=match_policy, when_bind_fails=when_bind_fails)
    return Scheduler(
        cluster,
        coscheduling_profile(policy),
        unit=SchedulingUnit.GROUP,
        placement=placement,
        search_budget=search_budget,
        backoff=backoff,
        preemption=preemption,
        backfill=backfill,
    )


def _placement(strategy: Strategy) -> tuple[object, ...]:
    return (
        NodeUnschedulable(),
        TaintToleration(),
        NodeAffinity(),
        NodeResources(strategy),
        DefaultBinder(),
    )
