"""The steps that the search for victims may take for one entity, and whether they were enough.

Theory of operation. Each set of victims that is tried costs a placement. The choice which units to
try costs more where many units are alike: each of them is looked at, taken off its nodes, and put
back. So both are counted, in the operations of ``packing.budget``. The constants below say how many
operations a part of the choice is. They were measured, and rounded up to the dearest case.

To end in time, the search stops comparing units when 0.6 of its steps are spent. The rest is for
units on one node after the other, for the placement, and for giving back.

Rules:
  R1  whatever a search for victims does is counted, before or after it is done. Not counted are
      the notices about victims, and the list of the units where it ends the budget;
  R2  a set of victims is tried only while steps are left. While none was counted, one may always be
      tried, as for members that are alike;
  R3  whatever was cut short is remembered, because fewer victims may be enough then, or others.
"""

from __future__ import annotations

from typing import Final, final

from attrs import define, field

from gangsched._packing.budget import Work

__all__ = [
    "ASK",
    "BACK",
    "BOUND",
    "CHOICE",
    "CLASS",
    "GAIN",
    "LOOK",
    "MEMBER",
    "MOVED",
    "NODE",
    "POD",
    "TAKE",
    "UNIT",
    "VictimBudget",
]

UNIT: Final = 25
"""How many operations it is to list a unit, and to sort it among others."""

LOOK: Final = 15
"""How many operations it is to find the node of a pod of a unit."""

NODE: Final = 20
"""How many operations it is to find the units on a node, besides those for its pods."""

POD: Final = 5
"""How many operations it is to find the unit of a pod."""

CHOICE: Final = 200
"""How many operations it is to begin a search in a domain."""

BOUND: Final = 10
"""How many operations it is to bound the gain of a unit."""

TAKE: Final = 200
"""How many operations it is to take a pod off its node, and to restore the node in the end."""

BACK: Final = 80
"""How many operations it is to put a pod back on its node."""

GAIN: Final = 60
"""How many operations it is to find what a pod frees on its node for one class of pods."""

CLASS: Final = 100
"""How many operations it is to look at the shortfall of a class of pods."""

MEMBER: Final = 50
"""How many operations it is to prepare a member of a gang for a placement."""

MOVED: Final = 30
"""How many operations it is to evaluate a class for a node that has changed since."""

ASK: Final = 150
"""How many operations it is to ask the filters about one node."""


@final
@define(eq=False)
class VictimBudget:
    """The steps of one search for victims.

    Attributes:
        total: The number of steps that all parts may take together.
        each: The number of steps that one search for a placement may take.
        work: What the searches for a placement have taken.
        looks: The steps that the choice among victims has taken.
        is_exhausted: Whether a placement was not searched, its search not decided, or the choice
            among victims cut short.
    """

    total: int
    each: int
    work: Work = field(factory=Work)
    looks: int = 0
    is_exhausted: bool = False

    @property
    def steps(self) -> int:
        """The steps that were taken."""
        return self.work.steps + self.looks

    @property
    def left(self) -> int:
        """The steps that are left."""
        return max(self.total - self.steps, 0)

    @property
    def is_spent(self) -> bool:
        """Whether no set of victims may be tried any more; see R2."""
        return self.steps > 0 and not self.left

    def count(self, operations: int) -> None:
        """Count operations of the choice among victims. O(1)."""
        self.looks += self.work.count(operations)

    def ends(self, at: int | None = None) -> bool:
        """Return whether the steps are spent, or *at* are; if so, remember it. O(1)."""
        if not self.is_spent and (at is None or self.steps < at):
            return False
        self.is_exhausted = True
        return True
