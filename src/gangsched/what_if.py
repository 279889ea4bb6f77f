"""What would happen: the answers of ``Scheduler.what_if`` and ``Scheduler.smallest_change``.

Rules:
  R1  an answer is a value; ``str`` of one about a group is a sentence;
  R2  an answer says on what it rests: until when it looked, and how far it searched.
"""

from __future__ import annotations

from typing import TypeAlias, final

from attrs import frozen

from gangsched._seconds import format_instant
from gangsched.events import Effect
from gangsched.explain import Why
from gangsched.model import FrozenMap, GroupKey, Node

__all__ = ["Insufficient", "SmallestChange", "Sufficient", "WhatIf"]


@final
@frozen
class WhatIf:
    """What would happen.

    Attributes:
        until: The instant up to which it was looked.
        timed: All that the scheduler would return, in order, each with the instant of the call.
        why: Of each group that it would know then, by key, what ``Scheduler.why`` would say.
    """

    until: float
    timed: tuple[tuple[float, Effect], ...]
    why: FrozenMap[Why]

    @property
    def effects(self) -> tuple[Effect, ...]:
        """All that the scheduler would return, in order."""
        return tuple(effect for _at, effect in self.timed)


@final
@frozen
class Sufficient:
    """A group would start.

    Attributes:
        group: The group.
        shape: The node that was added.
        nodes: With how many more of them; with fewer it would not start.
        now: When it was asked.
        at: When it would start; None for one that has started already.
    """

    group: GroupKey
    shape: Node
    nodes: int
    now: float
    at: float | None

    def __str__(self) -> str:
        """``2 more nodes of nvidia.com/gpu=2 would start pod group default/train now``"""
        if self.at is None:
            return f"pod group {self.group} has started"
        when = "now" if self.at == self.now else f"at t={format_instant(self.at)}"
        if not self.nodes:
            return f"pod group {self.group} starts {when} as things stand"
        return (
            f"{_count(self.nodes)} of {self.shape.allocatable} would start pod group {self.group}"
            f" {when}"
        )


@final
@frozen
class Insufficient:
    """A group would not start.

    Attributes:
        group: The group.
        shape: The node that was added.
        most: How many of them were tried; with any number from 0 to this it would not start. 0
            also where it was seen at once that nodes do not help: it lacks members.
        until: The instant by which it would have had to.
        why: What ``Scheduler.why`` would say of it then, with *most* of them.
        refusal: Why a node of the shape, empty, takes none of the members that are to be placed;
            empty where it takes one.
    """

    group: GroupKey
    shape: Node
    most: int
    until: float
    why: Why
    refusal: str = ""

    def __str__(self) -> str:
        """``no number of nodes up to 64 of cpu=4 would start pod group default/train: …``"""
        what = f"pod group {self.group} by t={format_instant(self.until)}"
        if not self.most:
            return f"no number of nodes would start {what}: {self.why}"
        refusal = f"such a node takes none of its members ({self.refusal}); " * bool(self.refusal)
        return (
            f"no number of nodes up to {self.most} of {self.shape.allocatable} would start {what}:"
            f" {refusal}{self.why}"
        )


SmallestChange: TypeAlias = Sufficient | Insufficient
"""With how many more nodes a group would start."""


def _count(nodes: int) -> str:
    return "1 more node" if nodes == 1 else f"{nodes} more nodes"
