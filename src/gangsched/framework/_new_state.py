"""The state of a scheduler before its first event, and the arguments that it is made from."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gangsched._checks import check_cluster
from gangsched._core._backoff import Backoff
from gangsched._core._queue import SchedulingQueue
from gangsched._core._quotas import Quota, QuotaLedger, as_quotas
from gangsched._core._registry import PodGroupRegistry
from gangsched.errors import InvalidValueError
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.runtime.callbacks import Callbacks
from gangsched.framework.state.backfill_state import BackfillState
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pod_classes import PodClasses
from gangsched.framework.state.pods import Pods
from gangsched.framework.state.reservations import Reservations
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings
from gangsched.membership import Membership
from gangsched.model import Pod
from gangsched.options.backfill import Backfill
from gangsched.options.preemption import Preemption
from gangsched.options.scheduling_unit import PlacementStrategy, SchedulingUnit
from gangsched.profile import Profile
from gangsched.protocols import ClusterState
from gangsched.quantity import is_seconds

__all__ = ["checked_settings", "config", "empty"]


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
) -> Settings:
    """Return the arguments of a ``Scheduler``, checked, as settings.

    Raises:
        InvalidValueError: An argument is malformed. The error names the argument and the value.
    """
    if not isinstance(profile, Profile):
        raise InvalidValueError("profile", profile, "a Profile")
    if backoff is not None and not isinstance(backoff, Backoff):
        raise InvalidValueError("backoff", backoff, "a Backoff or None")
    if preemption is not None and not isinstance(preemption, Preemption):
        raise InvalidValueError("preemption", preemption, "a Preemption or None")
    if backfill is not None and not isinstance(backfill, Backfill):
        raise InvalidValueError("backfill", backfill, "a Backfill or None")
    if backfill is not None and SchedulingUnit(unit) is not SchedulingUnit.GROUP:
        raise InvalidValueError("backfill", backfill, "None if unit is 'pod'")
    if not is_seconds(group_grace) or group_grace < 0:
        raise InvalidValueError("group_grace", group_grace, "a finite number of seconds >= 0")
    if type(strict_priorities) is not bool:
        raise InvalidValueError("strict_priorities", strict_priorities, "True or False")
    if can_evict is not None and type(can_evict) is not bool:
        raise InvalidValueError("can_evict", can_evict, "True, False or None")
    if type(search_budget) is not int or search_budget < 0:
        raise InvalidValueError("search_budget", search_budget, "an int >= 0")
    if not callable(membership):
        expected = "a function from a Pod to a Membership or None"
        raise InvalidValueError("membership", membership, expected)
    check_cluster(cluster)
    return Settings(
        cluster,
        profile,
        membership,
        SchedulingUnit(unit),
        PlacementStrategy(placement),
        search_budget,
        Backoff() if backoff is None else backoff,
        preemption,
        strict_priorities,
        preemption is not None if can_evict is None else can_evict,
        as_quotas(quotas),
    )


def empty(settings: Settings, grace: float, backfill: Backfill | None) -> State:
    """Return a state without nodes, pods and groups.

    Args:
        settings: What the caller set.
        grace: The number of seconds for which a group without members is remembered.
        backfill: When capacity is reserved; None for never.
    """
    pod_classes, call = PodClasses(), CurrentCall()
    callbacks = Callbacks(settings, pod_classes, call)
    carried = callbacks.carried if settings.profile.affecting else None
    changing = tuple(n for n, _plugin in settings.profile.signers_of_capacity)
    return State(
        settings=settings,
        nodes=Nodes(
            settings.cluster,
            callbacks.sign,
            callbacks.sign_after,
            carried=carried,
            changing=changing,
            signs_allocatable=settings.profile.signs_allocatable,
        ),
        queue=SchedulingQueue(callbacks.sort_key),
        pods=Pods(
            PodGroupRegistry(grace, strict_priorities=settings.strict_priorities),
            quotas=QuotaLedger(settings.quotas),
        ),
        reservations=Reservations(backfill=BackfillState(backfill)),
        pod_classes=pod_classes,
        call=call,
    )


def config(
    settings: Settings, pods: Pods, reservations: Reservations
) -> tuple[Settings, float, Backfill | None]:
    """Return the arguments with which ``empty`` made a state."""
    return settings, pods.registry._grace, reservations.backfill.policy
