"""Greedy passes: quick ways to place pods without backtracking.

Rules:
  R1  a pass that meets the needs is a placement; a pass that does not proves nothing;
  R2  nodes in equal states are filled together, so a pass costs O((states + nodes used) x log) and
      never O(pods x nodes).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, final

from attrs import define, frozen

from gangsched.framework.placement.packing.problem import NOWHERE, Problem

__all__ = ["Bin", "Pass", "Taken", "passes"]

_AnyProblem: TypeAlias = "Problem[Any, Any]"
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
    hard, easy = problem.kinds, problem.kinds[::-1]
    scarce = problem.scarcest()
    ways: list[tuple[tuple[int, ...], tuple[int, ...], _Fit]] = [
        (easy, hard, _best_fit),
        (easy, scarce, _best_fit),
        (easy, hard, _least_left),
        (easy, hard, _worst_fit),
        (scarce[::-1], scarce, _best_fit),
        (hard, hard, _best_fit),
        (easy, easy, _best_fit),
        (easy, scarce, _worst_fit),
        (hard, scarce, _least_left),
    ]
    tried: set[object] = set()
    for choice, order, fit in ways:
        plan = _plan(problem, choice)
        if len(order) == 1:  # one kind: every fit places as many
            fit = _best_fit
        if (plan, order, fit) not in tried:
            tried.add((plan, order, fit))
            yield _pass(problem, plan, choice, order, fit)


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
    placed = [0] * len(plan)
    for kind in order:
        placed[kind] = fit(problem, bins, kind, plan[kind])
    # if too few pods of one kind fit, pods of another kind may count for the same need
    for need in sorted(problem.needs, key=lambda need: len(need.kinds)):
        for kind in choice:
            lack = need.at_least - need.placed(placed)
            if kind in need.kinds and lack > 0:
                more = min(lack, problem.counts[kind] - placed[kind])
                placed[kind] += fit(problem, bins, kind, more)
    return Pass(tuple(b for b in bins if b.count and b.taken), tuple(placed))


def _best_fit(problem: _AnyProblem, bins: list[Bin], kind: int, want: int) -> int:
    """Fill the nodes first that accept the fewest kinds, and of these the fullest."""
    able = _able(problem, bins, kind, want)
    able.sort(key=lambda b: (problem.breadth(b.state), problem.size(b.state)))
    return _fill(problem, bins, able, kind, want)


def _least_left(problem: _AnyProblem, bins: list[Bin], kind: int, want: int) -> int:
    """Fill the nodes first that have the least left over when no more pods fit."""
    able = _able(problem, bins, kind, want)
    chain = problem.states.chain
    able.sort(key=lambda b: problem.size(chain(b.state, kind, want)[-1]))
    return _fill(problem, bins, able, kind, want)


def _worst_fit(problem: _AnyProblem, bins: list[Bin], kind: int, want: int) -> int:
    """Place each pod on the node with the most free capacity."""
    heap = [
        (-problem.size(b.state), number, b)
        for number, b in enumerate(_able(problem, bins, kind, want))
    ]
    heapq.heapify(heap)
    left, number = want, len(heap)
    while left and heap:
        _size, _number, b = heapq.heappop(heap)
        nodes = min(b.count, left)
        then = b.split(nodes, kind, 1, problem.states.after(b.state, kind))
        bins.append(then)
        left -= nodes
        if problem.states.after(then.state, kind) != NOWHERE:
            heapq.heappush(heap, (-problem.size(then.state), number, then))
            number += 1
    return want - left


def _able(problem: _AnyProblem, bins: list[Bin], kind: int, want: int) -> list[Bin]:
    after = problem.states.after
    return [b for b in bins if want and b.count and after(b.state, kind) != NOWHERE]


def _fill(problem: _AnyProblem, bins: list[Bin], able: list[Bin], kind: int, want: int) -> int:
    left = want
    for b in able:
        if not left:
            break
        chain = problem.states.chain(b.state, kind, left)
        full = min(b.count, left // len(chain))
        bins.append(b.split(full, kind, len(chain), chain[-1]))
        left -= full * len(chain)
        if left and b.count:  # the last pods do not fill a node
            bins.append(b.split(1, kind, left, chain[left - 1]))
            left = 0
    return want - left
