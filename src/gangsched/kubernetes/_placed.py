"""Composite pod groups: whether what they need is on nodes, and why one is absent.

Rules:
  R1  a group of pods is placed if as many members are bound or have ended as it needs, and a parent
      if as many of its children are placed as it wants. Members that are being bound do not count,
      because what is written of a parent is never taken back;
  R2  a child whose parent is absent is held by the scheduler. Only what watches the cluster knows
      whether such an object was never made, cannot be read, or is of a kind that is not served.
"""

from __future__ import annotations

from collections.abc import Iterable

from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._facts import COMPOSITE_KIND
from gangsched.kubernetes._partial import is_whole
from gangsched.model import GroupKey, PodGroup
from gangsched.primitives.registry import PodGroupRegistry

__all__ = ["is_parent", "parents_of", "placed_children", "why_absent"]


def is_parent(group: PodGroup | None) -> bool:
    """Return whether a group consists of groups."""
    return group is not None and group.min_groups is not None


def parents_of(registry: PodGroupRegistry, keys: Iterable[GroupKey]) -> list[GroupKey]:
    """Return the groups of groups above some groups, or among them, each once. O(levels) each."""
    found: dict[GroupKey, None] = {}
    for key in keys:
        above = (*registry.above(key), registry.spec(key))
        found |= {group.key: None for group in above if group is not None and is_parent(group)}
    return sorted(found)


def placed_children(registry: PodGroupRegistry, key: GroupKey) -> tuple[int, int]:
    """Return how many children of a group of groups are placed, and how many it wants.

    O(groups below it).
    """
    return _placed_children(registry, key, (key,))


def _placed_children(
    registry: PodGroupRegistry, key: GroupKey, above: tuple[GroupKey, ...]
) -> tuple[int, int]:
    spec = registry.spec(key)
    children = [child for child in registry.children(key) if child not in above]
    placed = sum(_is_placed(registry, child, (*above, child)) for child in children)
    return placed, 0 if spec is None else spec.min_groups or 0


def _is_placed(registry: PodGroupRegistry, key: GroupKey, above: tuple[GroupKey, ...]) -> bool:
    if is_parent(registry.spec(key)):
        placed, wanted = _placed_children(registry, key, above)
        return placed >= wanted
    info = registry.get(key)
    return info is not None and is_whole(info)


def why_absent(cache: Cache, key: GroupKey) -> tuple[GroupKey, str] | None:
    """Return a parent above a group that is not there, and more about it; None if there is none.

    O(levels).
    """
    seen: list[GroupKey] = []
    group = cache.cluster.pod_group(key)
    while group is not None and group.parent is not None and group.parent not in seen:
        parent = group.parent
        if cache.namesake(parent) is not None:
            name = parent.partition("/")[2]
            return (
                parent,
                f"a PodGroup and a {COMPOSITE_KIND} are called {name}: rename one of them",
            )
        group = cache.cluster.pod_group(parent)
        if group is None:
            unreadable = cache.unreadable_group(parent)
            if unreadable is not None:
                return parent, f"its {unreadable.dialect.kind} cannot be read: {unreadable}"
            return parent, cache.unread_composites()
        seen.append(parent)
    return None
