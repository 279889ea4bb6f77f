"""``check_less``: what a queue order has to be."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cmp_to_key
from itertools import product
from typing import TypeVar

__all__ = ["check_less"]

T = TypeVar("T")


def check_less(
    less: Callable[[T, T], bool],
    items: Sequence[T],
    *,
    group_of: Callable[[T], Hashable | None] | None = None,
    rekey: Callable[[T], T] | None = None,
) -> None:
    """Hold a comparator to a strict total order over *items*, in which no gang is interleaved.

    Runtime complexity: O(items ** 3) comparisons; with *rekey*, as often again for each group.

    Args:
        less: Whether the first goes before the second.
        items: What is queued.
        group_of: Says which group an item is in; None for none. With it, the members of a group
            must be contiguous: law 3.
        rekey: Makes an item anew, as it is queued after its group has failed. With it, what is
            queued must stay where it is until it is made anew, however much its group has changed;
            and when all items of a group are, all others must be in their old order.

    Raises:
        AssertionError: It is none; the sentence gives the smallest counter-example of its kind.
    """
    _is_total(less, items)
    if group_of is not None:
        _is_contiguous(less, items, group_of)
    if rekey is None:
        return
    for group in dict.fromkeys(_names(items, group_of)):
        members = [n for n, name in enumerate(_names(items, group_of)) if name == group]
        _stays(less, items, members, rekey, group_of)


def _names(items: Sequence[T], group_of: Callable[[T], Hashable | None] | None) -> list[Hashable]:
    """Return what each item is re-keyed with: its group, or itself."""
    groups = [None if group_of is None else group_of(item) for item in items]
    return [("alone", n) if group is None else group for n, group in enumerate(groups)]


def _is_total(less: Callable[[T, T], bool], items: Sequence[T]) -> None:
    for a in items:
        assert not less(a, a), f"irreflexive: {a!r} goes before itself"
    for a, b in product(items, repeat=2):
        if a is not b:
            both = (less(a, b), less(b, a))
            assert both != (True, True), f"asymmetric: {a!r} and {b!r} go before each other"
            assert both != (False, False), f"total: neither of {a!r} and {b!r} goes first"
    for a, b, c in product(items, repeat=3):
        if less(a, b) and less(b, c):
            assert less(a, c), f"transitive: {a!r} before {b!r} before {c!r}, but not before it"


def _is_contiguous(
    less: Callable[[T, T], bool], items: Sequence[T], group_of: Callable[[T], Hashable | None]
) -> None:
    for a, b, c in product(items, repeat=3):
        if group_of(a) is not None and group_of(a) == group_of(c) != group_of(b):
            between = less(a, b) and less(b, c)
            assert not between, f"contiguous: {b!r} between {a!r} and {c!r}, which are of one group"


def _order(less: Callable[[T, T], bool], items: Sequence[T]) -> list[int]:
    """Return the numbers of the items in their order."""

    def compare(a: int, b: int) -> int:
        return -1 if less(items[a], items[b]) else 1

    return sorted(range(len(items)), key=cmp_to_key(compare))


def _stays(
    less: Callable[[T, T], bool],
    items: Sequence[T],
    members: Sequence[int],
    rekey: Callable[[T], T],
    group_of: Callable[[T], Hashable | None] | None,
) -> None:
    before = _order(less, items)
    fresh = {n: rekey(items[n]) for n in members}
    first = items[members[0]]
    said = f"after {first!r} was re-keyed"
    assert _order(less, items) == before, f"frozen: {said}, what is still queued changes places"
    after = [fresh.get(n, item) for n, item in enumerate(items)]
    _is_total(less, after)
    if group_of is not None:
        _is_contiguous(less, after, group_of)
    others = [n for n in before if n not in fresh]
    kept = [n for n in _order(less, after) if n not in fresh]
    assert kept == others, f"stable: {said}, others change places: {others} to {kept}"
