"""The answers of ``Scheduler.what_if`` and ``Scheduler.smallest_change``.

Rules:
  R1  an answer is a frozen value; ``str`` of an answer about a group is a sentence;
  R2  an answer contains its limits: the instant up to which the scheduler was run, and the number
      of nodes that were tried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, final

from attrs import frozen

from gangsched.events import Effect, GroupScheduled
from gangsched.explain import NotEnoughMembers, Why, in_utc
from gangsched.model import FrozenMap, GroupKey, Node
from gangsched.resources import NOTHING, Resources
from gangsched.values.seconds import format_span, format_utc

__all__ = ["Insufficient", "LargerQuota", "SmallestChange", "Sufficient", "WhatIf"]


@final
@frozen
class WhatIf:
    """The answer of ``Scheduler.what_if``.

    Attributes:
        until: The instant up to which the scheduler was run.
        timed: The effects that it would return, in order, each with the instant of the call: that
            of ``GroupScheduled`` is the expected start of a group.
        why: The answer of ``Scheduler.why`` at that instant for each known group, by key. Nothing
            is tried anew for it: an older reason begins with ``as of`` and its instant.
        exhausted: Whether the budget of the question was used up: then the scheduler would go on,
            and *until* may be before the instant that was asked for.
    """

    until: float
    timed: tuple[tuple[float, Effect], ...]
    why: FrozenMap[Why]
    exhausted: bool = False

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The effects that the scheduler would return, in order."""
        return tuple(effect for _at, effect in self.timed)

    def starts(self, group: str) -> bool:
        """Return whether a group would start by *until*. O(effects).

        Args:
            group: ``namespace/name``. The answer is False for a group that is not known, and for
                one that had started before the question.
        """
        return any(
            isinstance(each, GroupScheduled) and each.group == group for each in self.effects
        )


@final
@frozen
class LargerQuota:
    """How large a quota would have to be.

    Attributes:
        name: The quota.
        nominal: Its nominal, of the resources of which it has to be larger.
        hard: The same of its ``hard``.
    """

    name: str
    nominal: Resources = NOTHING
    hard: Resources = NOTHING

    def __str__(self) -> str:
        """``quota red had nominal nvidia.com/gpu=96``"""
        parts = [("nominal", self.nominal), ("hard", self.hard)]
        named = [f"{word} {_quantities(amounts)}" for word, amounts in parts if amounts]
        return f"quota {self.name} had {' and '.join(named)}"


@final
@frozen
class Sufficient:
    """The answer that a group would start, with or without further nodes.

    Attributes:
        group: The group.
        shape: The node of which copies were added.
        nodes: The least number of added nodes with which the group would start.
        now: The instant of the question.
        at: The instant at which the group would start, or have its minimum again; None if it runs.
        others_started: The number of other pod groups, and pods without a group, that start with
            so many nodes added, too.
    """

    group: GroupKey
    shape: Node
    nodes: int
    now: float
    at: float | None
    others_started: int = 0

    def __str__(self) -> str:
        """``2 more nodes of nvidia.com/gpu=2 would start pod group default/train now``"""
        return self._said(_of_a_run)

    def in_utc(self) -> str:
        """Return the sentence with its instants, which are seconds since 1970, as dates in UTC."""
        return self._said(format_utc)

    def _said(self, instant: Callable[[float], str]) -> str:
        if self.at is None:
            return f"pod group {self.group} has started"
        when = "now" if self.at == self.now else f"at {instant(self.at)}"
        others = ""
        if self.others_started:
            pods = "pod group or pod" if self.others_started == 1 else "pod groups or pods"
            others = f", and {self.others_started} other {pods}"
        if not self.nodes:
            return f"pod group {self.group} starts {when} as things stand"
        return (
            f"{_count(self.nodes)} of {self.shape.allocatable} would start pod group {self.group}"
            f" {when}{others}"
        )


@final
@frozen
class Insufficient:
    """The answer that a group would not start with any number of nodes that was tried.

    Attributes:
        group: The group.
        shape: The node of which copies were added.
        most: The largest number of added nodes that was tried; every smaller number was tried too.
            If the group lacks members, or a quota keeps it out, nodes cannot help, and the search
            may end before the limit.
        until: The instant up to which the scheduler was run.
        why: The answer of ``Scheduler.why`` for the group at that instant, with *most* nodes added.
            Nothing is tried anew for it: an older reason begins with ``as of`` and its instant.
        refusal: The reason why an empty node of this shape takes no pending member of the group;
            an empty string if it takes one.
        exhausted: Whether the budget of the question was used up. Then numbers above *most* were
            not tried; if *most* is 0, perhaps no number was.
        others_started: The number of other pod groups, and pods without a group, that start with
            *most* nodes added: they come first and use capacity.
        is_older: Whether *why* is the reason of an attempt before the nodes were added. Then the
            group is known not to fit with them, and was not tried again.
        larger: If a quota keeps the group out: how large quotas have to be for it to start, so that
            it fits beside what others use, or may reclaim. Empty if that does not start it with any
            number of nodes up to the limit, or is not known.
        nodes_besides: With *larger*, how many more nodes it needs then.
    """

    group: GroupKey
    shape: Node
    most: int
    until: float
    why: Why
    refusal: str = ""
    exhausted: bool = False
    others_started: int = 0
    is_older: bool = False
    larger: tuple[LargerQuota, ...] = ()
    nodes_besides: int = 0

    def __str__(self) -> str:
        """``no number of nodes up to 64 of cpu=4 would start pod group default/train: …``"""
        return self._said(_of_a_run, str(self.why))

    def in_utc(self) -> str:
        """Return the sentence with its instants, which are seconds since 1970, as dates in UTC."""
        return self._said(format_utc, in_utc(self.why))

    def _said(self, instant: Callable[[float], str], why: str) -> str:
        if isinstance(self.why, NotEnoughMembers) and self.why.gates:
            gates = "gate" if len(self.why.gates) == 1 else "gates"
            return (
                f"pod group {self.group} is tried once the {gates} of its members"
                f" {'is' if gates == 'gate' else 'are'} removed: {why}"
            )
        what = f"pod group {self.group} by {instant(self.until)}"
        if self.exhausted:
            tried = f"numbers up to {self.most} were tried" if self.most else "none was tried"
            return (
                f"it is not known how many nodes of {self.shape.allocatable} would start {what}:"
                f" the budget of the question is used up; {tried}: {why}"
            )
        if self.larger:
            besides = f" with {_count(self.nodes_besides)}" * bool(self.nodes_besides)
            why += f"; it would start{besides} if {' and '.join(map(str, self.larger))}"
        if not self.most:
            return f"no number of nodes would start {what}: {why}"
        refusal = f"such a node takes none of its members ({self.refusal}); " * bool(self.refusal)
        others = ""
        if self.others_started:
            start = "other pod group or pod starts"
            if self.others_started > 1:
                start = "other pod groups or pods start"
            others = f"with {self.most} of them, {self.others_started} {start}; "
        older = "without them, " * self.is_older
        return (
            f"no number of nodes up to {self.most} of {self.shape.allocatable} would start {what}:"
            f" {refusal}{others}{older}{why}"
        )


SmallestChange: TypeAlias = Sufficient | Insufficient
"""The answer of ``Scheduler.smallest_change``."""


def _of_a_run(at: float) -> str:
    return f"t={format_span(at)}"


def _quantities(given: Resources) -> str:
    return ",".join(f"{name}={given.quantity(name)}" for name in given)


def _count(nodes: int) -> str:
    return "1 more node" if nodes == 1 else f"{nodes} more nodes"
