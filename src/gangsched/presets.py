"""Ready-made profiles and schedulers.

A plugin of your own is one argument::

    scheduler = presets.gang(cluster, plugins=[MyPlugin()])

It runs after the default plugins. Only at ``bind`` it runs before the default binder, because there
the first plugin that does not skip ends the point.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from gangsched.coscheduling import Coscheduling, WhenBindFails, WhenBlocked
from gangsched.errors import ProfileError
from gangsched.membership import ungrouped
from gangsched.options import Backfill, PlacementStrategy, Preemption, SchedulingUnit
from gangsched.options.levels import LevelsGiven
from gangsched.options.quota import Quota
from gangsched.plugins import (
    SYSTEM_DEFAULT_CONSTRAINTS,
    CountingTaintToleration,
    DefaultBinder,
    ImageLocality,
    InterPodAffinity,
    NodeAffinity,
    NodeDeclaredFeatures,
    NodePorts,
    NodeResources,
    NodeResourcesBalancedAllocation,
    NodeResourcesFit,
    NodeUnschedulable,
    NodeVolumeLimits,
    PodTopologySpread,
    PreferredInterPodAffinity,
    PreferredNodeAffinity,
    PrioritySort,
    ScoringPodTopologySpread,
    Strategy,
    TaintToleration,
    VolumeBinding,
    VolumeRestrictions,
    VolumeZone,
)
from gangsched.primitives.backoff import Backoff
from gangsched.primitives.ordering import Order
from gangsched.primitives.quorum import MatchPolicy
from gangsched.profile import Profile
from gangsched.protocols import ClusterState
from gangsched.scheduler import Scheduler

__all__ = [
    "KUBE_WEIGHTS",
    "coscheduling",
    "coscheduling_profile",
    "default_profile",
    "gang",
    "kube_default",
    "kube_default_profile",
    "pod_by_pod",
]

KUBE_WEIGHTS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "NodeResourcesFit": 1,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }
)
"""The weights of kube-scheduler's default profile."""


def default_profile(
    *,
    strategy: Strategy = Strategy.LEAST_ALLOCATED,
    plugins: Iterable[object] = (),
    weights: Mapping[str, int] | None = None,
) -> Profile:
    """Return the default filters and scores of kube-scheduler, without gangs.

    Args:
        strategy: Whether emptier or fuller nodes score higher.
        plugins: Further plugins. One with ``queue_sort`` replaces ``PrioritySort``.
        weights: By the name of a score plugin, its weight; 1 for the others.

    Raises:
        ProfileError: The profile cannot work.
    """
    added = _added(plugins)
    sorts = any(callable(getattr(plugin, "queue_sort", None)) for plugin in added)
    before = () if sorts else (PrioritySort(),)
    return Profile(*before, *_placement(strategy, added), weights=weights)


def kube_default_profile(
    policy: Coscheduling | None = None,
    *,
    plugins: Iterable[object] = (),
    weights: Mapping[str, int] | None = None,
) -> Profile:
    """Return the filters, scores and weights of kube-scheduler's default profile.

    Pods of one service or controller that state no spread constraint are spread, if the cluster
    state shows services and controllers in its ``objects``.

    The scores of a node depend on the other nodes, so a scheduling cycle costs O(nodes). The other
    presets have the same filters, and scores that do not.

    Args:
        policy: The gang policy, which orders the queue too; None for no gangs.
        plugins: Further plugins. Without *policy*, one with ``queue_sort`` replaces
            ``PrioritySort``.
        weights: By the name of a score plugin, its weight if it is not the default.

    Raises:
        ProfileError: The profile cannot work.
    """
    added = _added(plugins)
    sorts = any(callable(getattr(plugin, "queue_sort", None)) for plugin in added)
    first = (policy,) if policy is not None else () if sorts else (PrioritySort(),)
    return Profile(
        *first,
        NodeUnschedulable(),
        CountingTaintToleration(),
        PreferredNodeAffinity(),
        NodePorts(),
        NodeResourcesFit(),
        VolumeRestrictions(),
        NodeVolumeLimits(),
        VolumeBinding(),
        VolumeZone(),
        ScoringPodTopologySpread(SYSTEM_DEFAULT_CONSTRAINTS),
        PreferredInterPodAffinity(),
        NodeResourcesBalancedAllocation(),
        ImageLocality(),
        NodeDeclaredFeatures(),
        *added,
        DefaultBinder(),
        weights={**KUBE_WEIGHTS, **(weights or {})},
    )


