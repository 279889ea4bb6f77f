"""An exact search for a placement, node by node.

Rules:
  R1  a node's choices are the fullest sets of pods that it can take: to take fewer never helps;
  R2  a position is what is left to place before a node, so like pods and like nodes are never
      told apart; each position is looked at once;
  R3  a position is given up when the nodes after it cannot hold what is still needed, in number
      of pods or in any one resource, each node counted at its best;
  R4  the search ends with a placement, or with none left to try, or with ``Spent``.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import Any, TypeAlias, final

from attrs import frozen

from gangsched.framework.placement.packing.problem import NOWHERE, Problem, Purse

__all__ = ["Search"]

_AnyProblem: TypeAlias = "Problem[Any, Any]"
_Counts: TypeAlias = "tuple[int, ...]"


@final
@frozen
class _Load:
    """Pods of a need, weighed: what is left to place must not outweigh what can be held.

    Attributes:
        need: Which need, by number.
        weights: Kind and weight, lightest first.
        holds: What the nodes from each layer on can hold.
    """

    need: int
    weights: tuple[tuple[int, int], ...]
    holds: tuple[int, ...]


@final
class Search:
    """Every way to fill the nodes, but for those that cannot matter.

    Args:
        problem: What is to be placed where.
        purse: What it may cost: a step for each set of pods that a node is tried with, and one
            for each position that is reached.

    Raises:
        Spent: The choices of the nodes alone cost too much.
    """

    __slots__ = ("_fixed", "_layers", "_loads", "_problem", "_purse", "_slack", "_start")

    def __init__(self, problem: _AnyProblem, purse: Purse) -> None:
        self._problem = problem
        self._purse = purse
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
        # nodes that leave little choice come first, and those with like choices together
        self._layers = [
            (state, fills)
            for fills in sorted(choices, key=len)
            for state, count in choices[fills]
            for _ in range(count)
        ]
        self._loads = tuple(self._weigh())

    def _fills(self, state: int) -> Iterator[_Counts]:
        """Give every set of pods to which a node can take no more, the hardest kinds first."""
        kinds = self._problem.kinds
        counts = self._problem.counts
        after = self._problem.states.after
        stack: list[tuple[int, int, tuple[tuple[int, int], ...]]] = [(0, state, ())]
        while stack:
            self._purse.spend()
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
        """Weigh the pods of each need by number, by kind, and by each resource."""
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
                best = max(sum(w * fill[kind] for kind, w in weights.items()) for fill in fills)
            holds.append(holds[-1] + best)
        lightest = sorted(weights.items(), key=lambda item: item[1])
        return _Load(need, tuple(lightest), tuple(reversed(holds)))

    # Looking --------------------------------------------------------------------------------

    def place(self) -> list[tuple[int, int, _Counts]] | None:
        """Return a placement that meets every need; None when there is none.

        Returns:
            State of the node, how many such nodes, and what each takes; more than is needed.

        Raises:
            Spent: There was more to try.
        """
        for _rest, path in self._met():
            layers = zip(self._layers, path, strict=False)
            return [*self._fixed, *((state, 1, fill) for (state, _fills), fill in layers)]
        return None

    def at_most(self, need: int, least: int, most: int) -> int:
        """Return more than which pods of one need cannot be placed while the others are met.

        Runtime complexity: O((most - least) x kinds x resources).

        Args:
            need: Which need, by number.
            least: So many can be placed.
            most: More than so many cannot be placed.
        """
        pods = self._problem.needs[need].placed(self._problem.counts)
        while most > least:
            self._slack[need] = pods - most
            if self._may_meet(self._start, 0):
                break
            most -= 1
        return most

    def most(self, need: int, at_least: int) -> int | None:
        """Return how many pods of one need fit at most while the others are met.

        Args:
            need: Which need, by number.
            at_least: Fewer are not looked for.

        Returns:
            The number; None when it is less than *at_least*.

        Raises:
            Spent: There was more to try.
        """
        whose = self._problem.needs[need]
        pods = whose.placed(self._problem.counts)
        self._slack[need] = pods - at_least
        most = None
        for rest, _path in self._met():
            left = whose.placed(rest)
            most = pods - left
            self._slack[need] = left - 1  # from here on only more will do
        return most

    def _met(self) -> Iterator[tuple[_Counts, list[_Counts]]]:
        """Give every position that meets the needs, with the sets that led to it.

        The slack may be made smaller, not larger, between one and the next.
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
            self._purse.spend()
            if rest in seen[layer]:
                continue
            seen[layer].add(rest)
            if self._meets(rest):
                yield rest, [*path, fill]
            if self._may_meet(rest, layer):
                path.append(fill)
                open_.append(self._next(layer, rest))

    def _next(self, layer: int, rest: _Counts) -> Iterator[tuple[_Counts, _Counts]]:
        """Give what a node may take, and what is left to place then."""
        for fill in self._layers[layer][1]:
            yield fill, tuple([a - b if a > b else 0 for a, b in zip(rest, fill, strict=True)])

    def _meets(self, rest: _Counts) -> bool:
        return all(
            need.placed(rest) <= slack
            for need, slack in zip(self._problem.needs, self._slack, strict=True)
        )

    def _may_meet(self, rest: _Counts, layer: int) -> bool:
        """Say whether the nodes from a layer on could hold what is still needed, by weight."""
        lacks = [
            need.placed(rest) - slack
            for need, slack in zip(self._problem.needs, self._slack, strict=True)
        ]
        for load in self._loads:
            lack = lacks[load.need]
            holds = load.holds[layer]
            for kind, weight in load.weights:
                if lack <= 0 or holds < 0:
                    break
                pods = rest[kind]
                if pods > lack:
                    pods = lack
                lack -= pods
                holds -= weight * pods
            # pods of no weight may come first, so what is lacking is not all that weighs
            if holds < 0 or lack > 0:
                return False
        return True
