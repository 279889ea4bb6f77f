"""The steps that one search for victims may take, and whether they were enough.

A step is a placement, a step of its search, or a number of pods that are taken off their nodes.

Rules:
  R1  a set of victims is tried only while steps are left. While none was counted, one may always be
      tried;
  R2  whatever was cut short is remembered, because fewer victims may be enough then, or others.
"""

from __future__ import annotations

from typing import Final, final

__all__ = ["Steps"]

_FREE: Final = 4_000
"""How many pods are taken off nodes before steps are counted for them."""
_PODS: Final = 50
"""How many pods are taken off nodes in one step."""


@final
class Steps:
    """The steps of one search for victims.

    Attributes:
        total: The number of steps that all parts may take together.
        each: The number of steps that one search for a placement may take.
        taken: The steps that were taken.
        is_exhausted: Whether anything was cut short.
    """

    def __init__(self, total: int, each: int) -> None:
        self.total: int = total
        self.each: int = each
        self.taken: int = 0
        self.is_exhausted: bool = False
        self._pods = -_FREE

    def count(self, steps: int) -> None:
        """Count steps."""
        self.taken += steps

    def count_pods(self, pods: int) -> None:
        """Count pods that are taken off their nodes, or put back."""
        self._pods += pods
        if self._pods >= _PODS:
            self.taken += self._pods // _PODS
            self._pods %= _PODS

    @property
    def are_spent(self) -> bool:
        """Whether no set of victims may be tried any more; if so, remember it."""
        spent = self.taken > 0 and self.taken >= self.total
        self.is_exhausted |= spent
        return spent

    def for_search(self) -> int:
        """Return how many steps a search for a placement may take."""
        return min(self.each, max(self.total - self.taken, 0))
