"""A pod in plain data, and the features that stories may be about.

Rules:
  R1  nothing here asks that the scheduler use gangsched: a pod is a frozen value of texts and
      whole numbers;
  R2  what a scheduler does not declare it is not told of, and not held to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, final

from attrs import Factory, evolve, field, fields_dict, frozen
from attrs.validators import optional

from gangsched._fields import (
    as_tuple,
    check_each,
    check_positive,
    check_text,
    check_whole,
)
from gangsched.errors import InvalidValueError

__all__ = ["FEATURES", "PlainPod", "declared", "plain"]

FEATURES: Final = ("roles", "topology", "bundles", "taints")
"""What an adapter may declare: see ``HasFeatures``."""


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
    """A pod, as a scheduler under test is given it.

    The last five say nothing to a scheduler that does not declare the feature.

    Attributes:
        uid: Its identity. No two pods ever share one.
        name: Its name, for people; by default its UID. Two pods may share one, at one time, too.
        group: The gang that it belongs to; None for a pod of its own.
        min_available: How many members of its gang start together, or none. All members of a
            gang say the same; 1 without a gang.
        requests: What it needs of its node: resource to whole units.
        priority: Higher goes first. All members of a gang say the same.
        role: Its role in its gang; None for none. ``roles``.
        roles: How many members of which role its gang starts with, at least; together no more
            than ``min_available``. All members of a gang say the same. ``roles``.
        within: The label of nodes within one value of which its gang belongs; None for anywhere.
            All members of a gang say the same. ``topology``.
        bundle: The other gangs with which its gang starts together or not at all; each of them
            names the others. All members of a gang say the same. ``bundles``.
        tolerates: The taints of nodes that it consents to. All members of a gang say the same.
            ``taints``.
    """

    uid: str = field(validator=check_text)
    name: str = field(default=Factory(_named_by_uid, takes_self=True), validator=check_text)
    group: str | None = field(default=None, validator=optional(check_text))
    min_available: int = field(default=1, validator=check_positive)
    requests: Mapping[str, int] = field(converter=_amounts, factory=dict[str, int], hash=False)
    priority: int = field(default=0, validator=check_whole)
    role: str | None = field(default=None, validator=optional(check_text))
    roles: Mapping[str, int] = field(converter=_amounts, factory=dict[str, int], hash=False)
    within: str | None = field(default=None, validator=optional(check_text))
    bundle: tuple[str, ...] = field(default=(), converter=_names, validator=_texts)
    tolerates: tuple[str, ...] = field(default=(), converter=_names, validator=_texts)

    def __attrs_post_init__(self) -> None:
        if self.group is None:
            alone = PlainPod(uid=self.uid, group="its own")
            for name in ("min_available", "role", "roles", "within", "bundle"):
                value, nothing = getattr(self, name), getattr(alone, name)
                if value != nothing:
                    raise InvalidValueError(name, value, f"{nothing!r} without a group")
        if sum(self.roles.values()) > self.min_available:
            expected = f"at most min_available ({self.min_available}) in total"
            raise InvalidValueError("roles", self.roles, expected)

    def __repr__(self) -> str:
        plain = PlainPod(uid=self.uid)
        names = [name for name in fields_dict(PlainPod) if name != "uid"]
        told = [(name, getattr(self, name)) for name in names]
        said = [f", {name}={value!r}" for name, value in told if value != getattr(plain, name)]
        return f"PlainPod(uid={self.uid!r}{''.join(said)})"


def declared(scheduler: object) -> frozenset[str]:
    """Return the features that an adapter declares.

    Raises:
        InvalidValueError: One of them is none.
    """
    names: Collection[str] = getattr(scheduler, "features", ())
    if isinstance(names, str) or not set(names) <= set(FEATURES):
        raise InvalidValueError("features", names, f"a subset of {', '.join(FEATURES)}")
    return frozenset(names)


def plain(pod: PlainPod, features: Collection[str]) -> PlainPod:
    """Return a pod without what is not among some features."""
    if not (pod.role or pod.roles or pod.within or pod.bundle or pod.tolerates):
        return pod
    if "roles" not in features:
        pod = evolve(pod, role=None, roles={})
    if "topology" not in features:
        pod = evolve(pod, within=None)
    if "bundles" not in features:
        pod = evolve(pod, bundle=())
    return pod if "taints" in features else evolve(pod, tolerates=())
