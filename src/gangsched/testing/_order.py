"""``check_less``: check that a comparator is a valid queue order."""

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
    """Check that a comparator is a strict total order over *items* that interleaves no gangs.

    Runtime complexity: O(items ** 3) comparisons; with *rekey*, as many again for each group.

    Args:
        less: Returns whether the first item sorts before the second.
        items: The queued items.
        group_of: Returns the group of an item, or None. If given, the members of a group must be
            contiguous: law 3.
        rekey: Returns an item with the key that it is queued with after its group has failed. If
            given, queued items must keep their order until they are re-keyed, even when their
            group changes. When all items of a group are re-keyed, the others must keep their
            order.

    Raises:
        AssertionError: The comparator breaks a rule; the message names the rule and the items.
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
    """Return, for each item, what is re-keyed together with it: its group, or the item alone."""
    groups = [None if group_of is None else group_of(item) for item in items]
    return [("alone", n) if group is None else group for n, group in enumerate(groups)]


def _is_total(less: Callable[[T, T], bool], items: Sequence[T]) -> None:
    for a in items:
        assert not less(a, a), f"irreflexive: {a!r} sorts before itself"
    for a, b in product(items, repeat=2):
        if a is not b:
            both = (less(a, b), less(b, a))
            assert both != (True, True), f"asymmetric: {a!r} and {b!r} sort before each other"
            assert both != (False, False), f"total: neither of {a!r} and {b!r} sorts first"
    for a, b, c in product(items, repeat=3):
        if less(a, b) and less(b, c):
            assert less(a, c), f"transitive: {a!r} before {b!r} before {c!r}, but not before it"


def _is_contiguous(
    less: Callable[[T, T], bool], items: Sequence[T], group_of: Callable[[T], Hashable | None]
) -> None:
    for a, b, c in product(items, repeat=3):
        if group_of(a) is not None and group_of(a) == group_of(c) != group_of(b):
            between = less(a, b) and less(b, c)
            assert not between, f"contiguous: {b!r} sorts between {a!r} and {c!r} of one group"


def _order(less: Callable[[T, T], bool], items: Sequence[T]) -> list[int]:
    """Return the indexes of the items, sorted."""

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
    when = f"after {first!r} was re-keyed"
    assert _order(less, items) == before, f"frozen: {when}, queued items change places"
    after = [fresh.get(n, item) for n, item in enumerate(items)]
    _is_total(less, after)
    if group_of is not None:
        _is_contiguous(less, after, group_of)
    others = [n for n in before if n not in fresh]
    kept = [n for n in _order(less, after) if n not in fresh]
    assert kept == others, f"stable: {when}, other items change places: {others} to {kept}"
