"""Jobs that are trees: one group with copies of roles, or the family of groups that says the same.

The oracle reads specifications and pods alone, and asks the library nothing.

Rules:
  R1  a job is drawn as one group; ``family`` says the same with groups of groups;
  R2  ``Part`` is a node of the tree of some groups. It is *met* by pods that reach its minima;
  R3  ``ways`` yields sets of pods that meet a part, and ``fits`` tries all nodes for one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations, product
from typing import Any, Final

from attrs import evolve, frozen

from gangsched import GroupKey, Pod, PodGroup, PodUID, Role, Topology
from gangsched.gangs import Gang

__all__ = [
    "RACK",
    "Job",
    "Nodes",
    "Part",
    "alone",
    "as_family",
    "family",
    "fits",
    "in_family",
    "leaves",
    "of",
    "tree_of",
    "units",
    "unmet_units",
    "ways",
]

RACK: Final = "rack"

Uids = frozenset[PodUID]
Nodes = Mapping[str, tuple[int, str]]
"""The free cpu and the rack of each node, by name."""


@frozen
class Job:
    """Groups below one root, and their pods."""

    groups: tuple[PodGroup, ...]
    pods: tuple[Pod, ...]


# One job in two spellings ------------------------------------------------------------------------


def as_family(job: Gang, *, deep: bool, wanted: int | None = None) -> Job:
    """Return a job as a family; see ``family``."""
    groups = tuple(family(job.group, deep=deep, wanted=wanted))
    return Job(groups, tuple([in_family(pod, groups) for pod in job.pods]))


def family(group: PodGroup, *, deep: bool, wanted: int | None = None) -> Iterator[PodGroup]:
    """Yield groups of groups that need the same as a group.

    Args:
        group: The group.
        deep: Whether copies are groups of groups, too, and no group has copies of roles.
        wanted: How many of the children the root wants; None for all of them.
    """
    yield PodGroup(
        name=group.name,
        min_groups=len(group.roles) if wanted is None else wanted,
        priority=group.priority,
        evicted_whole=group.evicted_whole,
        topology=group.topology,
    )
    yield from _children(group.name, group.roles, deep=deep)


def _children(name: str, roles: Mapping[str, int | Role], *, deep: bool) -> Iterator[PodGroup]:
    """Yield the groups below a parent, one for each role of it."""
    parent = GroupKey(f"default/{name}")
    for key, stated in roles.items():
        role, path = Role(stated) if isinstance(stated, int) else stated, f"{name}-{key}"
        fields: dict[str, Any] = {"evicted_whole": role.evicted_whole, "topology": role.topology}
        if not role.roles:
            yield PodGroup(name=path, parent=parent, min_available=role.needed, **fields)
            continue
        yield PodGroup(name=path, parent=parent, min_groups=role.needed)
        for number in range(role.count):
            own: dict[str, Any] = {"min_groups": len(role.roles)} if deep else {"roles": role.roles}
            copy = f"{path}-{number}"
            yield PodGroup(name=copy, parent=GroupKey(f"default/{path}"), **fields, **own)
            if deep:
                yield from _children(copy, role.roles, deep=True)


def in_family(pod: Pod, groups: Sequence[PodGroup]) -> Pod:
    """Return a pod as a member of that group of pods which stands for its role, or for a copy."""
    if not pod.role or any(group.name == pod.pod_group and group.roles for group in groups):
        return pod
    names, pods = pod.role.split("/"), [group.name for group in groups if not group.min_groups]
    for end in range(1, len(names) + 1):
        name = "-".join([str(pod.pod_group), *names[:end]])
        if name in pods:
            return evolve(pod, pod_group=name, role="/".join(names[end:]) or None)
    raise AssertionError(pod.role)


def leaves(roles: Mapping[str, int | Role], path: str = "") -> Iterator[str]:
    """Yield the path of each pod that a controller creates."""
    for name, role in roles.items():
        each = role if isinstance(role, Role) else Role(role)
        for number in range(each.count):
            if each.roles:
                yield from leaves(each.roles, f"{path}{name}/{number}/")
            else:
                yield f"{path}{name}"


def of(pods: Iterable[Pod], path: str) -> list[Pod]:
    """Return the pods at or below a path of a group; all of them for an empty path."""
    return [pod for pod in pods if not path or f"{pod.role}/".startswith(f"{path}/")]


# What a tree needs -------------------------------------------------------------------------------


@frozen
class Part:
    """A node of a tree.

    Attributes:
        name: The key of a group, or a path in one.
        least: How many of the pods below it start together, at least.
        wanted: How many of its children have to be met.
        children: What it consists of.
        pods: The pods at or below it, by UID.
        is_unit: Whether it starts as a whole, or not at all.
        is_together: Whether its pods have to be in one rack.
    """

    name: str
    least: int
    wanted: int
    children: tuple[Part, ...]
    pods: Uids
    is_unit: bool
    is_together: bool

    @cached_property
    def own(self) -> Uids:
        """The pods that are in none of its children."""
        return self.pods - {uid for child in self.children for uid in child.pods}

    def is_met(self, held: Collection[PodUID]) -> bool:
        """Return whether pods that hold nodes reach its minima."""
        mine = self.pods.intersection(held)
        return len(mine) >= self.least and (
            sum(child.is_met(mine) for child in self.children) >= self.wanted
        )


def tree_of(groups: Iterable[PodGroup], pods: Sequence[Pod]) -> Part:
    """Return the tree of groups of which one is the root."""
    below: dict[str | None, list[PodGroup]] = {}
    for group in groups:
        below.setdefault(group.parent, []).append(group)
    (root,) = below[None]

    def part(group: PodGroup) -> Part:
        if group.min_groups is not None:
            children = tuple(map(part, below.get(group.key, ())))
            return _part(group.key, 0, group.min_groups, children, group.topology, is_unit=True)
        mine = [pod for pod in pods if pod.pod_group == group.name]
        roles = tuple(_of_role(mine, name, role) for name, role in group.roles.items())
        made = _part(
            group.key, group.min_available, len(roles), roles, group.topology, is_unit=True
        )
        return evolve(made, pods=frozenset(pod.uid for pod in mine))

    return part(root)


def _of_role(pods: Sequence[Pod], path: str, stated: int | Role) -> Part:
    if isinstance(stated, int) or not stated.roles:
        least = stated if isinstance(stated, int) else stated.needed
        topology = None if isinstance(stated, int) else stated.topology
        made = _part(path, least, 0, (), topology, is_unit=False)
        return evolve(made, pods=frozenset(pod.uid for pod in pods if pod.role == path))
    copies: list[Part] = []
    for number in range(stated.count):
        copy = f"{path}/{number}"
        roles = tuple(_of_role(pods, f"{copy}/{name}", each) for name, each in stated.roles.items())
        copies.append(_part(copy, 0, len(roles), roles, stated.topology, is_unit=True))
    return _part(path, 0, stated.needed, tuple(copies), None, is_unit=False)


def _part(
    name: str,
    least: int,
    wanted: int,
    children: tuple[Part, ...],
    topology: Topology | None,
    *,
    is_unit: bool,
) -> Part:
    pods = frozenset(uid for child in children for uid in child.pods)
    is_together = topology is not None and topology.required
    return Part(name, least, wanted, children, pods, is_unit, is_together)


def units(part: Part) -> Iterator[Part]:
    """Yield what starts as a whole or not at all, outer ones first."""
    if part.is_unit:
        yield part
    for child in part.children:
        yield from units(child)


def parts(part: Part) -> Iterator[Part]:
    """Yield a part and all below it."""
    yield part
    for child in part.children:
        yield from parts(child)


def ways(part: Part, held: Collection[PodUID]) -> Iterator[Uids]:
    """Yield sets of pods with which a part is met beside those that hold nodes; some not least.

    No copy and no child is in a set by half.
    """
    mine = part.pods.intersection(held)
    left = [_started(part, mine)]
    seen: set[Uids] = set()
    while left:
        for some in left.pop():
            if some in seen:
                continue
            seen.add(some)
            if part.is_met(mine | some):
                yield some
            else:  # the pods of the minima below it are too few for its own
                left.append([some | more for more in _further(part, mine | some)])


def _started(part: Part, held: Uids) -> Iterable[Uids]:
    """Yield sets of pods with which as many children of a part are met as it wants, and more."""
    if not part.children:
        return [frozenset()]
    others = [child for child in part.children if not child.is_met(held)]
    least = max(part.wanted - len(part.children) + len(others), 0)
    chosen = (some for n in range(least, len(others) + 1) for some in combinations(others, n))
    return (
        frozenset[PodUID]().union(*each)
        for some in chosen
        for each in product(*(ways(child, held) for child in some))
    )


def _further(part: Part, held: Uids) -> Iterator[Uids]:
    """Yield what may start next, once the minima below a part are met: a pod, or a unit."""
    for uid in alone(part, held):
        yield frozenset([uid])
    for unit in [unit for child in part.children for unit in unmet_units(child, held)]:
        yield from ways(unit, held)


def unmet_units(part: Part, held: Collection[PodUID]) -> list[Part]:
    """Return the units at or below a part that are not met; none below another one."""
    if part.is_unit and not part.is_met(held):
        return [part]
    return [unit for child in part.children for unit in unmet_units(child, held)]


def alone(part: Part, held: Uids) -> Iterator[PodUID]:
    """Yield pods that may go alone once some hold nodes: none of a unit that is not met."""
    if not part.children:
        yield from sorted(part.pods - held)
        return
    for child in part.children:
        if not child.is_unit or child.is_met(held):
            yield from alone(child, held)
    yield from sorted(part.own - held)


def fits(
    tree: Part,
    chosen: Collection[PodUID],
    cpu: Callable[[PodUID], int],
    nodes: Nodes,
    held: Mapping[PodUID, str],
) -> bool:
    """Return whether pods fit on nodes beside those that hold some, each part in its rack.

    Args:
        tree: The tree.
        chosen: The pods.
        cpu: Returns what a pod requests.
        nodes: The nodes, without what the pods take that hold some.
        held: The node of each pod of the tree that holds one.
    """
    bound = [each for each in parts(tree) if each.is_together]
    racks: dict[int, str] = {}
    for number, each in enumerate(bound):
        found = {nodes[held[uid]][1] for uid in each.pods if uid in held}
        if len(found) > 1:
            return False  # none is in one rack with them
        if found:
            racks[number] = found.pop()
    of_pod = {uid: [n for n, each in enumerate(bound) if uid in each.pods] for uid in chosen}
    order = sorted(chosen, key=cpu, reverse=True)
    free = {name: amount for name, (amount, _rack) in nodes.items()}

    def place(at: int) -> bool:
        if at == len(order):
            return True
        uid = order[at]
        tried: set[tuple[int, str]] = set()
        for name, (_amount, rack) in nodes.items():
            key = (free[name], rack)
            is_there = all(racks.get(number, rack) == rack for number in of_pod[uid])
            if free[name] < cpu(uid) or not is_there or key in tried:
                continue
            tried.add(key)
            new = [number for number in of_pod[uid] if number not in racks]
            racks.update(dict.fromkeys(new, rack))
            free[name] -= cpu(uid)
            if place(at + 1):
                return True
            free[name] += cpu(uid)
            for number in new:
                del racks[number]
        return False

    return place(0)
