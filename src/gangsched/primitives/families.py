"""Families: the groups below one root, by the parents that they state; and bundles.

Rules:
  R1  a family starts together: of the children of each group of groups as many as it wants, and
      any other child as a whole or not at all;
  R2  what is wrong with a family holds all of it, with a reason that names the group;
  R3  priority, queue, timeout and preemption policy are one for all: those of the root, if it
      states them.

Source: CompositePodGroup (KEP-6012).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from attrs import evolve

from gangsched.model import GroupKey, PodGroup
from gangsched.primitives.gang_tree import SubGroup, group_tree, kept_apart, under, within
from gangsched.primitives.registry import PodGroupRegistry

__all__ = ["AWAITS_GROUPS", "bundle_problem", "family_problem", "family_tree", "waits_for"]

AWAITS_GROUPS: Final = "waiting for pod group"
"""How a reason begins that names another group, which has to start together with one."""

_OF_ALL: Final = ("priority", "queue", "schedule_timeout", "preemption_policy")
_MOST_LEVELS: Final = 16
"""The most groups of groups above a group; a deeper tree is held, and not walked."""


def family_tree(registry: PodGroupRegistry, root: GroupKey) -> SubGroup:
    """Return the tree of the groups below a root. O(groups)."""
    return _tree(registry, root, (), is_copy=False)


def _tree(
    registry: PodGroupRegistry, key: GroupKey, above: tuple[GroupKey, ...], *, is_copy: bool
) -> SubGroup:
    spec = registry.spec(key)
    if spec is not None and spec.min_groups is None:
        return evolve(under(group_tree(key, spec, None), key), is_copy=is_copy)
    children = [child for child in registry.children(key) if child not in above]
    if len(above) >= _MOST_LEVELS:
        children = []
    topology = None if spec is None else spec.topology
    tree = SubGroup(
        key,
        0 if children else 1,  # nothing meets a parent that has no child
        tuple([_tree(registry, child, (*above, key), is_copy=True) for child in children]),
        wanted=-1 if spec is None or spec.min_groups is None else spec.min_groups,
        within=within(topology),
        is_copy=is_copy,
        evicted_whole=spec is not None and spec.evicted_whole,
        exclusive=None if topology is None else topology.exclusive,
    )
    apart = None if topology is None else topology.apart
    return tree if apart is None else kept_apart(tree, apart)


def family_problem(
    registry: PodGroupRegistry,
    root: GroupKey,
    unclear: Callable[[PodGroup], str],
    unclear_below: Callable[[PodGroup, PodGroup], str],
) -> str:
    """Return why the groups below a root cannot start, whatever their pods are; or ``""``.

    Args:
        registry: The groups.
        root: The root.
        unclear: Returns which constraint of a parent has no meaning; or ``""``.
        unclear_below: Returns which constraint of a child has none below its parent; or ``""``.
    """
    spec = registry.spec(root)
    if spec is None:
        return f"{AWAITS_GROUPS} {root}, a parent: it does not exist"
    if spec.parent is not None:
        return f"pod group {root} is its own parent, by way of {spec.parent}"
    if spec.min_groups is None:
        return f"pod group {root} is a parent, and has no min_groups"
    first: dict[str, PodGroup] = {}
    for each in (spec, *_below(registry, spec)):
        problem = _own_problem(registry, each, unclear)
        above = None if each.parent is None else registry.spec(each.parent)
        found = "" if problem or above is None else unclear_below(above, each)
        if found:
            problem = f"pod group {each.key} has a constraint that is not known: {found}"
        if not problem and len(registry.above(each.key)) >= _MOST_LEVELS:
            problem = (
                f"pod group {each.key} is {_MOST_LEVELS} groups of groups or more below {root}"
            )
        if problem:
            return problem
        for name in _OF_ALL:
            value = getattr(each, name)
            if value is not None:
                other = first.setdefault(name, each)
                if value != getattr(other, name):
                    expected = f"that of {other.key}, which is {getattr(other, name)!r}"
                    return f"pod group {each.key}: {name} must be {expected}, got {value!r}"
    return ""


def _own_problem(
    registry: PodGroupRegistry, spec: PodGroup, unclear: Callable[[PodGroup], str]
) -> str:
    if spec.min_groups is None:
        if registry.children(spec.key):
            return f"pod group {spec.key} is a parent, and has no min_groups"
        return ""
    problem = next(iter(spec.unmodelled), "") or unclear(spec)
    return f"pod group {spec.key} has a constraint that is not known: {problem}" if problem else ""


def _below(registry: PodGroupRegistry, spec: PodGroup, levels: int = 1) -> Iterator[PodGroup]:
    for key in registry.children(spec.key) if levels <= _MOST_LEVELS else ():
        child = registry.spec(key)
        if child is not None:
            yield child
            yield from _below(registry, child, levels + 1)


def bundle_problem(registry: PodGroupRegistry, names: Iterable[GroupKey]) -> str:
    """Return why some groups are no bundle: one is missing, or does not name the others; or ``""``.

    Args:
        registry: The groups.
        names: All groups that any of them names, themselves included.
    """
    bundle = set(names)
    for name in sorted(bundle):
        spec = registry.spec(name)
        if spec is None:
            return waits_for(name, "it does not exist")
        if {name, *spec.bundle} != bundle:
            return f"pod group {name} names another bundle"
    return ""


def waits_for(group: str, reason: str) -> str:
    """Return why a bundle waits for a group of it; ``why`` leaves the group out of its own."""
    return f"{AWAITS_GROUPS} {group} of its bundle: {reason}"
