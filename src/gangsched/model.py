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
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NewType, NoReturn, TypeAlias, final

from attrs import Attribute, Factory, field, frozen
from attrs.validators import optional

from gangsched.constraints import (
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Taint,
    TaintEffect,
    Toleration,
)
from gangsched.errors import InvalidPodGroupError, InvalidValueError
from gangsched.quantity import format_quantity, is_seconds
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
    "QOSClass",
    "Resources",
    "Taint",
    "TaintEffect",
    "Toleration",
    "group_key",
]

PodUID = NewType("PodUID", str)
GroupKey = NewType("GroupKey", str)
NodeName = NewType("NodeName", str)

_Check: TypeAlias = "Callable[[Any, Attribute[Any], Any], None]"


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
        raise InvalidValueError("phase", value, "one of " + ", ".join(p.value for p in cls))


class QOSClass(enum.IntEnum):
    """The quality-of-service class of a pod; the smaller comes first."""

    GUARANTEED = 0
    BURSTABLE = 1
    BEST_EFFORT = 2


def _text(_owner: object, attribute: Attribute[Any], value: object) -> None:
    if not isinstance(value, str) or not value:
        raise InvalidValueError(attribute.name, value, "a text that is not empty")


def _instant(_owner: object, attribute: Attribute[Any], value: object) -> None:
    if not is_seconds(value):
        raise InvalidValueError(attribute.name, value, "a finite number of seconds")


def _whole(_owner: object, attribute: Attribute[Any], value: object) -> None:
    if type(value) is not int:
        raise InvalidValueError(attribute.name, value, "a whole number")


def _flag(_owner: object, attribute: Attribute[Any], value: object) -> None:
    if type(value) is not bool:
        raise InvalidValueError(attribute.name, value, "true or false")


def _string(_owner: object, attribute: Attribute[Any], value: object) -> None:
    if not isinstance(value, str):
        raise InvalidValueError(attribute.name, value, "a text")


def _amounts(_owner: object, attribute: Attribute[Any], value: Resources) -> None:
    for name, amount in value.items():
        if amount < 0:
            raise InvalidValueError(
                f"{attribute.name}.{name}",
                format_quantity(amount),
                "a quantity that is not negative",
            )


def _resources(given: Resources | Mapping[str, str | int]) -> Resources:
    return given if isinstance(given, Resources) else Resources(given)


def _strings(given: Mapping[str, str]) -> FrozenMap[str]:
    return given if isinstance(given, FrozenMap) else FrozenMap(given)


def _texts(_owner: object, attribute: Attribute[Any], value: FrozenMap[str]) -> None:
    for name, text in value.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise InvalidValueError(f"{attribute.name}.{name}", text, "a text")


