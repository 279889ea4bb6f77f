"""CapacityIndex: which of many items a node may have enough free for.

Theory of operation. An item *needs* amounts of some resources, or has several alternatives of which
one is enough. Most changes of a node help none of the items that wait, so they are not looked at
one by one. Needs that name the same resources are filed together, once by the amount of each
resource. A question looks at the resource that excludes the most items, and only at the items of
which that resource is enough.

Invariants (checked by ``_check``):
  I1  ``fitting`` returns exactly the items with an alternative that is within the given amounts;
  I2  an item without a need is kept nowhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias, final

from sortedcontainers import SortedList

from gangsched.errors import InternalError

__all__ = ["AlikeNeeds", "CapacityIndex", "Need"]

Need: TypeAlias = tuple[tuple[str, int], ...]
"""Amounts of resources, in thousandths, each resource once, in the order of their names."""


@final
class AlikeNeeds:
    """The needs that name the same resources."""

    __slots__ = ("by_amount", "by_item", "names")

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names: tuple[str, ...] = names
        self.by_item: dict[int, tuple[tuple[int, ...], ...]] = {}
        # for each resource: (amount, item), once for each alternative of the item
        self.by_amount: tuple[Any, ...] = tuple(SortedList() for _name in names)

    def add(self, item: int, amounts: tuple[int, ...]) -> None:
        self.by_item[item] = (*self.by_item.get(item, ()), amounts)
        for filed, amount in zip(self.by_amount, amounts, strict=True):
            filed.add((amount, item))

    def discard(self, item: int) -> None:
        for amounts in self.by_item.pop(item, ()):
            for filed, amount in zip(self.by_amount, amounts, strict=True):
                filed.remove((amount, item))

    def fitting(self, free: Mapping[str, int]) -> Iterator[int]:
        """Iterate over the items with an alternative within *free*; one may be repeated."""
        if not self.names:
            yield from self.by_item
            return
        most = tuple(free.get(name, 0) for name in self.names)
        ends = [
            filed.bisect_right((amount, math.inf))
            for filed, amount in zip(self.by_amount, most, strict=True)
        ]
        end = min(ends)
        scarcest: Iterator[tuple[int, int]] = self.by_amount[ends.index(end)].islice(0, end)
        if len(self.names) == 1:  # then enough of the scarcest resource is enough of all
            yield from (item for _amount, item in scarcest)
            return
        for _amount, item in scarcest:
            for amounts in self.by_item[item]:
                if _is_within(amounts, most):
                    yield item
                    break


@final
class CapacityIndex:
    """Items, each a number, by what they need.

    Runtime complexity: ``add`` and ``discard`` are O(alternatives x resources x log items).
    """

    __slots__ = ("_alike",)

    def __init__(self) -> None:
        self._alike: dict[tuple[str, ...], AlikeNeeds] = {}

    def __len__(self) -> int:
        """Return how many items are kept, each once for each set of resources that it names."""
        return sum(len(alike.by_item) for alike in self._alike.values())

    def add(self, item: int, needs: Iterable[Need]) -> None:
        """Add an item that one of *needs* is enough for."""
        for need in needs:
            names = tuple(name for name, _amount in need)
            alike = self._alike.get(names)
            if alike is None:
                alike = self._alike[names] = AlikeNeeds(names)
            alike.add(item, tuple(amount for _name, amount in need))

    def discard(self, item: int, needs: Iterable[Need]) -> None:
        """Remove an item that was added with the same needs."""
        for need in needs:
            names = tuple(name for name, _amount in need)
            alike = self._alike.get(names)
            if alike is not None:
                alike.discard(item)
                if not alike.by_item:
                    del self._alike[names]

    def fitting(self, free: Mapping[str, int]) -> set[int]:
        """Return the items with a need within *free*; a resource that is not named counts as 0.

        Runtime complexity: O(log items) for each set of resources that needs name, and O(items)
        of which the scarcest of these resources is enough.
        """
        return {item for alike in self._alike.values() for item in alike.fitting(free)}

    def _check(self, expected: Mapping[int, Iterable[Need]]) -> None:
        kept: dict[int, list[Need]] = {}
        for names, alike in self._alike.items():
            if not alike.by_item:
                raise InternalError(f"no item needs {names}, and an index by it is kept")
            for item, alternatives in alike.by_item.items():
                needs = [tuple(zip(names, amounts, strict=True)) for amounts in alternatives]
                kept.setdefault(item, []).extend(needs)
            for number, filed in enumerate(alike.by_amount):
                pairs = [
                    (amounts[number], item)
                    for item, alternatives in alike.by_item.items()
                    for amounts in alternatives
                ]
                if sorted(pairs) != list(filed):
                    raise InternalError(f"needs of {names[number]} are filed wrongly")
        wanted = {item: sorted(needs) for item, needs in expected.items()}
        if {item: sorted(needs) for item, needs in kept.items()} != wanted:
            raise InternalError("the needs in an index are not those of its items")


def _is_within(amounts: tuple[int, ...], most: tuple[int, ...]) -> bool:
    for amount, limit in zip(amounts, most, strict=True):  # noqa: SIM110 - a generator is slower
        if amount > limit:
            return False
    return True
