"""Spreading pods over the domains of a node label.

The skew of a domain is the number of matching pods in it, less the smallest such number of any
domain. A constraint limits the skew of the domain that a pod goes to.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any, Final, NoReturn, final

from attrs import Attribute, field, frozen

from gangsched.constraints.pod_affinity import check_selector
from gangsched.constraints.selectors import LabelSelector
from gangsched.errors import InvalidValueError
from gangsched.values.fields import as_tuple, check_each, check_text, refuse_choice
from gangsched.values.reprs import short_repr

__all__ = ["NodeInclusionPolicy", "TopologySpreadConstraint", "WhenUnsatisfiable"]

_LARGEST: Final = 2**31 - 1
_INT32: Final = "an int from 1 to 2**31 - 1"


class WhenUnsatisfiable(enum.Enum):
    """What happens to a pod that no domain can take within the limit."""

    DO_NOT_SCHEDULE = "DoNotSchedule"
    SCHEDULE_ANYWAY = "ScheduleAnyway"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        refuse_choice(cls, "when_unsatisfiable", value)


class NodeInclusionPolicy(enum.Enum):
    """Whether nodes that the pod cannot go to are left out of the domains."""

    HONOR = "Honor"
    IGNORE = "Ignore"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        refuse_choice(cls, "policy", value)


def _names(given: Iterable[str]) -> tuple[str, ...]:
    return as_tuple(given)


def _is_int32(value: object) -> bool:
    return type(value) is int and 1 <= value <= _LARGEST


def _check_int32(_owner: object, attribute: Attribute[Any], value: object) -> None:
    """Require a positive int32, as the API server does: scores compute with it as a float."""
    if not _is_int32(value):
        raise InvalidValueError(attribute.name, value, _INT32)


@final
@frozen(kw_only=True)
class TopologySpreadConstraint:
    """How evenly pods are spread over the domains of a node label.

    Attributes:
        max_skew: The largest skew that is allowed, an int from 1 to 2**31 - 1.
        topology_key: The key of the node label whose values are the domains.
        when_unsatisfiable: Whether the constraint is hard, or only a preference.
        label_selector: Selects the pods that are counted, in the namespace of the pod. None and an
            empty selector count no pod, as in kube-scheduler.
        min_domains: The least number of domains, an int from 1 to 2**31 - 1. While there are fewer,
            the smallest number of pods in a domain counts as 0. None for 1; only for a hard
            constraint.
        node_affinity_policy: Whether nodes that do not match the pod's node selector and required
            node affinity are left out.
        node_taints_policy: Whether nodes with a taint that the pod does not tolerate are left out.
        match_label_keys: Keys of labels of the pod. Only pods with the same values are counted. A
            key that the pod does not have is ignored.
    """

    max_skew: int = field(validator=_check_int32)
    topology_key: str = field(validator=check_text)
    when_unsatisfiable: WhenUnsatisfiable = field(
        default=WhenUnsatisfiable.DO_NOT_SCHEDULE, converter=WhenUnsatisfiable
    )
    label_selector: LabelSelector | None = field(default=None, validator=check_selector)
    min_domains: int | None = None
    node_affinity_policy: NodeInclusionPolicy = field(
        default=NodeInclusionPolicy.HONOR, converter=NodeInclusionPolicy
    )
    node_taints_policy: NodeInclusionPolicy = field(
        default=NodeInclusionPolicy.IGNORE, converter=NodeInclusionPolicy
    )
    match_label_keys: tuple[str, ...] = field(
        default=(), converter=_names, validator=check_each(str, "a string")
    )

    def __attrs_post_init__(self) -> None:
        least = self.min_domains
        if least is not None:
            if not _is_int32(least):
                raise InvalidValueError("min_domains", least, f"{_INT32}, or None")
            if not self.is_hard:
                raise InvalidValueError(
                    "min_domains", least, "None if when_unsatisfiable is ScheduleAnyway"
                )
        if self.match_label_keys and self.label_selector is None:
            raise InvalidValueError(
                "match_label_keys", self.match_label_keys, "empty without label_selector"
            )

    @property
    def is_hard(self) -> bool:
        """Whether a pod is not scheduled rather than placed against the constraint."""
        return self.when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE

    def __repr__(self) -> str:
        return short_repr(self)
