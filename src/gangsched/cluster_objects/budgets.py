"""``PodDisruptionBudget``: how many more pods of a set may be evicted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast, final

from attrs import field, frozen
from attrs.validators import instance_of, optional

from gangsched.constraints import LabelSelector
from gangsched.errors import InvalidValueError
from gangsched.model import Pod
from gangsched.values.fields import check_count, check_namespace, check_text
from gangsched.values.reprs import short_repr

__all__ = ["PodDisruptionBudget"]


def _names(given: Iterable[str]) -> frozenset[str]:
    names = given if isinstance(given, str) else tuple(given)
    if isinstance(names, str) or not all(isinstance(cast("object", n), str) for n in names):
        raise InvalidValueError("disrupted_pods", given, "a collection of names of pods")
    return frozenset(names)


@final
@frozen(kw_only=True)
class PodDisruptionBudget:
    """A disruption budget, as its controller last computed it.

    Attributes:
        name: The name, a non-empty string.
        namespace: The namespace, a non-empty string without a slash.
        selector: The pods of the namespace that the budget is about. None or a selector without
            conditions: for preemption, no pod, as in kube-scheduler.
        disruptions_allowed: How many of these pods may be evicted now, at least 0.
        disrupted_pods: The names of the pods whose eviction the budget counts already.

    Raises:
        InvalidValueError: A value is malformed. The error names the attribute and the value.
    """

    name: str = field(validator=check_text)
    namespace: str = field(default="default", validator=check_namespace)
    selector: LabelSelector | None = field(
        default=None, validator=optional(instance_of(LabelSelector))
    )
    disruptions_allowed: int = field(default=0, validator=check_count)
    disrupted_pods: frozenset[str] = field(default=frozenset(), converter=_names)

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    def covers(self, pod: Pod) -> bool:
        """Return whether an eviction of *pod* would need an allowed disruption. O(conditions).

        An eviction that the budget counts already needs no other.
        """
        if self.selector is None or self.selector.is_empty:
            return False
        if pod.namespace != self.namespace or not pod.labels:
            return False
        return pod.name not in self.disrupted_pods and self.selector.matches(pod.labels)

    def __repr__(self) -> str:
        return short_repr(self)
