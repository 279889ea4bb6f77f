"""How many copies of a role, or slices, fit at once, by counting what one lacks in each domain.

Each class of members is counted by itself, and so are copies that lack different members: more may
seem to fit than do. A count that is too small is a proof all the same. If what the copies are part
of shares a domain, they are counted in the one that takes most of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from gangsched.core.evaluation.pod_class import PodClass
from gangsched.core.nodes.domains import EVERYWHERE, Domain
from gangsched.core.placement.task import Task
from gangsched.explain import Shortage
from gangsched.model import GroupKey
from gangsched.primitives.gang_tree import HOST, SubGroup
from gangsched.primitives.standing import can_be_met, least_needed
from gangsched.resources import Resources

__all__ = ["around", "label", "shortage_of_copies", "shortage_of_surplus"]

_Needs: TypeAlias = Mapping[PodClass, int]
"""How many members of each class a copy lacks."""
_Like: TypeAlias = Mapping[object, Sequence[SubGroup]]
"""Copies by what they lack."""


def shortage_of_surplus(task: Task) -> Shortage | None:
    """Return how many copies fit of the first role of which not all do; None if that is unknown."""
    found = (shortage_of_copies(task, role, of_all=True) for role in task.gang.tree.sub_groups())
    return next(filter(None, found), None)


def shortage_of_copies(task: Task, role: SubGroup, *, of_all: bool = False) -> Shortage | None:
    """Return how many copies of a role fit if those are too few; None if they may be enough.

    Runtime complexity: O(copies x sub groups), and O(domains x classes) for copies that differ.

    Args:
        task: The members; none of them is placed.
        role: A sub group; if it consists neither of copies nor of slices, nothing is known.
        of_all: Whether all copies that exist are wanted, and not only the minimum.
    """
    if not role.is_of_copies:
        return None
    run, like = _like(task, role.cuts or role.children)
    all_of_them = run + sum(map(len, like.values()))
    wanted = all_of_them if of_all or role.slices else role.wanted
    most = -1
    best: Domain = EVERYWHERE
    for domain in around(task, role):
        fits = run
        for copies in like.values():
            if fits >= wanted:
                return None
            room = _most(task, role, copies[0], domain)
            fits += len(copies) if room is None else min(len(copies), room)
        if fits > most:
            most, best = fits, domain
    if max(most, run) >= wanted or not like:
        return None
    return _shortage(task, role, wanted, max(most, run), like, best)


def around(task: Task, role: SubGroup) -> Sequence[Domain]:
    """Return the domains in one of which all of a sub group has to be. O(sub groups x domains)."""
    found: Sequence[Domain] = [EVERYWHERE]
    for sub in _above(task.gang.tree, role):
        if sub.within is not None and sub.within.required:
            found = [each for under in found for each in _of(task, sub, under)]
    return sorted(found, key=task.name) if found != [EVERYWHERE] else found


def _above(tree: SubGroup, role: SubGroup) -> Iterator[SubGroup]:
    """Yield what a sub group is part of, the root first, and itself."""
    if tree.find(role.key) is not None:
        yield tree
        for child in tree.children if tree is not role else ():
            yield from _above(child, role)


def _of(task: Task, sub: SubGroup, under: Domain) -> Sequence[Domain]:
    """Return the domains below another one in which a sub group with a constraint may be."""
    assert sub.within is not None
    pinned = task.pinned(sub, under)
    return task.table.domains.at(sub.within.level, under) if pinned is None else pinned


def _like(task: Task, parts: Sequence[SubGroup]) -> tuple[int, _Like]:
    """Return how many copies lack nothing, and the others that may start, by what they lack."""
    fits, like = 0, dict[object, list[SubGroup]]()
    for copy in parts:
        if least_needed(copy, task.lacking) <= 0:
            fits += 1  # it runs
        elif can_be_met(copy, task.lacking, task.numbers):
            needs = _needs(task, copy)
            key: object = tuple(sorted((c.number, n) for c, n in needs.items()))
            like.setdefault(copy.key if copy.is_in(task.holding) else key, []).append(copy)
    return fits, like


def _shortage(
    task: Task, role: SubGroup, wanted: int, fits: int, like: _Like, best: Domain
) -> Shortage:
    """Return the shortage of a role of which so many copies fit in the best domain."""
    copy = next(iter(like.values()))[0]
    needs = _needs(task, copy)
    is_cut = any(sub.slices for sub in copy.sub_groups())
    is_exact = len(like) == len(needs) == 1 and not (is_cut or any(map(task.asks_late, needs)))
    group = role.group if len(task.gang.infos) > 1 else None
    if role.group is None:
        group = GroupKey(role.key)  # a group of groups
    level = copy.within.level if copy.within is not None and copy.within.required else ""
    if not _domains(task, copy, EVERYWHERE):
        return Shortage(least_needed(role, task.lacking), 0, True, within=level, group=group)
    asked = Resources()
    for pod_class, number in needs.items() if len(like) == 1 else ():  # else they are unlike
        for _each in range(number):
            asked += pod_class.sample.requests
    return Shortage(
        wanted,
        fits,
        is_exact,
        task.gang.path_of(role),
        within="" if best == EVERYWHERE else label(task, best),
        group=group,
        copy_requests=asked,
        each_within=level,
        of_slices=bool(role.slices),
        apart=role.apart or "",
    )


def _needs(task: Task, copy: SubGroup) -> _Needs:
    """Return what a copy lacks; of a leaf with unlike members, that is not said."""
    found = Counter[PodClass]()
    for leaf in copy.certain():
        pool = task.pools.get(leaf.key, {})
        if not leaf.children and len(pool) == 1 and task.lacking(leaf) > 0:
            found[next(iter(pool))] += task.lacking(leaf)
    return found


def _domains(task: Task, copy: SubGroup, under: Domain) -> Sequence[Domain]:
    """Return the domains below another one of which a copy must be in one."""
    is_bound = copy.within is not None and copy.within.required
    return _of(task, copy, under) if is_bound else [under]


def label(task: Task, domain: Domain) -> str:
    """Return the label and the value of a domain, such as ``rack=r1``."""
    return f"{HOST if isinstance(domain, int) else domain[-1][0]}={task.name(domain)}"


def _most(task: Task, role: SubGroup, copy: SubGroup, under: Domain) -> int | None:
    """Return how many copies fit, each class counted by itself; None if nothing is known."""
    needs = _needs(task, copy)
    if not needs:
        return None
    for pod_class in needs:
        pod_class.memo.refresh()

    def room(domain: Domain) -> int:
        return min(c.memo.within(domain) // n for c, n in needs.items())

    domains = _domains(task, copy, under)
    if role.apart is None:
        return sum(map(room, domains))
    left = [d for d in domains if task.apart.is_left(copy, d, {}) and room(d)]
    return len({task.table.domains.across(domain, role.apart) for domain in left})
