"""The nouns: Pod, PodGroup, Node; with what they are made of, under one name.

Rules:
  R1  every noun is frozen and validated once, when it is made; nothing downstream
      checks again;
  R2  identity is the UID: two pods with one name and two UIDs are two pods;
  R3  quantities are integers in thousandths (see ``gangsched.quantity``);
  R4  instants and durations are seconds on the caller's clock; ``*_at`` is an instant.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any, NewType, NoReturn, cast, final

from attrs import Factory, field, frozen
from attrs.converters import optional as to_optional
from attrs.validators import optional

from gangsched._fields import (
    as_counts,
    as_resources,
    as_texts,
    as_tuple,
    check_amounts,
    check_counts,
    check_each,
    check_flag,
    check_instant,
    check_namespace,
    check_string,
    check_text,
    check_texts,
    check_whole,
    of_group,
    refuse_choice,
)
from gangsched.constraints import (
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Taint,
    TaintEffect,
    Toleration,
    Topology,
)
from gangsched.errors import InvalidPodGroupError, InvalidValueError
from gangsched.quantity import is_seconds
from gangsched.resources import EMPTY, NOTHING, FrozenMap, Resources

__all__ = [
    "FrozenMap",
    "GroupKey",
    "Node",
    "NodeName",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "Pod",
    "PodGroup",
    "PodPhase",
    "PodUID",
    "PreemptionPolicy",
    "QOSClass",
    "Resources",
    "Taint",
    "TaintEffect",
    "Toleration",
    "Topology",
    "group_key",
]

PodUID = NewType("PodUID", str)
GroupKey = NewType("GroupKey", str)
NodeName = NewType("NodeName", str)


def _check_topology(_owner: object, _attribute: object, value: object) -> None:
    if value is not None and not isinstance(value, Topology):
        raise InvalidValueError("topology", value, "a Topology or None")


def _as_keys(given: Iterable[GroupKey]) -> tuple[GroupKey, ...]:
    found = as_tuple(given)
    if isinstance(found, tuple) and all(isinstance(key, str) for key in found):
        return tuple(sorted(set(found)))
    return found


def _check_keys(_owner: object, _attribute: object, value: object) -> None:
    if not isinstance(value, tuple):
        raise InvalidValueError("bundle", value, "a sequence of group keys")
    for key in cast("tuple[object, ...]", value):
        namespace, slash, name = key.partition("/") if isinstance(key, str) else ("", "", "")
        if not (namespace and slash and name) or "/" in name:
            raise InvalidValueError("bundle", key, "a group key, namespace/name")


def group_key(namespace: str, name: str) -> GroupKey:
    """Return the key of a group: ``namespace/name``."""
    return GroupKey(f"{namespace}/{name}")


class PodPhase(enum.Enum):
    """The phase of a pod, as the API server has it."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        refuse_choice(cls, "phase", value)


class PreemptionPolicy(enum.Enum):
    """Whether somebody may displace others to have room, where preemption is switched on."""

    PREEMPT_LOWER_PRIORITY = "PreemptLowerPriority"
    NEVER = "Never"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        refuse_choice(cls, "preemption_policy", value)


class QOSClass(enum.IntEnum):
    """The quality-of-service class of a pod; the smaller comes first."""

    GUARANTEED = 0
    BURSTABLE = 1
    BEST_EFFORT = 2


def _terms(given: Iterable[NodeSelectorTerm]) -> tuple[NodeSelectorTerm, ...]:
    return as_tuple(given)


def _tolerations(given: Iterable[Toleration]) -> tuple[Toleration, ...]:
    return as_tuple(given)


def _taints(given: Iterable[Taint]) -> tuple[Taint, ...]:
    return as_tuple(given)


def _names(given: Iterable[str]) -> tuple[str, ...]:
    return as_tuple(given)


def _uid_from_name(pod: Pod) -> PodUID:
    return PodUID(f"{pod.namespace}/{pod.name}")


