"""Whether groups, and the groups of groups above them, are on nodes.

Rules:
  R1  a group of pods is placed if as many members are bound or have ended as it needs, and a parent
      if as many of its children are placed as it wants. Members that are being bound do not count,
      because what is written of a parent is never taken back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, final

from gangsched.model import GroupKey, PodGroup
from gangsched.primitives.counters import MemberState
from gangsched.primitives.group_info import PodGroupInfo
from gangsched.primitives.registry import PodGroupRegistry

__all__ = ["Children", "children_of", "groups_below", "is_parent", "is_whole", "parents_of"]


@final
class Children(NamedTuple):
    """How the children of a group of groups stand.

    Attributes:
        placed: How many are placed.
        wanted: How many have to be placed.
    """

    placed: int
    wanted: int

    @property
    def is_met(self) -> bool:
        """Whether as many are placed as are wanted, at each level below."""
        return self.placed >= self.wanted


def is_whole(info: PodGroupInfo) -> bool:
    """Return whether as many members are bound or have ended as a group needs. O(1)."""
    minimum = info.min_available
    ended = info.members.count(MemberState.SUCCEEDED) + info.members.count(MemberState.FAILED)
    return minimum is not None and info.assigned + ended >= minimum


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


def groups_below(registry: PodGroupRegistry, key: GroupKey) -> list[PodGroupInfo]:
    """Return the groups of pods below a group of groups; the group itself if it is one of pods.

    O(groups below it).
    """
    keys = dict.fromkeys([key])
    below = list(keys)
    for each in below if is_parent(registry.spec(key)) else ():  # it grows
        new = [child for child in registry.children(each) if child not in keys]
        keys |= dict.fromkeys(new)
        below += new
    infos = [info for info in map(registry.get, below) if info is not None]
    return [info for info in infos if not is_parent(info.spec)]


def children_of(registry: PodGroupRegistry, key: GroupKey) -> Children:
    """Return how the children of a group of groups stand. O(groups below it)."""
    return _children(registry, key, (key,))


def _children(registry: PodGroupRegistry, key: GroupKey, above: tuple[GroupKey, ...]) -> Children:
    spec = registry.spec(key)
    children = [child for child in registry.children(key) if child not in above]
    placed = sum(_is_placed(registry, child, (*above, child)) for child in children)
    return Children(placed, 0 if spec is None else spec.min_groups or 0)


def _is_placed(registry: PodGroupRegistry, key: GroupKey, above: tuple[GroupKey, ...]) -> bool:
    if is_parent(registry.spec(key)):
        return _children(registry, key, above).is_met
    info = registry.get(key)
    return info is not None and is_whole(info)
