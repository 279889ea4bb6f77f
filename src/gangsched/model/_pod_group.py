"""``PodGroup``, the specification of a pod group, with ``RestartPolicy``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast, final

from attrs import Factory, field, frozen
from attrs.converters import optional as to_optional
from attrs.validators import optional

from gangsched.constraints import Topology
from gangsched.errors import InvalidPodGroupError, InvalidValueError
from gangsched.model._names import GroupKey, PreemptionPolicy, group_key
from gangsched.model._sequences import as_names
from gangsched.quantity import is_seconds
from gangsched.resources import EMPTY, NOTHING, FrozenMap, Resources
from gangsched.values.fields import (
    as_counts,
    as_resources,
    as_tuple,
    check_amounts,
    check_counts,
    check_each,
    check_flag,
    check_instant,
    check_namespace,
    check_text,
    of_group,
)
from gangsched.values.reprs import pretty_repr, short_repr
from gangsched.values.seconds import format_duration

__all__ = ["PodGroup", "RestartPolicy"]


def _check_topology(_owner: object, _attribute: object, value: object) -> None:
    if value is not None and not isinstance(value, Topology):
        raise InvalidValueError("topology", value, "a Topology or None")


def _as_keys(given: Iterable[str]) -> tuple[GroupKey, ...]:
    found = as_tuple(given)
    if isinstance(found, tuple) and all(isinstance(key, str) for key in found):
        found = tuple(sorted(set(found)))
    return cast("tuple[GroupKey, ...]", found)


def _check_keys(_owner: object, _attribute: object, value: object) -> None:
    if not isinstance(value, tuple):
        raise InvalidValueError("bundle", value, "a sequence of group keys, each namespace/name")
    for key in cast("tuple[object, ...]", value):
        namespace, slash, name = key.partition("/") if isinstance(key, str) else ("", "", "")
        if not (namespace and slash and name) or "/" in name:
            raise InvalidValueError("bundle", key, "a group key, namespace/name")


@final
@frozen(kw_only=True)
class RestartPolicy:
    """How often a pod group is restarted as a whole, and how long it backs off.

    A running group that is below its minimum for a second is restarted: its other members are
    evicted, their controller creates them again, and the group starts as a whole. It is not
    restarted if all its members are deleted and none has failed. The n-th restart backs off
    ``min(backoff * 2 ** (n - 1), longest_backoff)`` seconds. The defaults are those of a Kubernetes
    Job: ``backoffLimit: 6``, and 10 s, doubled up to 6 minutes.

    Attributes:
        max_restarts: The number of restarts, an int >= 1. A group that falls below its minimum
            after the last one keeps the members that it has.
        backoff: The backoff of the first restart in seconds; finite and > 0.
        longest_backoff: The longest backoff in seconds; finite and >= *backoff*. For as long, from
            its deletion on, an old pod that stays terminating is waited for.

    Raises:
        InvalidValueError: A value is malformed. The error names the attribute and the value.

    Source: KEP-34, "restart the whole PodGroup, according to the configuration".
    """

    max_restarts: int = 6
    backoff: float = 10.0
    longest_backoff: float = 360.0

    def __attrs_post_init__(self) -> None:
        if type(self.max_restarts) is not int or self.max_restarts < 1:
            raise InvalidValueError("max_restarts", self.max_restarts, "an int >= 1")
        if not is_seconds(self.backoff) or self.backoff <= 0:
            raise InvalidValueError("backoff", self.backoff, "a finite number of seconds > 0")
        if not is_seconds(self.longest_backoff) or self.longest_backoff < self.backoff:
            expected = f"a finite number of seconds >= {format_duration(self.backoff)}"
            raise InvalidValueError("longest_backoff", self.longest_backoff, expected)


def _check_restart(_owner: object, _attribute: object, value: object) -> None:
    if value is not None and not isinstance(value, RestartPolicy):
        raise InvalidValueError("restart", value, "a RestartPolicy or None")


def _check_restarts(_owner: object, _attribute: object, value: object) -> None:
    if type(value) is not int or value < 0:
        raise InvalidValueError("restarts", value, "an int >= 0")


def _in_roles(group: PodGroup) -> Any:
    """Return the default of ``min_available``: the sum of the roles.

    Without roles there is no default. The result is then None, which the constructor refuses.
    """
    counts = group.roles.values() if isinstance(group.roles, FrozenMap) else ()
    return sum(count for count in counts if type(count) is int) or None


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
            does not depend on roles. ``minTaskMember`` in Volcano.
        min_available: The quorum: the number of members that start together, at least 1. By
            default the sum of *roles*. ``minMember`` and ``minCount`` elsewhere.
        schedule_timeout: The number of seconds for which members wait on permit for the others, in
            each attempt; finite and >= 0. None for the default of the policy, 0 to not wait.
        min_resources: The resources that the group needs in total. The group is not attempted while
            the nodes together have less than that free.
        priority: The priority of the group; None to use the highest priority of its members.
        created_at: The instant at which the group was created.
        topology: The topology constraint: the node label of which all members' nodes must have one
            value. None for no constraint.
        bundle: The keys of the groups that start together with this one, or not at all. They may be
            of other namespaces, and the key of this group may be left out. Each group of a bundle
            must name the same groups. Empty for none.
        preemption_policy: Whether the group may preempt pods of lower priority; None to use the
            policy of its members.
        evicted_whole: Whether preemption may only evict all members of the group, and never a part
            of them, such as elastic members.
        restart: When and how often the group is restarted if it falls below its minimum while it
            runs; None for never.
        restarts: How often the group was restarted already, as its status says. A scheduler that
            sees the group for the first time goes on from there.
        restarting_until: While a restart is under way, the instant before which the group must not
            start again, as its status says; None for no restart under way.
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
    roles: FrozenMap[int] = field(
        default=EMPTY, converter=as_counts, validator=of_group(check_counts)
    )
    min_available: int = field(default=Factory(_in_roles, takes_self=True))
    schedule_timeout: float | None = None
    min_resources: Resources = field(
        default=NOTHING, converter=as_resources, validator=of_group(check_amounts)
    )
    priority: int | None = None
    created_at: float = field(default=0.0, validator=of_group(check_instant))
    topology: Topology | None = field(default=None, validator=of_group(_check_topology))
    bundle: tuple[GroupKey, ...] = field(
        default=(), converter=_as_keys, validator=of_group(_check_keys)
    )
    preemption_policy: PreemptionPolicy | None = field(
        default=None, converter=to_optional(PreemptionPolicy)
    )
    evicted_whole: bool = field(default=False, validator=of_group(check_flag))
    restart: RestartPolicy | None = field(default=None, validator=of_group(_check_restart))
    restarts: int = field(default=0, validator=of_group(_check_restarts))
    restarting_until: float | None = field(
        default=None, validator=of_group(optional(check_instant))
    )
    unmodelled: tuple[str, ...] = field(
        default=(), converter=as_names, validator=of_group(check_each(str, "a string"))
    )

    def __attrs_post_init__(self) -> None:
        if type(self.min_available) is not int or self.min_available < 1:
            raise InvalidPodGroupError(self.key, "min_available", self.min_available, "an int >= 1")
        if sum(self.roles.values()) > self.min_available:
            expected = f"counts with a sum <= min_available, which is {self.min_available}"
            raise InvalidPodGroupError(self.key, "roles", dict(self.roles), expected)
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

    @property
    def key(self) -> GroupKey:
        """The key of the group: ``namespace/name``."""
        return group_key(self.namespace, self.name)

    def __repr__(self) -> str:
        return short_repr(self)

    _repr_pretty_ = pretty_repr
