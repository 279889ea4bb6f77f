"""Pods as plain data, and the features that test cases may use.

Rules:
  R1  nothing here requires that the scheduler use gangsched: a pod is a frozen value of strings
      and ints;
  R2  fields of a feature that the adapter does not declare are neither passed nor checked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, final

from attrs import Factory, evolve, field, fields_dict, frozen
from attrs.validators import optional

from gangsched.errors import InvalidValueError
from gangsched.values.fields import as_tuple, check_each, check_positive, check_text, check_whole

__all__ = ["FEATURES", "PlainPod", "declared_features", "drop_undeclared"]

FEATURES: Final = ("roles", "topology", "bundles", "taints", "copies", "families")
"""The features that an adapter may declare; see ``SupportsFeatures``."""
_METHODS: Final = ("put_parent", "remove_parent")


def _amounts(given: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(given.items()))


def _names(given: Iterable[str]) -> tuple[str, ...]:
    return as_tuple(given)


def _named_by_uid(pod: PlainPod) -> str:
    return pod.uid


_texts = check_each(str, "a string")


@final
@frozen(kw_only=True, repr=False)
class PlainPod:
    """A pod, as the kit passes it to an adapter.

    All members of a gang agree on every field but ``uid``, ``name``, ``role``, ``copy`` and
    ``requests``; on ``requests`` too, unless the spec has ``mixed_requests``. The fields from
    ``role`` on are used only if the adapter declares the feature named in parentheses.

    Attributes:
        uid: The identity of the pod, unique in a test case.
        name: The name of the pod, by default its UID. Several pods may have one name, even at
            the same time.
        group: The gang of the pod; None for a single pod.
        min_available: The number of members that the gang needs to start; 1 without a gang.
        requests: The requests of the pod in whole units, by resource.
        priority: The priority of the pod or gang; higher goes first.
        role: The role of the pod in its gang, or None (``roles``).
        roles: The minimum for each role of the gang, at most ``min_available`` in all
            (``roles``).
        topology_key: The node label that must have one value for all placed members, or None
            (``topology``).
        bundle: The other gangs of the gang's bundle. The gangs of a bundle name each other, and
            start together or not at all (``bundles``).
        tolerates: The taints that the pod tolerates (``taints``).
        copies: The number of copies that the gang consists of, such as replicas of a server; 0 for
            a gang without copies. A gang has roles or copies, not both (``copies``).
        copy_size: The number of members that each copy needs to start; ``min_available`` is that
            number times the number of copies that the gang needs to start (``copies``).
        copy: The number of the pod's copy, from 0 (``copies``).
        parent: The name of the group of groups that the gang is a child of, or None. A gang has a
            parent or a bundle, not both (``families``).
    """

    uid: str = field(validator=check_text)
    name: str = field(default=Factory(_named_by_uid, takes_self=True), validator=check_text)
    group: str | None = field(default=None, validator=optional(check_text))
    min_available: int = field(default=1, validator=check_positive)
    requests: Mapping[str, int] = field(converter=_amounts, factory=dict[str, int], hash=False)
    priority: int = field(default=0, validator=check_whole)
    role: str | None = field(default=None, validator=optional(check_text))
    roles: Mapping[str, int] = field(converter=_amounts, factory=dict[str, int], hash=False)
    topology_key: str | None = field(default=None, validator=optional(check_text))
    bundle: tuple[str, ...] = field(default=(), converter=_names, validator=_texts)
    tolerates: tuple[str, ...] = field(default=(), converter=_names, validator=_texts)
    copies: int = field(default=0, validator=check_whole)
    copy_size: int = field(default=0, validator=check_whole)
    copy: int | None = field(default=None, validator=optional(check_whole))
    parent: str | None = field(default=None, validator=optional(check_text))

    def __attrs_post_init__(self) -> None:
        if self.group is None:
            single = PlainPod(uid=self.uid, group="any")
            for name in (
                *("min_available", "role", "roles", "topology_key", "bundle"),
                *("copies", "copy_size", "copy", "parent"),
            ):
                value, default = getattr(self, name), getattr(single, name)
                if value != default:
                    raise InvalidValueError(name, value, f"{default!r} without a group")
        if sum(self.roles.values()) > self.min_available:
            expected = f"at most min_available ({self.min_available}) in total"
            raise InvalidValueError("roles", self.roles, expected)
        if self.parent is not None and self.bundle:
            raise InvalidValueError("bundle", self.bundle, "() for a gang with a parent")
        if self.copies or self.copy_size or self.copy is not None:
            self._check_copies()

    def _check_copies(self) -> None:
        if self.copies < 1:
            raise InvalidValueError("copies", self.copies, "an int >= 1 with copy_size and copy")
        if self.copy_size < 1 or self.min_available % self.copy_size:
            expected = f"a divisor of min_available, which is {self.min_available}"
            raise InvalidValueError("copy_size", self.copy_size, expected)
        if self.min_available > self.copies * self.copy_size:
            expected = f"at most copies * copy_size, which is {self.copies * self.copy_size}"
            raise InvalidValueError("min_available", self.min_available, expected)
        if self.copy is None or not 0 <= self.copy < self.copies:
            raise InvalidValueError("copy", self.copy, f"an int from 0 to {self.copies - 1}")
        if self.role is not None or self.roles:
            raise InvalidValueError("roles", self.roles, "none in a gang with copies, and no role")

    def __repr__(self) -> str:
        default = PlainPod(uid=self.uid)
        names = [name for name in fields_dict(PlainPod) if name != "uid"]
        values = [(name, getattr(self, name)) for name in names]
        shown = [f", {name}={value!r}" for name, value in values if value != getattr(default, name)]
        return f"PlainPod(uid={self.uid!r}{''.join(shown)})"


def declared_features(scheduler: object) -> frozenset[str]:
    """Return the features that an adapter declares.

    Raises:
        InvalidValueError: The adapter declares an unknown feature, or lacks a method of one.
    """
    names: Collection[str] = getattr(scheduler, "features", ())
    if isinstance(names, str) or not set(names) <= set(FEATURES):
        raise InvalidValueError("features", names, f"a subset of {', '.join(FEATURES)}")
    for name in _METHODS if "families" in names else ():
        if not callable(getattr(scheduler, name, None)):
            raise InvalidValueError(name, scheduler, "a method of an adapter with families")
    return frozenset(names)


def drop_undeclared(pod: PlainPod, features: Collection[str]) -> PlainPod:
    """Return a pod without the fields of features that are not among *features*."""
    if "copies" not in features and pod.copies:
        pod = evolve(pod, copies=0, copy_size=0, copy=None)
    if "families" not in features and pod.parent:
        pod = evolve(pod, parent=None)
    if not (pod.role or pod.roles or pod.topology_key or pod.bundle or pod.tolerates):
        return pod
    if "roles" not in features:
        pod = evolve(pod, role=None, roles={})
    if "topology" not in features:
        pod = evolve(pod, topology_key=None)
    if "bundles" not in features:
        pod = evolve(pod, bundle=())
    return pod if "taints" in features else evolve(pod, tolerates=())
