"""Where victims are searched: on all nodes, in one domain at a time, or on one node at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.placement.plan import Domain
from gangsched.framework.preemption.eviction_units import EvictionUnit, IsCandidate
from gangsched.framework.preemption.victim_budget import LOOK, VictimBudget
from gangsched.framework.state.pods import Pods

__all__ = ["Choice", "Choices", "by_domain", "by_node"]

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
    on_node: dict[int, dict[EvictionUnit, None]] = {}
    for unit in units:
        holders = unit.holders(nodes, pods, is_candidate)
        budget.count(LOOK * (1 + len(holders)))
        for holder in holders:
            on_node.setdefault(holder.at, {})[unit] = None
    indices = sorted(on_node)
    if len(indices) > _MOST_NODES:
        begin = attempt * _ON % len(indices)
        indices = (indices[begin:] + indices[:begin])[:_MOST_NODES]
    return [Choice(None, list(on_node[index]), index) for index in indices]


def by_domain(
    nodes: Nodes,
    pods: Pods,
    domains: Sequence[Domain | None],
    units: Sequence[EvictionUnit],
    is_candidate: IsCandidate,
    budget: VictimBudget,
) -> Choices:
    """Return each domain with the units that hold capacity there, the fullest domain first."""
    if not units:
        return []
    values: dict[tuple[str, str | None], dict[EvictionUnit, int]] = {}
    classes = nodes.classes
    for key in {domain.key for domain in domains if domain is not None}:
        for unit in units:
            holders = unit.holders(nodes, pods, is_candidate)
            budget.count(LOOK * (1 + len(holders)))
            for holder in holders:
                value = classes.of(holder.at).sample.node.labels.get(key)
                held = values.setdefault((key, value), {})
                held[unit] = held.get(unit, 0) + 1
    found: list[tuple[int, Domain | None, list[EvictionUnit]]] = []
    for domain in domains:
        if domain is None:
            found.append((0, None, list(units)))
            continue
        here: dict[EvictionUnit, int] = {}
        for value in sorted(domain.values):
            here.update(values.get((domain.key, value), {}))
        found.append((-sum(here.values()), domain, [unit for unit in units if unit in here]))
    found.sort(key=lambda each: each[0])
    return [Choice(domain, within) for _held, domain, within in found]
