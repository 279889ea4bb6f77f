"""Affinity and anti-affinity between pods.

Rules:
  R1  a term is about the domain of a node: the nodes with the same value of the label
      ``topology_key``. A node without the label is in no domain;
  R2  without ``namespaces`` and ``namespace_selector`` a term is about pods of the namespace of the
      pod that has the term.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

from attrs import Attribute, field, frozen

from gangsched.constraints.selectors import LabelSelector
from gangsched.constraints.weights import check_weight
from gangsched.errors import InvalidValueError
from gangsched.values.fields import as_tuple, check_each, check_text
from gangsched.values.reprs import short_repr

__all__ = ["PodAffinityTerm", "WeightedPodAffinityTerm", "check_selector"]


def _names(given: Iterable[str]) -> tuple[str, ...]:
    return as_tuple(given)


_check_names = check_each(str, "a string")


def check_selector(_owner: object, attribute: Attribute[Any], value: object) -> None:
    """Require a ``LabelSelector`` or None."""
    if value is not None and not isinstance(value, LabelSelector):
        raise InvalidValueError(attribute.name, value, "a LabelSelector or None")


@final
@frozen(kw_only=True)
class PodAffinityTerm:
    """Pods, and the kind of domain in which they must, or must not, be.

    Attributes:
        topology_key: The key of the node label whose values are the domains.
        label_selector: Selects the pods; None selects no pod, an empty selector every pod.
        namespaces: The namespaces of the pods.
        namespace_selector: Selects further namespaces by their labels; an empty selector selects
            every namespace, None selects none.
        match_label_keys: Keys of labels of the pod that has the term. Only pods with the same
            values are selected. A key that the pod does not have is ignored.
        mismatch_label_keys: As *match_label_keys*, but pods with the same value are not selected.
    """

    topology_key: str = field(validator=check_text)
    label_selector: LabelSelector | None = field(default=None, validator=check_selector)
    namespaces: tuple[str, ...] = field(default=(), converter=_names, validator=_check_names)
    namespace_selector: LabelSelector | None = field(default=None, validator=check_selector)
    match_label_keys: tuple[str, ...] = field(default=(), converter=_names, validator=_check_names)
    mismatch_label_keys: tuple[str, ...] = field(
        default=(), converter=_names, validator=_check_names
    )

    def __attrs_post_init__(self) -> None:
        for key in self.mismatch_label_keys:
            if key in self.match_label_keys:
                raise InvalidValueError(
                    "mismatch_label_keys", key, "a key that is not in match_label_keys"
                )
        for name in ("match_label_keys", "mismatch_label_keys"):
            if getattr(self, name) and self.label_selector is None:
                raise InvalidValueError(name, getattr(self, name), "empty without label_selector")

    def __repr__(self) -> str:
        return short_repr(self)


def _check_term(_owner: object, _attribute: object, value: Any) -> None:
    if not isinstance(value, PodAffinityTerm):
        raise InvalidValueError("pod_affinity_term", value, "a PodAffinityTerm")


@final
@frozen(kw_only=True)
class WeightedPodAffinityTerm:
    """A term that a pod prefers, with its weight among the others.

    Attributes:
        weight: The weight, 1 to 100.
        pod_affinity_term: The term.
    """

    weight: int = field(validator=check_weight)
    pod_affinity_term: PodAffinityTerm = field(validator=_check_term)

    def __repr__(self) -> str:
        return short_repr(self)
