"""Where a pod may go: taints and tolerations, conditions on a node's labels.

Rules:
  R1  values only: frozen, validated once, compared and hashed by their fields;
  R2  each says whether it matches; who is asked in which order is a plugin's business.
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
    """What a taint does to a pod that does not tolerate it."""

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
        raise InvalidValueError("values", given, "an iterable of strings")
    return values


def _requirements(
    given: Iterable[NodeSelectorRequirement],
) -> tuple[NodeSelectorRequirement, ...]:
    return as_tuple(given)


@final
@frozen
class Taint:
    """A mark on a node that keeps pods away which do not tolerate it."""

    key: str = field(validator=check_text)
    value: str = field(default="", validator=check_string)
    effect: TaintEffect = field(default=TaintEffect.NO_SCHEDULE, converter=TaintEffect)


@final
@frozen
class Toleration:
    """A pod's consent to a taint.

    Attributes:
        key: The taint's key; empty with ``exists`` for every key.
        value: The taint's value, when *exists* is false.
        exists: Tolerate any value.
        effect: Tolerate this effect only; None for all.
    """

    key: str = field(default="", validator=check_string)
    value: str = field(default="", validator=check_string)
    exists: bool = field(default=False, validator=check_flag)
    effect: TaintEffect | None = field(default=None, converter=_effect)

    def __attrs_post_init__(self) -> None:
        if not self.key and not self.exists:
            raise InvalidValueError("key", self.key, "non-empty unless the operator is Exists")

    def tolerates(self, taint: Taint) -> bool:
        """Say whether this toleration covers *taint*."""
        if self.effect is not None and self.effect is not taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.exists or self.value == taint.value


@final
@frozen
class NodeSelectorRequirement:
    """One condition on a node's labels: *key* *operator* *values*."""

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
        """Say whether *labels* meet the condition."""
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


def _is_int(text: str) -> bool:
    if len(text) > 20 or not text.isascii() or not text.removeprefix("-").isdigit():
        return False
    return -(2**63) <= int(text) < 2**63


@final
@frozen
class NodeSelectorTerm:
    """Conditions that a node must meet together."""

    requirements: tuple[NodeSelectorRequirement, ...] = field(
        converter=_requirements,
        validator=check_each(NodeSelectorRequirement, "a NodeSelectorRequirement"),
    )

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Say whether *labels* meet every condition; a term without any matches no node."""
        return bool(self.requirements) and all(r.matches(labels) for r in self.requirements)


@final
@frozen
class Topology:
    """A label of nodes such that a gang belongs on nodes with one value of it.

    Source: the topology constraints of KEP-5732.

    Attributes:
        key: The label: of a rack, a zone, a fast network.
        required: Whether the gang waits until it fits within one value. If not, it is spread over
            several where it fits into none.
    """

    key: str = field(validator=check_text)
    required: bool = field(default=True, validator=check_flag)