def kube_default(
    cluster: ClusterState,
    *,
    policy: Coscheduling | None = None,
    unit: SchedulingUnit = SchedulingUnit.POD,
    plugins: Iterable[object] = (),
    weights: Mapping[str, int] | None = None,
    backoff: Backoff | None = None,
    preemption: Preemption | None = None,
) -> Scheduler:
    """Return a scheduler that places each pod where kube-scheduler would, members of gangs too.

    Args:
        cluster: The cluster state.
        policy: The gang policy; None to bind each pod as soon as it fits.
        unit: Whether one scheduling cycle is about a pod, or about a whole gang.
        plugins: Further plugins.
        weights: By the name of a score plugin, its weight if it is not the default.
        backoff: How long a failed pod or gang waits before its next attempt; None for the defaults.
        preemption: Whether pods and gangs may preempt lower priorities; None for never.
    """
    profile = kube_default_profile(policy, plugins=plugins, weights=weights)
    if policy is None:
        return Scheduler(
            cluster, profile, membership=ungrouped, backoff=backoff, preemption=preemption
        )
    return Scheduler(
        cluster,
        profile,
        unit=unit,
        placement=PlacementStrategy.SCORE,
        backoff=backoff,
        preemption=preemption,
    )


def coscheduling_profile(
    policy: Coscheduling | None = None,
    *,
    strategy: Strategy = Strategy.LEAST_ALLOCATED,
    plugins: Iterable[object] = (),
    weights: Mapping[str, int] | None = None,
) -> Profile:
    """Return the default filters and scores with the gang policy.

    Args:
        policy: The gang policy, which orders the queue too; None for its defaults.
        strategy: Whether emptier or fuller nodes score higher.
        plugins: Further plugins, without ``queue_sort``.
        weights: By the name of a score plugin, its weight; 1 for the others.

    Raises:
        ProfileError: The profile cannot work.
    """
    added = _added(plugins)
    return Profile(policy or Coscheduling(), *_placement(strategy, added), weights=weights)


def pod_by_pod(
    cluster: ClusterState,
    *,
    plugins: Iterable[object] = (),
    weights: Mapping[str, int] | None = None,
    backoff: Backoff | None = None,
    preemption: Preemption | None = None,
) -> Scheduler:
    """Return a scheduler without gangs: each pod is bound as soon as it fits.

    Args:
        cluster: The cluster state.
        plugins: Further plugins. One with ``queue_sort`` replaces ``PrioritySort``.
        weights: By the name of a score plugin, its weight; 1 for the others.
        backoff: How long a failed pod waits before its next attempt; None for the defaults.
        preemption: Whether pods may preempt pods of lower priority; None for never.
    """
    return Scheduler(
        cluster,
        default_profile(plugins=plugins, weights=weights),
        membership=ungrouped,
        backoff=backoff,
        preemption=preemption,
    )


def coscheduling(
    cluster: ClusterState,
    *,
    permit_timeout: float = 10.0,
    order: Order = Order.LAST_FAILURE,
    when_blocked: WhenBlocked = WhenBlocked.UNTIL_OTHERS_TURN,
    reject_percentage: int = 0,
    match_policy: MatchPolicy = MatchPolicy.ONCE_SATISFIED,
    when_bind_fails: WhenBindFails = WhenBindFails.RELEASE_AFTER_RETRIES,
    bind_retries: int = 3,
    minima_first: bool = False,
    unit: SchedulingUnit = SchedulingUnit.POD,
    plugins: Iterable[object] = (),
    weights: Mapping[str, int] | None = None,
    backoff: Backoff | None = None,
    preemption: Preemption | None = None,
    backfill: Backfill | None = None,
    strict_priorities: bool = False,
    can_evict: bool | None = None,
    quotas: Iterable[Quota] = (),
    history: float | None = None,
    levels: LevelsGiven = (),
) -> Scheduler:
    """Return a scheduler that releases a gang as a whole, and places it pod by pod with a permit.

    Args:
        cluster: The cluster state.
        permit_timeout: The longest wait on permit, in seconds, of members with a node.
        order: Which of the two published queue orders; both put a higher priority first. Among
            equals, one that failed goes behind the others by default; with ``Order.CREATION`` the
            oldest goes first.
        when_blocked: What waiting members do while the group cannot be completed.
        reject_percentage: See ``Coscheduling``.
        match_policy: Which members count for the quorum.
        when_bind_fails: What happens to a released group if a bind fails.
        bind_retries: How often a bind is retried before the rest of its group is evicted; see
            ``Coscheduling``.
        minima_first: Whether elastic members go behind the minima of other gangs; see
            ``Coscheduling``.
        unit: Whether one scheduling cycle is about a pod, or about a whole gang.
        plugins: Further plugins, without ``queue_sort``: the policy orders the queue.
        weights: By the name of a score plugin, its weight; 1 for the others.
        backoff: How long a failed pod or gang waits before its next attempt; None for the defaults.
        preemption: Whether pods and gangs may preempt lower priorities; None for never.
        backfill: With the unit ``group``, which gang gets a reservation; None for no reservations.
        strict_priorities: Whether a pod with another priority than its group is refused. If not,
            the priority of the group decides.
        can_evict: Whether the host performs evictions; see ``Scheduler``.
        quotas: How much pods may request in total; see ``Quota``.
        history: How long the past counts for the shares of queues; see ``Scheduler``.
        levels: Which node labels nest, from the coarsest level to the finest; see ``Scheduler``.
    """
    policy = Coscheduling(
        permit_timeout=permit_timeout,
        order=order,
        when_blocked=when_blocked,
        reject_percentage=reject_percentage,
        match_policy=match_policy,
        when_bind_fails=when_bind_fails,
        bind_retries=bind_retries,
        minima_first=minima_first,
    )
    return Scheduler(
        cluster,
        coscheduling_profile(policy, plugins=plugins, weights=weights),
        unit=unit,
        backoff=backoff,
        preemption=preemption,
        backfill=backfill,
        strict_priorities=strict_priorities,
        can_evict=can_evict,
        quotas=quotas,
        history=history,
        levels=levels,
    )


