"""Why the minima of a gang are not met at once, wherever its members are put.

Like members are counted from the memo. For unlike ones the packing search names the first minimum
that cannot be met, how many of its members fit, and the resource of which alone too little is free.

Rules:
  R1  a member that fits on no node, and without which too few are left, is the reason: what else is
      short does not matter before that one fits somewhere;
  R2  nothing is said of a gang with domains, or whose members are placed by late plugins.
"""

from __future__ import annotations

from typing import TypeAlias

from gangsched._packing.pack import Impossible, Packed
from gangsched.core.gang_tree import SubGroup
from gangsched.core.node_table import PODS
from gangsched.core.placement.search import explain
from gangsched.core.placement.task import Task
from gangsched.core.pod_class import PodClass
from gangsched.core.records import PodRecord
from gangsched.explain import Diagnosis, SearchBudgetExhausted, Shortage
from gangsched.model import GroupKey

__all__ = ["Proof", "member_that_fits_nowhere", "proof", "sentence"]

Proof: TypeAlias = Shortage | SearchBudgetExhausted

_OF_CAPACITY = ("Insufficient ", "Too many pods")


def proof(task: Task, budget: int) -> Proof | None:
    """Return why the minima are not met; None if nothing is known.

    Runtime complexity: O(states of nodes) for like members, and see ``pack`` for others.

    Args:
        task: The members; none of them is placed.
        budget: The steps of the search.
    """
    tree = task.gang.tree
    if tree is None or not task.gang.infos or next(tree.constrained(), None) is not None:
        return None
    if any(task.asks_late(c) for pool in task.pools.values() for c in pool):
        return None
    pool = task.pools.get(tree.key, {})
    if not tree.children and len(pool) == 1:
        ((pod_class, members),) = pool.items()
        return _of_like_members(pod_class, task.lacking(tree), len(members))
    found = explain(task, budget)
    if isinstance(found, Packed):
        return None
    if not isinstance(found, Impossible):
        needed = sum(task.lacking(each) for each in (tree.children if _is_bundle(task) else [tree]))
        return SearchBudgetExhausted(needed, found.placed, task.steps + found.steps)
    sub = next(each for each in tree.sub_groups() if each.key == found.quota.name)
    return Shortage(
        found.quota.at_least,
        found.fits,
        found.exact,
        sub.role or "",
        found.resource,
        found.in_pieces,
        group=_group(task, sub),
        beside_others=not found.alone,
    )


def sentence(found: Proof, pod_class: PodClass, diagnosis: Diagnosis) -> str:
    """Return the reason of a failed attempt: a proof, and which constraints refuse a member."""
    if not pod_class.refresh().total:
        return str(diagnosis)
    if isinstance(found, SearchBudgetExhausted):
        return str(found)
    named = [f"{n} {why}" for why, n in diagnosis.reasons if not why.startswith(_OF_CAPACITY)]
    return f"{found}; of {diagnosis.nodes} nodes: {', '.join(named)}" if named else str(found)


def member_that_fits_nowhere(task: Task) -> PodRecord | None:
    """Return the first member that fits on no node, if too few others are left; see R1."""
    tree = task.gang.tree
    for sub in () if tree is None else tree.sub_groups():
        able, nowhere = 0, list[PodRecord]()
        for leaf in sub.leaves:
            for pod_class, members in task.pools.get(leaf.key, {}).items():
                if pod_class.refresh().total:
                    able += len(members)
                else:
                    nowhere.append(members[0])
        if nowhere and able < task.lacking(sub):
            return nowhere[0]
    return None


def _is_bundle(task: Task) -> bool:
    return len(task.gang.infos) > 1


def _group(task: Task, sub: SubGroup) -> GroupKey | None:
    """Return the group of a sub group in a bundle; None for a single group."""
    return (sub.leaves[0].group if sub.children else sub.group) if _is_bundle(task) else None


def _of_like_members(pod_class: PodClass, needed: int, pending: int) -> Shortage:
    """Return how many like members fit, and which resource alone is short. O(states)."""
    table = pod_class.refresh().table
    fits = min(pod_class.total, needed - 1)
    states = [each for each in table.states.values() if each.count and pod_class.accepts(each)]
    names = {number: name for name, number in table.resources.items()}

    def supply(number: int) -> float:
        free = sum(each.count * each.free[number] for each in states)
        return free / dict(pod_class.compared)[number]

    scarce = [number for number, _amount in pod_class.compared if number != PODS]
    for number in sorted(scarce, key=lambda each: (supply(each), names[each])):
        others = [(n, amount) for n, amount in pod_class.compared if n != number]
        room = [(s, min([needed, *(s.free[n] // a for n, a in others)])) for s in states]
        if pending >= needed and sum(s.count * max(count, 0) for s, count in room) >= needed:
            free = sum(s.count * s.free[number] for s, count in room if count > 0)
            amount = dict(pod_class.compared)[number]
            return Shortage(needed, fits, True, "", names[number], free >= needed * amount)
    return Shortage(needed, fits, True)
