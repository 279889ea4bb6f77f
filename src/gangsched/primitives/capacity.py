"""Compare the total request of a group with the total free capacity of nodes.

Rules:
  R1  the result can rule a group out, but not in: the free capacity may be in fragments that are
      too small for any member;
  R2  an overcommitted node counts as having no free capacity, not a negative amount;
  R3  the caller chooses the nodes.

Source: KEP-42's check of ``minResources``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gangsched.errors import InvalidValueError
from gangsched.model import Resources

__all__ = ["gap", "resource_gap", "total_free"]


def total_free(free: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the total free amounts of nodes, in thousandths. O(nodes x resources)."""
    total: dict[str, int] = {}
    for amounts in free:
        for name, amount in amounts.items():
            if amount > 0:
                total[name] = total.get(name, 0) + amount
    return total


def gap(wanted: Mapping[str, int], total: Mapping[str, int]) -> Resources:
    """Return the amounts by which *wanted* exceeds *total*, in thousandths. O(resources)."""
    missing = {name: amount - total.get(name, 0) for name, amount in wanted.items()}
    return Resources.from_milli({name: amount for name, amount in missing.items() if amount > 0})


def resource_gap(wanted: Mapping[str, int], free: Iterable[Mapping[str, int]]) -> Resources:
    """Return the amounts that the nodes lack in total; empty if they lack nothing.

    Runtime complexity: O(nodes x resources).

    Args:
        wanted: The total request in thousandths, such as ``Resources``. The caller subtracts the
            requests of members that hold a node already.
        free: The free amounts of each node in thousandths; amounts below zero count as zero.

    Raises:
        InvalidValueError: An argument is not a mapping to ints, or an iterable of such mappings.
    """
    if not isinstance(free, Iterable):
        raise InvalidValueError("free", free, "an iterable of mappings")
    nodes = list(free)
    _check_amounts("wanted", wanted)
    for index, amounts in enumerate(nodes):
        _check_amounts(f"free[{index}]", amounts)
    return gap(wanted, total_free(nodes))


def _check_amounts(field: str, amounts: Mapping[str, int]) -> None:
    if not isinstance(amounts, Mapping):
        raise InvalidValueError(field, amounts, "a mapping of names to ints (thousandths)")
    for name, amount in amounts.items():
        if not isinstance(amount, int) or isinstance(amount, bool):
            raise InvalidValueError(f"{field}.{name}", amount, "an int (thousandths)")
