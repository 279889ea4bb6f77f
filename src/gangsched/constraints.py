"""Placement constraints: taints and tolerations, node selector terms, topology.

Rules:
  R1  each class is a frozen value, validated by its constructor, compared and hashed by its
      attributes;
  R2  a constraint only decides whether it matches. Plugins combine constraints.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import NoReturn, final

from attrs import field, frozen

from gangsched._fields import (
    as_tuple,
    check_each,
    check_flag,
    check_string,
    check_text,
    refuse_choice,
)
from gangsched._repr import short_repr
from gangsched.errors import InvalidValueError

__all__ = [
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "Taint",
    "TaintEffect",
    "Toleration",
    "Topology",
]


class TaintEffect(enum.Enum):
    """The effect of a taint on a pod that does not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        refuse_choice(cls, "effect", value)


def _effect(given: TaintEffect | str | None) -> TaintEffect | None:
    return None if given is None else TaintEffect(given)


def _values(given: Iterable[str]) -> tuple[str, ...]:
    values = as_tuple(given)
    if not isinstance(values, tuple) or not all(isinstance(value, str) for value in values):
        raise InvalidValueError("values", given, "a sequence of strings")
    return values


def _requirements(
    given: Iterable[NodeSelectorRequirement],
) -> tuple[NodeSelectorRequirement, ...]:
    return as_tuple(given)


@final
@frozen
class Taint:
    """A taint on a node: it repels pods that do not tolerate it.

    Attributes:
        key: The key, a non-empty string.
        value: The value.
        effect: The effect.
    """

    key: str = field(validator=check_text)
    value: str = field(default="", validator=check_string)
    effect: TaintEffect = field(default=TaintEffect.NO_SCHEDULE, converter=TaintEffect)

    def __repr__(self) -> str:
        return short_repr(self)


@final
@frozen
class Toleration:
    """A toleration of a pod for taints.

    Attributes:
        key: The key of the taint; empty for every key, which requires *exists*.
        value: The value of the taint; ignored if *exists* is true.
        exists: Whether to tolerate every value, as the operator ``Exists`` does.
        effect: The effect to tolerate; None for all effects.
    """

    key: str = field(default="", validator=check_string)
    value: str = field(default="", validator=check_string)
    exists: bool = field(default=False, validator=check_flag)
    effect: TaintEffect | None = field(default=None, converter=_effect)

    def __attrs_post_init__(self) -> None:
        if not self.key and not self.exists:
            raise InvalidValueError("key", self.key, "a non-empty string, unless exists is true")

    def tolerates(self, taint: Taint) -> bool:
        """Return whether this toleration matches *taint*."""
        if self.effect is not None and self.effect is not taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.exists or self.value == taint.value

    def __repr__(self) -> str:
        return short_repr(self)


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

    OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")

    key: str = field(validator=check_text)
    operator: str
    values: tuple[str, ...] = field(default=(), converter=_values)

    def __attrs_post_init__(self) -> None:
        if self.operator not in self.OPERATORS:
            raise InvalidValueError(
                "operator", self.operator, "one of " + ", ".join(self.OPERATORS)
            )
        if self.operator in ("In", "NotIn") and not self.values:
            raise InvalidValueError(
                "values", self.values, f"non-empty if the operator is {self.operator}"
            )
        if self.operator in ("Exists", "DoesNotExist") and self.values:
            raise InvalidValueError(
                "values", self.values, f"empty if the operator is {self.operator}"
            )
        if self.operator in ("Gt", "Lt") and not (
            len(self.values) == 1 and _is_int(self.values[0])
        ):
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
                if present is None or not _is_int(present):
                    return False
                bound = int(self.values[0])
                return int(present) > bound if self.operator == "Gt" else int(present) < bound

    def __repr__(self) -> str:
        return short_repr(self)


def _is_int(text: str) -> bool:
    if len(text) > 20 or not text.isascii() or not text.removeprefix("-").isdigit():
        return False
    return -(2**63) <= int(text) < 2**63


@final
@frozen
class NodeSelectorTerm:
    """A conjunction of conditions on the labels of a node.

    Attributes:
        requirements: The conditions.
    """

    requirements: tuple[NodeSelectorRequirement, ...] = field(
        converter=_requirements,
        validator=check_each(NodeSelectorRequirement, "a NodeSelectorRequirement"),
    )

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether *labels* meet every condition; False if there are no conditions."""
        return bool(self.requirements) and all(r.matches(labels) for r in self.requirements)

    def __repr__(self) -> str:
        return short_repr(self)


@final
@frozen
class Topology:
    """A topology constraint of a gang: its nodes have one value of a label in common.

    Source: the topology constraints of KEP-5732.

    Attributes:
        key: The key of the label: of a rack, a zone, a network.
        required: Whether the constraint is hard. If it is, the gang waits until it fits into one
            value. If not, a gang that fits into no single value is spread over several.
    """

    key: str = field(validator=check_text)
    required: bool = field(default=True, validator=check_flag)

    def __repr__(self) -> str:
        return short_repr(self)
