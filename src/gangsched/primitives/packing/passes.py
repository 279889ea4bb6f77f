"""Greedy passes: quick ways to place pods without backtracking.

Rules:
  R1  a pass that meets the needs is a placement; a pass that does not proves nothing;
  R2  nodes in equal states are filled together, so a pass costs O((states + nodes used) x log) and
      never O(pods x nodes).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias, final

from attrs import define, frozen

from gangsched.primitives.packing.problem import NOWHERE, Problem

__all__ = ["Bin", "Pass", "Taken", "passes"]

_AnyProblem: TypeAlias = "Problem[Any, Any]"
_LOOK: Final = 4
"""How many operations it is to look at the nodes in one state: to find, to sort and to pass."""

Taken: TypeAlias = "tuple[tuple[int, int], ...]"
"""Kinds of pods, each with a number of pods, in the order in which a node takes them."""


@final
@define
class Bin:
    """Nodes in equal states that took the same pods.

    Attributes:
        origin: Their state before they took any.
        state: Their state now.
        taken: The pods that each took.
        count: The number of nodes.
    """

    origin: int
    state: int
    taken: Taken
    count: int

    def split(self, nodes: int, kind: int, pods: int, state: int) -> Bin:
        """Give pods of one kind to each of some nodes, and return these nodes. O(1)."""
        self.count -= nodes
        taken = self.taken
        if taken and taken[-1][0] == kind:
            taken, pods = taken[:-1], pods + taken[-1][1]
        return Bin(self.origin, state, (*taken, (kind, pods)), nodes)


@final
@frozen
class Pass:
    """The result of one pass.

    Attributes:
        bins: The nodes, those in equal states together.
        placed: The number of placed pods of each kind.
    """

    bins: tuple[Bin, ...]
    placed: tuple[int, ...]


_Fit: TypeAlias = "Callable[[_AnyProblem, list[Bin], int, int], int]"


def passes(problem: _AnyProblem) -> Iterator[Pass]:
    """Iterate over greedy passes; each is computed when it is requested.

    Runtime complexity: O((states + nodes used) x kinds x log) each; at most 9.
    """
    tried: set[object] = set()
    for choice, order, fit in _ways(problem):
        plan = _plan(problem, choice)
        if len(order) == 1:  # one kind: every fit places as many
            fit = _best_fit
        if (plan, order, fit) not in tried:
            tried.add((plan, order, fit))
            yield _pass(problem, plan, choice, order, fit)


def _ways(problem: _AnyProblem) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], _Fit]]:
    """Iterate over which kinds to choose first, which to place first, and on which nodes."""
    hard, easy = problem.kinds, problem.kinds[::-1]
    yield easy, hard, _best_fit
    scarce = problem.scarcest()  # asks about every node, so not before the first pass has failed
    yield easy, scarce, _best_fit
    yield easy, hard, _least_left
    yield easy, hard, _worst_fit
    yield scarce[::-1], scarce, _best_fit
    yield hard, hard, _best_fit
    yield easy, easy, _best_fit
    yield easy, scarce, _worst_fit
    yield hard, scarce, _least_left


def _plan(problem: _AnyProblem, choice: tuple[int, ...]) -> tuple[int, ...]:
    """Choose how many pods of each kind to place: for roles first, which have less choice."""
    plan = [0] * len(problem.counts)
    for need in sorted(problem.needs, key=lambda need: len(need.kinds)):
        lack = need.at_least - need.placed(plan)
        for kind in choice:
            if kind in need.kinds and lack > 0:
                more = min(lack, problem.counts[kind] - plan[kind])
                plan[kind] += more
                lack -= more
    return tuple(plan)


def _pass(
    problem: _AnyProblem,
    plan: tuple[int, ...],
    choice: tuple[int, ...],
    order: tuple[int, ...],
    fit: _Fit,
) -> Pass:
    bins = [Bin(state, state, (), count) for state, count in problem.nodes]
    full: list[Bin] = []
    placed = [0] * len(plan)
    for kind in order:
        if plan[kind]:
            placed[kind] = fit(problem, bins, kind, plan[kind])
            bins = [b for b in bins if b.count]
        if problem.has_many_kinds:  # most kinds would look at nodes that are full
            open_bins: list[Bin] = []
            for b in bins:
                (open_bins if problem.breadth(b.state) else full).append(b)
            bins = open_bins
    # if too few pods of one kind fit, pods of another kind may count for the same need
    for need in sorted(problem.needs, key=lambda need: len(need.kinds)):
        for kind in choice:
            lack = need.at_least - need.placed(placed)
            if kind in need.kinds and lack > 0:
                more = min(lack, problem.counts[kind] - placed[kind])
                placed[kind] += fit(problem, bins, kind, more)
    return Pass(tuple(b for b in (*full, *bins) if b.count and b.taken), tuple(placed))


def _best_fit(problem: _AnyProblem, bins: list[Bin], kind: int, want: int) -> int:
    """Fill the nodes first that accept the fewest kinds, and of these the fullest."""
    order = _left(problem, bins, want)
    fullness = problem.fullness
    order.sort(key=lambda b: fullness(b.state))
    return _fill(problem, bins, order, kind, want)


def _least_left(problem: _AnyProblem, bins: list[Bin], kind: int, want: int) -> int:
    """Fill the nodes first that have the least left over when no more pods fit."""
    able = _able(problem, bins, kind, want)
    chain = problem.states.chain
    able.sort(key=lambda b: problem.size(chain(b.state, kind, want)[-1]))
    return _fill(problem, bins, able, kind, want)


def _worst_fit(problem: _AnyProblem, bins: list[Bin], kind: int, want: int) -> int:
    """Place each pod on the node with the most free capacity."""
    heap = [
        (-problem.size(b.state), number, b) for number, b in enumerate(_left(problem, bins, want))
    ]
    heapq.heapify(heap)
    left, number = want, len(heap)
    while left and heap:
        _size, _number, b = heapq.heappop(heap)
        if problem.states.after(b.state, kind) == NOWHERE:
            continue
        nodes = min(b.count, left)
        then = b.split(nodes, kind, 1, problem.states.after(b.state, kind))
        bins.append(then)
        left -= nodes
        if problem.states.after(then.state, kind) != NOWHERE:
            heapq.heappush(heap, (-problem.size(then.state), number, then))
            number += 1
    return want - left


def _left(problem: _AnyProblem, bins: list[Bin], want: int) -> list[Bin]:
    """Return the nodes that may be asked about, all of them if there are pods to place."""
    problem.states.budget.work(_LOOK * len(bins) if want else 0)
    return [b for b in bins if want and b.count]


def _able(problem: _AnyProblem, bins: list[Bin], kind: int, want: int) -> list[Bin]:
    after = problem.states.after
    return [b for b in _left(problem, bins, want) if after(b.state, kind) != NOWHERE]


def _fill(problem: _AnyProblem, bins: list[Bin], able: list[Bin], kind: int, want: int) -> int:
    left = want
    for b in able:
        if not left:
            break
        chain = problem.states.chain(b.state, kind, left)
        if not chain:
            continue
        full = min(b.count, left // len(chain))
        bins.append(b.split(full, kind, len(chain), chain[-1]))
        left -= full * len(chain)
        if left and b.count:  # the last pods do not fill a node
            bins.append(b.split(1, kind, left, chain[left - 1]))
            left = 0
    return want - left
