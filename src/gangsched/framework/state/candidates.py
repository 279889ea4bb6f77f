"""The gangs that may get a reservation, kept in order instead of being looked for.

Each decision asks for the first of them, and there may be thousands that can never start. So a gang
is ranked when it has changed, and looked at again only when something has changed for it.

Rules:
  R1  a gang is in one place at most. It is to be *ranked*, or is ranked *later*, or is in *order*.
      Or it is *infeasible* on the nodes as they are, or *too large* for any node;
  R2  a gang in no place is not looked at until it is noted again: by an event about it, or by its
      next failure;
  R3  when a node has changed, the infeasible gangs are in order again. Those that are too large are
      only if a node has more of a resource than any node had before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias, final

from attrs import define, field
from sortedcontainers import SortedDict

from gangsched.framework.nodes.node_table import Nodes
from gangsched.model import GroupKey

__all__ = ["Candidates", "Rank"]

Rank: TypeAlias = tuple[int, int, float]
"""The order of gangs: by descending priority, drain timeouts, and age."""


def _sorted() -> Any:
    return SortedDict()


@final
@define(eq=False)
class Candidates:
    """The gangs that may get a reservation.

    Attributes:
        unranked: The gangs that have changed since they were ranked.
        altered: ``Nodes.altered`` as of the last look at the nodes.
        largest: What the node that has most of it offers of each resource.
    """

    unranked: dict[GroupKey, None] = field(factory=dict[GroupKey, None])
    altered: int = -1
    largest: dict[str, int] = field(factory=dict[str, int])
    _order: Any = field(factory=_sorted)  # (rank, key) -> None
    _later: Any = field(factory=_sorted)  # (instant, key) -> None
    _infeasible: dict[GroupKey, Rank] = field(factory=dict[GroupKey, Rank])
    _too_large: dict[GroupKey, Rank] = field(factory=dict[GroupKey, Rank])
    _places: dict[GroupKey, tuple[Any, GroupKey]] = field(
        factory=dict[GroupKey, tuple[Any, GroupKey]]
    )

    def __len__(self) -> int:
        """Return the number of entries in all containers."""
        aside = len(self._infeasible) + len(self._too_large)
        return len(self.unranked) + len(self._places) + aside

    def note(self, key: GroupKey) -> None:
        """Have a gang ranked before the next look. O(log n)."""
        self.drop(key)
        self.unranked[key] = None

    def drop(self, key: GroupKey) -> None:
        """Take a gang out of its place. O(log n)."""
        self.unranked.pop(key, None)
        self._infeasible.pop(key, None)
        self._too_large.pop(key, None)
        place = self._places.pop(key, None)
        if place is not None and self._order.pop(place, self) is self:
            del self._later[place]

    def put(self, key: GroupKey, rank: Rank) -> None:
        """Put a gang in order. O(log n)."""
        self.drop(key)
        self._places[key] = (rank, key)
        self._order[rank, key] = None

    def put_later(self, key: GroupKey, instant: float) -> None:
        """Have a gang ranked again at an instant. O(log n)."""
        self.drop(key)
        self._places[key] = (instant, key)
        self._later[instant, key] = None

    def put_infeasible(self, key: GroupKey, rank: Rank) -> None:
        """Keep a gang out of the order until a node changes. O(log n)."""
        self.drop(key)
        self._infeasible[key] = rank

    def put_too_large(self, key: GroupKey, rank: Rank) -> None:
        """Keep a gang out of the order until a node has more than any has now. O(log n)."""
        self.drop(key)
        self._too_large[key] = rank

    def next_later(self, now: float) -> float | None:
        """Have the gangs ranked whose instant has come; return the next instant. O(these)."""
        while self._later:
            (instant, key), _none = self._later.peekitem(0)
            if instant > now:
                return float(instant)
            self.note(key)
        return None

    def look_at_nodes(self, nodes: Nodes) -> None:
        """Put the gangs in order that a change of a node may help.

        Runtime complexity: O(nodes) and O(these) if a node has changed, else O(1).
        """
        if self.altered == nodes.altered:
            return
        self.altered = nodes.altered
        largest: dict[str, int] = {}
        for info in nodes.infos.values():
            for name, amount in info.node.allocatable.to_milli().items():
                largest[name] = max(largest.get(name, 0), amount)
        before, self.largest = self.largest, largest
        self._put_all(self._infeasible)
        if any(amount > before.get(name, 0) for name, amount in largest.items()):
            self._put_all(self._too_large)

    def _put_all(self, aside: dict[GroupKey, Rank]) -> None:
        places = {key: (rank, key) for key, rank in aside.items()}
        aside.clear()
        self._places.update(places)
        self._order.update(dict.fromkeys(places.values()))

    def in_order(self) -> Iterator[tuple[Rank, GroupKey]]:
        """Yield the gangs in order; the one that was yielded last may be moved meanwhile."""
        passed = 0
        while passed < len(self._order):
            place, _none = self._order.peekitem(passed)
            yield place
            passed += place in self._order
