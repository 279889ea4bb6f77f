"""``PriorityClass`` and ``RuntimeClass``: what a pod gets by naming a class.

The API server resolves both when it admits a pod. They matter where a document comes from a file,
and for groups whose dialect names a priority class that only the scheduler resolves.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from attrs import field, frozen

from gangsched.constraints import Toleration
from gangsched.model import PreemptionPolicy
from gangsched.resources import EMPTY, NOTHING, FrozenMap, Resources
from gangsched.values.fields import (
    as_resources,
    as_texts,
    as_tuple,
    check_amounts,
    check_each,
    check_flag,
    check_text,
    check_texts,
    check_whole,
)
from gangsched.values.reprs import short_repr

__all__ = ["PriorityClass", "RuntimeClass"]


def _tolerations(given: Iterable[Toleration]) -> tuple[Toleration, ...]:
    return as_tuple(given)


@final
@frozen(kw_only=True)
class PriorityClass:
    """A priority class.

    Attributes:
        name: The name, a non-empty string.
        value: The priority of its pods and groups.
        global_default: Whether it is the class of pods that name none.
        preemption_policy: Whether its pods may preempt pods of lower priority.

    Raises:
        InvalidValueError: A value is malformed. The error names the attribute and the value.
    """

    name: str = field(validator=check_text)
    value: int = field(validator=check_whole)
    global_default: bool = field(default=False, validator=check_flag)
    preemption_policy: PreemptionPolicy = field(
        default=PreemptionPolicy.PREEMPT_LOWER_PRIORITY, converter=PreemptionPolicy
    )

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    def __repr__(self) -> str:
        return short_repr(self)


@final
@frozen(kw_only=True)
class RuntimeClass:
    """A runtime class.

    Attributes:
        name: The name, a non-empty string.
        overhead: What each of its pods requests in addition to its containers.
        node_selector: The labels that the nodes of its pods must have.
        tolerations: The taints that its pods tolerate.

    Raises:
        InvalidValueError: A value is malformed. The error names the attribute and the value.
    """

    name: str = field(validator=check_text)
    overhead: Resources = field(default=NOTHING, converter=as_resources, validator=check_amounts)
    node_selector: FrozenMap[str] = field(default=EMPTY, converter=as_texts, validator=check_texts)
    tolerations: tuple[Toleration, ...] = field(
        default=(), converter=_tolerations, validator=check_each(Toleration, "a Toleration")
    )

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    def __repr__(self) -> str:
        return short_repr(self)
