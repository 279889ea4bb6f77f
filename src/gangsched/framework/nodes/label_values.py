"""LabelValues: the feasible classes of nodes by the value of one label.

A gang that must be within one value of a label is placed on a few of the nodes. To find the values
and their nodes without a look at all classes, each value has the sum of what its nodes take, and
orders of its own classes. Values are kept in the order of their sums.

Rules:
  R1  classes without the label are left out;
  R2  an order of classes is built when it is first asked for, and updated from then on;
  R3  the values whose sum has changed are moved when the order of values is next asked for.

Invariants (checked by ``_check``):
  I1  each feasible class with nodes is at its value, and each value has such a class;
  I2  the total of a value is the sum of the upper bounds on the pods of its nodes;
  I3  after ``in_order`` the order has each value once, with its total.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias, final

from gangsched.errors import InternalError
from gangsched.framework.nodes import in_order
from gangsched.framework.nodes.node_class import NodeClass
from gangsched.framework.nodes.ranking import Ranking

__all__ = ["LabelValue", "LabelValues", "Ranks"]

Ranks: TypeAlias = Callable[[NodeClass], tuple[int, tuple[bool, int]]]
"""Returns the rank of a feasible class by score, and its rank in the order of packing."""


@final
class LabelValue:
    """The feasible classes of nodes with one value of a label.

    Attributes:
        total: An upper bound on the pods that the nodes take.
        firsts: The classes, each with its first node.
        by_score: The classes by score; None before the first question.
        packing: The classes in the order of packing; None before the first question.
    """

    __slots__ = ("by_score", "firsts", "packing", "total")

    def __init__(self) -> None:
        self.total: int = 0
        self.firsts: dict[NodeClass, int] = {}
        self.by_score: Ranking | None = None
        self.packing: Ranking | None = None


@final
class LabelValues:
    """The feasible classes of nodes by the value of a label.

    Args:
        key: The key of the label. Plugins or a topology read it, so that the nodes of a class have
            one value.
    """

    __slots__ = ("_changed", "_key", "_order", "_placed", "_values")

    def __init__(self, key: str) -> None:
        self._key = key
        self._values: dict[str, LabelValue] = {}
        self._order: in_order.Items = []
        self._placed: dict[str, int] = {}
        self._changed: dict[str, None] = {}

    def count(self, given: NodeClass, pods: int) -> None:
        """Count room for more pods on the nodes of a class; for fewer if it is negative. O(1)."""
        value = given.node.labels.get(self._key)
        if value is not None and pods:
            found = self._values.get(value)
            if found is None:
                found = self._values[value] = LabelValue()
            found.total += pods
            self._changed[value] = None

    def move(self, given: NodeClass, first: int, ranks: Ranks) -> None:
        """Note the first node of a feasible class. O(log classes).

        Args:
            given: The class.
            first: Its first node from now on; negative if it leaves.
            ranks: Its ranks.
        """
        value = given.node.labels.get(self._key)
        if value is None:
            return
        found = self._values.get(value)
        if found is None:
            found = self._values[value] = LabelValue()
            self._changed[value] = None
        if first < 0:
            found.firsts.pop(given, None)
            if not found.firsts:
                del self._values[value]
                self._changed[value] = None
            return
        if found.firsts.get(given) == first:
            return
        found.firsts[given] = first
        if found.by_score is not None or found.packing is not None:
            for order, rank in zip((found.by_score, found.packing), ranks(given), strict=True):
                if order is not None:
                    order.add(rank, first, given)
                    order.tidy()

    def totals(self) -> Iterator[tuple[str, int]]:
        """Iterate over the values, each with an upper bound on the pods that it takes."""
        return ((value, found.total) for value, found in self._values.items())

    def in_order(self) -> in_order.Items:
        """Return the values in ascending order: (total, value). O(log values) for each change."""
        for value in self._changed:
            before = self._placed.pop(value, None)
            if before is not None:
                in_order.remove(self._order, (before, value))
            found = self._values.get(value)
            if found is not None:
                self._placed[value] = found.total
                self._order = in_order.add(self._order, (found.total, value))
        self._changed.clear()
        return self._order

    def by_score(self, value: str, ranks: Ranks) -> Ranking:
        """Return the classes of a value, the best score first. O(log classes), except the first."""
        found = self._values.get(value)
        if found is None:
            return Ranking((), {})
        if found.by_score is None:
            ranked = ((ranks(given)[0], first, given) for given, first in found.firsts.items())
            found.by_score = Ranking(ranked, found.firsts)
        return found.by_score

    def packing(self, value: str, ranks: Ranks) -> Ranking:
        """Return the classes of a value in the order of packing; see ``by_score``."""
        found = self._values.get(value)
        if found is None:
            return Ranking((), {})
        if found.packing is None:
            ranked = ((ranks(given)[1], first, given) for given, first in found.firsts.items())
            found.packing = Ranking(ranked, found.firsts)
        return found.packing

    def _check(self, firsts: Mapping[NodeClass, int], max_pods: Callable[[NodeClass], int]) -> None:
        found: dict[str, dict[NodeClass, int]] = {}
        totals: dict[str, int] = {}
        for given, first in firsts.items():
            value = given.node.labels.get(self._key)
            if value is not None:
                found.setdefault(value, {})[given] = first
                totals[value] = totals.get(value, 0) + max_pods(given) * len(given.nodes)
        if found != {value: each.firsts for value, each in self._values.items()}:
            raise InternalError(f"label {self._key}: a class of nodes is not at its value")
        if totals != dict(self.totals()):
            raise InternalError(f"label {self._key}: the totals {dict(self.totals())} are wrong")
        if list(self.in_order()) != sorted((total, value) for value, total in totals.items()):
            raise InternalError(f"label {self._key}: the values are not in order")
        for value, each in self._values.items():
            for ranking in (each.by_score, each.packing):
                if ranking is not None:
                    if {given for _rank, given in ranking} != each.firsts.keys():
                        raise InternalError(f"label {self._key}: {value} has lost an order")
                    ranking._check()
