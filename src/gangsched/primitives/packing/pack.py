"""Decide whether enough pods can be placed at once: a placement, or the reason why there is none.

Theory of operation. Three methods follow each other, from cheap to exact. Greedy passes in several
orders mostly find a placement. Upper bounds prove that there is none if a sum of resources or a
count is too low. Otherwise a search looks at every way that matters, within a budget of steps.

If there is no placement, a second part finds the reason. It names the quota that fails first, how
many of its pods fit, and the single resource that would let it be met if it were unlimited.

Rules:
  R1  if there is a placement, it is found, or the budget is exhausted;
  R2  the answer is a placement, a proof that there is none, or that the budget is exhausted;
  R3  no more pods are placed than the quotas need: without any one of them a quota is not met;
  R4  equal arguments give equal answers, whatever the hashes of the kinds are.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeAlias, TypeVar, final

from attrs import frozen

from gangsched.errors import InvalidValueError
from gangsched.primitives.packing.bounds import affordable, ceiling
from gangsched.primitives.packing.budget import Budget, BudgetSpent, Work
from gangsched.primitives.packing.exact_search import Search
from gangsched.primitives.packing.passes import Taken, passes
from gangsched.primitives.packing.problem import Need, Problem, States
from gangsched.primitives.packing.values import NodeModel, PackingDemand, PackingQuota, check_count

__all__ = [
    "BudgetExhausted",
    "PackingDemand",
    "Impossible",
    "NodeModel",
    "Packed",
    "PackingQuota",
    "pack",
]

N = TypeVar("N", bound=Hashable)
P = TypeVar("P", bound=Hashable)
_AnyProblem: TypeAlias = "Problem[Any, Any]"
_Fills: TypeAlias = "list[tuple[int, int, Taken]]"
"""The state of a node, the number of such nodes, and what each takes."""


@final
@frozen
class Packed(Generic[N, P]):
    """A placement of enough pods.

    Attributes:
        nodes: One entry for each node that is used: its kind as given, and how many pods of each
            kind it takes. Pods are in the order in which the node model accepted them.
        steps: The number of steps of the search; 0 if a greedy pass was enough.
    """

    nodes: tuple[tuple[N, tuple[tuple[P, int], ...]], ...]
    steps: int


@final
@frozen
class Impossible(Generic[P]):
    """Not enough pods can be placed, however they are placed.

    Attributes:
        quota: The first quota, in the order given, that cannot be met.
        fits: An upper bound on the number of its pods that fit.
        exact: Whether that many fit; False if ``fits`` is only known to be an upper bound.
        alone: Whether the quota cannot be met even if it were the only one. Otherwise it cannot be
            met together with the quotas before it, and ``fits`` counts what fits beside them.
        pending: The number of pending pods that count for the quota.
        resource: The single resource that, if it were unlimited, would let the quota be met; the
            scarcest of several. None if there is none, or none was found within the budget: several
            resources are short, or too few nodes are feasible.
        in_pieces: Whether enough of that resource is free in sum, on nodes that take a pod if it is
            unlimited. Then it is not short, but free in pieces that are too small.
        steps: The number of steps, those to find the reasons included.
    """

    quota: PackingQuota[P]
    fits: int
    exact: bool
    alone: bool
    pending: int
    resource: str | None
    in_pieces: bool
    steps: int

    def __str__(self) -> str:
        whose = f" of {self.quota.name}" if self.quota.name else ""
        beside = "" if self.alone else " beside the others"
        what = f"at most {self.fits} of {self.quota.at_least} members{whose} fit{beside}"
        if self.pending < self.quota.at_least:
            return f"{what}: only {self.pending} are pending"
        if self.resource is None:
            return f"{what} at once"
        how = "free in pieces too small" if self.in_pieces else "short"
        return f"{what}: {self.resource} is {how}"


@final
@frozen
class BudgetExhausted:
    """The search budget is exhausted, so it is not known whether there is a placement.

    Attributes:
        steps: The number of steps that the search took.
        placed: The largest number of pods that a greedy pass placed.
    """

    steps: int
    placed: int

    def __str__(self) -> str:
        return (
            f"not decided within {self.steps} steps: no pass placed more than {self.placed} members"
        )


def pack(
    demands: Sequence[PackingDemand[P]],
    quotas: Sequence[PackingQuota[P]],
    nodes: Sequence[tuple[N, int]],
    model: NodeModel[N, P],
    *,
    budget: int = 10_000,
    work: Work | None = None,
    explains: bool = True,
) -> Packed[N, P] | Impossible[P] | BudgetExhausted:
    """Decide whether pods can be placed so that every quota is met at once.

    Runtime complexity: O((states + nodes used) x kinds x log) for each of at most 9 greedy
    passes, then O(quotas x kinds x resources) for each step. The node model is called at most
    O(states x kinds) times, counting all states that nodes reach. If there is no placement, it is
    called as often again for each resource that may be short.

    Args:
        demands: The pending pods; each kind once.
        quotas: The quotas to meet. Their order matters only for which one is reported as failed.
        nodes: Kinds of nodes, each with the number of nodes.
        model: Answers which node can take which pod; see ``NodeModel`` for its requirements.
        budget: The number of steps that all parts may take together, those to find the reasons
            included; see ``packing.budget``. With 0, only as many greedy passes and bounds are
            made as fit into the operations that are not counted.
        work: The operations that the decision has taken before; None for none.
        explains: Whether to look for the reasons of an impossible placement. Otherwise the first
            quota is named, with the bound that is known without a search.

    Raises:
        InvalidValueError: *budget* or a number of nodes is not an int >= 0, or a
            kind of pod is demanded twice.
    """
    check_count("budget", budget)
    for number, (_node, count) in enumerate(nodes):
        check_count(f"nodes[{number}]", count)
    known: set[P] = set()
    for demand in demands:
        if demand.kind in known:
            raise InvalidValueError("demands", demand.kind, "unique by kind of pod")
        known.add(demand.kind)
    quotas = [quota for quota in quotas if quota.at_least]
    needs = tuple(_need(quota, demands) for quota in quotas)
    left = Budget(budget, work)
    kinds, requests = [d.kind for d in demands], [d.requests for d in demands]
    states: States[N, P] = States(model, kinds, requests, left)
    try:
        problem = Problem(states, tuple(demands), needs, tuple(nodes))
    except BudgetSpent:
        return BudgetExhausted(left.steps, 0)
    found = _decide(problem, left)
    if isinstance(found, BudgetExhausted):
        return found
    if found is not None:
        return _packed(problem, found, left)
    return _reason(problem, quotas, left) if explains else _unexplained(problem, quotas, left)


def _need(quota: PackingQuota[P], demands: Iterable[PackingDemand[P]]) -> Need:
    kinds = (k for k, demand in enumerate(demands) if demand.kind in quota.kinds)
    return Need(tuple(kinds), quota.at_least)


def _decide(problem: _AnyProblem, budget: Budget) -> _Fills | BudgetExhausted | None:
    """Return what each node takes to meet every need; None if there is no placement."""
    placed = 0
    try:
        # the sums of resources are cheap, and prove most of what is impossible
        if any(affordable(problem, n) < n.at_least for n in problem.needs):
            return None
        for number, one in enumerate(passes(problem)):
            if all(need.met(one.placed) for need in problem.needs):
                return [(b.origin, b.count, b.taken) for b in one.bins]
            placed = max(placed, sum(one.placed))
            if not number and any(ceiling(problem, n) < n.at_least for n in problem.needs):
                return None
        found = Search(problem, budget).place()
    except BudgetSpent:
        return BudgetExhausted(budget.steps, placed)
    if found is None:
        return None
    return [
        (state, count, tuple((kind, fill[kind]) for kind in problem.kinds))
        for state, count, fill in found
    ]


def _packed(problem: Problem[N, P], fills: _Fills, budget: Budget) -> Packed[N, P]:
    """Return the placement, reduced to the pods that are needed."""
    left = _necessary(problem, fills)
    states = problem.states
    nodes: list[tuple[N, tuple[tuple[P, int], ...]]] = []
    for state, count, taken in fills:
        for _ in range(count):
            takes: list[tuple[P, int]] = []
            for kind, number in taken:
                number = min(number, left[kind])
                if number:
                    left[kind] -= number
                    takes.append((states.kinds[kind], number))
            if takes:
                nodes.append((states.nodes[state], tuple(takes)))
    return Packed(tuple(nodes), budget.steps)


def _necessary(problem: _AnyProblem, fills: _Fills) -> list[int]:
    """Return how many pods of each kind are needed; the hardest kinds are left out first."""
    counts = [0] * len(problem.counts)
    for _state, count, taken in fills:
        for kind, number in taken:
            counts[kind] += count * number
    counts = [min(one, most) for one, most in zip(counts, problem.counts, strict=True)]
    for kind in problem.kinds:
        needs = (need for need in problem.needs if kind in need.kinds)
        spare = min(need.placed(counts) - need.at_least for need in needs)
        counts[kind] -= min(counts[kind], spare)
    return counts


# Reasons ----------------------------------------------------------------------------------


def _unexplained(
    problem: _AnyProblem, quotas: Sequence[PackingQuota[P]], budget: Budget
) -> Impossible[P]:
    """Return that the quotas cannot be met, without a search for the reason. O(kinds)."""
    need = problem.needs[0]
    pending = need.placed(problem.counts)
    fits = min(pending, need.at_least - 1)
    return Impossible(quotas[0], fits, False, True, pending, None, False, budget.steps)


def _reason(
    problem: _AnyProblem, quotas: Sequence[PackingQuota[P]], budget: Budget
) -> Impossible[P]:
    """Return which quota fails, how many of its pods fit, and which resource is short."""
    before, number = _failing(problem, budget)
    need = problem.needs[number]
    pending = need.placed(problem.counts)
    fits, exact = min(pending, need.at_least - 1), False
    resource, in_pieces = None, False
    with suppress(BudgetSpent):
        narrow = problem.narrowed((*before, need))
        fits, exact = _most(narrow, budget)
        if pending >= need.at_least:
            resource, in_pieces = _binding(narrow, budget)
    return Impossible(
        quotas[number],
        fits,
        exact,
        not before,
        pending,
        resource,
        in_pieces,
        budget.steps,
    )


def _failing(problem: _AnyProblem, budget: Budget) -> tuple[tuple[Need, ...], int]:
    """Return the first need that fails, alone or beside earlier needs, and these earlier needs."""
    needs = problem.needs
    if len(needs) == 1:
        return (), 0
    with suppress(BudgetSpent):
        for number, need in enumerate(needs):
            if _decide(problem.narrowed((need,)), budget) is None:
                return (), number
        for number in range(1, len(needs) - 1):
            if _decide(problem.narrowed(needs[: number + 1]), budget) is None:
                return needs[:number], number
    return needs[:-1], len(needs) - 1


def _most(problem: _AnyProblem, budget: Budget) -> tuple[int, bool]:
    """Return how many pods of the last need fit beside the others, and whether that is exact."""
    need = problem.needs[-1]
    number = len(problem.needs) - 1
    most, least = need.at_least - 1, 0
    try:
        most = min(affordable(problem, need), most)
        most = min(ceiling(problem, need), most)
        if len(need.kinds) == 1 and not number:
            return most, True  # without other kinds each node takes what the bound counts
        for one in () if number else passes(problem.narrowed((Need(need.kinds, most),))):
            least = max(least, need.placed(one.placed))
            if least == most:
                return most, True
        search = Search(problem, budget)
        most = search.at_most(number, least, most)
        found = search.most(number, least + 1) if least < most else None
    except BudgetSpent:
        return most, False
    return least if found is None else found, True


def _binding(problem: _AnyProblem, budget: Budget) -> tuple[str | None, bool]:
    """Return the scarcest resource that alone is missing, and whether its sum is enough."""
    wanted = problem.wanted()
    free = problem.free_anywhere()
    order = sorted(wanted, key=lambda name: (free.get(name, 0) / wanted[name], name))
    for resource in order:
        try:
            unlimited = problem.without(resource)
            fills = _decide(unlimited, budget)
        except BudgetSpent:
            break
        if isinstance(fills, list):
            counts = zip(problem.demands, _necessary(problem, fills), strict=True)
            taken = sum(demand.requests.amount(resource) * count for demand, count in counts)
            # a cordoned node has free capacity, and none of it is of use
            return resource, taken <= unlimited.free().get(resource, 0)
    return None, False
