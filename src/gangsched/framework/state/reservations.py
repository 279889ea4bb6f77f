"""Nominations and the reservation of backfill: one of the owners of a scheduler's state.

Both withhold capacity of nodes from other entities. The amounts are in the ledger of the nodes;
here is which entity they are for, and why.

Invariants (checked by ``_check``):
  I1  each nomination is kept under the number of its entity, and nominates at least one pod;
  I2  no entry of the ledger belongs to two nominations, or to a nomination and the reservation.
"""

from __future__ import annotations

from typing import final

from attrs import define, field

from gangsched.errors import InternalError
from gangsched.framework.nodes.reserved_capacity import ReservedCapacity
from gangsched.framework.state.backfill_state import BackfillState
from gangsched.framework.state.nomination import Nomination
from gangsched.model import PodUID

__all__ = ["Reservations"]


@final
@define(eq=False)
class Reservations:
    """For which entities capacity is withheld.

    Attributes:
        nominations: The nominations, by the number of the entity.
        overdue: Victims that were not gone in time; no nomination counts on them any more.
        backfill: The gangs that qualify for a reservation, and the reservation.
    """

    nominations: dict[int, Nomination] = field(factory=dict[int, Nomination])
    overdue: set[PodUID] = field(factory=set[PodUID])
    backfill: BackfillState = field(factory=BackfillState)

    def entries(self) -> list[ReservedCapacity]:
        """Return the entries of the ledger that stand for these. O(pods + nodes)."""
        found = [each for one in self.nominations.values() for each in one.reserved]
        reservation = self.backfill.reservation
        return found if reservation is None else [*found, *reservation.capacity.values()]

    def _check(self) -> None:
        for seq, nomination in self.nominations.items():
            if nomination.entity.seq != seq or not nomination.pods:
                raise InternalError(
                    f"the nomination of entity {seq} has another entity, or no pods"
                )
        entries = self.entries()
        if len({id(each) for each in entries}) != len(entries):
            raise InternalError("an entry of reserved capacity stands for two purposes")
