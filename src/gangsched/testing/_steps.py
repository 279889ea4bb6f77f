"""Steps: the inputs of a scheduler under test, as values.

Rules:
  R1  a step names the pods and nodes that it concerns. A step that concerns none that exist does
      nothing, so steps can be left out of a test case freely;
  R2  the ``repr`` of a step is the code that makes it, and its ``str`` a line for people.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TypeAlias, final

from attrs import field, frozen

from gangsched.testing._plain_parent import PlainParent
from gangsched.testing._plain_pod import PlainPod
from gangsched.values.fields import as_tuple

__all__ = [
    "AddNode",
    "BindFails",
    "BindSucceeds",
    "CancelPods",
    "DelayEvents",
    "DeliverEvents",
    "PutParent",
    "RemoveNode",
    "RemoveParent",
    "Restart",
    "ScheduleOne",
    "Settle",
    "Start",
    "Step",
    "Stop",
    "SubmitPods",
    "Tick",
]


def _in_order(given: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(given.items()))


def _texts_in_order(given: Mapping[str, str]) -> dict[str, str]:
    return dict(sorted(given.items()))


def _names(given: Iterable[str]) -> tuple[str, ...]:
    return as_tuple(given)


@final
@frozen(repr=False)
class AddNode:
    """A node is added, perhaps under the name of one that was removed."""

    name: str
    capacity: Mapping[str, int] = field(converter=_in_order)
    labels: Mapping[str, str] = field(converter=_texts_in_order, factory=dict[str, str])
    taints: tuple[str, ...] = field(converter=_names, default=())

    def __str__(self) -> str:
        labels = [f"label {key}={value}" for key, value in self.labels.items()]
        taints = [f"taint {taint}" for taint in self.taints]
        return ", ".join([f"add node {self.name}: {_amounts(self.capacity)}", *labels, *taints])

    def __repr__(self) -> str:
        labels = f", labels={self.labels!r}" if self.labels else ""
        taints = f", taints={self.taints!r}" if self.taints else ""
        return f"AddNode(name={self.name!r}, capacity={self.capacity!r}{labels}{taints})"


@final
@frozen
class RemoveNode:
    """A node is removed, and then the pods that were placed there are cancelled."""

    name: str

    def __str__(self) -> str:
        return f"remove node {self.name}, and cancel the pods placed there"


@final
@frozen
class SubmitPods:
    """Pods are submitted one after the other at one instant."""

    pods: tuple[PlainPod, ...]

    def __str__(self) -> str:
        runs = groupby(
            self.pods,
            lambda p: (_amounts(p.requests), p.group, p.priority, p.role, p.copy, p.tolerates),
        )
        return "; ".join(_of_one_kind(list(pods)) for _kind, pods in runs)


@final
@frozen
class PutParent:
    """A group of groups is added, or changed."""

    parent: PlainParent

    def __str__(self) -> str:
        below = "" if self.parent.parent is None else f", a child of {self.parent.parent}"
        least = self.parent.min_groups
        children = "1 child" if least == 1 else f"{least} children"
        return f"put parent {self.parent.name}: needs {children}{below}"


@final
@frozen
class RemoveParent:
    """A group of groups is removed; its children stay."""

    name: str

    def __str__(self) -> str:
        return f"remove parent {self.name}"


@final
@frozen
class CancelPods:
    """Pods are cancelled: they have ended or were deleted."""

    uids: tuple[str, ...]

    def __str__(self) -> str:
        return f"cancel {', '.join(self.uids)}"


@final
@frozen
class Tick:
    """Time passes, and the scheduler makes all decisions that are due."""

    seconds: float = 0.0

    def __str__(self) -> str:
        return f"let {self.seconds:g} s pass" if self.seconds else "make all decisions"


@final
@frozen
class ScheduleOne:
    """The scheduler makes one decision, and no time passes."""

    def __str__(self) -> str:
        return "make one decision"


@final
@frozen
class BindSucceeds:
    """A placed pod is reported to be bound."""

    uid: str

    def __str__(self) -> str:
        return f"report that {self.uid} was bound"


@final
@frozen
class BindFails:
    """The bind of a placed pod is reported to have failed."""

    uid: str

    def __str__(self) -> str:
        return f"report that the bind of {self.uid} failed"


@final
@frozen
class DelayEvents:
    """Events are held back from now on."""

    def __str__(self) -> str:
        return "hold events back from now on"


@final
@frozen
class DeliverEvents:
    """All events that were held back are delivered."""

    def __str__(self) -> str:
        return "deliver all events"


@final
@frozen
class Restart:
    """The scheduler is restarted."""

    def __str__(self) -> str:
        return "restart the scheduler"


@final
@frozen
class Stop:
    """The process of the scheduler ends. Until ``Start``, nodes and pods change without it."""

    def __str__(self) -> str:
        return "stop the scheduler"


@final
@frozen
class Start:
    """The scheduler starts again some seconds later, with the state that it has saved."""

    seconds: float = 0.0

    def __str__(self) -> str:
        later = f" {self.seconds:g} s later" if self.seconds else ""
        return f"start the scheduler again{later}"


@final
@frozen
class Settle:
    """Time passes, without further input, until no pending gang or pod fits: law 5."""

    def __str__(self) -> str:
        return "let time pass until nothing pending fits"


Step: TypeAlias = (
    AddNode
    | RemoveNode
    | SubmitPods
    | PutParent
    | RemoveParent
    | CancelPods
    | Tick
    | ScheduleOne
    | BindSucceeds
    | BindFails
    | DelayEvents
    | DeliverEvents
    | Restart
    | Stop
    | Start
    | Settle
)
"""One input of a scheduler under test."""


def _of_one_kind(pods: Sequence[PlainPod]) -> str:
    first, several = pods[0], len(pods) > 1
    names = ", ".join(p.uid if p.name == p.uid else f"{p.uid} (named {p.name})" for p in pods)
    role = f", role {first.role}" if first.role else ""
    role += "" if first.copy is None else f", copy {first.copy} of {first.copies}"
    gang = f" of gang {first.group} ({_needs(first)}){role}" if first.group else ""
    priority = f", priority {first.priority}" if first.priority else ""
    tolerates = f", tolerates {', '.join(first.tolerates)}" if first.tolerates else ""
    each = " each" if several else ""
    return f"submit {names}{gang}: {_amounts(first.requests)}{each}{priority}{tolerates}"


def _needs(pod: PlainPod) -> str:
    parts = [f"needs {pod.min_available}"]
    parts += [f"{least} of role {role}" for role, least in pod.roles.items()]
    parts += [f"in whole copies of {pod.copy_size}"] if pod.copies else []
    parts += [f"within one {pod.topology_key}"] if pod.topology_key else []
    parts += [f"in a bundle with {', '.join(pod.bundle)}"] if pod.bundle else []
    parts += [f"a child of {pod.parent}"] if pod.parent else []
    return ", ".join(parts)


def _amounts(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{amount} {name}" for name, amount in sorted(amounts.items())) or "nothing"
