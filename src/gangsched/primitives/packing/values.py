"""The arguments of packing: pending pods, quotas to meet, and the nodes as a ``NodeModel``.

Rules:
  R1  amounts are ints in thousandths, counts are ints, and neither is negative;
  R2  kinds of pods and of nodes are any hashables; they are compared and never inspected.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Any, Generic, Protocol, TypeVar, final

from attrs import Attribute, field, frozen

from gangsched.errors import InvalidValueError
from gangsched.resources import Resources
from gangsched.values.fields import check_amounts, check_string

__all__ = ["PackingDemand", "NodeModel", "PackingQuota", "check_count"]

N = TypeVar("N", bound=Hashable)
P = TypeVar("P", bound=Hashable)
P_contra = TypeVar("P_contra", bound=Hashable, contravariant=True)


def check_count(name: str, value: object) -> None:
    """Check that a value is an int >= 0."""
    if type(value) is not int or value < 0:
        raise InvalidValueError(name, value, "an int >= 0")


def _check_count(_owner: object, attribute: Attribute[Any], value: object) -> None:
    check_count(attribute.name, value)


def _check_kinds(_owner: object, _attribute: object, value: object) -> None:
    if not isinstance(value, frozenset):
        raise InvalidValueError("kinds", value, "a frozenset of kinds of pods")


def _as_amounts(given: Mapping[str, int]) -> Resources:
    if isinstance(given, Resources):
        return given
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise InvalidValueError("requests", given, "a mapping of names to thousandths")
    for name, amount in given.items():
        if not isinstance(amount, int) or isinstance(amount, bool):
            raise InvalidValueError(f"requests.{name}", amount, "an int (thousandths)")
    return Resources.from_milli(given)


@final
@frozen
class PackingDemand(Generic[P]):
    """The pending pods of one kind.

    Attributes:
        kind: Identifies the kind: a node that can take one of these pods can take any of them.
        count: The number of pods; an int >= 0.
        requests: The requests of each pod, in thousandths; not negative.

    Raises:
        InvalidValueError: A value is malformed; it names the field.
    """

    kind: P
    count: int = field(validator=_check_count)
    requests: Resources = field(converter=_as_amounts, validator=check_amounts)


@final
@frozen
class PackingQuota(Generic[P]):
    """How many pods of some kinds must be placed together: those of a group, or of a role.

    Quotas may overlap, because a role is part of its group. A pod counts for each of its quotas.

    Attributes:
        kinds: The kinds of pods that count; kinds without a demand are ignored.
        at_least: The number of pods that must be placed; an int >= 0.
        name: The name of the quota in messages.

    Raises:
        InvalidValueError: A value is malformed; it names the field.
    """

    kinds: frozenset[P] = field(validator=_check_kinds)
    at_least: int = field(validator=_check_count)
    name: str = field(default="", validator=check_string)


class NodeModel(Protocol[N, P_contra]):
    """The nodes of the cluster, for packing.

    A node is known by its kind, which identifies what the node is and what it has taken so far. The
    node model must be *fair*, because the search is complete only then:

    - a node that can take some pods can take them in every order, and is of one kind afterwards;
    - a node that can take some pods can take any subset of them;
    - what a node can take does not depend on what other nodes have taken.

    Resources, counts of pods, selectors and taints are fair. A filter that wants one pod on a node
    before another is not.
    """

    @property
    def binding(self) -> Collection[str]:
        """The resources that ``after`` counts: a pod takes exactly what it requests of them.

        A node with less free of one of them than a pod requests refuses the pod. Without names, no
        proof is made from sums of resources.
        """
        ...

    def after(self, node: N, pod: P_contra) -> N | None:
        """Return the kind of *node* after it has taken a pod; None if it cannot take the pod.

        Pure. It is called once for each pair that packing meets.
        """
        ...

    def free(self, node: N) -> Mapping[str, int]:
        """Return what is free on a node, in thousandths; negative if it is overcommitted."""
        ...

    def without(self, resource: str) -> NodeModel[N, P_contra]:
        """Return a new node model in which *resource* is unlimited; this one is not changed.

        Called only to find the reason why a quota cannot be met.
        """
        ...
