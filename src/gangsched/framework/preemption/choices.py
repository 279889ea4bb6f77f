"""Where victims are searched: on all nodes, in one domain at a time, or on one node at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.placement.plan import Domain
from gangsched.framework.preemption.eviction_units import EvictionUnit, IsCandidate
from gangsched.framework.state.pods import Pods

__all__ = ["Choices", "by_domain", "by_node"]

_MOST_NODES: Final = 100
"""The number of nodes that are compared if each is searched by itself, as in kube-scheduler."""

Choices: TypeAlias = list[tuple[Domain | None, list[EvictionUnit]]]
"""Where to search, None for all nodes, and the units that hold capacity there."""


def by_node(
    nodes: Nodes, pods: Pods, units: Sequence[EvictionUnit], is_candidate: IsCandidate
) -> Choices:
    """Return the units that hold capacity on a node, for each node, at most ``_MOST_NODES``."""
    on_node: dict[int, dict[EvictionUnit, None]] = {}
    for unit in units:
        for holder in unit.holders(nodes, pods, is_candidate):
            on_node.setdefault(holder.at, {})[unit] = None
    return [(None, list(on_node[index])) for index in sorted(on_node)[:_MOST_NODES]]


def by_domain(
    nodes: Nodes,
    pods: Pods,
    domains: Sequence[Domain | None],
    units: Sequence[EvictionUnit],
    is_candidate: IsCandidate,
) -> Choices:
    """Return each domain with the units that hold capacity there, the fullest domain first."""
    if not units:
        return []
    values: dict[tuple[str, str | None], dict[EvictionUnit, int]] = {}
    classes = nodes.classes
    for key in {domain.key for domain in domains if domain is not None}:
        for unit in units:
            for holder in unit.holders(nodes, pods, is_candidate):
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
    return [(domain, within) for _held, domain, within in found]
