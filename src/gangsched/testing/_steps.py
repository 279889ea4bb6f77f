"""Steps: what may happen to a scheduler under test, as values.

Rules:
  R1  a step names what it is about; one that is about nothing that is there does nothing, so any
      part of a story is a story;
  R2  a step's ``repr`` is the code that makes it, and its text is a line for people.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TypeAlias, final

from attrs import field, frozen

from gangsched._fields import as_tuple
from gangsched.testing._plain import PlainPod

__all__ = [
    "AddNode",
    "Arrive",
    "BindFails",
    "BindSucceeds",
    "CatchUp",
    "DecideOnce",
    "Leave",
    "RemoveNode",
    "Rest",
    "Restart",
    "RunLate",
    "Step",
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
    """A node comes."""

    name: str
    capacity: Mapping[str, int] = field(converter=_in_order)
    labels: Mapping[str, str] = field(converter=_texts_in_order, factory=dict[str, str])
    taints: tuple[str, ...] = field(converter=_names, default=())

    def __str__(self) -> str:
        labels = [f"in {key} {value}" for key, value in self.labels.items()]
        tainted = [f"with taint {taint}" for taint in self.taints]
        return ", ".join([f"node {self.name} comes: {_amounts(self.capacity)}", *labels, *tainted])

    def __repr__(self) -> str:
        labels = f", labels={self.labels!r}" if self.labels else ""
        taints = f", taints={self.taints!r}" if self.taints else ""
        return f"AddNode(name={self.name!r}, capacity={self.capacity!r}{labels}{taints})"


@final
@frozen
class RemoveNode:
    """A node goes, and then the pods that were placed there."""

    name: str

    def __str__(self) -> str:
        return f"node {self.name} goes, with all that runs there"


@final
@frozen
class Arrive:
    """Pods come, one after the other, in one instant."""

    pods: tuple[PlainPod, ...]

    def __str__(self) -> str:
        runs = groupby(
            self.pods,
            lambda p: (_amounts(p.requests), p.group, p.priority, p.role, p.tolerates),
        )
        return "; ".join(_of_one_kind(list(pods)) for _kind, pods in runs)


@final
@frozen
class Leave:
    """Pods are cancelled: they have ended, or were deleted."""

    uids: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.uids)} {'go' if len(self.uids) > 1 else 'goes'}"


@final
@frozen
class Tick:
    """Time passes, and all that is due is decided."""

    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.seconds:g} s pass" if self.seconds else "it decides"


@final
@frozen
class DecideOnce:
    """One decision is made, and no time passes."""

    def __str__(self) -> str:
        return "it makes one decision"


@final
@frozen
class BindSucceeds:
    """A pod that was placed runs."""

    uid: str

    def __str__(self) -> str:
        return f"{self.uid} is reported to run"


@final
@frozen
class BindFails:
    """A pod that was placed could not be started."""

    uid: str

    def __str__(self) -> str:
        return f"{self.uid} is reported to have failed to start"


@final
@frozen
class RunLate:
    """Facts are told late from now on."""

    def __str__(self) -> str:
        return "facts are told late from here on"


@final
@frozen
class CatchUp:
    """All facts are told."""

    def __str__(self) -> str:
        return "all facts are told"


@final
@frozen
class Restart:
    """The scheduler starts anew."""

    def __str__(self) -> str:
        return "the scheduler starts anew"


@final
@frozen
class Rest:
    """Nothing happens any more until nothing that fits is left waiting: law 5."""

    def __str__(self) -> str:
        return "nothing more happens, and time passes"


Step: TypeAlias = (
    AddNode
    | RemoveNode
    | Arrive
    | Leave
    | Tick
    | DecideOnce
    | BindSucceeds
    | BindFails
    | RunLate
    | CatchUp
    | Restart
    | Rest
)
"""Anything that may happen."""


def _of_one_kind(pods: Sequence[PlainPod]) -> str:
    first, several = pods[0], len(pods) > 1
    names = ", ".join(p.uid if p.name == p.uid else f"{p.uid} (named {p.name})" for p in pods)
    role = f", a {first.role}," if first.role else ""
    gang = f" of gang {first.group} ({_needs(first)}){role}" if first.group else ""
    priority = f", of priority {first.priority}" if first.priority else ""
    tolerates = f", and tolerates {', '.join(first.tolerates)}" if first.tolerates else ""
    comes = "come and ask for" if several else "comes and asks for"
    each = " each" if several else ""
    return f"{names}{gang} {comes} {_amounts(first.requests)}{each}{priority}{tolerates}"


def _needs(pod: PlainPod) -> str:
    parts = [f"needs {pod.min_available}"]
    parts += [f"{least} of them {role}" for role, least in pod.roles.items()]
    parts += [f"within one {pod.within}"] if pod.within else []
    parts += [f"together with {', '.join(pod.bundle)}"] if pod.bundle else []
    return ", ".join(parts)


def _amounts(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{amount} {name}" for name, amount in sorted(amounts.items())) or "nothing"
