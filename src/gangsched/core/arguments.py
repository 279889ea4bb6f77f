"""The arguments of ``Scheduler``, checked and as settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from gangsched.core.state import SchedulerSettings
from gangsched.errors import InvalidValueError, ProfileError
from gangsched.membership import Membership
from gangsched.model import Pod
from gangsched.options.backfill import Backfill
from gangsched.options.levels import LevelsGiven, as_levels
from gangsched.options.preemption import Preemption
from gangsched.options.quota import Quota, as_quotas
from gangsched.options.scheduling_unit import PlacementStrategy, SchedulingUnit
from gangsched.primitives.backoff import Backoff
from gangsched.profile import Profile
from gangsched.protocols import ClusterState
from gangsched.quantity import is_seconds
from gangsched.values.checks import check_cluster

__all__ = ["checked_settings", "quotas_beside"]


def checked_settings(
    cluster: ClusterState,
    profile: Profile,
    *,
    membership: Callable[[Pod], Membership | None],
    unit: SchedulingUnit,
    placement: PlacementStrategy,
    search_budget: int,
    backoff: Backoff | None,
    preemption: Preemption | None,
    backfill: Backfill | None,
    group_grace: float,
    strict_priorities: bool,
    can_evict: bool | None,
    quotas: Iterable[Quota],
    history: float | None,
    levels: LevelsGiven,
) -> SchedulerSettings:
    """Return the arguments of a ``Scheduler`` as settings.

    Raises:
        InvalidValueError: An argument is malformed. The error names the argument and the value.
        ProfileError: A plugin says what the share of an account is, and so do weights of quotas.
    """
    _check(isinstance(profile, Profile), "profile", profile, "a Profile")
    is_backoff = backoff is None or isinstance(backoff, Backoff)
    _check(is_backoff, "backoff", backoff, "a Backoff or None")
    preempts = preemption is None or isinstance(preemption, Preemption)
    _check(preempts, "preemption", preemption, "a Preemption or None")
    fills = backfill is None or isinstance(backfill, Backfill)
    _check(fills, "backfill", backfill, "a Backfill or None")
    is_whole = SchedulingUnit(unit) is SchedulingUnit.GROUP
    strategy = PlacementStrategy(placement)  # refused with the unit "pod", too, which ignores it
    _check(backfill is None or is_whole, "backfill", backfill, "None if unit is 'pod'")
    lasts = is_seconds(group_grace) and group_grace >= 0
    _check(lasts, "group_grace", group_grace, "a finite number of seconds >= 0")
    is_flag = type(strict_priorities) is bool
    _check(is_flag, "strict_priorities", strict_priorities, "True or False")
    is_flag = can_evict is None or type(can_evict) is bool
    _check(is_flag, "can_evict", can_evict, "True, False or None")
    is_count = type(search_budget) is int and search_budget >= 0
    _check(is_count, "search_budget", search_budget, "an int >= 0")
    expected = "a function from a Pod to a Membership or None"
    _check(callable(membership), "membership", membership, expected)
    check_cluster(cluster)
    return SchedulerSettings(
        cluster=cluster,
        profile=profile,
        membership=membership,
        unit=SchedulingUnit(unit),
        placement=strategy if is_whole else PlacementStrategy.SCORE,
        search_budget=search_budget,
        backoff=backoff or Backoff(),
        preemption=preemption,
        backfill=backfill,
        group_grace=group_grace,
        strict_priorities=strict_priorities,
        can_evict=preemption is not None if can_evict is None else can_evict,
        quotas=quotas_beside(profile, quotas),
        history=_as_history(history),
        levels=as_levels(levels),
    )


def quotas_beside(profile: Profile, quotas: Iterable[Quota]) -> tuple[Quota, ...]:
    """Return quotas that a profile goes with.

    Raises:
        InvalidValueError: The quotas are malformed, or make up no trees.
        ProfileError: A plugin says what the share of an account is, and so do weights of quotas.
    """
    found = as_quotas(quotas)
    weighted = [quota.name for quota in found if quota.weight != 1.0]
    if weighted and callable(getattr(profile.queue_sort, "share", None)):
        raise ProfileError("share", f"expected no weights of quotas beside it, got {weighted}")
    return found


def _as_history(given: float | None) -> float | None:
    if given is not None:
        _check(is_seconds(given) and given > 0, "history", given, "a number > 0, or None")
    return given


def _check(holds: bool, name: str, value: Any, expected: str) -> None:
    if not holds:
        raise InvalidValueError(name, value, expected)
