"""The state of a scheduler before its first event.

Rules:
  R1  the callbacks for node signatures and for the queue order belong to one state. So each state
      asks the plugins of its own profile.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, final

from gangsched._core._backoff import Backoff
from gangsched._core._queue import SchedulingQueue
from gangsched._core._registry import PodGroupRegistry
from gangsched.framework.config.backfill import Backfill
from gangsched.framework.config.preemption import Preemption
from gangsched.framework.config.profile import Profile
from gangsched.framework.config.scheduling_unit import PlacementStrategy, SchedulingUnit
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.runtime import extension_points, signatures
from gangsched.framework.state.pods import Pods
from gangsched.framework.state.reservation_state import BackfillState
from gangsched.framework.state.reservations import Reservations
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings
from gangsched.membership import Membership
from gangsched.model import Pod
from gangsched.protocols import ClusterState, EntityView, NodeView, Rank

__all__ = ["config", "empty"]


@final
class _Callbacks:
    """The questions that the node table and the queue of one state ask its plugins.

    A class and not two closures, because a fork copies objects with their attributes and shares
    functions; see ``gangsched.framework.what_if.copying``.
    """

    __slots__ = ("state",)

    state: State

    def sign(self, view: NodeView) -> tuple[Hashable, ...] | None:
        return signatures.node_signature(self.state, view)

    def rank(self, entity: EntityView) -> Rank:
        return extension_points.queue_sort(self.state, entity)


def empty(
    cluster: ClusterState,
    profile: Profile,
    membership: Callable[[Pod], Membership | None],
    unit: SchedulingUnit,
    placement: PlacementStrategy,
    search_budget: int,
    backoff: Backoff,
    grace: float,
    preemption: Preemption | None,
    backfill: Backfill | None,
) -> State:
    """Return a state without nodes, pods and groups."""
    callbacks = _Callbacks()
    settings = Settings(
        cluster, profile, membership, unit, placement, search_budget, backoff, preemption
    )
    state = State(
        settings=settings,
        nodes=Nodes(cluster, callbacks.sign, watches_pods=bool(profile.pod_readers)),
        queue=SchedulingQueue(callbacks.rank),
        pods=Pods(PodGroupRegistry(grace)),
        reservations=Reservations(backfill=BackfillState(backfill)),
    )
    callbacks.state = state
    return state


def config(state: State) -> tuple[Any, ...]:
    """Return the arguments with which ``empty`` made a state."""
    return (
        state.settings.cluster,
        state.settings.profile,
        state.settings.membership,
        state.settings.unit,
        state.settings.placement,
        state.settings.search_budget,
        state.settings.backoff,
        state.pods.registry._grace,
        state.settings.preemption,
        state.reservations.backfill.policy,
    )
