"""Quotas: how much the pod groups of some namespaces may request in total.

A group may start if what its minimum needs fits the quotas of its namespace, otherwise it waits;
see ``core/records/quota_ledger``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, final

from attrs import Attribute, field, frozen

from gangsched.errors import InvalidValueError
from gangsched.model import Resources
from gangsched.resources import with_zeros
from gangsched.values.fields import as_resources, as_tuple, check_amounts, check_text

__all__ = ["EXCEEDED", "TOO_LARGE", "Quota", "as_quotas"]

EXCEEDED: Final = "exceeded quota "
"""How the reason of a group begins that waits for a quota, as in Kubernetes."""
TOO_LARGE: Final = "; it is more than the whole quota"
"""How the reason of a group ends that no end of another group would help."""


def _as_names(given: Iterable[str]) -> tuple[str, ...]:
    return as_tuple(given)


def _as_limits(given: Resources | Mapping[str, str | int]) -> Resources:
    """Convert to amounts in which a limit of zero is named."""
    found = as_resources(given)
    is_read = isinstance(found, Resources) and found is not given
    return with_zeros(found, given) if is_read else found


def _limits_text(limits: Resources) -> str:
    return repr({name: limits.quantity(name) for name in limits})


def _check_namespaces(_owner: object, _attribute: object, value: Any) -> None:
    given: object = value
    names: list[Any] = [*value] if isinstance(given, tuple) else []
    if not names or not all(isinstance(name, str) and name for name in names):
        raise InvalidValueError("namespaces", value, "a sequence of at least one namespace")


def _check_hard(owner: object, attribute: Attribute[Any], value: Resources) -> None:
    check_amounts(owner, attribute, value)
    if not len(value):
        raise InvalidValueError("hard", value, "at least one resource")


@final
@frozen(kw_only=True)
class Quota:
    """How much the pod groups of some namespaces may request in total.

    Attributes:
        name: The name, a non-empty string; reasons name it.
        namespaces: The namespaces that share it, at least one. A namespace may have several quotas.
        hard: The limit of each resource, at least one; 0 if groups may not request it. Other
            resources are not limited.

    Raises:
        InvalidValueError: A value is malformed. The error names the attribute and the value.
    """

    name: str = field(validator=check_text)
    namespaces: tuple[str, ...] = field(converter=_as_names, validator=_check_namespaces)
    hard: Resources = field(converter=_as_limits, validator=_check_hard, repr=_limits_text)


def as_quotas(given: Iterable[Quota]) -> tuple[Quota, ...]:
    """Return quotas, whose names must differ.

    Raises:
        InvalidValueError: An item is not a quota, or two have one name.
    """
    expected = "a sequence of Quotas with different names"
    try:
        found = tuple(given)
    except TypeError:
        raise InvalidValueError("quotas", given, expected) from None
    if not all(isinstance(each, Quota) for each in found):
        raise InvalidValueError("quotas", given, expected)
    if len({each.name for each in found}) < len(found):
        raise InvalidValueError("quotas", [each.name for each in found], expected)
    return found
