"""Why the minima of a gang are not met at once, wherever its members are put.

Like members are counted from the memo. For unlike ones the packing search names the first minimum
that cannot be met, how many of its members fit, and the resource of which alone too little is free.

Rules:
  R1  a member that fits on no node, and without which too few are left, is the reason: what else is
      short does not matter before that one fits somewhere;
  R2  of a gang that shares one domain, the one is named that comes closest. Of other gangs with
      domains, only copies of roles are counted. Of members that late plugins place, capacity is a
      bound, and a search that was cut short may have missed a placement.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

from attrs import evolve

from gangsched.core.evaluation.pod_class import PodClass
from gangsched.core.nodes.domains import Domain
from gangsched.core.nodes.hold import Hold
from gangsched.core.nodes.node_table import PODS
from gangsched.core.placement.late import RESERVED, withheld
from gangsched.core.placement.search import certain_minima, explain
from gangsched.core.placement.task import Task
from gangsched.core.records.gang import PodRecord
from gangsched.explain import Diagnosis, SearchBudgetExhausted, Shortage
from gangsched.model import GroupKey
from gangsched.primitives.gang_tree import SubGroup
from gangsched.primitives.packing.pack import Impossible, Packed
from gangsched.primitives.standing import least_needed

__all__ = ["Proof", "given_up", "member_that_fits_nowhere", "is_barred", "proof", "why_not"]

Proof: TypeAlias = Shortage | SearchBudgetExhausted

_OF_CAPACITY = ("Insufficient ", "Too many pods", RESERVED)


def proof(task: Task, budget: int) -> Proof | None:
    """Return why the minima are not met; None if nothing is known.

    Runtime complexity: O(states of nodes) for like members, and see ``pack`` for others.

    Args:
        task: The members; none of them is placed.
        budget: The steps of the search.
    """
    tree = task.gang.tree
    needed = least_needed(tree, task.lacking) if task.gang.infos else 0
    if not needed:
        return None
    asks_late = task.asks_some_late
    if not tree.is_bound:
        found = _of_one_class(task, needed, asks_late=asks_late)
        if found is not None:
            return found
    if asks_late:
        return _of_search(task, needed, budget)
    return _of_domains(task, budget) if tree.is_bound else _of_packing(task, budget)


def is_barred(found: Diagnosis) -> bool:
    """Return whether every node refuses a member for another reason than capacity."""
    others = (nodes for why, nodes in found.reasons if not why.startswith(_OF_CAPACITY))
    return bool(found.reasons) and sum(others) >= found.nodes


def given_up(task: Task, needed: int) -> SearchBudgetExhausted | None:
    """Return that a search was given up, so that there may be a placement; None if none was."""
    return SearchBudgetExhausted(needed, task.most, task.steps) if task.gave_up else None


def _sentence(found: Proof, pod_class: PodClass, diagnosis: Diagnosis) -> str:
    """Return a proof, and which constraints refuse a member that fits on some node."""
    if pod_class.is_asked_late and isinstance(found, Shortage) and found.resource is None:
        return f"{found}: {diagnosis}"
    named = [f"{n} {why}" for why, n in diagnosis.reasons if not why.startswith(_OF_CAPACITY)]
    return f"{found}; of {diagnosis.nodes} nodes: {', '.join(named)}" if named else str(found)


def member_that_fits_nowhere(task: Task) -> PodRecord | None:
    """Return the first member that fits on no node, if too few others are left; see R1."""
    for sub, lacking in certain_minima(task):
        able, nowhere = 0, list[PodRecord]()
        for leaf in sub.leaves:
            for pod_class, members in task.pools.get(leaf.key, {}).items():
                if pod_class.memo.refresh().total:
                    able += len(members)
                else:
                    nowhere.append(members[0])
        if nowhere and able < lacking:
            return nowhere[0]
    return None


def _is_bundle(task: Task) -> bool:
    return len(task.gang.infos) > 1


def _group(task: Task, sub: SubGroup) -> GroupKey | None:
    """Return the group of a sub group in a bundle; None for a single group."""
    return (sub.leaves[0].group if sub.children else sub.group) if _is_bundle(task) else None


def _shortage(task: Task, answer: Impossible[Any], within: str = "") -> Shortage:
    sub = next(each for each in task.gang.tree.sub_groups() if each.key == answer.quota.name)
    return Shortage(
        answer.quota.at_least,
        answer.fits,
        answer.exact,
        task.gang.path_of(sub) if sub.is_optional else sub.role or "",
        answer.resource,
        answer.in_pieces,
        within,
        _group(task, sub),
        beside_others=not answer.alone,
    )


def _of_packing(task: Task, budget: int) -> Proof | None:
    """Return the first minimum that cannot be met, wherever members are put."""
    answer = explain(task, budget)
    if isinstance(answer, Packed):
        return None
    if isinstance(answer, Impossible):
        return _shortage(task, answer)
    tree = task.gang.tree
    needed = sum(task.lacking(each) for each in (tree.children if _is_bundle(task) else [tree]))
    return SearchBudgetExhausted(needed, answer.placed, task.steps + answer.steps)


def _required_level(tree: SubGroup) -> str | None:
    """Return the level at which a gang shares one domain; None if that is not all it requires."""
    within = tree.within
    if within is None or not within.required:
        return None
    is_all = len([*tree.constrained]) == 1 and not any(s.is_optional for s in tree.sub_groups())
    return within.level if is_all else None


def _of_domains(task: Task, budget: int) -> Proof | None:
    """Return how many fit in the domain that lacks the fewest, for a gang that shares one."""
    tree, left = task.gang.tree, budget
    level = _required_level(tree)
    if level is None:
        return _of_packing(task, budget) if tree.has_parts else None
    found: Shortage | None = None
    # what fits if each class is counted by itself is a bound
    bounds = [(-_capacity(task, each), task.name(each), each) for each in task.domains(tree)]
    for bound, name, domain in sorted(bounds, key=lambda each: each[:2]):
        if found is not None and not found.role and -bound <= found.fits:
            break
        answer = explain(task, left, domain)
        if isinstance(answer, Packed):
            return None
        left = max(left - answer.steps - 1, 0)
        if not isinstance(answer, Impossible) or left <= 0:
            placed = 0 if isinstance(answer, Impossible) else answer.placed
            return SearchBudgetExhausted(task.lacking(tree), placed, task.steps + budget - left)
        here = _shortage(task, answer, f"{level}={name}")
        if found is None or here.needed - here.fits < found.needed - found.fits:
            found = here
    return found


def _of_search(task: Task, needed: int, budget: int) -> Proof | None:
    """Return how many fit, as far as a search in every order has shown it."""
    tree, most, where = task.gang.tree, task.most, ""
    if task.is_denied:
        return None
    if not budget:
        return SearchBudgetExhausted(needed, most, task.steps)
    is_exact = task.is_most_exact and not tree.children and task.most_domains is not None
    is_exact = is_exact and not (tree.constrained and not tree.is_bound)
    if tree.within is not None and tree.within.required and not tree.children:
        if task.most_domains is None:
            return None
        where = f"{tree.within.level}={task.name(task.most_domains[tree.key])}"
        is_exact = is_exact and _were_tried(task, most, needed)
    elif tree.is_bound:
        return None
    return Shortage(needed, most if is_exact else needed - 1, is_exact, within=where)


def _were_tried(task: Task, most: int, needed: int) -> bool:
    """Return whether no domain could take more members than were placed, and was not tried.

    Domains that are too small for all are not tried.
    """
    sizes = [_capacity(task, domain) for domain in task.domains(task.gang.tree)]
    return all(size <= most or size >= needed for size in sizes)


def _capacity(task: Task, domain: Domain) -> int:
    """Return how many members a domain takes, each class counted by itself."""
    pools = task.pools.values()
    return sum(
        min(len(members), pod_class.memo.refresh().within(domain))
        for pool in pools
        for pod_class, members in pool.items()
    )


def _of_one_class(task: Task, needed: int, *, asks_late: bool) -> Shortage | None:
    """Return how many members fit that are all alike; None if they are not, or more may fit."""
    pools = [*task.pools.values()]
    if len(pools) != 1 or len(pools[0]) != 1 or (task.gang.tree.children and not asks_late):
        return None
    ((pod_class, members),) = pools[0].items()
    if asks_late and pod_class.memo.refresh().total >= needed:
        return None
    found = _of_like_members(pod_class, needed, len(members))
    # late plugins may refuse nodes: the bound is exact if so many were placed
    is_exact = not asks_late or task.most >= found.fits
    return found if is_exact else evolve(found, exact=False)


def _of_like_members(pod_class: PodClass, needed: int, pending: int) -> Shortage:
    """Return how many like members fit, and which resource alone is short. O(states)."""
    table = pod_class.memo.refresh().table
    fits = min(pod_class.memo.total, needed - 1)
    states = [each for each in table.states.values() if each.count and pod_class.memo.accepts(each)]
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


def why_not(
    member: PodRecord, found: Diagnosis | None, proof: Proof | None, holds: Collection[Hold]
) -> str:
    """Return why a gang is not placed: a proof, or why nodes refuse a member.

    If capacity is short, that is followed by what is held of it for others.
    """
    within = proof.within if isinstance(proof, Shortage) and not proof.is_of_copies else ""
    pod_class = member.pod_class
    if found is not None:
        # the member fits on no node, see R1
        if pod_class is not None and not pod_class.memo.refresh().total:
            return str(found)
        if _is_refused_nowhere(found) and not _names_level(within):
            return str(proof or "each member fits, but no placement of all was found")
    if _names_level(within):
        return f"no node that can take it has the label {within}"
    if proof is None or pod_class is None:
        return str(proof or found)
    # what is short within a domain says nothing of the other nodes
    reason = str(proof) if within or found is None else _sentence(proof, pod_class, found)
    return reason + _reserved(withheld(pod_class, holds) if holds else {})


def _names_level(within: str) -> bool:
    """Return whether no domain of a level exists: one that does is named with its value."""
    return bool(within) and "=" not in within


def _is_refused_nowhere(found: Diagnosis) -> bool:
    """Return whether there are nodes, and none of them refuses the member."""
    return found.nodes > 0 and not found.reasons and not found.refusal


def _reserved(owners: Mapping[int, str]) -> str:
    """Return for whom free capacity is held, to be added to a reason; or ``""``."""
    if not owners:
        return ""
    nodes = "1 node" if len(owners) == 1 else f"{len(owners)} nodes"
    return f"; free capacity of {nodes} is reserved for {', '.join(sorted(set(owners.values())))}"
