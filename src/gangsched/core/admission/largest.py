"""The most that members may request with which a tree meets its minima.

Rules:
  R1  each resource is taken for itself, so the result may be more than any members request;
  R2  of a sub group that wants some of its children, the largest count that lack members, beside
      those that lack none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter

from gangsched.primitives.gang_tree import SubGroup
from gangsched.primitives.standing import by_key, least_needed
from gangsched.resources import Resources

__all__ = ["most"]


def most(
    tree: SubGroup,
    members: Iterable[tuple[str | None, Resources]],
    lacks: Mapping[str, int],
    leaf_of: Callable[[SubGroup], str | None] = attrgetter("role"),
) -> Resources:
    """Return the most that members may request of which a tree lacks some.

    Runtime complexity: O(m log m + sub groups) for m members, for each resource.

    Args:
        tree: The tree.
        members: The role of each member that may count, and what it requests.
        lacks: How many members each sub group lacks, by key; 0 if it is left out.
        leaf_of: What is given of members instead of the role: an attribute of their leaf.
    """
    by_leaf: dict[str | None, list[Resources]] = {}
    known = {leaf_of(leaf): leaf.key for leaf in tree.leaves}
    for name, requests in members:
        by_leaf.setdefault(known.get(name, known.get(None)), []).append(requests)
    found: dict[str, int] = {}
    for name in {name for some in by_leaf.values() for each in some for name in each}:
        amounts = {
            leaf: sorted((each.get(name, 0) for each in some), reverse=True)
            for leaf, some in by_leaf.items()
        }
        found[name] = sum(_chosen(tree, amounts, lacks))
    return Resources.from_milli(found)


def _chosen(
    tree: SubGroup, amounts: Mapping[str | None, list[int]], lacks: Mapping[str, int]
) -> list[int]:
    """Return what the largest members request that a sub group lacks."""
    number = max(lacks.get(tree.key, 0), 0)
    if not tree.children:
        return amounts.get(tree.key, [])[:number]
    open_children = [c for c in tree.children if least_needed(c, by_key(lacks)) > 0]
    met = len(tree.children) - len(open_children)
    parts = sorted((_chosen(each, amounts, lacks) for each in open_children), key=sum)
    parts = parts[len(parts) - min(max(tree.wanted - met, 0), len(parts)) :]
    found = [amount for part in parts for amount in part]
    if len(found) < number:
        left = Counter(a for leaf in tree.leaves for a in amounts.get(leaf.key, ()))
        left.subtract(found)
        found += sorted(left.elements(), reverse=True)[: number - len(found)]
    return found
