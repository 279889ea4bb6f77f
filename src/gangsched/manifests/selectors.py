"""Selectors of labels and of nodes, and tolerations, from documents.

Rules:
  R1  a field has the meaning that it has in the API; what the API server refuses is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gangsched.constraints import (
    Comparison,
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    TaintEffect,
    Toleration,
)
from gangsched.constraints.node_selector import is_int
from gangsched.errors import InvalidValueError
from gangsched.manifests.fields import Field

__all__ = [
    "EFFECTS",
    "compares_text",
    "node_selector_terms",
    "read_label_selector",
    "read_node_selector",
    "read_node_selector_term",
    "read_toleration",
    "read_topology_term",
]

EFFECTS: Final = tuple(effect.value for effect in TaintEffect)
_COMPARISONS: Final = tuple(comparison.value for comparison in Comparison)
_TOLERATION_OPERATORS: Final = ("Exists", "Equal", *_COMPARISONS)


def read_label_selector(field: Field) -> LabelSelector | None:
    """Return a ``LabelSelector``; None if it is absent.

    Raises:
        ManifestError: The selector is malformed.
    """
    if not field.given:
        return None
    return LabelSelector(
        field["matchLabels"].texts(),
        tuple(_label_requirement(each) for each in field["matchExpressions"].elements()),
    )


def _label_requirement(field: Field) -> LabelSelectorRequirement:
    operator = field["operator"].word(LabelSelectorRequirement.OPERATORS)
    try:
        return LabelSelectorRequirement(field["key"].name(), operator, _values(field))
    except InvalidValueError as error:
        raise field[error.field].refuse_as(error) from error


def _values(field: Field) -> tuple[str, ...]:
    return tuple(each.text() for each in field["values"].elements())


def read_node_selector(field: Field) -> Iterator[NodeSelectorTerm]:
    """Yield the terms of a ``NodeSelector``, of which a node must match at least one.

    Raises:
        ManifestError: The selector is malformed, or has no terms.
    """
    yield from map(read_node_selector_term, node_selector_terms(field))


def node_selector_terms(field: Field) -> tuple[Field, ...]:
    """Return the terms of a ``NodeSelector``, unread.

    Raises:
        ManifestError: The selector has no terms.
    """
    terms = tuple(field["nodeSelectorTerms"].elements())
    if field.given and not terms:
        raise field["nodeSelectorTerms"].refuse("at least one term")
    return terms


def compares_text(term: Field) -> bool:
    """Return whether a ``NodeSelectorTerm`` asks for more or less than a text.

    The API server accepts each text. kube-scheduler cannot parse such a term, and passes over it.

    Raises:
        ManifestError: The term is malformed.
    """
    for each in term["matchExpressions"].elements():
        values = _values(each)
        if each["operator"].text() in _COMPARISONS and len(values) == 1 and not is_int(values[0]):
            return True
    return False


def read_node_selector_term(field: Field) -> NodeSelectorTerm:
    """Return a ``NodeSelectorTerm``.

    Raises:
        ManifestError: The term is malformed, or names another field than ``metadata.name``.
    """
    by_name = tuple(_node_requirement(each) for each in field["matchFields"].elements())
    by_label = tuple(_node_requirement(each) for each in field["matchExpressions"].elements())
    try:
        return NodeSelectorTerm(by_label, by_name)
    except InvalidValueError as error:
        raise field["matchFields"].refuse_as(error) from error


def _node_requirement(field: Field) -> NodeSelectorRequirement:
    operator = field["operator"].word(NodeSelectorRequirement.OPERATORS)
    try:
        return NodeSelectorRequirement(field["key"].name(), operator, _values(field))
    except InvalidValueError as error:
        raise field[error.field].refuse_as(error) from error


def read_topology_term(field: Field) -> NodeSelectorTerm:
    """Return a ``TopologySelectorTerm`` of a storage class as a term that nodes match.

    Raises:
        ManifestError: The term is malformed.
    """
    return NodeSelectorTerm(
        tuple(
            NodeSelectorRequirement(each["key"].name(), "In", _values(each))
            for each in field["matchLabelExpressions"].elements()
        )
    )


def read_toleration(field: Field) -> Toleration:
    """Return a ``Toleration``.

    Raises:
        ManifestError: The toleration is malformed.
    """
    operator = field["operator"].word(_TOLERATION_OPERATORS, "Equal")
    effect = field["effect"].word(EFFECTS, "")
    if operator == "Exists" and field["value"].text():
        raise field["value"].refuse("no value, as the operator is Exists")
    try:
        return Toleration(
            key=field["key"].text(),
            value=field["value"].text(),
            exists=operator == "Exists",
            effect=TaintEffect(effect) if effect else None,
            comparison=Comparison(operator) if operator in _COMPARISONS else None,
        )
    except InvalidValueError as error:
        raise field[error.field].refuse_as(error) from error
