"""The walk of the tree of a gang: all minima first, then what else fits.

Theory of operation. The tree is walked once for the minima and once for elastic members. A sub
group with a constraint tries domains, the best first; its children choose among the domains below.
Like members are counted: how many fit in a domain is a sum, with slices a sum of multiples, so a
domain is known to fit before it is tried. If the walk fails for members with late plugins, or for
unlike ones, ``search`` decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeAlias

from attrs import evolve

from gangsched.core.evaluation.pod_class import PodClass
from gangsched.core.nodes.domains import EVERYWHERE, Domain
from gangsched.core.placement.fill import capacity, evenly, fewest, fewest_domains
from gangsched.core.placement.task import Gather, Task
from gangsched.primitives.gang_tree import SubGroup
from gangsched.primitives.standing import can_be_met

__all__ = ["Search", "lacks", "options", "place_elastic", "place_minimum"]


Search: TypeAlias = Callable[[SubGroup, Domain], bool]
"""Places the minimum of a sub group in a domain, or nothing."""


def _no_search(_tree: SubGroup, _under: Domain) -> bool:
    return False


def place_minimum(
    task: Task, tree: SubGroup, under: Domain, gather: Gather = (), search: Search = _no_search
) -> bool:
    """Place the minimum of a sub group; return False, with nothing changed, if that fails.

    Args:
        task: The members.
        tree: The sub group.
        under: The domain that was chosen for the sub group above it.
        gather: The levels of that domain of which the fewest domains are taken.
        search: Is asked before a coarser level is tried than the preferred one.
    """
    point, within = task.save(), tree.within
    ways: Iterable[tuple[str, Iterable[tuple[Domain, Gather]]]] = [("", [(under, gather)])]
    if within is not None:
        ways = _by_level(task, tree, under)
    last = within.level if within is not None and within.required else ""
    for level, places in ways:
        tried: list[Domain] = []
        for domain, below in places:
            if _minimum_in(task, tree, domain, below, search):
                task.chosen[tree.key] = domain
                return True
            task.restore(point)
            tried.append(domain)
        # unlike members may fit in another order than the one in which they were placed
        if level != last and any(search(evolve(tree, within=None), each) for each in tried):
            return True
    return not lacks(task, tree)  # members that run may be where no other one can go


def lacks(task: Task, tree: SubGroup) -> bool:
    """Return whether a sub group, or one below it, needs more members than those that run.

    One that wants more children than there are does.
    """
    return any(
        task.minima.get(sub.key, 0) > 0 or sub.wanted > len(sub.children)
        for sub in tree.sub_groups()
    )


def _minimum_in(task: Task, tree: SubGroup, domain: Domain, gather: Gather, search: Search) -> bool:
    if not tree.children:
        lacking = task.minima.get(tree.key, 0)
        return lacking <= 0 or _put_least(task, tree, lacking, domain, gather)
    met, left = 0, len(tree.children)
    children = list(tree.children)
    planned = _plan(task, tree, domain)
    if not (tree.is_optional or tree.slices):  # of k of n, the first ones are chosen
        children.sort(key=partial(_ease, task))
    for child in children:
        left -= 1
        where = planned.get(child.key)
        is_placed = where is not None and place_minimum(task, child, where, (), search)
        if is_placed or place_minimum(task, child, domain, gather, search):
            met += 1
            if met == tree.wanted:
                break
        elif met + left < tree.wanted:
            return False
    if met < tree.wanted:
        return False  # a child that it wants does not exist
    return _more(task, tree, task.lacking(tree), domain, gather) <= 0


def _plan(task: Task, tree: SubGroup, domain: Domain) -> dict[str, Domain]:
    """Return the domains of slices of like members: the fewest, those that the gang has first."""
    like = _like_slices(task, tree)
    if like is None:
        return {}
    pod_class, cuts = like
    level, size = tree.slices[0]
    domains = task.table.domains.at(level, domain)
    if tree.apart is not None and cuts:
        domains = [d for d in domains if task.apart.is_left(cuts[0], d, {})]
    has = Counter(d for cut in tree.cuts for d in task.pinned(cut, domain) or ())
    room = {d: capacity(pod_class, d, tree.slices) // size for d in dict.fromkeys((*has, *domains))}
    found = _domains_of_slices(task, tree, len(cuts), room, has)
    return {cut.key: each for cut, each in zip(cuts, found, strict=False)}


def _domains_of_slices(
    task: Task, tree: SubGroup, number: int, room: dict[Domain, int], has: Counter[Domain]
) -> list[Domain]:
    """Return a domain for each slice: the fewest, an equal number in each, or all different.

    Args:
        task: The members.
        tree: The sub group that is cut.
        number: How many of its slices have no domain.
        room: How many slices a domain takes.
        has: How many of its slices a domain has.
    """
    if any(leaf.key in task.balanced for leaf in tree.leaves) and tree.apart is None:
        return [d for d, n in evenly(number, room, has, task.name) for _ in range(n)]
    sized: list[tuple[int, object, Domain]] = [
        (some, task.name(d), d) for d, some in room.items() if some and d not in has
    ]
    sized.sort(key=lambda each: (each[0], each[1]))
    if tree.apart is not None:  # the tightest first
        return task.apart.first_in_each((each for _room, _name, each in sized), tree)
    found = [d for d in has for _ in range(room[d])]
    for each, some in fewest(sized, max(number - len(found), 0)):
        found += [each] * some
    return found


def _like_slices(task: Task, tree: SubGroup) -> tuple[PodClass, list[SubGroup]] | None:
    """Return the slices that lack members and have none, if all are of one class; or None."""
    if not tree.slices:
        return None
    cuts = [cut for cut in tree.cuts if lacks(task, cut) and not cut.is_in(task.holding)]
    classes = {c for cut in cuts for leaf in cut.leaves for c in task.pools.get(leaf.key, ())}
    if len(classes) != 1:
        return None
    (pod_class,) = classes
    pod_class.memo.refresh()
    return pod_class, cuts


def _put_least(task: Task, leaf: SubGroup, least: int, domain: Domain, gather: Gather) -> bool:
    """Place at least so many members of a leaf; no others if that fails.

    If nodes are chosen for the members together, all members are, where none but them wait.
    """
    pool = task.pools.get(leaf.key, {})
    number = sum(map(len, pool.values()))
    together = any(pod_class.packs or pod_class.spreads for pod_class in pool)
    if number > least and together and leaf is task.gang.tree:
        point = task.save()
        if task.put(leaf, number, domain, gather) >= least:
            return True
        task.restore(point)
    return task.put(leaf, least, domain, gather) == least


def _more(task: Task, tree: SubGroup, lacking: int, domain: Domain, gather: Gather) -> int:
    """Place more members of sub groups that met their minima; return how many still lack.

    If those do not suffice, further children of k of n start, each as a whole.
    """
    if not tree.children:
        return lacking - task.put(tree, lacking, domain, gather) if lacking > 0 else lacking
    for child in tree.children:
        if lacking > 0 and child.key in task.chosen:
            lacking = _more(task, child, lacking, task.chosen[child.key], gather)
    for child in tree.children if tree.is_optional else ():
        if lacking > 0 and child.key not in task.chosen:
            placed = len(task.nodes)
            if can_be_met(child, task.lacking, task.numbers):
                place_minimum(task, child, domain, gather)
            lacking -= len(task.nodes) - placed
            if child.key in task.chosen:
                lacking = _more(task, child, lacking, task.chosen[child.key], gather)
    return lacking


def _ease(task: Task, tree: SubGroup) -> float:
    """Return how often the minimum of a sub group fits, at the most."""
    ease = float("inf")
    for leaf in tree.leaves:
        for pod_class in task.pools.get(leaf.key, ()):
            ease = min(ease, pod_class.memo.refresh().total / max(leaf.least, 1))
    return ease


# Elastic members ----------------------------------------------------------------------------------


def place_elastic(
    task: Task,
    tree: SubGroup,
    under: Domain = EVERYWHERE,
    gather: Gather = (),
    *,
    search: Search = _no_search,
) -> None:
    """Place what fits beyond the minima: single members, and children of k of n as a whole.

    Args:
        task: The members.
        tree: A sub group.
        under: The domain that was chosen for the sub group above it.
        gather: The levels of that domain of which the fewest domains are taken.
        search: Is asked if placing members of a child one after the other fails.
    """
    domain, within = task.chosen.get(tree.key), tree.within
    if within is None:
        _elastic_in(task, tree, under, gather, search)
        return
    levels = task.levels(within)
    if domain is not None and within.required and within.prefer is None:
        _elastic_in(task, tree, domain, (), search)
        return
    if domain is None and within.required and task.pinned(tree, under) is None:
        placed = len(task.nodes)
        for best in options(task, tree, under):
            _elastic_in(task, tree, *best, search)
            # members that are apart may find no domain in it, however much is free
            if len(task.nodes) > placed or not tree.has_apart:
                break
        return
    for number, level in enumerate(levels):
        for each in task.around(tree, under, level):
            _elastic_in(task, tree, each, levels[:number][::-1], search)
    if not within.required:
        task.failed = task.diagnosis = None  # other nodes will do
        _elastic_in(task, tree, under, levels[::-1], search)


def _elastic_in(task: Task, tree: SubGroup, domain: Domain, gather: Gather, search: Search) -> None:
    if not tree.children:
        pool = task.pools.get(tree.key, {})
        task.put(tree, sum(map(len, pool.values())), domain, gather)
    for child in tree.children:
        # one more of k of n starts as a whole, and so does what is left of one that runs
        is_met = child.key in task.chosen or not lacks(task, child)
        if not is_met and can_be_met(child, task.lacking, task.numbers):
            is_met = place_minimum(task, child, domain, gather) or search(child, domain)
        if is_met or (child.is_of_copies and child.is_in(task.holding)):  # it goes on
            place_elastic(task, child, domain, gather, search=search)


# Domains ------------------------------------------------------------------------------------------


def options(task: Task, tree: SubGroup, under: Domain) -> Iterator[tuple[Domain, Gather]]:
    """Yield the domains that could take the minimum of a sub group, the best first.

    Those of the preferred level come first, then those of each coarser one. The best of a level
    takes most of the members; of those that take equally many it is the smallest, then the first by
    name. If the constraint is not required, the whole of *under* comes last.
    """
    for _level, places in _by_level(task, tree, under):
        yield from places


def _by_level(
    task: Task, tree: SubGroup, under: Domain
) -> Iterator[tuple[str, Iterable[tuple[Domain, Gather]]]]:
    """Do what ``_at_each_level`` does, without the domains of those that it is apart from."""
    for level, places in _at_each_level(task, tree, under):
        if task.gang.tree.has_apart:
            places = (each for each in places if task.apart.is_left(tree, each[0], {}))
        yield level, places


def _at_each_level(
    task: Task, tree: SubGroup, under: Domain
) -> Iterator[tuple[str, Iterable[tuple[Domain, Gather]]]]:
    """Yield each level that a constraint tries, with its domains; ``""`` for the whole of *under*.

    In a domain of a coarser level the fewest domains of the levels below are taken.
    """
    within = tree.within
    assert within is not None
    levels, held = task.levels(within), task.pinned(tree, under)
    for number, level in enumerate(levels):
        gather = levels[:number][::-1]
        here = held if level == within.level else held and task.pinned(tree, under, level)
        if here:
            yield level, [(domain, gather) for domain in here]
        elif held is None or not (held or within.required):
            domains: Iterable[Domain] = (under,)
            if within.required and level != within.level:  # a node may lack the label
                domains = task.table.domains.at(within.level, under)
            found = [each for above in domains for each in task.table.domains.at(level, above)]
            yield level, _fitting(task, tree, found, gather)
    if not within.required:
        yield "", [(under, levels[::-1])]


def _fitting(
    task: Task, tree: SubGroup, domains: Iterable[Domain], gather: Gather
) -> Iterator[tuple[Domain, Gather]]:
    demands = _demands(task, tree)
    wanted = sum(number for _classes, _least, number in demands)
    if tree is task.gang.tree:  # with room for those that may be lost
        wanted += sum(i.spec.spares for i in task.gang.infos.values() if i.spec is not None)
    for pod_class in {c for classes, _least, _n in demands for c, _m in classes}:
        pod_class.memo.refresh()
    ranked: list[tuple[int, list[int], int, bool, Any, Domain]] = []
    found = list(domains)
    is_choice = len(found) > 1  # else how good it is does not matter
    like = _like_slices(task, tree) if is_choice else None
    for domain in found:
        total = _takes(demands, domain)
        if total is None:
            continue
        name = task.table.names[domain] if isinstance(domain, int) else domain
        few = [_fewest(task, demands, domain, below) for below in gather if is_choice]
        if like is not None:
            planned = _plan(task, tree, domain).values()
            # a short slice may fit where no whole one does
            if len(planned) < len(like[1]) - 1:
                continue
            few.append(len({*planned}))
        is_empty = task.records.tenancy.is_empty(domain)
        ranked.append((-min(total, wanted), few, total, is_empty, name, domain))
    for *_rank, domain in sorted(ranked, key=lambda each: each[:5]):
        yield domain, gather


def _takes(demands: _Demands, domain: Domain) -> int | None:
    """Return how many members a domain takes, if each were alone; None if it is too small."""
    total = 0
    for classes, least, _number in demands:
        fits = [(c.memo.within(domain), n) for c, n in classes]
        if sum(min(most, n) for most, n in fits) < least:
            return None
        total += sum(most for most, _n in fits)
    return total


def _fewest(task: Task, demands: _Demands, domain: Domain, level: str) -> int:
    """Return how many domains of a level within another one the members need, at least."""
    below = task.table.domains.at(level, domain)
    each = (member for classes, _least, _number in demands for member in classes)
    return max((sum(1 for _ in fewest_domains(c, n, below)) for c, n in each), default=0)


_Demands: TypeAlias = list[tuple[list[tuple[PodClass, int]], int, int]]


def _demands(task: Task, tree: SubGroup) -> _Demands:
    """Return for each leaf its classes with their numbers, its minimum, and all its members."""
    found: _Demands = []
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
