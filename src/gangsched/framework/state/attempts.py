"""Attempts to place the queued entities: one of the owners of a scheduler's state.

A step is one decision or one event. Steps are an order of causes, not of time: what failed before a
step may be tried again because of it.

Invariants (checked by ``_check``):
  I1  nothing began at a step that is still to come;
  I2  a group that gives way to another entity has members that wait on permit.
"""

from __future__ import annotations

from typing import final

from attrs import define, field

from gangsched._core._entity import QueuedEntity
from gangsched.errors import InternalError
from gangsched.model import GroupKey

__all__ = ["Attempts"]


@final
@define(eq=False)
class Attempts:
    """What was tried, and which attempts are under way.

    Attributes:
        step: The number of the current step. It ascends with each decision and each event.
        tried: The entities of which a member was tried in the current attempt, by number.
        waiting_since: The groups with members that wait on permit, and the step since when.
        giving_way: The groups that are rejected when another entity is next, with the reason.
        exhausted_searches: How many searches for a placement ended with their budget.
        search_steps: How many steps such searches took, since this object was made.
    """

    step: int = 0
    tried: dict[int, QueuedEntity] = field(factory=dict[int, QueuedEntity])
    waiting_since: dict[GroupKey, int] = field(factory=dict[GroupKey, int])
    giving_way: dict[GroupKey, str] = field(factory=dict[GroupKey, str])
    exhausted_searches: int = 0
    search_steps: int = 0

    def tick(self) -> int:
        """Begin a step; return its number. O(1)."""
        self.step += 1
        return self.step

    def _check(self) -> None:
        for seq, entity in self.tried.items():
            if entity.seq != seq:
                raise InternalError(f"entity {entity.seq} is kept as tried under {seq}")
            if not 0 <= entity.tried_step <= self.step:
                raise InternalError(
                    f"entity {seq}: tried_step is {entity.tried_step},"
                    f" the current step is {self.step}"
                )
        for key, since in self.waiting_since.items():
            if since > self.step:
                raise InternalError(f"{key} holds nodes since step {since} > {self.step}")
        for key in self.giving_way:
            if key not in self.waiting_since:
                raise InternalError(f"{key} gives way, and no member of it waits on permit")