def _names(field: str, given: Iterable[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise InvalidValueError(field, given, "names, not one text")
    return tuple(given)


def _gates(given: Iterable[str]) -> tuple[str, ...]:
    return _names("scheduling_gates", given)


def _owners(given: Iterable[str]) -> tuple[str, ...]:
    return _names("owners", given)


def _each(kind: type[object], expected: str) -> _Check:
    def check(_owner: object, attribute: Attribute[Any], value: tuple[object, ...]) -> None:
        for index, one in enumerate(value):
            if not isinstance(one, kind):
                raise InvalidValueError(f"{attribute.name}[{index}]", one, expected)

    return check


def _of_group(check: _Check) -> _Check:
    def check_and_name(owner: PodGroup, attribute: Attribute[Any], value: object) -> None:
        try:
            check(owner, attribute, value)
        except InvalidValueError as error:
            raise InvalidPodGroupError(
                owner.key, error.field, error.value, error.expected
            ) from None

    return check_and_name


def _uid_from_name(pod: Pod) -> PodUID:
    return PodUID(f"{pod.namespace}/{pod.name}")


@final
@frozen(kw_only=True)
class Pod:
    """A pod: what it asks for, where it may go, and what became of it.

    Attributes:
        uid: Its identity. A recreated pod has the same name and another UID.
        name: Its name, not empty.
        namespace: Its namespace.
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
    """

    name: str = field(validator=_text)
    namespace: str = field(default="default", validator=_text)
    uid: PodUID = field(default=Factory(_uid_from_name, takes_self=True), validator=_text)
    priority: int = field(default=0, validator=_whole)
    requests: Resources = field(default=NOTHING, converter=_resources, validator=_amounts)
    limits: Resources = field(default=NOTHING, converter=_resources, validator=_amounts)
    labels: FrozenMap[str] = field(default=EMPTY, converter=_strings, validator=_texts)
    annotations: FrozenMap[str] = field(default=EMPTY, converter=_strings, validator=_texts)
    node_selector: FrozenMap[str] = field(default=EMPTY, converter=_strings, validator=_texts)
    affinity: tuple[NodeSelectorTerm, ...] = field(
        default=(),
        converter=tuple[NodeSelectorTerm, ...],
        validator=_each(NodeSelectorTerm, "a NodeSelectorTerm"),
    )
    tolerations: tuple[Toleration, ...] = field(
        default=(),
        converter=tuple[Toleration, ...],
        validator=_each(Toleration, "a Toleration"),
    )
    pod_group: str | None = field(default=None, validator=optional(_string))
    scheduling_gates: tuple[str, ...] = field(
        default=(), converter=_gates, validator=_each(str, "a text")
    )
    owners: tuple[str, ...] = field(default=(), converter=_owners, validator=_each(str, "a text"))
    node_name: NodeName | None = field(default=None, validator=optional(_text))
    phase: PodPhase = field(default=PodPhase.PENDING, converter=PodPhase)
    deleted_at: float | None = field(default=None, validator=optional(_instant))
    created_at: float = field(default=0.0, validator=_instant)

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


@final
@frozen(kw_only=True)
class PodGroup:
    """Pods that start together: the specification.

    Attributes:
        name: Its name, not empty.
        namespace: The namespace of the group and of its members.
        min_available: The quorum: start at least this many members together, or none.
            ``minMember`` and ``minCount`` elsewhere. At least 1.
        schedule_timeout: For how many seconds members that hold a node wait for the others, per
            attempt; None for the policy's default, 0 for not at all. Not negative, finite.
        min_resources: What the group needs in all: while the nodes have less than that free
            together, no attempt is made.
        priority: The priority of its members; None to take theirs.
        created_at: When it was created.

    Raises:
        InvalidPodGroupError: A value is malformed; names the group, the field and the value.
        InvalidValueError: In ``min_resources`` is what is no quantity; names the resource.
    """

    name: str = field(validator=_of_group(_text))
    namespace: str = field(default="default", validator=_of_group(_text))
    min_available: int
    schedule_timeout: float | None = None
    min_resources: Resources = field(
        default=NOTHING, converter=_resources, validator=_of_group(_amounts)
    )
    priority: int | None = None
    created_at: float = field(default=0.0, validator=_of_group(_instant))

    def __attrs_post_init__(self) -> None:
        if type(self.min_available) is not int or self.min_available < 1:
            raise InvalidPodGroupError(
                self.key, "min_available", self.min_available, "a whole number of at least 1"
            )
        timeout = self.schedule_timeout
        if timeout is not None and not (is_seconds(timeout) and timeout >= 0):
            raise InvalidPodGroupError(
                self.key,
                "schedule_timeout",
                timeout,
                "seconds, finite and not negative, or None",
            )
        if self.priority is not None and type(self.priority) is not int:
            raise InvalidPodGroupError(
                self.key, "priority", self.priority, "a whole number or None"
            )

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

    name: NodeName = field(validator=_text)
    allocatable: Resources = field(default=NOTHING, converter=_resources, validator=_amounts)
    labels: FrozenMap[str] = field(default=EMPTY, converter=_strings, validator=_texts)
    taints: tuple[Taint, ...] = field(
        default=(), converter=tuple[Taint, ...], validator=_each(Taint, "a Taint")
    )
    unschedulable: bool = field(default=False, validator=_flag)
