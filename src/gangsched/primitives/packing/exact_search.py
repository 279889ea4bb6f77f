"""An exact search for a placement, node by node.

Theory of operation. For each state of a node, the maximal sets of pods that it can take are listed
(*fills*). A node with one fill takes it (*fixed*). The other nodes are *layers*, and the search
chooses a fill for one layer after another, depth first. What is left to place before a layer is a
*position*. For each need there are several weightings of its pods (*loads*). The most that the
remaining layers can hold of a load is known in advance. A position with more left is given up.

Rules:
  R1  only maximal fills are tried, because to take fewer pods never helps;
  R2  each position is visited once. Pods of one kind, and nodes in one state, are interchangeable;
  R3  a position is given up if the remaining layers cannot hold what is needed. Each layer counts
      at its best, by number of pods and by each resource;
  R4  the search ends with a placement, with no position left, or with ``BudgetSpent``.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import Any, TypeAlias, final

from attrs import frozen

from gangsched.primitives.packing.problem import NOWHERE, Budget, Problem

__all__ = ["Search"]

_AnyProblem: TypeAlias = "Problem[Any, Any]"
_Counts: TypeAlias = "tuple[int, ...]"


@final
@frozen
class _Load:
    """The pods of a need with weights: what is left to place must not exceed what layers hold.

    Attributes:
        need: The index of the need.
        weights: Kinds with their weights, lightest first.
        holds: The weight that the layers from each one on can hold.
    """

    need: int
    weights: tuple[tuple[int, int], ...]
    holds: tuple[int, ...]


@final
class Search:
    """The search for one problem.

    Args:
        problem: The problem.
        budget: The budget. A step is one set of pods that is tried while fills are listed, or one
            position that is reached.

    Raises:
        BudgetSpent: Listing the fills exhausted the budget.
    """

    __slots__ = ("_budget", "_fixed", "_layers", "_loads", "_problem", "_slack", "_start")

    def __init__(self, problem: _AnyProblem, budget: Budget) -> None:
        self._problem = problem
        self._budget = budget
        self._slack = [need.placed(problem.counts) - need.at_least for need in problem.needs]
        self._fixed: list[tuple[int, int, _Counts]] = []
        choices: dict[tuple[_Counts, ...], list[tuple[int, int]]] = {}
        for state, count in problem.nodes:
            fills = tuple(sorted(self._fills(state), key=problem.load, reverse=True))
            count = min(count, sum(problem.counts))
            if len(fills) == 1:
                self._fixed.append((state, count, fills[0]))
            else:
                choices.setdefault(fills, []).append((state, count))
        self._start = problem.counts
        for _state, count, fill in self._fixed:
            self._start = tuple(
                max(0, left - count * n) for left, n in zip(self._start, fill, strict=True)
            )
        # layers with few fills come first, because they cut the search early; layers with equal
        # fills are adjacent, so that equal positions meet
        self._layers = [
            (state, fills)
            for fills in sorted(choices, key=len)
            for state, count in choices[fills]
            for _ in range(count)
        ]
        self._loads = tuple(self._weigh())

    def _fills(self, state: int) -> Iterator[_Counts]:
        """Iterate over the maximal sets of pods that a node can take, hardest kinds first."""
        kinds = self._problem.kinds
        counts = self._problem.counts
        after = self._problem.states.after
        stack: list[tuple[int, int, tuple[tuple[int, int], ...]]] = [(0, state, ())]
        while stack:
            self._budget.spend()
            self._budget.work(len(kinds))
            first, state, taken = stack.pop()
            able = [d for d in range(first, len(kinds)) if after(state, kinds[d]) != NOWHERE]
            if able:
                kind = kinds[able[0]]
                states = [state, *self._problem.states.chain(state, kind, counts[kind])]
                fewest = len(states) - 1 if len(able) == 1 else 0
                stack.extend(
                    (able[0] + 1, states[number], (*taken, (kind, number)))
                    for number in range(fewest, len(states))
                )
                continue
            fill = [0] * len(counts)
            for kind, number in taken:
                fill[kind] = number
            if not any(fill[k] < counts[k] and after(state, k) != NOWHERE for k in kinds):
                yield tuple(fill)

    def _weigh(self) -> Iterator[_Load]:
        """Iterate over the loads of each need: by number, by kind, and by each resource."""
        for number, need in enumerate(self._problem.needs):
            requests = {kind: self._problem.demands[kind].requests for kind in need.kinds}
            resources = sorted({name for asked in requests.values() for name in asked})
            schemes = [
                dict.fromkeys(need.kinds, 1),
                *({kind: int(kind == one) for kind in need.kinds} for one in need.kinds),
                *(
                    {kind: asked.amount(name) for kind, asked in requests.items()}
                    for name in resources
                ),
            ]
            seen: set[tuple[int, ...]] = set()
            for scheme in schemes:
                unit = gcd(*scheme.values())
                weights = {kind: weight // unit for kind, weight in scheme.items()}
                if tuple(weights.values()) not in seen:
                    seen.add(tuple(weights.values()))
                    yield self._load(number, weights)

    def _load(self, need: int, weights: dict[int, int]) -> _Load:
        holds, seen, best = [0], None, 0
        for _state, fills in reversed(self._layers):
            if fills is not seen:
                seen = fills
                self._budget.work(len(fills) * len(weights))
                best = max(sum(w * fill[kind] for kind, w in weights.items()) for fill in fills)
            holds.append(holds[-1] + best)
        lightest = sorted(weights.items(), key=lambda item: item[1])
        return _Load(need, tuple(lightest), tuple(reversed(holds)))

    # Looking --------------------------------------------------------------------------------

    def place(self) -> list[tuple[int, int, _Counts]] | None:
        """Return a placement that meets every need; None if there is none.

        Returns:
            States, each with the number of its nodes that are used, and what each of these takes.
            A state may occur several times. The fills may add up to more pods than exist or are
            needed; the caller trims them.

        Raises:
            BudgetSpent: The budget is exhausted.
        """
        for _rest, path in self._met():
            layers = zip(self._layers, path, strict=False)
            return [*self._fixed, *((state, 1, fill) for (state, _fills), fill in layers)]
        return None

    def at_most(self, need: int, least: int, most: int) -> int:
        """Return an upper bound on the pods of one need that fit while the other needs are met.

        Runtime complexity: O((most - least) x kinds x resources).

        Args:
            need: The index of the need.
            least: A known lower bound.
            most: A known upper bound.
        """
        pods = self._problem.needs[need].placed(self._problem.counts)
        while most > least:
            self._slack[need] = pods - most
            if self._may_meet(self._start, 0):
                break
            most -= 1
        return most

    def most(self, need: int, at_least: int) -> int | None:
        """Return the largest number of pods of one need that fit while the others are met.

        Args:
            need: The index of the need.
            at_least: Only this number or more is searched for.

        Returns:
            The number; None if it is less than *at_least*.

        Raises:
            BudgetSpent: The budget is exhausted.
        """
        whose = self._problem.needs[need]
        pods = whose.placed(self._problem.counts)
        self._slack[need] = pods - at_least
        most = None
        for rest, _path in self._met():
            left = whose.placed(rest)
            most = pods - left
            self._slack[need] = left - 1  # from here on, only positions with more pods count
        return most

    def _met(self) -> Iterator[tuple[_Counts, list[_Counts]]]:
        """Iterate over the positions that meet the needs, each with the fills that led to it.

        Between two of them the caller may reduce the slack, but not increase it.
        """
        if self._meets(self._start):
            yield self._start, []
        seen: list[set[_Counts]] = [set() for _ in range(len(self._layers) + 1)]
        open_ = [self._next(0, self._start)] if self._may_meet(self._start, 0) else []
        path: list[_Counts] = []
        while open_:
            step = next(open_[-1], None)
            if step is None:
                open_.pop()
                del path[-1:]
                continue
            fill, rest = step
            layer = len(open_)
            self._budget.spend()
            self._budget.work(3 * len(rest))
            if rest in seen[layer]:
                continue
            seen[layer].add(rest)
            if self._meets(rest):
                yield rest, [*path, fill]
            if self._may_meet(rest, layer):
                path.append(fill)
                open_.append(self._next(layer, rest))

    def _next(self, layer: int, rest: _Counts) -> Iterator[tuple[_Counts, _Counts]]:
        """Iterate over the fills of a layer, each with what is left to place afterwards."""
        for fill in self._layers[layer][1]:
            yield fill, tuple([a - b if a > b else 0 for a, b in zip(rest, fill, strict=True)])

    def _meets(self, rest: _Counts) -> bool:
        return all(
            need.placed(rest) <= slack
            for need, slack in zip(self._problem.needs, self._slack, strict=True)
        )

    def _may_meet(self, rest: _Counts, layer: int) -> bool:
        """Return whether the layers from one on may hold what is still needed, by weight."""
        lacks = [
            need.placed(rest) - slack
            for need, slack in zip(self._problem.needs, self._slack, strict=True)
        ]
        for load in self._loads:
            lack = lacks[load.need]
            holds = load.holds[layer]
            self._budget.work(len(load.weights))
            for kind, weight in load.weights:
                if lack <= 0 or holds < 0:
                    break
                pods = rest[kind]
                if pods > lack:
                    pods = lack
                lack -= pods
                holds -= weight * pods
            # pods with weight 0 come first, so a lack may remain although no weight is exceeded
            if holds < 0 or lack > 0:
                return False
        return True