@final
@frozen(kw_only=True)
class Pod:
    """A pod: what it asks for, where it may go, and what became of it.

    Attributes:
        uid: Its identity. A recreated pod has the same name and another UID.
        name: Its name, not empty.
        namespace: Its namespace, not empty, without a slash.
        priority: Higher goes first.
        requests: What it reserves on its node.
        limits: What it may use at most; read for the QoS class only.
        labels: Read for the group that it belongs to.
        annotations: Read likewise.
        node_selector: Labels that its node must have.
        affinity: Terms of which its node must match one; empty for no condition.
        tolerations: The taints that it consents to.
        pod_group: ``spec.schedulingGroup.podGroupName``; None where it is not set.
        scheduling_gates: While there is one, the pod is held and counts for no quorum.
        owners: The names of what owns it.
        node_name: The node that it is assigned to; None before that.
        phase: Its phase.
        deleted_at: When its deletion was asked for; a terminating pod counts for no quorum.
        created_at: When it was created.
        preemption_policy: Whether it may displace others of lower priority; of a gang, each of
            its pending members has to be allowed to.
    """

    name: str = field(validator=check_text)
    namespace: str = field(default="default", validator=check_namespace)
    uid: PodUID = field(default=Factory(_uid_from_name, takes_self=True), validator=check_text)
    priority: int = field(default=0, validator=check_whole)
    requests: Resources = field(default=NOTHING, converter=as_resources, validator=check_amounts)
    limits: Resources = field(default=NOTHING, converter=as_resources, validator=check_amounts)
    labels: FrozenMap[str] = field(default=EMPTY, converter=as_texts, validator=check_texts)
    annotations: FrozenMap[str] = field(default=EMPTY, converter=as_texts, validator=check_texts)
    node_selector: FrozenMap[str] = field(default=EMPTY, converter=as_texts, validator=check_texts)
    affinity: tuple[NodeSelectorTerm, ...] = field(
        default=(),
        converter=_terms,
        validator=check_each(NodeSelectorTerm, "a NodeSelectorTerm"),
    )
    tolerations: tuple[Toleration, ...] = field(
        default=(),
        converter=_tolerations,
        validator=check_each(Toleration, "a Toleration"),
    )
    pod_group: str | None = field(default=None, validator=optional(check_string))
    scheduling_gates: tuple[str, ...] = field(
        default=(), converter=_names, validator=check_each(str, "a string")
    )
    owners: tuple[str, ...] = field(
        default=(), converter=_names, validator=check_each(str, "a string")
    )
    node_name: NodeName | None = field(default=None, validator=optional(check_text))
    phase: PodPhase = field(default=PodPhase.PENDING, converter=PodPhase)
    deleted_at: float | None = field(default=None, validator=optional(check_instant))
    created_at: float = field(default=0.0, validator=check_instant)
    preemption_policy: PreemptionPolicy = field(
        default=PreemptionPolicy.PREEMPT_LOWER_PRIORITY, converter=PreemptionPolicy
    )

    @property
    def key(self) -> str:
        """``namespace/name``, for people; never an identity."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_finished(self) -> bool:
        """Whether it has succeeded or failed: it holds nothing any more."""
        return self.phase is PodPhase.SUCCEEDED or self.phase is PodPhase.FAILED

    @property
    def qos_class(self) -> QOSClass:
        """Guaranteed: limits equal requests for cpu and memory; BestEffort: neither is set."""
        both = ("cpu", "memory")
        if not any(self.requests.amount(n) or self.limits.amount(n) for n in both):
            return QOSClass.BEST_EFFORT
        if all(
            self.limits.amount(n) and self.limits.amount(n) == self.requests.amount(n) for n in both
        ):
            return QOSClass.GUARANTEED
        return QOSClass.BURSTABLE


def _in_roles(group: PodGroup) -> Any:
    """Return the minimum of a group that gives none; None, which is refused, without roles."""
    counts = group.roles.values() if isinstance(group.roles, FrozenMap) else ()
    return sum(count for count in counts if type(count) is int) or None


@final
@frozen(kw_only=True)
class PodGroup:
    """Pods that start together: the specification.

    Attributes:
        name: Its name, not empty.
        namespace: The namespace of the group and of its members, not empty, without a slash.
        roles: How many members of which role the quorum must have, each at least 1:
            ``{"ps": 1, "worker": 4}``. Together no more than *min_available*; empty where any
            members will do. ``minTaskMember`` in Volcano.
        min_available: The quorum: start at least this many members together, or none.
            ``minMember`` and ``minCount`` elsewhere. At least 1; where it is not given, as many
            as *roles* ask for together.
        schedule_timeout: For how many seconds members that hold a node wait for the others, per
            attempt; None for the policy's default, 0 for not at all. Not negative, finite.
        min_resources: What the group needs in all: while the nodes have less than that free
            together, no attempt is made.
        priority: The priority of its members; None to take theirs.
        created_at: When it was created.
        topology: Within one value of which label of nodes its members belong; None for anywhere.
        bundle: The groups with which it starts together or not at all, by key, of any namespace;
            with or without itself. Each of them has to name the same ones. Empty for none.
        preemption_policy: Whether it may displace others of lower priority; None to ask its
            members.

    Raises:
        InvalidPodGroupError: A value is malformed; names the group, the field and the value.
        InvalidValueError: In ``min_resources`` is what is no quantity; names the resource.
    """

    name: str = field(validator=of_group(check_text))
    namespace: str = field(default="default", validator=of_group(check_namespace))
    # before the minimum, which is made of it
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

    def __attrs_post_init__(self) -> None:
        if type(self.min_available) is not int or self.min_available < 1:
            raise InvalidPodGroupError(self.key, "min_available", self.min_available, "an int >= 1")
        if sum(self.roles.values()) > self.min_available:
            expected = f"at most min_available ({self.min_available}) in total"
            raise InvalidPodGroupError(self.key, "roles", dict(self.roles), expected)
        timeout = self.schedule_timeout
        if timeout is not None and not (is_seconds(timeout) and timeout >= 0):
            raise InvalidPodGroupError(
                self.key,
                "schedule_timeout",
                timeout,
                "a finite number of seconds >= 0 or None",
            )
        if self.priority is not None and type(self.priority) is not int:
            raise InvalidPodGroupError(self.key, "priority", self.priority, "an int or None")

    @property
    def key(self) -> GroupKey:
        """``namespace/name``."""
        return group_key(self.namespace, self.name)


@final
@frozen(kw_only=True)
class Node:
    """A node: what it offers and whom it takes.

    Attributes:
        name: Its name, not empty.
        allocatable: What pods may reserve on it in all. ``pods`` bounds their number; a node
            that does not name ``pods`` takes any number.
        labels: Read by selectors and affinity.
        taints: What keeps pods away.
        unschedulable: Cordoned: takes no new pod.
    """

    name: NodeName = field(validator=check_text)
    allocatable: Resources = field(default=NOTHING, converter=as_resources, validator=check_amounts)
    labels: FrozenMap[str] = field(default=EMPTY, converter=as_texts, validator=check_texts)
    taints: tuple[Taint, ...] = field(
        default=(), converter=_taints, validator=check_each(Taint, "a Taint")
    )
    unschedulable: bool = field(default=False, validator=check_flag)
