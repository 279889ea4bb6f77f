"""The queue order: sort keys, and the comparator ``less`` defined by them.

The 2020 proposal compares the queue time of a regular pod with the failure time of a group. A
group that never failed has no failure time, so that comparison is not a total order. Here every
entity has one effective time.

Rules:
  R1  a key is computed when an entity is enqueued, and does not change while it is queued;
  R2  keys are strictly and totally ordered: no two entities have the same key;
  R3  the keys of the members of a group differ only in the last part, so that members are
      contiguous in the order;
  R4  ``less(a, b)`` is ``sort_key(a) < sort_key(b)``.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple, NoReturn, final

from attrs import Attribute, field, frozen

from gangsched.errors import InvalidValueError
from gangsched.model import Pod
from gangsched.protocols import EntityView, GroupView
from gangsched.values.fields import check_instant, check_whole, refuse_choice

__all__ = ["Order", "QueuedPod", "SortKey", "less", "sort_key"]


class Order(enum.Enum):
    """The time that orders entities of equal priority."""

    LAST_FAILURE = "last_failure"
    """The last failure of a group, or its creation before any; the queue time of a regular pod.

    A failed entity goes behind those that were created before its failure and not tried since.
    """
    CREATION = "creation"
    """The creation of the pod or the group, regardless of failures."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        refuse_choice(cls, "order", value)


class SortKey(NamedTuple):
    """A position in the queue; the smallest key is first.

    Attributes:
        negated_priority: The negated priority.
        at: The effective time, see ``Order``.
        kind: 0 for a regular pod, 1 for a group, so that at one instant a pod goes first.
        entity: The number of the pod or the group.
        member: The number of the member in order of arrival; 0 for a regular pod.
    """

    negated_priority: int
    at: float
    kind: int
    entity: int
    member: int


def _check_pod(_owner: object, attribute: Attribute[Any], value: object) -> None:
    if not isinstance(value, Pod):
        raise InvalidValueError(attribute.name, value, "a Pod")


@final
@frozen(kw_only=True)
class QueuedPod:
    """A pod with the attributes that ``less`` needs.

    Attributes:
        pod: The pod.
        seq: An ascending number, unique for each pod.
        queued_at: When the pod last entered the queue.
        group: The group; None for a regular pod.
    """

    pod: Pod = field(validator=_check_pod)
    seq: int = field(validator=check_whole)
    queued_at: float = field(validator=check_instant)
    group: GroupView | None = None

    @property
    def priority(self) -> int:
        """The priority of the pod; of a member, that of the group."""
        return self.pod.priority if self.group is None else self.group.priority

    @property
    def created_at(self) -> float:
        """The creation time of the pod; of a member, that of the group."""
        return self.pod.created_at if self.group is None else self.group.created_at


def sort_key(entity: EntityView, *, order: Order = Order.LAST_FAILURE) -> SortKey:
    """Return the sort key of a pod or a group.

    Runtime complexity: O(1).

    Args:
        entity: The pod or group.
        order: The time that orders entities of equal priority.

    Raises:
        InvalidValueError: *order* is not an ``Order``.
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
    else:  # a string, or invalid: checked last, because this function is called for every entity
        return sort_key(entity, order=Order(order))
    if group is None:
        return SortKey(-entity.priority, at, 0, entity.seq, 0)
    return SortKey(-entity.priority, at, 1, group.uid, entity.seq)


def less(a: EntityView, b: EntityView, *, order: Order = Order.LAST_FAILURE) -> bool:
    """Return whether *a* sorts before *b*; see ``sort_key``."""
    return sort_key(a, order=order) < sort_key(b, order=order)
