"""A scheduler's memory with nothing in it.

Rules:
  R1  what is asked of plugins about nodes and places is asked with this memory, and no other.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from gangsched._core._backoff import Backoff
from gangsched._core._queue import SchedulingQueue
from gangsched._core._registry import PodGroupRegistry
from gangsched.framework.config.backfill import Backfill
from gangsched.framework.config.preemption import Preemption
from gangsched.framework.config.profile import Profile
from gangsched.framework.config.scheduling_unit import PlacementStrategy, SchedulingUnit
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.runtime import extension_points, signatures
from gangsched.framework.state.reservation_state import Reserving
from gangsched.framework.state.scheduler_state import State
from gangsched.membership import Membership
from gangsched.model import Pod
from gangsched.protocols import ClusterState, EntityView, NodeView, Rank

__all__ = ["config", "empty"]


def empty(
    cluster: ClusterState,
    profile: Profile,
    membership: Callable[[Pod], Membership | None],
    unit: SchedulingUnit,
    placement: PlacementStrategy,
    budget: int,
    rest: Backoff,
    grace: float,
    preemption: Preemption | None,
    backfill: Backfill | None,
) -> State:
    """Return a memory in which there is nothing yet."""

    def sign(view: NodeView) -> tuple[Hashable, ...] | None:
        return signatures.node_signature(state, view)

    def rank(entity: EntityView) -> Rank:
        return extension_points.queue_sort(state, entity)

    state = State(
        cluster=cluster,
        profile=profile,
        membership=membership,
        unit=unit,
        placement=placement,
        budget=budget,
        rest=rest,
        nodes=Nodes(cluster, sign, watches_pods=bool(profile.pod_readers)),
        queue=SchedulingQueue(rank),
        registry=PodGroupRegistry(grace),
        preemption=preemption,
        reserving=Reserving(backfill),
    )
    return state


def config(state: State) -> tuple[Any, ...]:
    """Return what a memory was made with, as ``empty`` takes it."""
    return (
        state.cluster,
        state.profile,
        state.membership,
        state.unit,
        state.placement,
        state.budget,
        state.rest,
        state.registry._grace,
        state.preemption,
        state.reserving.policy,
    )
