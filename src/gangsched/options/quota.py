"""Quotas: how much pods may request in total, alone and as a tree of queues that lend and borrow.

A quota with ``hard`` alone caps what the pods of some namespaces request. A quota with ``nominal``,
``parent`` or ``weight`` is a *queue*: each pod is in one at the most. See
``gangsched.core.records.account_tree`` for what a queue may take.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn, final

from attrs import Attribute, field, frozen

from gangsched.errors import InvalidValueError
from gangsched.model import Resources
from gangsched.resources import NOTHING, with_zeros
from gangsched.values.fields import (
    as_resources,
    as_tuple,
    check_amounts,
    check_text,
    refuse_choice,
)
from gangsched.values.hints import hint
from gangsched.values.reprs import pretty_repr, short_repr

__all__ = [
    "EXCEEDED",
    "NO_QUEUE",
    "PARENT_QUEUE",
    "TOO_LARGE",
    "Quota",
    "ReclaimFrom",
    "as_quotas",
]

EXCEEDED: Final = "exceeded quota "
"""How the reason of a group begins that waits for a quota, as in Kubernetes."""
NO_QUEUE: Final = "queue {} does not exist"
"""The reason of a group that names a queue which does not exist."""
PARENT_QUEUE: Final = "queue {} has queues below it"
"""The reason of a group that names a queue which is a parent."""
TOO_LARGE: Final = "; it is more than the whole quota"
"""How the reason of a group ends that no end of another group would help."""


class ReclaimFrom(enum.Enum):
    """From whom the pods of a queue reclaim what its siblings borrow."""

    ANY = "Any"
    """From pods of any priority."""
    LOWER_OR_EQUAL = "LowerOrEqualPriority"
    LOWER = "LowerPriority"
    NEVER = "Never"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        refuse_choice(cls, "reclaim_from", value)


def _as_names(given: Iterable[str]) -> tuple[str, ...]:
    return as_tuple(given)


def _as_limits(given: Resources | Mapping[str, str | int]) -> Resources:
    """Convert to amounts in which a limit of zero is named."""
    found = as_resources(given)
    is_read = isinstance(found, Resources) and found is not given
    return with_zeros(found, given) if is_read else found


def _as_some(given: Resources | Mapping[str, str | int] | None) -> Resources | None:
    return None if given is None else _as_limits(given)


def _check_namespaces(_owner: object, _attribute: object, value: Any) -> None:
    given: object = value
    is_read = isinstance(given, tuple)
    names: list[Any] = [*value] if is_read else []
    if not is_read or not all(isinstance(name, str) and name for name in names):
        raise InvalidValueError("namespaces", value, "a sequence of namespaces")


def _check_some(owner: object, attribute: Attribute[Any], value: Resources | None) -> None:
    if value is not None:
        check_amounts(owner, attribute, value)


def _check_parent(_owner: object, _attribute: object, value: Any) -> None:
    if value is not None and not (isinstance(value, str) and value):
        raise InvalidValueError("parent", value, "the name of a quota, or None")


def _check_weight(_owner: object, _attribute: object, value: Any) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and math.isfinite(value) and value >= 0):
        raise InvalidValueError("weight", value, "a finite number >= 0")


@final
@frozen(kw_only=True)
class Quota:
    """How much pods may request in total: a cap of namespaces, or a queue in a tree of queues.

    Attributes:
        name: The name, a non-empty string; reasons name it.
        namespaces: The namespaces whose pods count. A namespace may have several caps, and is in
            one queue. Empty for a queue that pods name (``Pod.queue``), and for a parent.
        hard: What all pods that count may request, of each resource; 0 if they may request none.
            Other resources are not limited. It is never passed.
        parent: The name of the quota above; None for a root. Roots lend each other nothing.
        nominal: What a queue has by itself, of each resource. What it does not use is lent within
            the tree. Of a parent, it is beside that of its children. A resource that only other
            queues of the tree name is nominally 0; one that no queue names is not limited. None for
            a queue without a part in that: only ``hard`` limits it.
        borrow: How much a queue uses beyond its nominal, at the most; no limit for a resource that
            is not named.
        lend: How much of its nominal others may use; all of it for a resource that is not named.
        weight: What the share of a queue is divided by; queues of weight 0 are last.
        reclaim_from: From whom its pods reclaim; see ``Preemption.reclaim``.

    Raises:
        InvalidValueError: A value is malformed. The error names the attribute and the value.
    """

    name: str = field(validator=check_text)
    namespaces: tuple[str, ...] = field(
        default=(), converter=_as_names, validator=_check_namespaces
    )
    hard: Resources = field(default=NOTHING, converter=_as_limits, validator=check_amounts)
    parent: str | None = field(default=None, validator=_check_parent)
    nominal: Resources | None = field(default=None, converter=_as_some, validator=_check_some)
    borrow: Resources = field(default=NOTHING, converter=_as_limits, validator=check_amounts)
    lend: Resources = field(default=NOTHING, converter=_as_limits, validator=check_amounts)
    weight: float = field(default=1.0, validator=_check_weight)
    reclaim_from: ReclaimFrom = field(default=ReclaimFrom.ANY, converter=ReclaimFrom)

    def __attrs_post_init__(self) -> None:
        if self.namespaces and not self.hard and not self.is_queue:
            raise InvalidValueError("hard", self.hard, "at least one resource")

    @property
    def is_queue(self) -> bool:
        """Whether it says more than a cap: that it has a nominal, a parent or a weight."""
        return self.nominal is not None or self.parent is not None or self.weight != 1.0

    def __repr__(self) -> str:
        return short_repr(self)

    _repr_pretty_ = pretty_repr


def as_quotas(given: Iterable[Quota]) -> tuple[Quota, ...]:
    """Return quotas, which make up trees. O(quotas x depth).

    Raises:
        InvalidValueError: An item is not a quota, two have one name, a parent is missing or has
            namespaces, parents form a circle, or a namespace has two queues. The error has the path
            of what is wrong, such as ``quotas[1].parent``.
    """
    expected = "a sequence of Quotas"
    try:
        found = tuple(given)
    except TypeError:
        raise InvalidValueError("quotas", given, expected) from None
    if not all(isinstance(each, Quota) for each in found):
        raise InvalidValueError("quotas", given, expected)
    places: dict[str, int] = {}
    for place, quota in enumerate(found):
        if places.setdefault(quota.name, place) != place:
            name = f"quotas[{place}].name"
            raise InvalidValueError(name, quota.name, "a name that no other quota has")
    for quota in found:
        _check_path(quota, found, places)
    _check_one_queue_each(found)
    return found


def _check_path(quota: Quota, quotas: Sequence[Quota], places: Mapping[str, int]) -> None:
    """Refuse a parent that is missing, is below the quota, or has namespaces."""
    if quota.parent is None:
        return
    path = f"quotas[{places[quota.name]}].parent"
    if quota.parent not in places:
        expected = f"the name of a quota{hint(quota.parent, places)}"
        raise InvalidValueError(path, quota.parent, expected)
    above: list[str] = []
    parent: str | None = quota.parent
    while parent is not None and parent in places and parent not in above:
        above.append(parent)
        parent = quotas[places[parent]].parent
    if quota.name in above:
        circle = " < ".join((quota.name, *above))
        raise InvalidValueError(path, quota.parent, f"no quota below it: {circle}")
    namespaces = [*quotas[places[quota.parent]].namespaces]
    if namespaces:
        path = f"quotas[{places[quota.parent]}].namespaces"
        expected = f"empty, as it is the parent of {quota.name}: pods are in queues below it"
        raise InvalidValueError(path, namespaces, expected)


def _check_one_queue_each(quotas: Iterable[Quota]) -> None:
    """Refuse a namespace that has two queues."""
    queue_of: dict[str, str] = {}
    for place, quota in enumerate(quotas):
        for n, namespace in enumerate(quota.namespaces if quota.is_queue else ()):
            other = queue_of.setdefault(namespace, quota.name)
            if other != quota.name:
                path = f"quotas[{place}].namespaces[{n}]"
                expected = f"a namespace that no other queue has: {other} has it"
                raise InvalidValueError(path, namespace, expected)
