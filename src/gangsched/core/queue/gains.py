"""When nodes gained capacity, for what is given back later.

Theory of operation. A demand that failed at a step has failed with all that was free then. So what
a gang takes afterwards and gives back does not help it (``core/queue``), or two gangs would wake
each other for ever. That holds only while no other node gains: of two nodes that a demand needs,
one may have been freed while the gang held the other. Then the first did not help, and the second
has to. So capacity counts as taken no later than whatever was gained while it was held.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final, final

__all__ = ["Gains"]

_MOST: Final = 64


@final
class Gains:
    """The steps at which nodes gained capacity, each with the step since which it was taken.

    Both ascend: a gain says nothing more once a later one has been taken for as long.
    """

    def __init__(self, pairs: Iterable[tuple[int, int]] = ()) -> None:
        self._steps: list[int] = []
        self._since: list[int] = []
        for step, since in pairs:
            self.note(step, since)

    @property
    def last(self) -> int:
        """The step at which a node gained capacity last; 0 before."""
        return self._steps[-1] if self._steps else 0

    def note(self, step: int, since: int) -> None:
        """Note a gain. Amortised O(1)."""
        steps, sinces = self._steps, self._since
        while steps and sinces[-1] >= since:
            steps.pop()
            sinces.pop()
        if steps and steps[-1] == step:
            return
        steps.append(step)
        sinces.append(since)
        if len(steps) > _MOST:  # as if the second was taken for as long as the first
            del steps[0], sinces[1]

    def since(self, step: int) -> int:
        """Return since when capacity counts as taken that was taken at a step. O(log n)."""
        first = bisect_left(self._steps, step)
        return step if first == len(self._steps) else min(step, self._since[first])

    def pairs(self, least: int) -> tuple[tuple[int, int], ...]:
        """Return what concerns capacity that was taken at a step or later, and the last gain."""
        found = zip(self._steps, self._since, strict=True)
        return tuple((step, since) for step, since in found if step >= least or step == self.last)
