"""The queue order: a key first, a comparator second.

Rules:
  R1  a key is made once, when an entity is enqueued, and never changes while it is queued;
  R2  keys are strictly and totally ordered: two entities never share one;
  R3  the members of a group differ only in the last part of their keys, so in any order of keys
      they are contiguous;
  R4  ``less(a, b)`` is ``sort_key(a) < sort_key(b)``, nothing else.

The 2020 proposal compares a regular pod's queue time with a group's failure time, and a group
that never failed has none. Here every entity has one effective time, so the order is an order.
"""

from __future__ import annotations

import enum
from typing import NamedTuple, NoReturn, final

from attrs import frozen

from gangsched._fields import refuse_choice
from gangsched.model import Pod
from gangsched.protocols import EntityView, GroupView

__all__ = ["Order", "QueuedPod", "SortKey", "less", "sort_key"]


class Order(enum.Enum):
    """Which time orders entities of one priority."""

    LAST_FAILURE = "last_failure"
    """A group's last failure, or its creation before any; a regular pod's last enqueueing.

    Who failed goes behind everybody who has not been tried since.
    """
    CREATION = "creation"
    """The creation of the pod or the group, however often it failed."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        refuse_choice(cls, "order", value)


class SortKey(NamedTuple):
    """A place in the queue; smaller goes first.

    Attributes:
        rank: The negated priority.
        at: The effective time, see ``Order``.
        kind: 0 for a regular pod, 1 for a group: at one instant the pod goes first.
        entity: The number of the pod or the group.
        member: The number of a group's member in order of arrival; 0 for a regular pod.
    """

    rank: int
    at: float
    kind: int
    entity: int
    member: int


@final
@frozen(kw_only=True)
class QueuedPod:
    """A pod as the queue sees it: the least that ``less`` needs.

    Attributes:
        pod: The pod.
        seq: An ascending number: no two pods share one.
        queued_at: When it last came into the queue; its creation by default.
        group: Its group; None for a regular pod.
    """

    pod: Pod
    seq: int
    queued_at: float
    group: GroupView | None = None

    @property
    def priority(self) -> int:
        """Of a member, its group's."""
        return self.pod.priority if self.group is None else self.group.priority

    @property
    def created_at(self) -> float:
        """Of a member, its group's."""
        return self.pod.created_at if self.group is None else self.group.created_at


def sort_key(entity: EntityView, *, order: Order = Order.LAST_FAILURE) -> SortKey:
    """Return the place of a pod or a group in the queue.

    Runtime complexity: O(1); reads nothing but the entity and its group.

    Args:
        entity: What is to be enqueued.
        order: Which of the two published orders.

    Raises:
        InvalidValueError: *order* is neither.
    """
    group = entity.group
    if order is Order.LAST_FAILURE:
        if group is None:
            at = entity.queued_at
        else:
            failed = group.last_failure_at
            at = entity.created_at if failed is None else failed
    elif order is Order.CREATION:
        at = entity.created_at
    else:  # its word, or none: looked at last, as this is asked for every entity
        return sort_key(entity, order=Order(order))
    if group is None:
        return SortKey(-entity.priority, at, 0, entity.seq, 0)
    return SortKey(-entity.priority, at, 1, group.uid, entity.seq)


def less(a: EntityView, b: EntityView, *, order: Order = Order.LAST_FAILURE) -> bool:
    """Say whether *a* goes before *b*; see ``sort_key``."""
    return sort_key(a, order=order) < sort_key(b, order=order)
