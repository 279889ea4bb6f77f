"""What the start of a group of groups needs: enough of its children, each as a whole.

Rules:
  R1  a gang stands from its start on, as long as a member is placed; a parent stands while enough
      of its children do. If anything below a parent stood before, any other child of it may start
      by itself, as a whole;
  R2  while events are delayed, a scheduler may know a parent as it was, and children of which the
      members are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Protocol

from gangsched.testing._plain_parent import PlainParent
from gangsched.testing._plain_pod import PlainPod

__all__ = ["FamilyView", "ancestors", "children", "family_violation", "stands"]


class FamilyView(Protocol):
    """What the checks of a family read; the observer provides it.

    Attributes:
        pods: The pods that exist, by UID.
        parents: The groups of groups, by name.
        started: The gangs that have started.
    """

    pods: dict[str, PlainPod]
    parents: dict[str, PlainParent]
    started: set[str]

    def versions(self, name: str) -> Collection[PlainParent]:
        """Return a parent as it is, and as it was before events that are not delivered yet."""
        ...

    def has_lost(self, name: str) -> bool:
        """Return whether a member below a parent is gone while its deletion is delayed."""
        ...


def ancestors(parents: Mapping[str, PlainParent], name: str | None) -> Iterator[str]:
    """Yield a parent and those above it, up to one that does not exist; each once."""
    seen: set[str] = set()
    while name is not None and name not in seen:
        yield name
        seen.add(name)
        above = parents.get(name)
        name = None if above is None else above.parent


def children(view: FamilyView, name: str) -> tuple[list[str], list[str]]:
    """Return the gangs and the parents whose parent has a name."""
    gangs = {pod.group: None for pod in view.pods.values() if pod.group and pod.parent == name}
    parents = [each.name for each in view.parents.values() if each.parent == name]
    return [gang for gang in gangs if gang], parents


def stands(view: FamilyView, name: str, is_met: Callable[[str], bool]) -> bool:
    """Return whether enough children of a parent stand; *is_met* says it of a gang."""
    versions = view.versions(name)
    if not versions:
        return False
    gangs, parents = children(view, name)
    standing = sum(map(is_met, gangs)) + sum(stands(view, each, is_met) for each in parents)
    return standing >= min(each.min_groups for each in versions)


def family_violation(view: FamilyView, group: str, before: Collection[str]) -> str:
    """Return how a gang starts without a parent or enough siblings; "" if it does not.

    Args:
        view: The pods and parents; the gangs that start are among those that have started.
        group: The gang.
        before: The gangs that had started before.
    """
    parent = next(pod.parent for pod in view.pods.values() if pod.group == group)
    child = f"gang {group}"
    for name in ancestors(view.parents, parent):
        if not view.versions(name):
            return f"gang {group} starts, and {name}, the parent of {child}, does not exist"
        is_new = not _any_below(view, name, before)
        if is_new and not view.has_lost(name) and not stands(view, name, view.started.__contains__):
            gangs, parents = children(view, name)
            names = [each for each in gangs if each in view.started]
            names += [each for each in parents if _any_below(view, each, view.started)]
            needed = view.parents[name].min_groups if name in view.parents else 1
            start = f"gang {group} starts, and of {name} only {', '.join(names)}"
            return f"{start}: it needs {needed} whole children together"
        child = name
    return ""


def _any_below(view: FamilyView, name: str, started: Collection[str]) -> bool:
    """Return whether any gang below a parent is among some."""
    gangs, parents = children(view, name)
    return any(gang in started for gang in gangs) or any(
        _any_below(view, each, started) for each in parents
    )