def gang(
    cluster: ClusterState,
    *,
    placement: PlacementStrategy = PlacementStrategy.AUTO,
    order: Order = Order.LAST_FAILURE,
    match_policy: MatchPolicy = MatchPolicy.ONCE_SATISFIED,
    when_bind_fails: WhenBindFails = WhenBindFails.RELEASE_AFTER_RETRIES,
    bind_retries: int = 3,
    minima_first: bool = False,
    search_budget: int = 10_000,
    plugins: Iterable[object] = (),
    weights: Mapping[str, int] | None = None,
    backoff: Backoff | None = None,
    preemption: Preemption | None = None,
    backfill: Backfill | None = None,
    strict_priorities: bool = False,
    can_evict: bool | None = None,
    quotas: Iterable[Quota] = (),
    history: float | None = None,
    levels: LevelsGiven = (),
) -> Scheduler:
    """Return a scheduler that places and releases a gang in one scheduling cycle.

    No member ever holds a node while it waits for its siblings.

    Args:
        cluster: The cluster state.
        placement: Which of the feasible nodes gangs and single pods are placed on.
        order: Which of the two published queue orders; both put a higher priority first. Among
            equals, one that failed goes behind the others by default; with ``Order.CREATION`` the
            oldest goes first.
        match_policy: Which members count for the quorum.
        when_bind_fails: What happens to a released group if a bind fails.
        bind_retries: How often a bind is retried before the rest of its group is evicted; see
            ``Coscheduling``.
        minima_first: Whether elastic members go behind the minima of other gangs; see
            ``Coscheduling``.
        search_budget: The number of steps of the search for a placement. The search runs if
            placing one member after the other leaves too few members placed.
        plugins: Further plugins, without ``queue_sort``: the policy orders the queue.
        weights: By the name of a score plugin, its weight; 1 for the others.
        backoff: How long a failed pod or gang waits before its next attempt; None for the defaults.
        preemption: Whether pods and gangs may preempt lower priorities; None for never.
        backfill: Which gang gets a reservation; None for no reservations.
        strict_priorities: Whether a pod with another priority than its group is refused. If not,
            the priority of the group decides.
        can_evict: Whether the host performs evictions; see ``Scheduler``.
        quotas: How much pods may request in total; see ``Quota``.
        history: How long the past counts for the shares of queues; see ``Scheduler``.
        levels: Which node labels nest, from the coarsest level to the finest; see ``Scheduler``.
    """
    policy = Coscheduling(
        order=order,
        match_policy=match_policy,
        when_bind_fails=when_bind_fails,
        bind_retries=bind_retries,
        minima_first=minima_first,
    )
    return Scheduler(
        cluster,
        coscheduling_profile(policy, plugins=plugins, weights=weights),
        unit=SchedulingUnit.GROUP,
        placement=placement,
        search_budget=search_budget,
        backoff=backoff,
        preemption=preemption,
        backfill=backfill,
        strict_priorities=strict_priorities,
        can_evict=can_evict,
        quotas=quotas,
        history=history,
        levels=levels,
    )


def _added(plugins: Iterable[object]) -> tuple[object, ...]:
    """Return further plugins; a single plugin, which is easily given by mistake, is refused."""
    try:
        return tuple(plugins)
    except TypeError:
        expected = "expected a sequence of plugins"
        raise ProfileError("plugins", f"{plugins!r} is not iterable, {expected}") from None


def _placement(strategy: Strategy, added: tuple[object, ...]) -> tuple[object, ...]:
    return (
        NodeUnschedulable(),
        TaintToleration(),
        NodeAffinity(),
        NodePorts(),
        NodeResources(strategy),
        VolumeRestrictions(),
        NodeVolumeLimits(),
        VolumeBinding(),
        VolumeZone(),
        PodTopologySpread(),
        InterPodAffinity(),
        NodeDeclaredFeatures(),
        *added,
        DefaultBinder(),  # last, since it never skips
    )
