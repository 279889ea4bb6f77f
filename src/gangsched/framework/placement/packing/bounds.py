"""How many pods could be placed at most: bounds that cost little.

Rules:
  R1  never too low: a bound that is below what is needed is a proof;
  R2  each kind of pod is counted as if it were the only one, each resource as if it were.
"""

from __future__ import annotations

from math import gcd
from typing import Any, TypeAlias

from gangsched.framework.placement.packing.problem import NOWHERE, Need, Problem

__all__ = ["ceiling"]

_AnyProblem: TypeAlias = "Problem[Any, Any]"


def ceiling(problem: _AnyProblem, need: Need) -> int:
    """Return more than which of a need's pods cannot be placed; often fewer can.

    Runtime complexity: O(states x pods that a node takes), and less where all of a kind fit.
    """
    most = sum(_headroom(problem, kind) for kind in need.kinds)
    for resource in sorted(problem.states.room.binding):
        most = min(most, _affordable(problem, need, resource))
    return most


def _headroom(problem: _AnyProblem, kind: int) -> int:
    """Return how many pods of one kind fit when there are no others."""
    want = problem.counts[kind]
    room = 0
    for state, count in problem.nodes:
        room += count * len(problem.states.chain(state, kind, want))
        if room >= want:
            return want
    return room


def _affordable(problem: _AnyProblem, need: Need, resource: str) -> int:
    """Return how many pods fit into the sum of one resource, in pieces that they can use."""
    price = {kind: problem.demands[kind].requests.amount(resource) for kind in need.kinds}
    piece = gcd(*price.values())
    afforded = sum(problem.counts[kind] for kind in need.kinds if not price[kind])
    if not piece:
        return afforded
    payers = [kind for kind in need.kinds if price[kind]]
    room, after, nodes = problem.states.room, problem.states.after, problem.states.nodes
    purse = sum(
        count * max(0, room.free(nodes[state]).get(resource, 0) // piece * piece)
        for state, count in problem.nodes
        if any(after(state, kind) != NOWHERE for kind in payers)
    )
    for kind in sorted(payers, key=lambda kind: price[kind]):
        bought = min(problem.counts[kind], purse // price[kind])
        afforded += bought
        purse -= bought * price[kind]
    return afforded
