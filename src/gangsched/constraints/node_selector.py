"""Conditions on the labels and the name of a node: the terms of node affinity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, final

from attrs import field, frozen

from gangsched.constraints.selectors import as_values, check_values
from gangsched.constraints.weights import check_weight
from gangsched.errors import InvalidValueError
from gangsched.values.fields import as_tuple, check_each, check_text
from gangsched.values.reprs import short_repr

__all__ = [
    "NODE_NAME_FIELD",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "PreferredSchedulingTerm",
    "is_int",
]

NODE_NAME_FIELD: Final = "metadata.name"
"""The only field of a node that a term can name, as in Kubernetes."""


def _requirements(
    given: Iterable[NodeSelectorRequirement],
) -> tuple[NodeSelectorRequirement, ...]:
    return as_tuple(given)


@final
@frozen
class NodeSelectorRequirement:
    """One condition on the labels of a node: *key* *operator* *values*.

    Attributes:
        key: The key of the label, a non-empty string.
        operator: One of ``OPERATORS``, with the meaning that it has in Kubernetes.
        values: The values: at least one for ``In`` and ``NotIn``, one integer for ``Gt`` and
            ``Lt``, none for ``Exists`` and ``DoesNotExist``.
    """

    OPERATORS: ClassVar[tuple[str, ...]] = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")

    key: str = field(validator=check_text)
    operator: str
    values: tuple[str, ...] = field(default=(), converter=as_values)

    def __attrs_post_init__(self) -> None:
        check_values(self.OPERATORS, self.operator, self.values)
        compares = self.operator in ("Gt", "Lt")
        if compares and not (len(self.values) == 1 and is_int(self.values[0])):
            raise InvalidValueError(
                "values", self.values, f"one integer if the operator is {self.operator}"
            )

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether *labels* meet the condition."""
        present = labels.get(self.key)
        match self.operator:
            case "In":
                return present in self.values
            case "NotIn":
                return present not in self.values
            case "Exists":
                return present is not None
            case "DoesNotExist":
                return present is None
            case _:
                if present is None or not is_int(present):
                    return False
                bound = int(self.values[0])
                return int(present) > bound if self.operator == "Gt" else int(present) < bound

    def __repr__(self) -> str:
        return short_repr(self)


def is_int(text: str) -> bool:
    """Return whether a label or taint value is an integer of 64 bits."""
    if len(text) > 20 or not text.isascii() or not text.removeprefix("-").isdigit():
        return False
    return -(2**63) <= int(text) < 2**63


@final
@frozen
class NodeSelectorTerm:
    """A conjunction of conditions on a node.

    Attributes:
        requirements: Conditions on the labels; ``matchExpressions`` in Kubernetes.
        match_fields: Conditions on the name of the node: the key is ``metadata.name``, the operator
            ``In`` or ``NotIn``, with one value. Pods of a DaemonSet have one.
    """

    requirements: tuple[NodeSelectorRequirement, ...] = field(
        converter=_requirements,
        validator=check_each(NodeSelectorRequirement, "a NodeSelectorRequirement"),
    )
    match_fields: tuple[NodeSelectorRequirement, ...] = field(
        default=(),
        converter=_requirements,
        validator=check_each(NodeSelectorRequirement, "a NodeSelectorRequirement"),
    )

    def __attrs_post_init__(self) -> None:
        for one in self.match_fields:
            if one.key != NODE_NAME_FIELD:
                raise InvalidValueError("match_fields", one.key, f"the field {NODE_NAME_FIELD}")
            if one.operator not in ("In", "NotIn") or len(one.values) != 1:
                raise InvalidValueError("match_fields", one, "In or NotIn with one value")

    def matches(self, labels: Mapping[str, str], name: str = "") -> bool:
        """Return whether a node meets every condition; False if there are no conditions.

        Args:
            labels: The labels of the node.
            name: Its name. Without it, *match_fields* are not compared, as kube-scheduler does for
                the node affinity of volumes.
        """
        if not self.requirements and not self.match_fields:
            return False
        for one in self.match_fields if name else ():
            if (name in one.values) is not (one.operator == "In"):
                return False
        return all(one.matches(labels) for one in self.requirements)

    def __repr__(self) -> str:
        return short_repr(self)


def _check_preference(_owner: object, _attribute: object, value: Any) -> None:
    if not isinstance(value, NodeSelectorTerm):
        raise InvalidValueError("preference", value, "a NodeSelectorTerm")


@final
@frozen(kw_only=True)
class PreferredSchedulingTerm:
    """A term that a pod prefers its node to match, with its weight among the others.

    Attributes:
        weight: The weight, 1 to 100.
        preference: The term. One without conditions matches no node.
    """

    weight: int = field(validator=check_weight)
    preference: NodeSelectorTerm = field(validator=_check_preference)

    def __repr__(self) -> str:
        return short_repr(self)
