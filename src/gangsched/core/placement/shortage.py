"""Why a gang fits into no domain of a level that it requires, by counting its members.

Each class of members is counted by itself, so that more may seem to fit than do. A count that is
too small is a proof all the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from gangsched.core.evaluation.pod_class import PodClass
from gangsched.core.nodes.domains import EVERYWHERE, Domain
from gangsched.core.nodes.node_table import PODS
from gangsched.core.placement.apart import one_each
from gangsched.core.placement.copies import around, label, shortage_of_copies
from gangsched.core.placement.task import Task
from gangsched.explain import Shortage
from gangsched.model import GroupKey
from gangsched.primitives.gang_tree import SubGroup
from gangsched.primitives.standing import least_needed

__all__ = ["shortage"]


def shortage(task: Task) -> Shortage | None:
    """Return the shortage of the first sub group that fits into no domain; None if none is known.

    Runtime complexity: O(domains x classes), and O(nodes of a domain x resources).

    Args:
        task: The members; none of them is placed.
    """
    for sub in task.gang.tree.certain():
        found = None
        if sub.apart is not None and not sub.children:
            found = _of_members_apart(task, sub, sub.apart)
        if found is None and sub.within is not None and sub.within.required:
            found = _in_domains(task, sub, sub.within.level)
        found = found or shortage_of_copies(task, sub)
        if found is not None:
            return found
    return None


def _in_domains(task: Task, sub: SubGroup, level: str) -> Shortage | None:
    """Return how many fit in the best domain of a level, if that is too few; None if it is not.

    Also None if no member fits on any node: then the domains are not the reason.
    """
    classes, needed, pinned = task.classes(sub), task.lacking(sub), task.pinned(sub)
    if pinned == []:
        return None  # nodes say that no domain is known
    most, best = _best_domain(task, sub, classes)
    if best is None:  # else those below say more of what their parts need
        needed = max(needed, least_needed(sub, task.lacking))
    if most >= needed or not any(pod_class.memo.total for pod_class in classes):
        return None
    is_bundle = len(task.gang.infos) > 1
    group = GroupKey(sub.key) if is_bundle and sub.key in task.gang.infos else None
    if best is None or (most <= 0 and pinned is None):
        return Shortage(needed, 0, True, within=level, group=group)
    where = f"{level}={task.name(best)}"
    if len(classes) > 1:
        return Shortage(needed, most, False, within=where, group=group)
    (like,) = classes
    # nor is it exact if those below have to be in some of its domains, or apart
    is_exact = len(sub.constrained) == 1 and not sub.has_apart and not task.asks_late(like)
    resource, in_pieces = _scarce(like, best, needed) or (None, False)
    return Shortage(needed, most, is_exact, "", resource, in_pieces, where, group)


def _of_members_apart(task: Task, leaf: SubGroup, apart: str) -> Shortage | None:
    """Return how many members of a leaf find domains of their own; None if those are enough."""
    needed, left = task.lacking(leaf), task.left(leaf.key)
    most = -1
    best: Domain = EVERYWHERE
    for domain in around(task, leaf):
        found = len(one_each(task.table, left, task.apart.unowned(leaf, domain)))
        if found > most:
            most, best = found, domain
    if most >= needed:
        return None
    is_exact = most >= 0 and not any(task.asks_late(pod_class) for pod_class, _n in left)
    where = "" if best == EVERYWHERE else label(task, best)
    return Shortage(needed, max(most, 0), is_exact, leaf.role or "", within=where, apart=apart)


def _best_domain(
    task: Task, sub: SubGroup, classes: Mapping[PodClass, int]
) -> tuple[int, Domain | None]:
    """Return how many members the best domain takes, and that domain; -1 and None without one."""
    most, best = -1, None
    for domain in sorted(task.domains(sub), key=task.name):  # not in the order of their history
        fits = sum(min(number, c.memo.within(domain)) for c, number in classes.items())
        if fits > most:
            most, best = fits, domain
    return most, best


def _scarce(pod_class: PodClass, domain: Domain, needed: int) -> tuple[str, bool] | None:
    """Return the resource of which alone a domain has too little, and whether only in pieces."""
    table = pod_class.table
    states = [table.state_of[slot] for slot in table.domains.slots(domain)]
    frees = [state.free for state in states if pod_class.memo.accepts(state)]
    names = {number: name for name, number in table.resources.items()}
    for number, amount in pod_class.compared:
        others = [(n, a) for n, a in pod_class.compared if n != number]
        fits = (min([needed, *(free[n] // a for n, a in others)]) for free in frees)
        if number != PODS and sum(fits) >= needed:
            return names[number], sum(free[number] for free in frees) >= needed * amount
    return None
