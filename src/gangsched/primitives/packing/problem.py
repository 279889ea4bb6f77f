"""A packing problem with kinds of pods and of nodes as numbers.

A *state* is the number of a kind of node: what a node is and what it has taken so far.

Rules:
  R1  kinds are numbered in the order in which they are met. Only numbers are compared, so nothing
      depends on a hash or on an order of the kinds;
  R2  the node model is called once for each pair of a state and a kind of pod;
  R3  nodes in equal states are counted, never listed; a node that accepts no pod is left out;
  R4  a node with too little of a resource that the model counts refuses a pod without a call;
  R5  each call of the node model is counted in the budget; see ``packing.budget``.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from typing import Final, Generic, TypeVar, final

from attrs import frozen

from gangsched.primitives.packing.budget import FIT, MODEL, UNBOUNDED, Budget, BudgetSpent, Work
from gangsched.primitives.packing.values import NodeModel, PackingDemand
from gangsched.resources import NOTHING, Resources

__all__ = ["NOWHERE", "Budget", "BudgetSpent", "Need", "Problem", "States"]

N = TypeVar("N", bound=Hashable)
P = TypeVar("P", bound=Hashable)

NOWHERE: Final = -1
"""Stands for the next state if a node cannot take the pod."""

_UNKNOWN: Final = -2
_FEW_KINDS: Final = 16


@final
class States(Generic[N, P]):
    """The states of nodes and the transitions between them.

    Attributes:
        kinds: The kinds of pods, by number.
        nodes: The kinds of nodes, by number.
        model: Answers which transitions there are.
        binding: The resources that the model counts, sorted.
        requests: The requests of each kind, with which a node may be seen to refuse it.
        budget: The budget that calls of the model are counted in; without one, there is no bound.
    """

    __slots__ = (
        "_after",
        "_asked",
        "_numbers",
        "binding",
        "budget",
        "kinds",
        "model",
        "nodes",
        "requests",
    )

    def __init__(
        self,
        model: NodeModel[N, P],
        kinds: Iterable[P],
        requests: Iterable[Resources] = (),
        budget: Budget | None = None,
    ) -> None:
        self.model: NodeModel[N, P] = model
        self.kinds: tuple[P, ...] = tuple(kinds)
        self.requests: tuple[Resources, ...] = tuple(requests) or (NOTHING,) * len(self.kinds)
        self.budget: Budget = Budget(0, Work(-UNBOUNDED)) if budget is None else budget
        self.binding: tuple[str, ...] = tuple(sorted(model.binding))
        self._asked = [
            [(name, amount) for name, amount in asked.items() if name in self.binding]
            for asked in self.requests
        ]
        self.nodes: list[N] = []
        self._numbers: dict[N, int] = {}
        self._after: list[list[int]] = []

    def number(self, node: N) -> int:
        """Return the number of a kind of node. O(1)."""
        number = self._numbers.setdefault(node, len(self.nodes))
        if number == len(self.nodes):
            self.nodes.append(node)
            self._after.append([_UNKNOWN] * len(self.kinds))
        return number

    def after(self, state: int, kind: int) -> int:
        """Return the state after a node has taken a pod, or NOWHERE.

        Runtime complexity: O(1); the node model is called once for each pair.
        """
        then = self._after[state][kind]
        if then == _UNKNOWN:
            then = self._after[state][kind] = self._find(state, kind)
        return then

    def may_take(self, state: int, kind: int) -> bool:
        """Return whether a node has enough of what the model counts, without a call of it."""
        free = self.model.free(self.nodes[state])
        for name, amount in self._asked[kind]:  # noqa: SIM110 - a generator is twice as slow
            if amount > free.get(name, 0):
                return False
        return True

    def _find(self, state: int, kind: int) -> int:
        self.budget.work(FIT)
        if not self.may_take(state, kind):
            return NOWHERE
        self.budget.work(MODEL)
        node = self.model.after(self.nodes[state], self.kinds[kind])
        return NOWHERE if node is None else self.number(node)

    def chain(self, state: int, kind: int, most: int) -> list[int]:
        """Return the state after each of up to *most* pods of one kind. O(pods)."""
        chain: list[int] = []
        while len(chain) < most:
            state = self.after(state, kind)
            if state == NOWHERE:
                break
            chain.append(state)
        self.budget.work(2 * len(chain))
        return chain


@final
@frozen
class Need:
    """A quota with kinds as numbers.

    Attributes:
        kinds: The kinds of pods that count, ascending.
        at_least: The number of them that must be placed.
    """

    kinds: tuple[int, ...]
    at_least: int

    def placed(self, counts: Mapping[int, int] | tuple[int, ...] | list[int]) -> int:
        """Return how many pods count, given the number of each kind. O(kinds)."""
        return sum(counts[kind] for kind in self.kinds)

    def met(self, counts: tuple[int, ...] | list[int]) -> bool:
        """Return whether these numbers of each kind are enough. O(kinds)."""
        return self.placed(counts) >= self.at_least


@final
class Problem(Generic[N, P]):
    """A packing problem.

    Attributes:
        states: The states of nodes.
        demands: The pending pods, by number of the kind.
        needs: The quotas.
        counts: The number of pods of each kind that may be placed; 0 for a kind in no need.
        nodes: The states that accept a pod, each with its number of nodes.
        kinds: The kinds of pods that may be placed, hardest first: those that request the largest
            share of what is free.
    """

    __slots__ = (
        "_breadths",
        "_fullness",
        "_given",
        "_loads",
        "_sizes",
        "_weights",
        "counts",
        "demands",
        "kinds",
        "needs",
        "nodes",
        "states",
    )

    def __init__(
        self,
        states: States[N, P],
        demands: tuple[PackingDemand[P], ...],
        needs: tuple[Need, ...],
        nodes: tuple[tuple[N, int], ...],
    ) -> None:
        states.budget.work(len(nodes) + len(demands) * len(needs))
        self.states: States[N, P] = states
        self.demands: tuple[PackingDemand[P], ...] = demands
        self.needs: tuple[Need, ...] = needs
        self._given = nodes
        wanted = {kind for need in needs for kind in need.kinds}
        self.counts: tuple[int, ...] = tuple(
            demand.count if kind in wanted else 0 for kind, demand in enumerate(demands)
        )
        active = [kind for kind, count in enumerate(self.counts) if count]
        counted: dict[int, int] = {}
        for node, count in nodes:
            state = states.number(node)
            counted[state] = counted.get(state, 0) + count
        self.nodes: tuple[tuple[int, int], ...] = tuple(
            (state, count)
            for state, count in counted.items()
            if count and any(states.after(state, kind) != NOWHERE for kind in active)
        )
        total = self.free()
        self._weights = self._pressure(total)
        self._sizes: dict[int, float] = {}
        self._breadths: dict[int, int] = {}
        self._fullness: dict[int, tuple[int, float]] = {}
        self._loads = tuple(
            sum(weight * demand.requests.amount(name) for name, weight in self._weights)
            for demand in demands
        )
        self.kinds: tuple[int, ...] = tuple(
            sorted(active, key=lambda kind: (-self._share(kind, total), kind))
        )

    def narrowed(self, needs: tuple[Need, ...]) -> Problem[N, P]:
        """Return the problem with other needs; cached answers stay valid. O(nodes)."""
        if needs == self.needs:
            return self
        return Problem(self.states, self.demands, needs, self._given)

    def without(self, resource: str) -> Problem[N, P]:
        """Return the problem with one unlimited resource.

        Runtime complexity: O(nodes); the node model is called again.
        """
        states = self.states
        model = states.model.without(resource)
        states = States(model, states.kinds, states.requests, states.budget)
        return Problem(states, self.demands, self.needs, self._given)

    def size(self, state: int) -> float:
        """Return the weighted free capacity of a node; computed once. O(resources)."""
        size = self._sizes.get(state)
        if size is None:
            free = self.states.model.free(self.states.nodes[state])
            size = sum(weight * max(free.get(name, 0), 0) for name, weight in self._weights)
            self._sizes[state] = size
        return size

    def fullness(self, state: int) -> tuple[int, float]:
        """Return ``breadth`` and ``size`` of a node; computed once."""
        found = self._fullness.get(state)
        if found is None:
            found = self._fullness[state] = (self.breadth(state), self.size(state))
        return found

    def load(self, counts: tuple[int, ...]) -> float:
        """Return the weighted requests of these numbers of each kind. O(kinds)."""
        return sum(load * count for load, count in zip(self._loads, counts, strict=True) if count)

    @property
    def has_many_kinds(self) -> bool:
        """Whether the node model is not asked about all kinds to order nodes; see ``breadth``."""
        return len(self.kinds) > _FEW_KINDS

    def breadth(self, state: int) -> int:
        """Return how many kinds of pods a node accepts; computed once. O(kinds).

        It is used to order nodes, and proves nothing. So of many kinds a few are looked at, and
        the node model is not called for them.
        """
        breadth = self._breadths.get(state)
        if breadth is None:
            states, kinds = self.states, self.kinds
            if not self.has_many_kinds:
                breadth = sum(states.after(state, kind) != NOWHERE for kind in kinds)
            else:
                kinds = kinds[:: -(len(kinds) // _FEW_KINDS)]  # with the easiest kind
                states.budget.work(FIT * len(kinds))
                breadth = sum(states.may_take(state, kind) for kind in kinds)
            self._breadths[state] = breadth
        return breadth

    def scarcest(self) -> tuple[int, ...]:
        """Return the kinds, those with the fewest usable nodes per pod first. O(nodes x kinds)."""
        self.states.budget.work(len(self.nodes) * len(self.kinds))
        places = {
            kind: sum(n for state, n in self.nodes if self.states.after(state, kind) != NOWHERE)
            for kind in self.kinds
        }
        return tuple(sorted(self.kinds, key=lambda kind: places[kind] / self.counts[kind]))

    def wanted(self) -> dict[str, int]:
        """Return the requests of all pods in sum, in thousandths. O(kinds x resources)."""
        wanted: dict[str, int] = {}
        for kind, count in enumerate(self.counts):
            for name, amount in self.demands[kind].requests.items():
                wanted[name] = wanted.get(name, 0) + amount * count
        return {name: amount for name, amount in sorted(wanted.items()) if amount}

    def free(self) -> dict[str, int]:
        """Return what is free in sum on the nodes that accept a pod. O(nodes)."""
        return self._sum(self.nodes)

    def free_anywhere(self) -> dict[str, int]:
        """Return what is free in sum on all nodes. O(nodes)."""
        return self._sum([(self.states.number(node), count) for node, count in self._given])

    def _sum(self, nodes: Iterable[tuple[int, int]]) -> dict[str, int]:
        total: dict[str, int] = {}
        for state, count in nodes:
            for name, amount in self.states.model.free(self.states.nodes[state]).items():
                if amount > 0:
                    total[name] = total.get(name, 0) + amount * count
        return total

    def _pressure(self, total: Mapping[str, int]) -> tuple[tuple[str, float], ...]:
        # one over what is free gives a share of it; a scarcer resource weighs more
        wanted = self.wanted()
        return tuple(
            (name, amount / total[name] / total[name])
            for name, amount in wanted.items()
            if name in total
        )

    def _share(self, kind: int, total: Mapping[str, int]) -> float:
        requests = self.demands[kind].requests
        return max(
            (n / total[name] if name in total else math.inf for name, n in requests.items() if n),
            default=0.0,
        )
