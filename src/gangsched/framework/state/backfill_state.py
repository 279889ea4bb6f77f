"""The state of backfill: gangs that qualify for a reservation, and the reservation in force.

Rules:
  R1  a gang qualifies for a reservation if its last attempt failed for lack of capacity; a
      gang whose last attempt failed for another reason does not;
  R2  an entity that failed although it was exempt from the reservation fails again until nodes
      gain capacity.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import final

from attrs import define, field

from gangsched._core._entity import QueuedEntity
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.plan_guard import PlanGuard
from gangsched.framework.nodes.reserved_capacity import ReservedCapacity
from gangsched.framework.state.candidates import Candidates
from gangsched.model import GroupKey, NodeName, PodUID
from gangsched.options.backfill import Backfill

__all__ = ["ActiveReservation", "BackfillState"]


@final
@define(eq=False)
class ActiveReservation:
    """The reservation in force.

    Attributes:
        entity: The gang; of a bundle, the group that is queued for all.
        key: Its key.
        since: When the reservation was made.
        starts_at: The expected start of the gang; infinite if it is unknown.
        deadline: When the reservation is reviewed at the latest.
        ends: The expected end of each pod that holds a node and has a known one.
        capacity: The reserved capacity, by node.
        planned: The members that are needed for the start, each with its node, in the order in
            which they were planned.
        drained: If nodes are drained, the pods that will have left when the gang starts. Otherwise
            these follow from *ends*.
        guard: What keeps the plan valid; set when the reservation is made.
    """

    entity: QueuedEntity
    key: GroupKey
    since: float
    starts_at: float
    deadline: float
    ends: dict[PodUID, float]
    capacity: dict[NodeName, ReservedCapacity] = field(factory=dict[NodeName, ReservedCapacity])
    planned: tuple[tuple[PodUID, NodeName], ...] = ()
    drained: frozenset[PodUID] = frozenset()
    guard: PlanGuard = field(init=False)

    def is_gone(self, uid: PodUID) -> bool:
        """Return whether a pod will have left its node when the gang starts. O(1)."""
        if self.starts_at == math.inf:
            return uid in self.drained
        return self.ends.get(uid, math.inf) <= self.starts_at

    def is_left_out(self, nodes: Nodes) -> bool:
        """Return whether the nodes are those that an exempt entity sees. O(1) as a rule."""
        for name, entry in self.capacity.items():
            info = nodes.infos.get(name)
            if info is not None:
                return entry not in info.expected
        return False


@final
@define(eq=False)
class BackfillState:
    """The state of backfill; empty if backfill is off.

    Attributes:
        policy: When capacity is reserved; None if backfill is off.
        qualified: The gangs that qualify for a reservation.
        drain_timeouts: How often nodes were drained for each of them until the time limit.
        infeasible: The gangs that would not fit on the empty cluster, each with the value that
            ``Nodes.altered`` had then.
        candidates: The gangs of *qualified* in the order in which they are considered.
        reservation: The reservation in force; None if there is none.
        failed: The equivalence classes that failed although they were exempt, with the step.
        gained: Whether nodes gained capacity since the gang was last considered.
        is_contested: Whether a gang of a higher priority may want the reservation.
        is_stale: Whether an event may have changed the expected start.
        is_drain_paused: Whether draining reached its time limit, and no event has come since.
        has_no_candidate: Whether no gang that qualifies for a reservation can get one, as far as is
            known.
        no_candidate_until: The instant at which that may change by itself.
        altered: ``Nodes.altered`` when the reservation was made.
    """

    policy: Backfill | None = None
    qualified: dict[GroupKey, None] = field(factory=dict[GroupKey, None])
    drain_timeouts: dict[GroupKey, int] = field(factory=dict[GroupKey, int])
    infeasible: dict[GroupKey, int] = field(factory=dict[GroupKey, int])
    candidates: Candidates = field(factory=Candidates)
    reservation: ActiveReservation | None = None
    failed: dict[Hashable, int] = field(factory=dict[Hashable, int])
    gained: bool = False
    is_contested: bool = False
    is_stale: bool = False
    is_drain_paused: bool = False
    has_no_candidate: bool = True
    no_candidate_until: float = math.inf
    altered: int = 0

    def __len__(self) -> int:
        """Return the number of entries in all containers."""
        return (
            len(self.qualified)
            + len(self.drain_timeouts)
            + len(self.infeasible)
            + len(self.candidates)
            + len(self.failed)
            + (self.reservation is not None)
        )

    def note_rejected(
        self,
        entity: QueuedEntity,
        equivalence_class: Hashable,
        step: int,
        nodes: Nodes,
        *,
        lacks_capacity: bool,
    ) -> None:
        """Record that an attempt failed. O(1).

        Args:
            entity: The entity that was tried.
            equivalence_class: Its equivalence class.
            step: The step as of which this class is known to fail; -1 if that is unknown.
            nodes: The nodes, as the entity saw them.
            lacks_capacity: Whether too few of its members fit on the nodes.
        """
        if self.policy is None:
            return
        reservation = self.reservation
        if step >= 0 and reservation is not None and reservation.is_left_out(nodes):
            self.failed[equivalence_class] = step
        group = entity.group
        if group is None:
            return
        if not lacks_capacity:
            self.forget(group.key)
        elif not group.was_scheduled:
            self.qualified[group.key] = None
            self.candidates.note(group.key)
            self.has_no_candidate = False
            self.is_contested |= self._outranks(entity)

    def note_event(self, entity: QueuedEntity) -> None:
        """Record an event about an entity. O(1)."""
        if self.policy is None or entity.group is None:
            return
        entity.expected_run = None
        key, reservation = entity.group.key, self.reservation
        if self.infeasible.pop(key, None) is not None:
            self.has_no_candidate = False
        if key in self.qualified:
            self.candidates.note(key)
        if reservation is not None and reservation.entity.group is not None:
            spec = reservation.entity.group.spec
            bundled = spec is not None and key in spec.bundle
            self.is_stale |= reservation.entity is entity or bundled
            self.is_contested |= key in self.qualified and self._outranks(entity)

    def _outranks(self, entity: QueuedEntity) -> bool:
        reservation = self.reservation
        return reservation is not None and entity.priority > reservation.entity.priority

    def note_capacity_gain(self, since: int | None, disproved: Hashable) -> None:
        """Record that nodes gained capacity; see ``requeue.gain``. O(equivalence classes)."""
        if self.policy is None:
            return
        self.gained = True
        if since is None:
            self.failed.clear()
            self.is_drain_paused = self.has_no_candidate = False
            return
        for equivalence_class in [
            s for s, at in self.failed.items() if at >= since and s != disproved
        ]:
            del self.failed[equivalence_class]

    def forget(self, key: GroupKey) -> None:
        """Forget a gang that no longer qualifies for a reservation. O(1)."""
        self.qualified.pop(key, None)
        self.drain_timeouts.pop(key, None)
        self.infeasible.pop(key, None)
        self.candidates.drop(key)
        if self.reservation is not None and self.reservation.key == key:
            self.is_stale = True
