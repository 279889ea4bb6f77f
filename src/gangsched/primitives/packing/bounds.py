"""Cheap upper bounds on the number of pods that can be placed.

Rules:
  R1  a bound is never too low, so a bound below the number that is needed is a proof;
  R2  each kind of pod is counted as if there were no other, and each resource as well.
"""

from __future__ import annotations

from math import gcd
from typing import Any, TypeAlias

from gangsched.primitives.packing.problem import NOWHERE, Need, Problem

__all__ = ["affordable", "ceiling"]

_AnyProblem: TypeAlias = "Problem[Any, Any]"


def ceiling(problem: _AnyProblem, need: Need) -> int:
    """Return an upper bound on the number of a need's pods that can be placed.

    Runtime complexity: O(states x pods that a node takes), and less if all pods of a kind fit.
    """
    most = affordable(problem, need)
    return min(most, sum(_headroom(problem, kind) for kind in need.kinds))


def affordable(problem: _AnyProblem, need: Need) -> int:
    """Return an upper bound from the sum of each resource. O(nodes x resources), mostly."""
    most = need.placed(problem.counts)
    for resource in problem.states.binding:
        most = min(most, _affordable(problem, need, resource))
    return most


def _headroom(problem: _AnyProblem, kind: int) -> int:
    """Return how many pods of one kind fit if there are no others."""
    want = problem.counts[kind]
    total = 0
    problem.states.budget.work(len(problem.nodes))
    for state, count in problem.nodes:
        total += count * len(problem.states.chain(state, kind, want))
        if total >= want:
            return want
    return total


def _affordable(problem: _AnyProblem, need: Need, resource: str) -> int:
    """Return how many pods fit into the sum of one resource, in pieces of a usable size."""
    price = {kind: problem.demands[kind].requests.amount(resource) for kind in need.kinds}
    piece = gcd(*price.values())
    afforded = sum(problem.counts[kind] for kind in need.kinds if not price[kind])
    if not piece:
        return afforded
    payers = [kind for kind in need.kinds if price[kind]]
    problem.states.budget.work(2 * len(problem.nodes) + 3 * len(price))
    model, after, nodes = problem.states.model, problem.states.after, problem.states.nodes
    free = sum(
        count * max(0, model.free(nodes[state]).get(resource, 0) // piece * piece)
        for state, count in problem.nodes
        if any(after(state, kind) != NOWHERE for kind in payers)
    )
    for kind in sorted(payers, key=lambda kind: price[kind]):
        bought = min(problem.counts[kind], free // price[kind])
        afforded += bought
        free -= bought * price[kind]
    return afforded
