"""Where victims are searched: on all nodes, in one domain at a time, or on one node at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.placement.plan import Domain
from gangsched.framework.preemption.eviction_units import EvictionUnit, IsCandidate
from gangsched.framework.preemption.victim_budget import (
    BOUND,
    CHOICE,
    LOOK,
    NODE,
    POD,
    VictimBudget,
)
from gangsched.framework.state.pods import ON_NODES, Pods
from gangsched.model import PodUID

__all__ = ["Choice", "Choices", "by_domain", "by_node", "on_nodes"]

_MOST_NODES: Final = 100
"""The number of nodes that are compared if each is searched by itself, as in kube-scheduler."""

_ON: Final = 32
"""How many nodes further on the next attempt begins, if there are more than are compared."""


class Choice(NamedTuple):
    """Where to search.

    Attributes:
        domain: The domain; None for all nodes.
        units: The units that hold capacity there.
        at: The one node that is searched, by index; None for any number of nodes.
    """

    domain: Domain | None
    units: list[EvictionUnit]
    at: int | None = None


Choices: TypeAlias = list[Choice]


def by_node(
    nodes: Nodes,
    pods: Pods,
    units: Sequence[EvictionUnit],
    is_candidate: IsCandidate,
    budget: VictimBudget,
    attempt: int,
) -> Choices:
    """Return the units that hold capacity on a node, for each node, at most ``_MOST_NODES``.

    If there are more, each attempt begins with other nodes. So a search that its budget ends goes
    on with the next attempt. kube-scheduler begins with a random node each time.
    """
    begin = attempt * _ON if len(nodes.by_index) > _MOST_NODES else 0
    found: list[Choice] = []
    for index, here in on_nodes(nodes, pods, units, is_candidate, budget, begin):
        if len(found) == _MOST_NODES:
            return found
        found.append(Choice(None, [units[number] for number in here], index))
    found.sort(key=lambda each: each.at or 0)
    return found


def on_nodes(
    nodes: Nodes,
    pods: Pods,
    units: Sequence[EvictionUnit],
    is_candidate: IsCandidate,
    budget: VictimBudget,
    begin: int = 0,
) -> Iterator[tuple[int, list[int]]]:
    """Iterate over the nodes on which units hold capacity: (index, the units by number).

    It ends with the budget. Runtime complexity: O(units), and O(pods) of each node.
    """
    of_pod, of_group, nominated = _by_holder(nodes, pods, units, is_candidate)
    indices = list(nodes.by_index)
    begin = begin % len(indices) if indices else 0
    for index in indices[begin:] + indices[:begin]:
        holders = nodes.by_index[index].holders
        budget.count(NODE + POD * len(holders))
        if budget.ends():
            return
        here: set[int] = set(nominated.get(index, ()))
        for uid in holders:
            number = of_pod.get(uid)
            if number is not None:
                here.add(number)
                continue
            member = pods.members.get(uid)
            if member is not None and member.group is not None and member.state in ON_NODES:
                here.update(of_group.get(member.group.uid, ()))
        if not here or not is_candidate(index):
            continue
        numbers = [
            number
            for number in sorted(here)
            if not units[number].is_elastic
            or _gives_up(nodes, pods, units[number], index, is_candidate, budget)
        ]
        if numbers:
            yield index, numbers


def _by_holder(
    nodes: Nodes, pods: Pods, units: Sequence[EvictionUnit], is_candidate: IsCandidate
) -> tuple[dict[PodUID, int], dict[int, list[int]], dict[int, list[int]]]:
    """Return the units, by number, of each regular pod, of each group, and nominated on each node.

    Runtime complexity: O(units).
    """
    of_pod: dict[PodUID, int] = {}
    of_group: dict[int, list[int]] = {}
    nominated: dict[int, list[int]] = {}
    for number, unit in enumerate(units):
        if unit.member is not None:
            of_pod[unit.member.pod.uid] = number
        elif unit.nomination is not None:
            for holder in unit.holders(nodes, pods, is_candidate):
                nominated.setdefault(holder.at, []).append(number)
        for info in unit.groups:
            of_group.setdefault(info.uid, []).append(number)
    return of_pod, of_group, nominated


def _gives_up(
    nodes: Nodes,
    pods: Pods,
    unit: EvictionUnit,
    index: int,
    is_candidate: IsCandidate,
    budget: VictimBudget,
) -> bool:
    """Return whether elastic members of a unit are on a node. O(members)."""
    holders = unit.holders(nodes, pods, is_candidate)
    budget.count(POD * len(holders))
    return any(holder.at == index for holder in holders)


def _held(
    nodes: Nodes,
    pods: Pods,
    units: Sequence[EvictionUnit],
    is_candidate: IsCandidate,
    budget: VictimBudget,
) -> Iterator[tuple[int, list[int]]]:
    """Iterate over the nodes with the units, by number, that hold capacity: once for each pod.

    It ends with the budget. Runtime complexity: O(units), and O(pods) of each node.
    """
    budget.count(BOUND * len(units))
    of_pod, of_group, nominated = _by_holder(nodes, pods, units, is_candidate)
    of_pieces: dict[int, list[int]] = {}
    # elastic members are units of their own, which are found by their holders
    whole = {
        uid: numbers
        for uid, all_of_it in of_group.items()
        if (numbers := [each for each in all_of_it if not units[each].is_elastic])
    }
    members = pods.members
    for number, unit in enumerate(units):
        if unit.is_elastic:
            budget.count(POD * unit.groups[0].scheduled)
            for holder in unit.holders(nodes, pods, is_candidate):
                of_pieces.setdefault(holder.at, []).append(number)
    for index, info in nodes.by_index.items():
        if budget.ends():
            return
        budget.count(NODE + (LOOK if of_group else POD) * len(info.holders))
        found = [*nominated.get(index, ()), *of_pieces.get(index, ())]
        for uid in info.holders:
            alone = of_pod.get(uid)
            if alone is not None:
                found.append(alone)
                continue
            member = members.get(uid)
            if member is not None and member.group is not None and member.state in ON_NODES:
                of_it = whole.get(member.group.uid)
                if of_it:
                    found += of_it
        if found and is_candidate(index):
            yield index, found


def by_domain(
    nodes: Nodes,
    pods: Pods,
    domains: Sequence[Domain | None],
    units: Sequence[EvictionUnit],
    is_candidate: IsCandidate,
    budget: VictimBudget,
) -> Choices:
    """Return each domain with the units that hold capacity there, the fullest domain first.

    None are returned if the budget ends meanwhile. Runtime complexity: O(units), O(pods on nodes),
    and O(units there x log) for each domain.
    """
    if not units:
        return []
    # how much each unit holds, by number: nodes are read once, not the units for each domain
    values: dict[tuple[str, str | None], list[int]] = {}
    keys = {domain.key for domain in domains if domain is not None}
    for index, numbers in _held(nodes, pods, units, is_candidate, budget) if keys else ():
        labels = nodes.by_index[index].node.labels
        for key in keys:
            values.setdefault((key, labels.get(key)), []).extend(numbers)
    if budget.ends():
        return []
    found: list[tuple[int, Domain | None, list[EvictionUnit]]] = []
    for domain in domains:
        budget.count(CHOICE)
        if domain is None:
            found.append((0, None, list(units)))
            continue
        held = [number for value in domain.values for number in values.get((domain.key, value), ())]
        within = [units[number] for number in sorted(set(held))]
        found.append((-len(held), domain, within))
    found.sort(key=lambda each: each[0])
    return [Choice(domain, within) for _held, domain, within in found]
