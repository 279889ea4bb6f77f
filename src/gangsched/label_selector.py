"""``LabelSelector``: which labelled objects a constraint or a budget selects.

Rules:
  R1  the value is frozen, validated by its constructor, compared and hashed by its requirements;
  R2  a selector without requirements matches every object, as in Kubernetes. A selector that
      matches no object is the absence of a selector: None.

Source: ``LabelSelector`` of k8s.io/apimachinery, whose operators have no ``Gt`` and ``Lt``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, final

from attrs import Attribute, field, frozen

from gangsched._fields import as_tuple, check_each
from gangsched._repr import short_repr
from gangsched.constraints import NodeSelectorRequirement
from gangsched.errors import InvalidValueError

__all__ = ["LabelSelector"]

_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


def _requirements(given: Iterable[NodeSelectorRequirement]) -> tuple[NodeSelectorRequirement, ...]:
    return as_tuple(given)


def _check_operators(
    _owner: object,
    attribute: Attribute[tuple[NodeSelectorRequirement, ...]],
    value: tuple[NodeSelectorRequirement, ...],
) -> None:
    for index, one in enumerate(value):
        if one.operator not in _OPERATORS:
            name = f"{attribute.name}[{index}].operator"
            raise InvalidValueError(name, one.operator, "one of " + ", ".join(_OPERATORS))


@final
@frozen
class LabelSelector:
    """A conjunction of conditions on labels.

    Attributes:
        requirements: The conditions; empty to match all labels. The operators are ``In``,
            ``NotIn``, ``Exists`` and ``DoesNotExist``.

    Raises:
        InvalidValueError: A value is malformed. The error names the attribute and the value.
    """

    requirements: tuple[NodeSelectorRequirement, ...] = field(
        default=(),
        converter=_requirements,
        validator=[
            check_each(NodeSelectorRequirement, "a NodeSelectorRequirement"),
            _check_operators,
        ],
    )

    @classmethod
    def of(cls, labels: Mapping[str, str]) -> LabelSelector:
        """Return the selector that requires each of these labels, as ``matchLabels`` does."""
        return cls(
            tuple(NodeSelectorRequirement(key, "In", (value,)) for key, value in labels.items())
        )

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether *labels* meet every condition. O(requirements)."""
        return all(requirement.matches(labels) for requirement in self.requirements)

    def __repr__(self) -> str:
        return short_repr(self)
