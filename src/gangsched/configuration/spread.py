"""The default constraints of ``PodTopologySpread``, from its arguments in a configuration.

Rules:
  R1  a constraint is ``ScheduleAnyway``, and has no selector: services and controllers say which
      pods are counted;
  R2  an error names the field by its path, and the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from gangsched.constraints import NodeInclusionPolicy, TopologySpreadConstraint
from gangsched.errors import InvalidValueError
from gangsched.values.hints import hint

__all__ = ["read_default_constraints"]

_WHEN: Final = "ScheduleAnyway"
_POLICIES: Final = {"nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Ignore"}
_KNOWN: Final = ("maxSkew", "topologyKey", "whenUnsatisfiable", *_POLICIES)


def read_default_constraints(path: str, given: object) -> tuple[TopologySpreadConstraint, ...]:
    """Return the constraints of a list; none for None.

    Args:
        path: The path of the list, for errors.
        given: The list, as it was read from YAML.

    Raises:
        InvalidValueError: It is no list, or a constraint is malformed.
    """
    if given is None:
        return ()
    if not isinstance(given, list):
        raise InvalidValueError(path, given, "a list")
    each = cast("list[object]", given)
    return tuple(_constraint(f"{path}[{place}]", one) for place, one in enumerate(each))


def _constraint(path: str, given: object) -> TopologySpreadConstraint:
    if not isinstance(given, Mapping):
        raise InvalidValueError(path, given, "a mapping")
    fields = cast("Mapping[str, Any]", given)
    for name, value in fields.items():
        if name not in _KNOWN:
            expected = f"absent: it is not a field of a default constraint{hint(name, _KNOWN)}"
            raise InvalidValueError(f"{path}.{name}", value, expected)
    skew, key, when = (fields.get(name) for name in _KNOWN[:3])
    if type(skew) is not int or skew < 1:
        raise InvalidValueError(f"{path}.maxSkew", skew, "a whole number >= 1")
    if not isinstance(key, str) or not key:
        raise InvalidValueError(f"{path}.topologyKey", key, "the key of a node label")
    if when != _WHEN:
        raise InvalidValueError(f"{path}.whenUnsatisfiable", when, _WHEN)
    policies = {name: fields.get(name, default) for name, default in _POLICIES.items()}
    allowed = [policy.value for policy in NodeInclusionPolicy]
    for name, policy in policies.items():
        if policy not in allowed:
            raise InvalidValueError(f"{path}.{name}", policy, " or ".join(allowed))
    affinity, taints = (NodeInclusionPolicy(policy) for policy in policies.values())
    return TopologySpreadConstraint(
        max_skew=skew,
        topology_key=key,
        when_unsatisfiable=_WHEN,
        node_affinity_policy=affinity,
        node_taints_policy=taints,
    )
