"""Need: what a gang that is to start later needs of one node.

Rules:
  R1  what is needed is taken first from what will have come back by then; only the rest is kept
      of what is free now, and never more than is free;
  R2  what is kept depends on the need and on who holds the node, and on nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import final

from gangsched.model import PodUID, Resources

__all__ = ["Need"]


@final
class Need:
    """What is needed of one node.

    Attributes:
        requests: The amounts, by resource.
        pods: By how many pods.
        returning: Who will have left the node by then; nobody who has left it once, since who
            comes back to it may stay.
    """

    __slots__ = ("pods", "requests", "returning")

    def __init__(self, returning: Iterable[PodUID] = ()) -> None:
        self.requests: dict[str, int] = {}
        self.pods: int = 0
        self.returning: set[PodUID] = set(returning)

    def add(self, requests: Resources) -> None:
        """Need room for one more pod. O(resources)."""
        self.pods += 1
        for name, amount in requests.items():
            self.requests[name] = self.requests.get(name, 0) + amount

    def kept(
        self, holders: Mapping[PodUID, Resources], free: Mapping[str, int]
    ) -> tuple[dict[str, int], int]:
        """Return what is kept now: amounts, and for how many pods. O(holders).

        Args:
            holders: Who holds the node, with what they ask for.
            free: What would be free if nothing were kept.
        """
        kept, pods = dict(self.requests), self.pods
        for uid in self.returning:
            held = holders.get(uid)
            if held is None:
                continue
            pods -= 1
            for name in kept:
                kept[name] -= held.amount(name)
        found = {name: min(amount, free.get(name, 0)) for name, amount in kept.items()}
        return {name: amount for name, amount in found.items() if amount > 0}, max(pods, 0)
