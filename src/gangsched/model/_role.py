"""``Role``: the members of a pod group that are alike, or copies that consist of such members.

Rules:
  R1  a role without ``roles`` is a leaf: it stands for pods. A role with ``roles`` stands for
      copies, and each of its copies consists of these roles;
  R2  an int in ``Role.roles`` is a count. An int in ``PodGroup.roles`` is a minimum, because a
      specification counts no pods;
  R3  a pod names its leaf by the path ``decode/0/worker``: role, number of the copy, role of the
      copy. So no name has a slash. Labels spell the path ``decode.0.worker``, so the names of a
      group with copies have no dot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard, cast, final

from attrs import Attribute, field, frozen
from attrs.converters import optional as to_optional
from attrs.validators import optional

from gangsched.constraints import NodeSelectorTerm, Toleration, Topology
from gangsched.errors import InvalidValueError
from gangsched.model._restart_policy import RestartPolicy
from gangsched.resources import EMPTY, FrozenMap, Resources
from gangsched.values.fields import (
    as_resources,
    as_texts,
    as_tuple,
    check_amounts,
    check_each,
    check_flag,
    check_optional,
    check_positive,
    check_texts,
)
from gangsched.values.reprs import pretty_repr, short_repr

__all__ = [
    "Role",
    "as_minima",
    "check_minima",
    "has_slices",
    "leaf_at",
    "pods_needed",
]


def _as_requests(given: Mapping[str, str | int]) -> Resources:
    try:
        return as_resources(given)
    except InvalidValueError as error:
        raise InvalidValueError(f"requests.{error.field}", error.value, error.expected) from None


def _as_terms(given: Iterable[NodeSelectorTerm]) -> tuple[NodeSelectorTerm, ...]:
    return as_tuple(given)


def _as_tolerations(given: Iterable[Toleration]) -> tuple[Toleration, ...]:
    return as_tuple(given)


def _as_roles(given: Mapping[str, int | Role]) -> FrozenMap[int | Role]:
    return cast("FrozenMap[int | Role]", as_texts(cast("Mapping[str, str]", given)))


def _check_roles(_owner: object, attribute: Attribute[Any], value: object) -> None:
    """Require a mapping of names without a slash to ints >= 1 and roles."""
    if value is EMPTY:
        return
    if not isinstance(value, Mapping) or isinstance(value, Resources):
        raise InvalidValueError(attribute.name, value, "a mapping of strings to ints or roles")
    for name, role in cast("Mapping[object, object]", value).items():
        if not isinstance(name, str) or not name or "/" in name:
            expected = "a mapping with non-empty strings without a slash as names"
            raise InvalidValueError(attribute.name, name, expected)
        if not isinstance(role, Role) and (type(role) is not int or role < 1):
            expected = "an int >= 1, or a Role"
            raise InvalidValueError(f"{attribute.name}[{name!r}]", role, expected)


@final
@frozen
class Role:
    """The members of one role, which are alike; or copies that each consist of further roles.

    ::

        Role(8, minimum=4)  # eight pods, of which four are needed
        Role(4, minimum=2, roles={"leader": 1, "worker": 3})  # two of four copies of four pods

    Attributes:
        count: The number of pods, or of copies; at least 1.
        minimum: The number of them that the gang needs to start; None for all of them.
        requests: The requests of each pod; None for those of the role above, or of the gang.
        node_selector: The labels that the node of each pod must have; None for those from above.
        affinity: The terms of the required node affinity of each pod; None for those from above.
        tolerations: The taints that each pod tolerates; None for those from above.
        roles: What each copy consists of: counts, and roles. Empty for a role of pods.
        topology: The topology constraint of each copy; of a role of pods, that of all its pods
            together. None for no constraint of its own.
        restart: When and how often a copy that falls below its minimum while it runs is restarted
            alone; of a role of pods, all its pods. None to leave it to what is above.
        evicted_whole: Whether preemption may only evict all pods of a copy, and never a part of
            them; of a role of pods, only all its pods.

    Raises:
        InvalidValueError: A value is malformed. The error names the attribute and the value.
    """

    count: int = field(validator=check_positive)
    minimum: int | None = field(default=None, validator=optional(check_positive))
    requests: Resources | None = field(
        default=None, converter=to_optional(_as_requests), validator=optional(check_amounts)
    )
    node_selector: FrozenMap[str] | None = field(
        default=None, converter=to_optional(as_texts), validator=optional(check_texts)
    )
    affinity: tuple[NodeSelectorTerm, ...] | None = field(
        default=None,
        converter=to_optional(_as_terms),
        validator=optional(check_each(NodeSelectorTerm, "a NodeSelectorTerm")),
    )
    tolerations: tuple[Toleration, ...] | None = field(
        default=None,
        converter=to_optional(_as_tolerations),
        validator=optional(check_each(Toleration, "a Toleration")),
    )
    roles: FrozenMap[int | Role] = field(
        default=EMPTY, converter=_as_roles, validator=_check_roles, kw_only=True
    )
    topology: Topology | None = field(
        default=None, validator=check_optional(Topology, "a Topology or None"), kw_only=True
    )
    restart: RestartPolicy | None = field(
        default=None,
        validator=check_optional(RestartPolicy, "a RestartPolicy or None"),
        kw_only=True,
    )
    evicted_whole: bool = field(default=False, validator=check_flag, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.needed > self.count:
            expected = f"an int <= count, which is {self.count}"
            raise InvalidValueError("minimum", self.minimum, expected)

        if self.roles and self.topology is not None and self.topology.slices:
            expected = "no slices: they are of the pods of one role, and not of copies"
            raise InvalidValueError("topology", self.topology, expected)

    @property
    def needed(self) -> int:
        """The number of copies, or of pods, that the gang needs to start."""
        return self.count if self.minimum is None else self.minimum

    @property
    def least(self) -> int:
        """The number of pods that one copy needs to start; 1 for a role of pods. O(roles)."""
        return pods_needed(self.roles) or 1

    def __repr__(self) -> str:
        return short_repr(self)

    _repr_pretty_ = pretty_repr


def pods_needed(roles: Mapping[str, int | Role]) -> int:
    """Return the number of pods that roles need in total. O(roles)."""
    return sum(
        role if not isinstance(role, Role) else role.needed * role.least for role in roles.values()
    )


def has_slices(roles: Mapping[str, int | Role]) -> bool:
    """Return whether a role, or one in its copies, is cut into slices. O(roles)."""
    return any(
        (role.topology is not None and bool(role.topology.slices)) or has_slices(role.roles)
        for role in roles.values()
        if isinstance(role, Role)
    )


def leaf_at(roles: Mapping[str, int | Role], path: str) -> int | Role | None:
    """Return the role of pods at a path, within a copy that there is; None for none."""
    name, _slash, rest = path.partition("/")
    role = roles.get(name)
    if not isinstance(role, Role) or not role.roles:
        return None if rest else role
    number, _slash, below = rest.partition("/")
    is_copy = number.isascii() and number.isdigit() and str(int(number)) == number
    return leaf_at(role.roles, below) if is_copy and int(number) < role.count else None


def _is_minimum(role: object) -> TypeGuard[Role]:
    """Return whether a role of a specification says no more than its minimum."""
    return isinstance(role, Role) and not (
        role.roles or role.topology or role.restart or role.evicted_whole
    )


def as_minima(given: Mapping[str, int | Role]) -> FrozenMap[int | Role]:
    """Convert the roles of a specification; ``check_minima`` validates the result.

    A role of pods that only states how many there are is converted to its minimum: it says no more
    to a scheduler.
    """
    roles = _as_roles(given)
    if not isinstance(roles, FrozenMap) or not any(_is_minimum(role) for role in roles.values()):
        return roles
    return FrozenMap(
        {name: role.needed if _is_minimum(role) else role for name, role in roles.items()}
    )


def check_minima(owner: object, attribute: Attribute[Any], value: object) -> None:
    """Require what roles of ``Role`` require; and of a group with copies, names without a dot."""
    _check_roles(owner, attribute, value)
    roles = cast("Mapping[str, int | Role]", value)
    if any(isinstance(role, Role) and role.roles for role in roles.values()):
        _check_no_dots(attribute.name, roles)


def _check_no_dots(path: str, roles: Mapping[str, int | Role]) -> None:
    for name, role in roles.items():
        if "." in name:
            expected = "names without a dot, because labels spell paths of copies with dots"
            raise InvalidValueError(path, name, f"{expected}: decode.0.worker")
        if isinstance(role, Role):
            _check_no_dots(f"{path}[{name!r}].roles", role.roles)
