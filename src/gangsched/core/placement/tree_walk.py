"""The walk of the tree of a gang: all minima first, then what else fits.

Theory of operation. The tree is walked once for the minima and once for elastic members. A sub
group with a constraint tries domains, the best first; its children choose among the domains below.
Like members are counted: how many fit in a domain is a sum, with slices a sum of multiples, so a
domain is known to fit before it is tried. If the walk fails for members with late plugins, or for
unlike ones, ``search`` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeAlias

from gangsched.core.evaluation.pod_class import PodClass
from gangsched.core.nodes.domains import EVERYWHERE, Domain
from gangsched.core.placement.fill import capacity
from gangsched.core.placement.task import Task
from gangsched.primitives.gang_tree import Slices, SubGroup
from gangsched.primitives.standing import can_be_met

__all__ = ["Search", "lacks", "options", "place_elastic", "place_minimum"]


def place_minimum(task: Task, tree: SubGroup, under: Domain, slices: Slices = ()) -> bool:
    """Place the minimum of a sub group; return False, with nothing changed, if that fails."""
    places: Iterable[tuple[Domain, Slices]] = ((under, slices),)
    if tree.within is not None:
        places = options(task, tree, under)
    point = task.save()
    for domain, cut in places:
        if _minimum_in(task, tree, domain, cut):
            task.chosen[tree.key] = domain
            return True
        task.restore(point)
    return not lacks(task, tree)  # members that run may be where no other one can go


def lacks(task: Task, tree: SubGroup) -> bool:
    """Return whether a sub group, or one below it, needs more members than those that run."""
    return any(task.minima.get(sub.key, 0) > 0 for sub in tree.sub_groups())


def _minimum_in(task: Task, tree: SubGroup, domain: Domain, slices: Slices) -> bool:
    if not tree.children:
        lacking = task.minima.get(tree.key, 0)
        return lacking <= 0 or _put_least(task, tree, lacking, domain, slices)
    met, left = 0, len(tree.children)
    children = list(tree.children)
    if not tree.is_optional:  # of k of n, the first ones are chosen
        children.sort(key=partial(_ease, task))
    for child in children:
        left -= 1
        if place_minimum(task, child, domain, slices):
            met += 1
            if met == tree.wanted:
                break
        elif met + left < tree.wanted:
            return False
    return _more(task, tree, task.lacking(tree), domain, slices) <= 0


def _put_least(task: Task, leaf: SubGroup, least: int, domain: Domain, slices: Slices) -> bool:
    """Place at least so many members of a leaf; no others if that fails.

    If nodes are chosen for the members together, all members are, where none but them wait.
    """
    pool = task.pools.get(leaf.key, {})
    number = sum(map(len, pool.values()))
    together = any(pod_class.packs or pod_class.spreads for pod_class in pool)
    if number > least and together and leaf is task.gang.tree:
        point = task.save()
        if task.put(leaf, number, domain, slices) >= least:
            return True
        task.restore(point)
    return task.put(leaf, least, domain, slices) == least


def _more(task: Task, tree: SubGroup, lacking: int, domain: Domain, slices: Slices) -> int:
    """Place more members of sub groups that met their minima; return how many still lack.

    If those do not suffice, further children of k of n start, each as a whole.
    """
    if not tree.children:
        return lacking - task.put(tree, lacking, domain, slices) if lacking > 0 else lacking
    for child in tree.children:
        if lacking > 0 and child.key in task.chosen:
            lacking = _more(task, child, lacking, task.chosen[child.key], slices)
    for child in tree.children if tree.is_optional else ():
        if lacking > 0 and child.key not in task.chosen:
            placed = len(task.nodes)
            if can_be_met(child, task.lacking, task.numbers):
                place_minimum(task, child, domain, slices)
            lacking -= len(task.nodes) - placed
            if child.key in task.chosen:
                lacking = _more(task, child, lacking, task.chosen[child.key], slices)
    return lacking


def _ease(task: Task, tree: SubGroup) -> float:
    """Return how often the minimum of a sub group fits, at the most."""
    ease = float("inf")
    for leaf in tree.leaves:
        for pod_class in task.pools.get(leaf.key, ()):
            ease = min(ease, pod_class.memo.refresh().total / max(leaf.least, 1))
    return ease


# Elastic members ----------------------------------------------------------------------------------


Search: TypeAlias = Callable[[SubGroup, Domain], bool]
"""Places the minimum of a sub group in a domain, or nothing."""


def place_elastic(
    task: Task,
    tree: SubGroup,
    under: Domain = EVERYWHERE,
    slices: Slices = (),
    *,
    search: Search = lambda _tree, _domain: False,
) -> None:
    """Place what fits beyond the minima: single members, and children of k of n as a whole.

    Args:
        task: The members.
        tree: A sub group.
        under: The domain that was chosen for the sub group above it.
        slices: The slices of that domain.
        search: Is asked if placing members of a child one after the other fails.
    """
    domain = task.chosen.get(tree.key)
    if domain is None:
        domain = under
        pinned = task.pinned(tree, under) if tree.within is not None else None
        if pinned is not None:
            assert tree.within is not None
            for each in pinned:
                _elastic_in(task, tree, each, tree.within.slices, search)
            if tree.within.required:
                return
            task.failed = task.diagnosis = None  # other nodes will do
        elif tree.within is not None and tree.within.required:
            best = next(options(task, tree, under), None)
            if best is not None:
                _elastic_in(task, tree, *best, search)
            return
    _elastic_in(task, tree, domain, tree.slices if tree.within else slices, search)


def _elastic_in(task: Task, tree: SubGroup, domain: Domain, slices: Slices, search: Search) -> None:
    if not tree.children:
        pool = task.pools.get(tree.key, {})
        task.put(tree, sum(map(len, pool.values())), domain, slices)
    for child in tree.children:
        # one more of k of n starts as a whole, and so does what is left of one that runs
        is_met = child.key in task.chosen or not lacks(task, child)
        if not is_met and can_be_met(child, task.lacking, task.numbers):
            is_met = place_minimum(task, child, domain, slices) or search(child, domain)
        if is_met or (child.is_of_copies and child.is_in(task.holding)):  # it goes on
            place_elastic(task, child, domain, slices, search=search)


# Domains ------------------------------------------------------------------------------------------


def options(task: Task, tree: SubGroup, under: Domain) -> Iterator[tuple[Domain, Slices]]:
    """Yield the domains that could take the minimum of a sub group, the best first.

    The best takes most of the members; of those that take equally many it is the smallest, then
    the first by name. If the constraint is not required, the whole of *under* comes last.
    """
    within = tree.within
    assert within is not None
    pinned = task.pinned(tree, under)
    if pinned or (pinned is not None and within.required):
        for domain in pinned:
            yield domain, within.slices
    else:
        yield from _fitting(task, tree, under)
    if not within.required:
        yield under, ()


def _fitting(task: Task, tree: SubGroup, under: Domain) -> Iterator[tuple[Domain, Slices]]:
    within = tree.within
    assert within is not None
    demands = _demands(task, tree)
    wanted = sum(number for _classes, _least, number in demands)
    for pod_class in {c for classes, _least, _n in demands for c, _m in classes}:
        pod_class.memo.refresh()
    ranked: list[tuple[int, int, Any, Domain]] = []
    for domain in task.table.domains.at(within.level, under):
        total = 0
        for classes, least, _number in demands:
            fits = [(capacity(c, domain, within.slices), n) for c, n in classes]
            if sum(min(most, n) for most, n in fits) < least:
                break
            total += sum(most for most, _n in fits)
        else:
            name = task.table.names[domain] if isinstance(domain, int) else domain
            ranked.append((-min(total, wanted), total, name, domain))
    for _most, _total, _name, domain in sorted(ranked, key=lambda each: each[:3]):
        yield domain, within.slices


def _demands(task: Task, tree: SubGroup) -> list[tuple[list[tuple[PodClass, int]], int, int]]:
    """Return for each leaf its classes with their numbers, its minimum, and all its members."""
    found: list[tuple[list[tuple[PodClass, int]], int, int]] = []
    optional = any(each.is_optional for each in tree.sub_groups())
    for leaf in tree.leaves:
        classes = [(c, len(recs)) for c, recs in task.pools.get(leaf.key, {}).items()]
        number = sum(n for _c, n in classes)
        if number:
            least = 0 if optional else task.minima.get(leaf.key, 0)
            found.append((classes, least, number))
    if len(found) == 1 and tree.children and not optional:
        found[0] = (found[0][0], max(found[0][1], task.lacking(tree)), found[0][2])
    return found
