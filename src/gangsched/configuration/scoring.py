"""``scoringStrategy`` of ``NodeResourcesFit``, from its arguments in a configuration.

Rules:
  R1  an error names the field by its path, with the number of the entry, and the value;
  R2  without ``resources``, cpu, memory and whatever the pod requests count alike. With it, the
      resources that are named count, each with its weight, as in kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from gangsched.errors import InvalidValueError
from gangsched.plugins import NodeResources, NodeResourcesFit, ScoringStrategy, Strategy
from gangsched.values.hints import hint

__all__ = ["DEFAULT_STRATEGY", "read_scoring_strategy"]

DEFAULT_STRATEGY: Final = "LeastAllocated"
_TYPES: Final = {
    "LeastAllocated": Strategy.LEAST_ALLOCATED,
    "MostAllocated": Strategy.MOST_ALLOCATED,
}
_MOST: Final = 100
"""The largest weight of a resource, as in kube-scheduler."""


def read_scoring_strategy(path: str, given: object) -> NodeResources:
    """Return the plugin that scores by a strategy; the default one for None.

    Args:
        path: The path of the mapping, for errors.
        given: The mapping, as it was read from YAML.

    Raises:
        InvalidValueError: It is malformed; the error has the path of the field, and its value.
    """
    if given is None:
        return NodeResources(_TYPES[DEFAULT_STRATEGY])
    fields = _mapping(path, given, ("type", "resources"))
    kind = fields.get("type")
    if kind not in _TYPES:
        raise InvalidValueError(f"{path}.type", kind, " or ".join(_TYPES))
    if "resources" not in fields:
        return NodeResources(_TYPES[kind])
    resources = _resources(f"{path}.resources", fields["resources"])
    return NodeResourcesFit(scoring_strategy=ScoringStrategy(kind), resources=resources)


def _resources(path: str, given: object) -> dict[str, int]:
    value: object = given
    entries = cast("list[object]", given) if isinstance(given, list) else []
    if not entries:
        expected = "a list of at least one resource, such as {name: cpu, weight: 1}"
        raise InvalidValueError(path, value, expected)
    weights: dict[str, int] = {}
    for place, each in enumerate(entries):
        at = f"{path}[{place}]"
        entry = _mapping(at, each, ("name", "weight"))
        name, weight = entry.get("name"), entry.get("weight", 1)
        if not isinstance(name, str) or not name:
            raise InvalidValueError(f"{at}.name", name, "the name of a resource, such as cpu")
        if name in weights:
            raise InvalidValueError(f"{at}.name", name, "a resource that no other entry names")
        if type(weight) is not int or not 1 <= weight <= _MOST:
            expected = f"a whole number from 1 to {_MOST}"
            raise InvalidValueError(f"{at}.weight", weight, expected)
        weights[name] = weight
    return weights


def _mapping(path: str, given: object, known: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidValueError(path, given, f"a mapping with {' and '.join(known)}")
    fields = cast("Mapping[str, Any]", given)
    for name, value in fields.items():
        if name not in known:
            expected = f"absent: only {' and '.join(known)} are read here{hint(name, known)}"
            raise InvalidValueError(f"{path}.{name}", value, expected)
    return fields
