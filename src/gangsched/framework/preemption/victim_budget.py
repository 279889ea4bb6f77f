"""The steps that the search for victims may take for one entity, and whether they were enough.

Each set of victims that is tried costs a placement, and before it a look at the shortfall of each
class of pods. Both are counted. The choice which units to try is not: it takes time in proportion
to the units, and a plan that is made without it evicts more pods.

Rules:
  R1  a placement is searched only while steps are left. One that takes none, as for members that
      are alike, may always be made;
  R2  whatever was cut short is remembered, because fewer victims may be enough then, or others.
"""

from __future__ import annotations

from typing import final

from attrs import define, field

from gangsched.framework.placement.packing.budget import Work

__all__ = ["VictimBudget"]


@final
@define(eq=False)
class VictimBudget:
    """The steps of one search for victims.

    Attributes:
        total: The number of steps that all parts may take together.
        each: The number of steps that one search for a placement may take.
        work: What the searches for a placement have taken.
        looks: The steps that looks at shortfalls have taken.
        is_exhausted: Whether a placement was not searched, or its search not decided.
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
        """Whether no placement may be searched any more; see R1."""
        return self.work.steps > 0 and not self.left

    def ends_search(self) -> bool:
        """Return whether no placement may be searched any more, and remember it; see R2."""
        self.is_exhausted |= self.is_spent
        return self.is_spent
