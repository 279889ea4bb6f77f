"""Claims: what the members of one group say about it, in the order in which they came.

The first member that claims a minimum sets the group's minimum, and the first member its priority.
When that member leaves, the next one does. Groups with thousands of members lose them one by one,
so the next one is found without looking at all of them.

Invariants (checked by ``_check``):
  I1  ``_minima`` has the claims with a minimum, in the order of ``_all``;
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

    __slots__ = ("_all", "_last", "_minima", "_removed")

    def __init__(self) -> None:
        self._all: dict[PodUID, Claim] = {}
        self._minima: dict[PodUID, int] = {}
        self._removed = 0
        self._last: Claim = (None, 0)  # most members claim the same, so they share a tuple

    def get(self, uid: PodUID) -> Claim | None:
        """Return the claim of a member; None if it has none that counts."""
        return self._all.get(uid)

    def put(self, uid: PodUID, claim: Claim) -> None:
        """Set the claim of a member; a member that has one keeps its place in the order.

        Runtime complexity: O(1); O(members) if a member that claimed no minimum claims one now.
        """
        before, (minimum, _priority) = self._all.get(uid), claim
        if claim != self._last:
            self._last = claim
        self._all[uid] = self._last
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
        if self._all.pop(uid, None) is None:
            return False
        self._minima.pop(uid, None)
        self._removed += 1
        if self._removed > len(self._all) + _SPARE:
            self._all, self._minima = dict(self._all), dict(self._minima)
            self._removed = 0
        return True

    def claimed(self, *, without: PodUID | None = None) -> Claimed:
        """Return the minimum and the priority of the group.

        Args:
            without: A member that is taken as gone.
        """
        minimum: int | None = None
        for uid, least in self._minima.items():
            if uid != without:
                minimum = least
                break
        for uid, (_minimum, priority) in self._all.items():
            if uid != without:
                return minimum, priority
        return minimum, None

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
        if self._removed > len(self._all) + _SPARE:
            raise InternalError(f"{self._removed} claims were removed since the last clearing")
