"""What a group needs in all, against what the nodes have free in all.

Rules:
  R1  a quick no, never a yes: room in all may be in pieces too small for any member;
  R2  an overcommitted node has nothing free; it does not make the others' room smaller;
  R3  which nodes count is the caller's to say: it passes those that do.

Source: KEP-42's check of ``minResources``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gangsched.model import Resources

__all__ = ["gap", "resource_gap", "total_free"]


def total_free(free: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return what nodes have free together, in thousandths. O(nodes x resources)."""
    total: dict[str, int] = {}
    for amounts in free:
        for name, amount in amounts.items():
            if amount > 0:
                total[name] = total.get(name, 0) + amount
    return total


def gap(wanted: Mapping[str, int], total: Mapping[str, int]) -> Resources:
    """Return by how much *wanted* exceeds *total*, both in thousandths. O(resources)."""
    missing = {name: amount - total.get(name, 0) for name, amount in wanted.items()}
    return Resources.from_milli({name: amount for name, amount in missing.items() if amount > 0})


def resource_gap(wanted: Mapping[str, int], free: Iterable[Mapping[str, int]]) -> Resources:
    """Return what nodes have too little of together; empty when of nothing.

    Runtime complexity: O(nodes x resources).

    Args:
        wanted: What is needed in all, in thousandths, as ``Resources`` have it. To discount what
            members hold already, subtract it here or add it there.
        free: What each node has free, in thousandths; below zero counts as nothing.
    """
    return gap(wanted, total_free(free))
