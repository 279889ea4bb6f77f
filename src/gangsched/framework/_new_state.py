"""The state of a scheduler before its first event, and what it was made from."""

from __future__ import annotations

from gangsched._core._queue import SchedulingQueue
from gangsched._core._quotas import QuotaLedger
from gangsched._core._registry import PodGroupRegistry
from gangsched.framework.config.backfill import Backfill
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.runtime.callbacks import Callbacks
from gangsched.framework.state.backfill_state import BackfillState
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pod_classes import PodClasses
from gangsched.framework.state.pods import Pods
from gangsched.framework.state.reservations import Reservations
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings

__all__ = ["config", "empty"]


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
