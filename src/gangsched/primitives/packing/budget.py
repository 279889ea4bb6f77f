"""The budget of one search, in steps.

Theory of operation. A step stands for about 10 microseconds of work, so a number of steps bounds
the time of a decision. The same decision takes the same number of steps on any machine.
A position of the search, or a set of pods that is tried on a node, is one step. All other work is
counted in *operations*, of which a step has ``STEP``: a look at a node in a greedy pass, a call of
the node model, a bound. The first ``FREE`` operations of a decision are not counted. So a search
for a few kinds of pods takes only the steps of the search itself.

Rules:
  R1  whatever a search does is counted, before or after it is done;
  R2  a budget that is spent stays spent.
"""

from __future__ import annotations

from typing import Final, final

__all__ = [
    "EVALUATED",
    "FIT",
    "FREE",
    "MODEL",
    "READ",
    "STEP",
    "UNBOUNDED",
    "Budget",
    "BudgetSpent",
    "Work",
]

STEP: Final = 100
"""How many operations make a step."""

FREE: Final = 100_000
"""How many operations of a decision are not counted."""

UNBOUNDED: Final = 1 << 60
"""More operations than any search takes."""

FIT: Final = 6
"""How many operations it is to compare what a pod requests with what is free on a node."""

MODEL: Final = 200
"""How many operations a call of the node model is: it asks plugins."""

EVALUATED: Final = 110
"""How many operations it is to evaluate a class of nodes where no answer of plugins is kept."""

READ: Final = 100
"""How many operations it is to find what plugins read of a pod where no signature is kept."""


class BudgetSpent(Exception):
    """The budget is exhausted; never leaves a search."""


@final
class Work:
    """The operations of one decision, which may have several searches.

    Attributes:
        operations: Those that no step was counted for yet.
        steps: The steps that all searches have taken.
    """

    __slots__ = ("operations", "steps")

    def __init__(self, operations: int = -FREE) -> None:
        self.operations: int = operations
        self.steps: int = 0

    def count(self, operations: int) -> int:
        """Count operations; return the number of steps that they make. O(1)."""
        self.operations += operations
        if self.operations < STEP:
            return 0
        steps, self.operations = divmod(self.operations, STEP)
        return steps


@final
class Budget:
    """The budget of steps of one search.

    Attributes:
        left: The number of steps that are left.
        steps: The number of steps that were taken.
    """

    __slots__ = ("_work", "left", "steps")

    def __init__(self, budget: int, work: Work | None = None) -> None:
        self._work = Work() if work is None else work
        self.left: int = budget
        self.steps: int = 0

    def spend(self) -> None:
        """Take one step.

        Raises:
            BudgetSpent: No step is left.
        """
        if not self.left:
            raise BudgetSpent
        self._take(1)

    def work(self, operations: int) -> None:
        """Take the steps that some operations make.

        Raises:
            BudgetSpent: Fewer steps are left. These are taken.
        """
        steps = self._work.count(operations)
        if steps:
            taken = min(steps, self.left)
            self._take(taken)
            if taken < steps:
                raise BudgetSpent

    def _take(self, steps: int) -> None:
        self.left -= steps
        self.steps += steps
        self._work.steps += steps
