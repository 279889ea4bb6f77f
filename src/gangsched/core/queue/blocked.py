"""The blocked demands, and which of them a change may concern.

Gangs that never fit may be many, and most of them ask for more than a changed node has. So the
demands are kept in the order of what their pods need at the least, once for each resource. For a
node, the resource is taken of which it has enough for the fewest demands.

Invariant (``check``): each blocked demand is in the order of each resource.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, final

from sortedcontainers import SortedList

from gangsched.core.nodes.node_table import NodeTable
from gangsched.core.queue.demand import Demand
from gangsched.errors import InternalError

__all__ = ["Blocked"]


@final
class Blocked:
    """The blocked demands, in the order in which they were blocked first.

    Attributes:
        demands: Each with a number, ascending in that order.
    """

    def __init__(self) -> None:
        self.demands: dict[Demand, int] = {}
        self._pod_readers: dict[Demand, None] = {}
        self._term_readers: dict[Demand, None] = {}
        self._preempting: dict[Demand, None] = {}
        self._known: Final[dict[int, Demand]] = {}
        # for each resource, sorted pairs of an amount and the number of a demand
        self._orders: dict[int, Any] = {}
        self._added = 0

    def add(self, demand: Demand) -> None:
        """Add a demand, if it is not blocked yet. O(resources x log demands)."""
        if demand in self.demands:
            return
        for number in demand.least:
            if number not in self._orders:
                self._orders[number] = SortedList((0, each) for each in self._known)
        self._added += 1
        self.demands[demand] = self._added
        self._known[self._added] = demand
        for number, order in self._orders.items():
            order.add((demand.least.get(number, 0), self._added))
        if demand.reads_pods:
            self._pod_readers[demand] = None
        if demand.reads_terms:
            self._term_readers[demand] = None
        if demand.reach is not None:
            self._preempting[demand] = None

    def discard(self, demand: Demand) -> None:
        """Take a demand out, if it is blocked. O(resources x log demands)."""
        if demand in self.demands:
            added = self.demands.pop(demand)
            del self._known[added]
            for number, order in self._orders.items():
                order.remove((demand.least.get(number, 0), added))
            self._pod_readers.pop(demand, None)
            self._term_readers.pop(demand, None)
            self._preempting.pop(demand, None)
            if not self.demands:
                self._orders.clear()

    def concerned(
        self, table: NodeTable, slots: Iterable[int], *, pods_changed: bool, terms_changed: bool
    ) -> list[Demand]:
        """Return the demands that may be helped by nodes, or by pods that came or went.

        Gangs that may preempt are among them: it is not seen here who leaves a node for them.
        """
        found: dict[Demand, None] = {}
        for slot in slots:
            found |= self._preempting
            found |= dict.fromkeys(self._that_fit(table.state_of[slot].free))
        if pods_changed:
            found |= self._pod_readers
        if terms_changed:
            found |= self._term_readers
        return list(found)

    def _that_fit(self, free: tuple[int, ...]) -> Iterator[Demand]:
        """Yield the demands of which a node has enough of one resource, and few others."""
        fewest: Any = None
        count = len(self.demands)
        for number, order in self._orders.items():
            # who asks for none of it is not refused where less than nothing is free
            here: int = order.bisect_left((max(free[number], 0) + 1, 0))
            if fewest is None or here < count:
                fewest, count = order, here
        if fewest is None:
            yield from self.demands  # they ask for no resource but the number of pods
        else:
            yield from (self._known[key] for _amount, key in fewest[:count])

    def __iter__(self) -> Iterator[Demand]:
        return iter(list(self.demands))

    def __len__(self) -> int:
        return len(self.demands)

    def check(self) -> None:
        """Check the invariant. O(demands x resources)."""
        for number, order in self._orders.items():
            if set(order) != {(d.least.get(number, 0), n) for d, n in self.demands.items()}:
                raise InternalError(f"the order of resource {number} lacks a blocked demand")
