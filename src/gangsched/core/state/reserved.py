"""The reservation in force, and what is remembered to make it.

Rules:
  R1  a gang qualifies for a reservation if its last attempt failed for lack of capacity, or that of
      a gang that asks for the same. A failure for another reason ends that;
  R2  a gang that failed although it was exempt from the reservation fails again until nodes gain
      capacity;
  R3  on each reserved node that part is held which returning pods do not supply, and never more
      than is free. It depends on the entry and on the pods that hold the node, and on nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import final

from attrs import Factory, define, field

from gangsched.core.nodes.hold import Hold
from gangsched.core.nodes.node_table import PODS, Needs
from gangsched.core.queue.demand import Demand
from gangsched.core.records import Guard, Records
from gangsched.core.records.gang import GangRecord, PodRecord
from gangsched.core.state.open_gangs import OpenGangs
from gangsched.model import PodUID
from gangsched.options.backfill import Backfill

__all__ = ["ActiveReservation", "Reserved", "ReservationState"]


@final
@define(eq=False)
class Reserved:
    """What is reserved on one node.

    Attributes:
        slot: The node.
        wanted: What the members need that start there.
        returning: The pods that will have left the node by then, as far as they have not yet.
        hold: What is held of it now; see R3.
    """

    slot: int
    wanted: dict[int, int]
    returning: dict[PodRecord, None]
    hold: Hold

    def add(self, needs: Needs) -> None:
        """Reserve the capacity of one more pod."""
        for number, amount in needs:
            self.wanted[number] = self.wanted.get(number, 0) + amount

    def held(self, records: Records) -> Needs:
        """Return what is to be held now. O(returning pods)."""
        amounts = dict(self.wanted)
        for record in list(self.returning):
            if record.slot != self.slot:
                del self.returning[record]
                continue
            for number, amount in record.needs:
                if number in amounts:
                    amounts[number] -= amount
        free, own = records.table.state_of[self.slot].free, self.hold
        before = {} if own.is_lent or own not in records.holds else dict(own.needs)
        return tuple(
            [
                (number, most)
                for number, amount in amounts.items()
                if (
                    most := amount
                    if number == PODS
                    else min(amount, free[number] + before.get(number, 0))
                )
                > 0
            ]
        )


@final
@define(eq=False)
class ActiveReservation:
    """The reservation in force.

    Attributes:
        gang: The gang.
        since: When the reservation was made.
        starts_at: The expected start of the gang; infinite if it is unknown.
        deadline: When the reservation is reviewed at the latest.
        ends: The expected end of each pod that holds a node and has a known one.
        reserved: What is reserved, by node.
        planned: The members that are needed for the start, each with its node.
        drained: If nodes are drained, the pods that will have left when the gang starts.
        guard: What keeps the plan valid.
        read: How much of the log of the node table the holds agree with.
    """

    gang: GangRecord
    since: float
    starts_at: float
    deadline: float
    ends: dict[PodUID, float]
    reserved: dict[int, Reserved]
    planned: tuple[tuple[PodRecord, int], ...] = ()
    drained: frozenset[PodUID] = frozenset()
    read: int = -1
    guard: Guard | None = None

    def is_gone(self, uid: PodUID) -> bool:
        """Return whether a pod will have left its node when the gang starts. O(1)."""
        if self.starts_at == math.inf:
            return uid in self.drained
        return self.ends.get(uid, math.inf) <= self.starts_at

    @property
    def holds(self) -> list[Hold]:
        """What is held. O(nodes)."""
        return [entry.hold for entry in self.reserved.values()]


@final
@define(eq=False)
class ReservationState:
    """What is remembered for backfill; empty if it is off.

    Attributes:
        policy: When capacity is reserved; None if backfill is off.
        qualified: The gangs that qualify for a reservation.
        drain_timeouts: How often nodes were drained for each of them until the time limit.
        infeasible: Those that would not fit on the empty cluster.
        open: The others: they may get a reservation, as far as is known.
        offers: What nodes offer that have changed since ``reopen``; None for one that is gone.
        current: The reservation in force; None if there is none.
        failed: The demands that failed although a gang of them was exempt, with the step.
        is_contested: Whether a gang of a higher priority may want the reservation.
        is_stale: Whether an event may have changed the expected start.
        is_drain_paused: Whether draining reached its time limit, and no event has come since.
        gave_up_at: How many events there were when it reached that limit: what was held until then
            is no event.
        has_no_candidate: Whether no gang that qualifies can get one, as far as is known.
        no_candidate_until: The instant at which that may change by itself.
        altered: How often nodes had changed when the reservation was made.
        is_cut: Whether the last look at it left gangs to the next one.
    """

    policy: Backfill | None = None
    qualified: dict[GangRecord, None] = field(factory=dict[GangRecord, None])
    drain_timeouts: dict[GangRecord, int] = field(factory=dict[GangRecord, int])
    infeasible: dict[GangRecord, None] = field(factory=dict[GangRecord, None])
    open: OpenGangs = field(
        init=False, default=Factory(lambda self: OpenGangs(self.drain_timeouts), takes_self=True)
    )
    offers: dict[tuple[int, ...] | None, None] = field(factory=dict[tuple[int, ...] | None, None])
    current: ActiveReservation | None = None
    failed: dict[Demand, int] = field(factory=dict[Demand, int])
    is_contested: bool = False
    is_stale: bool = False
    is_drain_paused: bool = False
    gave_up_at: int = -1
    has_no_candidate: bool = True
    no_candidate_until: float = math.inf
    altered: int = 0
    is_cut: bool = False

    def note_failed(self, gang: GangRecord, demand: Demand | None, step: int) -> None:
        """Note that an attempt failed: for lack of capacity if a demand is given. O(1)."""
        if self.policy is None:
            return
        current = self.current
        if demand is not None and current is not None and any(h.is_lent for h in current.holds):
            self.failed[demand] = step
        if demand is None:
            self.forget(gang)
        elif not gang.is_started:
            self.qualify(gang)

    def concerns(self, gang: GangRecord) -> bool:
        """Return whether a pending pod of a gang may be in the way of the plan. O(members)."""
        guard = None if self.current is None else self.current.guard
        return guard is not None and any(map(guard.concerns, gang.pending.values()))

    def note_parked(self, gang: GangRecord) -> None:
        """Note that a gang waits because one that asks for the same has failed. O(1)."""
        if self.policy is None or gang in self.qualified or gang.is_started:
            return
        self.qualify(gang)

    def qualify(self, gang: GangRecord) -> None:
        """Note that a gang qualifies for a reservation. O(1)."""
        self.qualified[gang] = None
        if gang not in self.infeasible:
            self.open.add(gang)
        self.has_no_candidate = False
        self.is_contested |= self._outranks(gang)

    def note_infeasible(self, gang: GangRecord) -> None:
        """Note that a gang would not fit on the empty cluster. O(log gangs)."""
        self.infeasible[gang] = None
        self.open.discard(gang)

    def note_node(self, offered: tuple[int, ...] | None) -> None:
        """Note what a node offers that has changed; None if it is gone. O(1)."""
        if self.policy is not None:
            self.offers[offered] = None

    def reopen(self) -> None:
        """Open the gangs that a node may help that has changed. O(infeasible x offers)."""
        offers, self.offers = self.offers, {}
        for gang in self.reopened(offers):
            del self.infeasible[gang]
            self.open.add(gang)

    def reopened(self, offers: Iterable[tuple[int, ...] | None]) -> list[GangRecord]:
        """Return which infeasible gangs a node may help. O(infeasible x offers)."""
        if not self.infeasible or not offers:
            return []
        return [gang for gang in self.infeasible if _may_help(gang.demand, offers)]

    def note_event(self, gang: GangRecord) -> None:
        """Note an event about a gang. O(1)."""
        if gang in self.infeasible:
            del self.infeasible[gang]
            self.open.add(gang)
            self.has_no_candidate = False
        if self.current is not None:
            self.is_stale |= self.current.gang is gang
            self.is_contested |= gang in self.qualified and self._outranks(gang)

    def note_gains(self, gains: dict[int, int], events: int) -> None:
        """Note that nodes may take more; see ``NodeTable.gains``. O(demands).

        Args:
            gains: The nodes, each with the step since which it could not.
            events: How many events there were.
        """
        least = min(gains.values())
        if not least:
            self.failed.clear()
            self.has_no_candidate = False
            self.is_drain_paused &= self.gave_up_at == events
        else:
            self.failed = {key: at for key, at in self.failed.items() if at <= least}

    def withhold(self, records: Records) -> None:
        """Hold what the reservation asks for by now; see R3. O(1) if no node has changed."""
        current, table = self.current, records.table
        if current is None or current.read == table.log_start + len(table.log):
            return
        for entry in current.reserved.values():
            if entry.hold in records.holds and not entry.hold.is_lent:
                records.resize(entry.hold, entry.held(records))
        current.read = table.log_start + len(table.log)

    def forget(self, gang: GangRecord) -> None:
        """Forget a gang that no longer qualifies for a reservation. O(demands that failed)."""
        if self.failed:
            self.failed = {demand: at for demand, at in self.failed.items() if demand.gangs}
        self.qualified.pop(gang, None)
        self.drain_timeouts.pop(gang, None)
        self.infeasible.pop(gang, None)
        self.open.discard(gang)
        if self.current is not None and self.current.gang is gang:
            self.is_stale = True

    def _outranks(self, gang: GangRecord) -> bool:
        if self.current is None or not self.current.gang.members:
            return False  # its groups may have joined other gangs
        return gang.priority > self.current.gang.priority


def _may_help(demand: Demand | None, offers: Iterable[tuple[int, ...] | None]) -> bool:
    """Return whether a pod of a demand may fit on an empty node that offers so much.

    Any change may help a gang that reads the pods on nodes: it may spread over fewer of them.
    """
    if demand is None or demand.reads_pods:
        return True
    least = demand.least.items()
    return any(o is not None and all(o[n] >= amount for n, amount in least) for o in offers)
