"""The order in which the changes that would start a gang are printed.

Rules:
  R1  a change that starts the gang comes before one that is not known to, and that before one that
      does not;
  R2  of two that start it, the one that adds less capacity comes first. Extended resources, such as
      GPUs, are compared first, then cpu, then memory, then the number of nodes;
  R3  whatever is equal stays in order: the kind of node that is most frequent in the cluster first.
"""

from __future__ import annotations

from collections.abc import Iterable

from gangsched.what_if import SmallestChange, Sufficient

__all__ = ["cheapest_first"]


def cheapest_first(changes: Iterable[SmallestChange]) -> tuple[SmallestChange, ...]:
    """Return changes in the order of the rules above. O(n log n)."""
    return tuple(sorted(changes, key=_cost))


def _cost(change: SmallestChange) -> tuple[float, ...]:
    if not isinstance(change, Sufficient):
        return (1 if change.exhausted else 2,)
    offers, nodes = change.shape.allocatable, change.nodes
    extended = sum(offers.amount(name) for name in offers if "/" in name)
    amounts = (extended, offers.amount("cpu"), offers.amount("memory"))
    return (0, *(nodes * amount for amount in amounts), nodes)
