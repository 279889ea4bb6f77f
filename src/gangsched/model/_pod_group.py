"""``PodGroup``, the specification of a pod group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast, final

from attrs import Factory, evolve, field, frozen
from attrs.converters import optional as to_optional
from attrs.validators import optional

from gangsched.constraints import Topology
from gangsched.errors import InvalidPodGroupError, InvalidValueError
from gangsched.model._labelled_role import LabelledRole, role_by_labels, with_copies
from gangsched.model._names import GroupKey, PreemptionPolicy, group_key
from gangsched.model._restart_policy import RestartPolicy
from gangsched.model._role import (
    Role,
    as_minima,
    check_minima,
    has_slices,
    leaf_at,
    pods_needed,
)
from gangsched.model._sequences import as_names
from gangsched.model._slices import number_of, slice_of
from gangsched.quantity import is_seconds
from gangsched.resources import EMPTY, NOTHING, FrozenMap, Resources
from gangsched.values.fields import (
    as_resources,
    as_tuple,
    check_amounts,
    check_count,
    check_each,
    check_flag,
    check_instant,
    check_namespace,
    check_optional,
    check_positive,
    check_text,
    of_group,
)
from gangsched.values.reprs import pretty_repr, short_repr

__all__ = ["PodGroup"]


def _as_keys(given: Iterable[str]) -> tuple[GroupKey, ...]:
    found = as_tuple(given)
    if isinstance(found, tuple) and all(isinstance(key, str) for key in found):
        found = tuple(sorted(set(found)))
    return cast("tuple[GroupKey, ...]", found)


def _check_keys(owner: object, attribute: object, value: object) -> None:
    if not isinstance(value, tuple):
        raise InvalidValueError("bundle", value, "a sequence of group keys, each namespace/name")
    for key in cast("tuple[object, ...]", value):
        _check_key(owner, attribute, key)


def _check_key(_owner: object, attribute: Any, key: object) -> None:
    namespace, slash, name = key.partition("/") if isinstance(key, str) else ("", "", "")
    if not (namespace and slash and name) or "/" in name:
        raise InvalidValueError(attribute.name, key, "a group key, namespace/name")


def _check_restarts(_owner: object, _attribute: object, value: object) -> None:
    if type(value) is not int or value < 0:
        raise InvalidValueError("restarts", value, "an int >= 0")


def _as_restarts(given: Mapping[str, tuple[int, float | None]]) -> Any:
    if not isinstance(given, Mapping) or isinstance(given, Resources):
        return given
    return FrozenMap(
        {key: tuple(each) if isinstance(each, list) else each for key, each in given.items()}
    )


def _check_copy_restarts(_owner: object, _attribute: object, value: object) -> None:
    expected = "a mapping of paths to pairs of an int >= 1 and an instant or None"
    if not isinstance(value, Mapping) or isinstance(value, Resources):
        raise InvalidValueError("copy_restarts", value, expected)
    for path, pair in cast("Mapping[object, object]", value).items():
        if not isinstance(path, str) or not path:
            raise InvalidValueError("copy_restarts", path, expected)
        if not _is_status(pair):
            raise InvalidValueError(f"copy_restarts[{path!r}]", pair, expected)


def _is_status(pair: object) -> bool:
    if not isinstance(pair, tuple) or len(cast("tuple[object, ...]", pair)) != 2:
        return False
    restarts, until = cast("tuple[object, object]", pair)
    return type(restarts) is int and restarts >= 1 and (until is None or is_seconds(until))


def _as_labelled(given: Iterable[LabelledRole]) -> tuple[LabelledRole, ...]:
    return as_tuple(given)


def _least(group: PodGroup) -> Any:
    """Return the default of ``min_available``: the pods that the roles need.

    Without roles there is no default. The result is then None, which the constructor refuses.
    A group of groups has no pods.
    """
    if group.min_groups is not None:
        return 0
    roles = group.roles
    if not isinstance(roles, FrozenMap) or isinstance(roles, Resources):
        return None
    known = {name: role for name, role in roles.items() if type(role) in (int, Role)}
    return pods_needed(known) or None


@final
@frozen(kw_only=True)
class PodGroup:
    """The specification of a pod group: pods that start together, or not at all.

    Attributes:
        name: The name, a non-empty string.
        namespace: The namespace of the group and of its members, a non-empty string without a
            slash.
        roles: The minimum number of members of each role, each at least 1:
            ``{"ps": 1, "worker": 4}``. Their sum is at most *min_available*. Empty if the quorum
            does not depend on roles. ``minTaskMember`` in Volcano. A ``Role`` says more than a
            minimum: that the role consists of copies with roles of their own, a topology. One that
            says no more is stored as its minimum. The names are non-empty and without a slash; if
            a role has roles, the names are without a dot too, because labels spell the path of a
            pod ``decode.0.worker``.
        parent: The key of the group of groups that this one is a child of, ``namespace/name``.
            All groups below one root start together: of the children of each group of groups
            *min_groups*, at least. ``parentCompositePodGroupName`` elsewhere. None for no parent.
        min_groups: Makes it a group of groups, without pods of its own: how many of its children
            have to start, at least 1. Any other one starts as a whole or not at all. None for a
            group of pods. ``minGroupCount`` and ``minSubGroup`` elsewhere.
        min_available: The quorum: the number of members that start together, at least 1. By
            default the number of pods that *roles* need. ``minMember`` and ``minCount`` elsewhere.
            0 for a group of groups.
        schedule_timeout: The number of seconds for which members wait on permit for the others, in
            each attempt; finite and >= 0. None for the default of the policy, 0 to not wait.
        min_resources: The resources that the group needs in total. The group is not attempted while
            the nodes together have less than that free.
        priority: The priority of the group; None to use the highest priority of its members.
        queue: The queue that the group is charged to, the name of a ``Quota``; None for that which
            its pods name, else that of its namespace. Below a group of groups, that of the root.
        created_at: The instant at which the group was created.
        topology: The topology constraint: the node label of which all members' nodes must have one
            value. None for no constraint.
        bundle: The keys of the groups that start together with this one, or not at all. They may be
            of other namespaces, and the key of this group may be left out. Each group of a bundle
            must name the same groups. Empty for none.
        preemption_policy: Whether the group may preempt pods of lower priority; None to use the
            policy of its members.
        evicted_whole: Whether preemption may only evict all members of the group, and never a part
            of them, such as elastic members. Of a group of groups, all members below it.
        restart: When and how often the group is restarted if it falls below its minimum while it
            runs; None for never. Of a group of groups, with all groups below it.
        restarts: How often the group was restarted already, as its status says. A scheduler that
            sees the group for the first time goes on from there.
        restarting_until: While a restart is under way, the instant before which the group must not
            start again, as its status says; None for no restart under way.
        copy_restarts: The same for each copy or role with a policy of its own, by its path:
            ``{"decode/1": (1, 111.0)}``. See ``GroupRestarted.noted_in``.
        labelled_roles: Which members have which role by their labels, whatever they say themselves:
            the first one that selects a member counts. Empty if members name their roles.
        spares: For how many more pods like its own the group wants room while it runs, within the
            domain that it requires; at least 0. A pod that replaces a lost one goes there.
        unmodelled: The hard constraints of the group that this library does not know, each in
            words. The pods of a group with one are not scheduled.

    Raises:
        InvalidPodGroupError: A value is malformed. The error names the group, the attribute and
            the value.
        InvalidValueError: A value of *min_resources* is not a quantity. The error names the
            resource.
    """

    name: str = field(validator=of_group(check_text))
    namespace: str = field(default="default", validator=of_group(check_namespace))
    # Before min_available, because the default of that is computed from the roles.
    roles: FrozenMap[int | Role] = field(
        default=EMPTY, converter=as_minima, validator=of_group(check_minima)
    )
    parent: GroupKey | None = field(default=None, validator=of_group(optional(_check_key)))
    min_groups: int | None = field(default=None, validator=of_group(optional(check_positive)))
    min_available: int = field(default=Factory(_least, takes_self=True))
    schedule_timeout: float | None = None
    min_resources: Resources = field(
        default=NOTHING, converter=as_resources, validator=of_group(check_amounts)
    )
    priority: int | None = None
    queue: str | None = field(default=None, validator=of_group(optional(check_text)))
    created_at: float = field(default=0.0, validator=of_group(check_instant))
    topology: Topology | None = field(
        default=None, validator=of_group(check_optional(Topology, "a Topology or None"))
    )
    bundle: tuple[GroupKey, ...] = field(
        default=(), converter=_as_keys, validator=of_group(_check_keys)
    )
    preemption_policy: PreemptionPolicy | None = field(
        default=None, converter=to_optional(PreemptionPolicy)
    )
    evicted_whole: bool = field(default=False, validator=of_group(check_flag))
    restart: RestartPolicy | None = field(
        default=None, validator=of_group(check_optional(RestartPolicy, "a RestartPolicy or None"))
    )
    restarts: int = field(default=0, validator=of_group(_check_restarts))
    restarting_until: float | None = field(
        default=None, validator=of_group(optional(check_instant))
    )
    copy_restarts: FrozenMap[tuple[int, float | None]] = field(
        default=EMPTY, converter=_as_restarts, validator=of_group(_check_copy_restarts)
    )
    labelled_roles: tuple[LabelledRole, ...] = field(
        default=(),
        converter=_as_labelled,
        validator=of_group(check_each(LabelledRole, "a LabelledRole")),
    )
    spares: int = field(default=0, validator=of_group(check_count))
    unmodelled: tuple[str, ...] = field(
        default=(), converter=as_names, validator=of_group(check_each(str, "a string"))
    )

    def __attrs_post_init__(self) -> None:
        if self.parent is not None and self.bundle:
            expected = "omitted: a group with a parent starts with the other children of it"
            raise InvalidPodGroupError(self.key, "bundle", self.bundle, expected)
        if self.parent == self.key:
            raise InvalidPodGroupError(self.key, "parent", self.parent, "another group")
        if self.min_groups is not None:
            self._check_has_no_pods()
        elif type(self.min_available) is not int or self.min_available < 1:
            raise InvalidPodGroupError(self.key, "min_available", self.min_available, "an int >= 1")
        if pods_needed(self.roles) > self.min_available:
            expected = f"counts with a sum <= min_available, which is {self.min_available}"
            raise InvalidPodGroupError(self.key, "roles", dict(self.roles), expected)
        self._check_topology()
        timeout = self.schedule_timeout
        if timeout is not None and not (is_seconds(timeout) and timeout >= 0):
            raise InvalidPodGroupError(
                self.key,
                "schedule_timeout",
                timeout,
                "a finite number of seconds >= 0, or None",
            )
        if self.priority is not None and type(self.priority) is not int:
            raise InvalidPodGroupError(self.key, "priority", self.priority, "an int or None")

    def _check_topology(self) -> None:
        of = self.topology
        word = "slices" if of is not None and of.slices else ""
        if of is not None and of.apart is not None and self.roles:
            word = word or "apart"  # of a group of groups, it is about its children
        if word and (self.roles or self.min_groups):
            expected = f"no {word}: that is of the pods of one role, or of a group without roles"
            raise InvalidPodGroupError(self.key, "topology", of, expected)

    def _check_has_no_pods(self) -> None:
        for name in (
            *("min_available", "roles", "labelled_roles", "min_resources", "bundle"),
            "spares",
        ):
            if value := getattr(self, name):
                expected = "omitted: a group with min_groups has no pods of its own"
                raise InvalidPodGroupError(self.key, name, value, expected)

    @property
    def key(self) -> GroupKey:
        """The key of the group: ``namespace/name``."""
        return group_key(self.namespace, self.name)

    @property
    def has_copies(self) -> bool:
        """Whether some role consists of copies: members name theirs by a path. O(roles)."""
        return any(isinstance(role, Role) and role.roles for role in self.roles.values())

    @property
    def has_slices(self) -> bool:
        """Whether the group, or a role of it, is cut into slices. O(roles)."""
        own = self.topology is not None and bool(self.topology.slices)
        return own or (bool(self.roles) and has_slices(self.roles))

    @property
    def is_repaired(self) -> bool:
        """Whether lost members of it, or of a role of it, are replaced first. O(roles)."""
        policies = [self.restart, *(r.restart for r in self.roles.values() if isinstance(r, Role))]
        return any(policy is not None and policy.repair for policy in policies)

    @property
    def spells_roles(self) -> bool:
        """Whether the group decides which role its members have. O(roles)."""
        return self.has_slices or self.has_copies or bool(self.labelled_roles)

    def path_of(
        self, role: str | None, labels: Mapping[str, str] = EMPTY, name: str = ""
    ) -> str | None:
        """Return the role of a member as ``Pod.role`` has it.

        If some role consists of copies, a role that a label spells ``decode.0.worker`` is the path
        ``decode/0/worker``. Otherwise it is the name of a role, dots included. The path of a member
        of a slice ends with it: ``slice-1``, or ``worker/slice-1/slice-0``.

        Runtime complexity: O(roles + labelled roles).

        Args:
            role: The role that the member names; None for none.
            labels: The labels of the member: *labelled_roles* may give it another role.
            name: The name of the member, which may end with its number.
        """
        path = self._own_path(role, labels)
        slices, count = self._slices_of(path)
        number = number_of(name, labels) if slices else None
        if number is None:
            return path
        cut = slice_of(number, count, slices)
        return "/".join(filter(None, (path if self.roles else None, cut))) or None

    def _own_path(self, role: str | None, labels: Mapping[str, str]) -> str | None:
        by_labels = role_by_labels(self.labelled_roles, labels)
        if by_labels is not None:
            return by_labels.path(labels)
        return role.replace(".", "/") if role and self.has_copies else role

    def _slices_of(self, path: str | None) -> tuple[tuple[tuple[str, int], ...], int]:
        """Return the slices of a role, by its path, and how many members they are about."""
        if not self.roles:
            return () if self.topology is None else self.topology.slices, self.min_available
        role = leaf_at(self.roles, path or "")
        if not isinstance(role, Role) or role.topology is None:
            return (), 0
        return role.topology.slices, role.needed

    def member_problem(
        self, role: str | None, labels: Mapping[str, str], name: str
    ) -> InvalidPodGroupError | None:
        """Return why a pod has no place in the group; None if it may be a member.

        Runtime complexity: O(roles + labelled roles).
        """
        by_labels = role_by_labels(self.labelled_roles, labels)
        problem = None if by_labels is None else by_labels.problem(labels)
        if problem is not None:
            return InvalidPodGroupError(self.key, *problem)
        path = self._own_path(role, labels)
        names_copies = self.has_copies and not self.labelled_roles
        is_stated = path is not None and path.partition("/")[0] in self.roles
        if names_copies and is_stated and leaf_at(self.roles, path or "") is None:
            expected = "the role of a copy that the group has, such as decode/0/worker"
            return InvalidPodGroupError(f"pod {self.namespace}/{name}", "role", role, expected)
        if self._slices_of(path)[0] and number_of(name, labels) is None:
            expected = "a name that ends with its number, such as w-3, since its group has slices"
            return InvalidPodGroupError(f"pod {self.namespace}/{name}", "name", name, expected)
        return None

    def with_copies_of(self, paths: Iterable[str | None]) -> PodGroup:
        """Return the group with the copies that its members number, given the role of each.

        Only *labelled_roles* number copies. The group itself if it has them all. O(paths).
        """
        if not self.labelled_roles:
            return self
        roles = with_copies(self.roles, self.labelled_roles, paths)
        return self if roles is self.roles else evolve(self, roles=roles)

    def __repr__(self) -> str:
        return short_repr(self)

    _repr_pretty_ = pretty_repr
