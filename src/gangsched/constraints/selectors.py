"""Conditions on the labels of pods and namespaces.

Rules:
  R1  a selector without conditions matches every object. Where the API allows no selector at all,
      None stands for it, and matches no object;
  R2  conditions on one key are not merged: an object must meet each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, final

from attrs import field, frozen

from gangsched.errors import InvalidValueError
from gangsched.resources import EMPTY, FrozenMap
from gangsched.values.fields import as_texts, as_tuple, check_each, check_text, check_texts
from gangsched.values.reprs import short_repr

__all__ = ["LabelSelector", "LabelSelectorRequirement", "as_values", "check_values"]


def as_values(given: Iterable[str]) -> tuple[str, ...]:
    """Convert the values of a condition to a tuple of strings.

    Raises:
        InvalidValueError: *given* is a string, or not an iterable of strings (``values``).
    """
    values = as_tuple(given)
    if not isinstance(values, tuple) or not all(isinstance(value, str) for value in values):
        raise InvalidValueError("values", given, "an iterable of strings, not one string")
    return values


def check_values(operators: tuple[str, ...], operator: str, values: tuple[str, ...]) -> None:
    """Require one of *operators*, and as many values as it takes.

    Raises:
        InvalidValueError: The operator is another one (``operator``), or it takes more or fewer
            values (``values``).
    """
    if operator not in operators:
        raise InvalidValueError("operator", operator, "one of " + ", ".join(operators))
    if operator in ("In", "NotIn") and not values:
        raise InvalidValueError("values", values, f"non-empty if the operator is {operator}")
    if operator in ("Exists", "DoesNotExist") and values:
        raise InvalidValueError("values", values, f"empty if the operator is {operator}")


@final
@frozen
class LabelSelectorRequirement:
    """One condition on the labels of a pod or a namespace: *key* *operator* *values*.

    Attributes:
        key: The key of the label, a non-empty string.
        operator: One of ``OPERATORS``, with the meaning that it has in Kubernetes. ``NotIn`` is
            also met by an object without the label.
        values: The values: at least one for ``In`` and ``NotIn``, none for the others.
    """

    OPERATORS: ClassVar[tuple[str, ...]] = ("In", "NotIn", "Exists", "DoesNotExist")

    key: str = field(validator=check_text)
    operator: str
    values: tuple[str, ...] = field(default=(), converter=as_values)

    def __attrs_post_init__(self) -> None:
        check_values(self.OPERATORS, self.operator, self.values)

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
            case _:
                return present is None

    def __repr__(self) -> str:
        return short_repr(self)


def _expressions(
    given: Iterable[LabelSelectorRequirement],
) -> tuple[LabelSelectorRequirement, ...]:
    return as_tuple(given)


@final
@frozen
class LabelSelector:
    """Selects pods or namespaces by their labels.

    Attributes:
        match_labels: Labels that an object must have.
        match_expressions: Conditions that it must meet as well.
    """

    match_labels: FrozenMap[str] = field(default=EMPTY, converter=as_texts, validator=check_texts)
    match_expressions: tuple[LabelSelectorRequirement, ...] = field(
        default=(),
        converter=_expressions,
        validator=check_each(LabelSelectorRequirement, "a LabelSelectorRequirement"),
    )

    @property
    def is_empty(self) -> bool:
        """Whether there are no conditions, so that every object matches."""
        return not self.match_labels and not self.match_expressions

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether *labels* meet every condition."""
        for key, value in self.match_labels.items():
            if labels.get(key) != value:
                return False
        return all(one.matches(labels) for one in self.match_expressions)

    def with_expressions(self, added: Iterable[LabelSelectorRequirement]) -> LabelSelector:
        """Return this selector with further conditions; itself if there are none."""
        expressions = tuple(added)
        if not expressions:
            return self
        return LabelSelector(self.match_labels, (*self.match_expressions, *expressions))

    def keys(self) -> frozenset[str]:
        """Return the keys of the labels that the conditions are about."""
        return frozenset((*self.match_labels, *(one.key for one in self.match_expressions)))

    def __repr__(self) -> str:
        return short_repr(self)
