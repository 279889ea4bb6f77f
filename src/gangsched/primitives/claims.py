"""Claims: what the members of one group say about it, in the order in which they came.

The first member that claims a minimum sets the group's minimum. When that member leaves, the next
one does. The highest priority of a member is that of the group. Groups with thousands of members
lose them one by one, so either is found without looking at all of them.

Invariants (checked by ``_check``):
  I1  ``_minima`` has the claims with a minimum, in the order of ``_all``, and ``_priorities`` how
      many claims have each priority;
  I2  less than half of the slots of either dict belong to claims that were removed. Python looks at
      these slots too when it looks for the first entry of a dict.
"""

from __future__ import annotations

from collections.abc import Iterator, ValuesView
from typing import Final, TypeAlias, final

from gangsched.errors import InternalError
from gangsched.model import PodUID

__all__ = ["Claim", "Claimed", "Claims"]

Claim: TypeAlias = tuple[int | None, int]
"""The minimum that a member claims, None for none; and its priority."""
Claimed: TypeAlias = tuple[int | None, int | None]
"""The minimum and the priority of a group by its members; None where no member says so."""

_SPARE: Final = 32


@final
class Claims:
    """The claims of the members of one group. Each call is O(1) amortised, unless it says more."""

    __slots__ = ("_all", "_last", "_minima", "_priorities", "_removed")

    def __init__(self) -> None:
        self._all: dict[PodUID, Claim] = {}
        self._minima: dict[PodUID, int] = {}
        self._priorities: dict[int, int] = {}
        self._removed = 0
        self._last: Claim = (None, 0)  # most members claim the same, so they share a tuple

    def get(self, uid: PodUID) -> Claim | None:
        """Return the claim of a member; None if it has none that counts."""
        return self._all.get(uid)

    def put(self, uid: PodUID, claim: Claim) -> None:
        """Set the claim of a member; a member that has one keeps its place in the order.

        Runtime complexity: O(1); O(members) if a member that claimed no minimum claims one now.
        """
        before, (minimum, priority) = self._all.get(uid), claim
        if claim != self._last:
            self._last = claim
        self._all[uid] = self._last
        self._priorities[priority] = self._priorities.get(priority, 0) + 1
        if before is not None:
            self._uncount(before)
        if minimum is None:
            self._minima.pop(uid, None)
        elif before is None or uid in self._minima:
            self._minima[uid] = minimum
        else:
            self._minima = {
                each: least for each, (least, _p) in self._all.items() if least is not None
            }

    def discard(self, uid: PodUID) -> bool:
        """Remove the claim of a member; return whether it had one."""
        before = self._all.pop(uid, None)
        if before is None:
            return False
        self._uncount(before)
        self._minima.pop(uid, None)
        self._removed += 1
        if self._removed > len(self._all) + _SPARE:
            self._all, self._minima = dict(self._all), dict(self._minima)
            self._removed = 0
        return True

    def _uncount(self, claim: Claim) -> None:
        priority = claim[1]
        self._priorities[priority] -= 1
        if not self._priorities[priority]:
            del self._priorities[priority]

    def claimed(self, *, without: PodUID | None = None) -> Claimed:
        """Return the minimum and the priority of the group. O(different priorities).

        Args:
            without: A member that is taken as gone.
        """
        minimum: int | None = None
        for uid, least in self._minima.items():
            if uid != without:
                minimum = least
                break
        gone = None if without is None else self._all.get(without)
        alone = gone is not None and self._priorities[gone[1]] == 1
        others = (p for p in self._priorities if gone is None or not alone or p != gone[1])
        return minimum, max(others, default=None)

    def values(self) -> ValuesView[Claim]:
        """Return a view of the claims, in order."""
        return self._all.values()

    def __iter__(self) -> Iterator[PodUID]:
        """Iterate over the members with a claim, in the order in which they came."""
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def _check(self) -> None:
        minima = [(uid, least) for uid, (least, _p) in self._all.items() if least is not None]
        if list(self._minima.items()) != minima:
            raise InternalError(f"members claim the minima {minima}, not {self._minima}")
        counts: dict[int, int] = {}
        for _least, priority in self._all.values():
            counts[priority] = counts.get(priority, 0) + 1
        if counts != self._priorities:
            raise InternalError(f"members claim the priorities {counts}, not {self._priorities}")
        if self._removed > len(self._all) + _SPARE:
            raise InternalError(f"{self._removed} claims were removed since the last clearing")
