"""What packing is asked: pods that are pending, quotas to meet, and the room there is.

Rules:
  R1  amounts are whole numbers of thousandths, and counts whole numbers, neither negative;
  R2  kinds of pods and of nodes are any hashables: they are compared, and never looked into.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Any, Generic, Protocol, TypeVar, final

from attrs import Attribute, field, frozen

from gangsched._fields import check_amounts, check_string
from gangsched.errors import InvalidValueError
from gangsched.resources import Resources

__all__ = ["Demand", "Quota", "Room", "check_count"]

N = TypeVar("N", bound=Hashable)
P = TypeVar("P", bound=Hashable)
P_contra = TypeVar("P_contra", bound=Hashable, contravariant=True)


def check_count(name: str, value: object) -> None:
    """Ask for a whole number that is not negative."""
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
            raise InvalidValueError(f"requests.{name}", amount, "a whole number of thousandths")
    return Resources.from_milli(given)


@final
@frozen
class Demand(Generic[P]):
    """How many pods of one kind are pending.

    Attributes:
        kind: What these pods have in common: a node that takes one of them takes any of them.
        count: How many there are; a whole number, not negative.
        requests: What each asks for, in thousandths; not negative.

    Raises:
        InvalidValueError: A value is malformed; it names the field.
    """

    kind: P
    count: int = field(validator=_check_count)
    requests: Resources = field(converter=_as_amounts, validator=check_amounts)


@final
@frozen
class Quota(Generic[P]):
    """How many pods of some kinds must be placed together: a group, or a role of it.

    Quotas may overlap, as a role lies within its group: a pod counts for each of its quotas.

    Attributes:
        kinds: Which kinds of pods count; those that nobody demands count for nothing.
        at_least: How many must be placed; a whole number, not negative.
        name: What to call it in a sentence.

    Raises:
        InvalidValueError: A value is malformed; it names the field.
    """

    kinds: frozenset[P] = field(validator=_check_kinds)
    at_least: int = field(validator=_check_count)
    name: str = field(default="", validator=check_string)


class Room(Protocol[N, P_contra]):
    """The cluster, as packing may ask about it.

    A node is known by its kind, which says all that matters of it: what it is, and what it has
    taken so far. The room must be *fair*, which is what completeness rests on:

    - a node that can take some pods can take them in every order, and is the same afterwards;
    - a node that can take some pods can take any part of them.

    Resources, counts of pods, selectors, taints and mutual exclusion are fair. A filter that
    wants one pod on a node before another is not.
    """

    @property
    def binding(self) -> Collection[str]:
        """The resources that ``after`` counts: a pod takes exactly what it requests of them.

        A node that has less free of one than a pod requests (more than nothing) refuses the pod.
        Name none, and no proof is made from sums of resources.
        """
        ...

    def after(self, node: N, pod: P_contra) -> N | None:
        """Return what *node* becomes by taking a pod; None when it cannot take it.

        Pure. It is called once for each pair that packing comes to.
        """
        ...

    def free(self, node: N) -> Mapping[str, int]:
        """Return what a node has free, in thousandths; below zero where it is overcommitted."""
        ...

    def without(self, resource: str) -> Room[N, P_contra]:
        """Return the same room with boundless *resource*: ``after`` no longer asks for it.

        Called only to say why something is impossible.
        """
        ...
