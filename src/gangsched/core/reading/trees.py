"""The answer of ``Scheduler.tree``: how a group stands part by part, from counts of its members.

Rules:
  R1  a question changes nothing;
  R2  what a part needs is that of ``standing``, and so is whether it has that;
  R3  a copy of a role, and a group below another one, has one row if it is whole, or has nothing.
      Its roles have rows if some of its members hold nodes and others are missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, final

from attrs import evolve

from gangsched.model import GroupKey
from gangsched.primitives.families import family_tree
from gangsched.primitives.gang_tree import OTHERS, SubGroup, under
from gangsched.primitives.group_info import HOLDING, TO_BE_PLACED, PodGroupInfo
from gangsched.primitives.registry import PodGroupRegistry
from gangsched.primitives.standing import Counts, counted, least_needed, standing
from gangsched.trees import Tree, TreeRow

__all__ = ["tree_of_group"]

_OTHERS: Final = "other roles"
"""What the pods are called whose role is not stated; no role is called so."""


def tree_of_group(registry: PodGroupRegistry, info: PodGroupInfo) -> Tree:
    """Return how a group stands, and what is below it. O(sub groups x levels)."""
    is_parent = info.spec is not None and info.spec.min_groups is not None
    tree = family_tree(registry, info.key) if is_parent else under(info.tree, info.key)
    return Tree(_Walk(registry).rows(tree, 0))


@final
class _Walk:
    """One walk of a tree, whose keys begin with those of its groups."""

    def __init__(self, registry: PodGroupRegistry) -> None:
        self._registry = registry

    def rows(self, sub: SubGroup, depth: int) -> Iterator[TreeRow]:
        """Yield the row of a sub group and those below it."""
        row = self._row(sub, depth)
        if _is_of_others(sub):
            if row.total:
                yield evolve(row, path=_OTHERS)
            return
        yield row
        is_part = sub.is_copy and not any(child.has_parts for child in sub.children)
        if not is_part or (row.lacks and row.held):
            for child in sub.children:
                yield from self.rows(child, depth + 1)

    def _row(self, sub: SubGroup, depth: int) -> TreeRow:
        group = GroupKey(sub.key) if sub.group is None else sub.group
        of, needed = "pods", least_needed(sub, lambda each: each.least)
        if (sub.is_of_copies and not sub.slices) or sub.group is None:
            of, needed = "groups" if sub.group is None else "copies", sub.wanted
            held, total = sum(map(self._is_met, sub.children)), len(sub.children)
        else:
            own = counted(needed, *self._counts(sub))
            held, total = own.held, own.present
        return TreeRow(
            group=group,
            path=sub.key[len(group) + 1 :],
            depth=depth,
            of=of,
            held=held,
            total=total,
            needed=needed,
            lacks=not self._is_met(sub),
        )

    def _is_met(self, sub: SubGroup) -> bool:
        return standing(sub, self._counts).is_met

    def _counts(self, sub: SubGroup) -> Counts:
        """Return the members of a sub group: on nodes, to be placed, and succeeded."""
        info = None if sub.group is None else self._registry.get(sub.group)
        if info is None or (sub.children and sub.key != info.key):
            return _sum([self._counts(child) for child in sub.children])
        if not _is_of_others(sub):
            return _of(info, sub.role)
        stated = {leaf.role for leaf in info.tree.leaves if leaf.role is not None}
        of_roles = _sum([_of(info, role) for role in stated])
        return Counts(*(n - less for n, less in zip(_of(info, None), of_roles, strict=True)))


def _sum(counts: Sequence[Counts]) -> Counts:
    return Counts(*map(sum, zip(*counts, strict=True)))


def _of(info: PodGroupInfo, role: str | None) -> Counts:
    members = info.members
    held, pending = members.in_states(HOLDING, role), members.in_states(TO_BE_PLACED, role)
    return Counts(held, pending, members.done(role))


def _is_of_others(sub: SubGroup) -> bool:
    return sub.key.endswith(f"/{OTHERS}")
