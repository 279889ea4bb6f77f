"""Placing a gang of which plugins read where the other members are.

Theory of operation. For most gangs a node is known by its class, and a plan lays members over
classes. A plugin that reads which pods are on nodes may answer otherwise after each member, and for
any node. So the members are placed one after another on a view of the nodes, and the plugins are
asked again before each placement:

1. ``greedy``: the kinds in the order in which they came, each member on the best node that is
   accepted. Nothing is taken back.
2. ``search``: the search over classes of nodes, without these plugins. What is impossible without
   them is impossible with them.
3. ``explore``: every way that matters.

A plugin that bounds how many members it accepts anywhere (``cluster_headroom``) spares the third.

All three take steps of one budget: a step is one node that the plugins are asked about. The first
nodes that ``greedy`` asks about are free, so a gang that fits at once needs no budget.

``explore`` is complete, up to its budget. If the needed members can be placed one after another in
some order, such that each is accepted when it is placed, a placement is found. This
requires three properties of a plugin:

- what is accepted depends on which pods are on which nodes, not on the order in which they came;
- members with equal signatures are interchangeable;
- empty nodes with equal ``node_signature``, equal labels of ``labels_read`` and equal
  ``node_group`` are, too.

Rules:
  R1  a position is which kinds are on which nodes; each is looked at once;
  R2  of empty nodes of one class only the first is tried at a position;
  R3  a position is given up when the members that are left cannot meet what is asked for, each
      kind counted as if it were alone on the nodes. What the plugins accept anywhere is a bound.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final, final

from attrs import define, evolve, field, frozen

from gangsched._packing.pack import BudgetExhausted, Impossible, Quota
from gangsched.explain import Diagnosis
from gangsched.framework.placement import choose_node
from gangsched.framework.placement.complete_search import Kind, Task, search
from gangsched.framework.placement.plan import Plan
from gangsched.framework.placement.sibling_placement import SiblingPlacement, Within
from gangsched.framework.placement.tentative import Tentative
from gangsched.framework.state.pods import Member

__all__ = ["Failed", "place"]

_LISTED: Final = 100
"""How many nodes are listed in a step."""

_FREE: Final = 1_000
"""How many nodes the greedy pass may ask about that are not counted."""


@final
@frozen
class Failed:
    """No placement was found.

    Attributes:
        answer: A proof that there is none, or that the budget was exhausted.
        kind: The first kind of member that did not fit in the greedy pass.
        member: The first member that did not.
        diagnosis: Why no node could take it beside the members that were placed before it.
        steps: How many steps it took.
    """

    answer: Impossible[Kind] | BudgetExhausted
    kind: Kind
    member: Member
    diagnosis: Diagnosis
    steps: int


def place(task: Task, within: Within, budget: int) -> Plan | Failed | None:
    """Place as many members as are asked for, and those beyond that as far as they fit.

    None if all members fit, and they are fewer than are asked for: the others may not be placed.

    Runtime complexity: O(members x nodes that are asked about x plugins) if the greedy pass is
    enough; then as ``search``, and O(*budget* x plugins).

    Args:
        task: What is to be placed.
        within: The nodes of each group; None for all.
        budget: For how many steps at most, beyond the nodes that are free.
    """
    with Tentative(task.nodes, task.checks.values()) as tentative:
        run = _Run(task, within, tentative)
        asked = run.asked()
        refused = run.greedy(max(budget, _FREE))
        beyond = max(run.asked() - asked - _FREE, 0)
        task.work.steps += beyond
        budget -= beyond
        if run.is_met():
            return run.plan()
        if refused is None:
            return None
        kind, member, diagnosis = refused
        placed = run.counts.copy()
        most = max(placed, default=0)
        run.take_back()
        if budget <= 0 < beyond:
            spent = BudgetExhausted(beyond, most)
            return Failed(spent, kind, member, diagnosis, spent.steps)
        relaxed = search(task, Plan(task.nodes), budget, within)
        if isinstance(relaxed, Impossible):
            # with the plugins that read pods fewer may fit, unless the greedy pass placed as many
            exact = relaxed.exact and placed[int(relaxed.quota.name)] >= relaxed.fits
            proof = evolve(relaxed, exact=exact)
            return Failed(proof, kind, member, diagnosis, beyond + relaxed.steps)
        left = budget - relaxed.steps
        answer = run.beyond_bounds(placed) or run.explore(left)
        task.work.steps += run.steps
        if isinstance(answer, Impossible):
            if not answer.exact:
                answer = _refined(run, answer, left - run.steps)
        elif answer is not None:
            answer = evolve(answer, placed=max(answer.placed, most))
        if answer is not None:
            steps = beyond + relaxed.steps + answer.steps
            return Failed(answer, kind, member, diagnosis, steps)
        run.greedy(max(left, 0) + _FREE)
        return run.plan()


def _refined(run: _Run, proof: Impossible[Kind], budget: int) -> Impossible[Kind]:
    """Look for how many members fit at most, if only one thing is asked for.

    Positions from which the number that is asked for cannot be reached were given up, so more may
    fit than were met. Nothing is looked for if the reasons of a failure are not wanted.
    """
    if len(run.task.asks) > 1 or not run.task.explains:
        return proof
    ask = next(iter(run.task.asks))
    most, fits, steps = run.most[0], proof.fits, proof.steps
    while fits > most:
        fewer = _Run(evolve(run.task, asks=(evolve(ask, count=fits),)), run.within, run.tentative)
        answer = fewer.explore(budget)
        fewer.take_back()
        run.task.work.steps += fewer.steps
        budget, steps = budget - fewer.steps, steps + fewer.steps
        if isinstance(answer, BudgetExhausted):
            return evolve(proof, fits=fits, steps=steps)
        if answer is None:
            break
        most = max(most, fewer.most[0])
        fits -= 1
    return evolve(proof, fits=fits, exact=True, steps=steps)


class _BudgetSpent(Exception):
    """The budget is spent; never leaves ``explore``."""


@final
@define(eq=False)
class _Run(SiblingPlacement):
    """One search.

    Attributes:
        most: How many were placed for each ask at once, at any position of ``explore``.
        steps: Steps that ``explore`` took.
    """

    most: list[int] = field(init=False)
    steps: int = 0
    _budget: int = 0

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.most = self.counts.copy()

    def explore(self, budget: int) -> Impossible[Kind] | BudgetExhausted | None:
        """Look for a placement of what is asked for; return why there is none, None if found."""
        self._budget = budget
        closest, best = -1, self.counts.copy()
        seen: set[frozenset[tuple[tuple[Kind, int], int]]] = set()
        open_ = [self._moves()]
        try:
            while open_:
                move = next(open_[-1], None)
                if move is None:
                    open_.pop()
                    if open_:
                        self.pop()
                    continue
                self.put(*move)
                position = frozenset(self.positions.items())
                if position in seen:
                    self.pop()
                    continue
                seen.add(position)
                self.most = [max(pair) for pair in zip(self.most, self.counts, strict=True)]
                if self._progress() > closest:
                    closest, best = self._progress(), self.counts.copy()
                if self.is_met():
                    return None
                open_.append(self._moves())
        except _BudgetSpent:
            self.take_back()
            counts = zip(best, self.task.asks, strict=True)
            placed = sum(min(n, ask.count) for n, ask in counts if ask.role is None)
            return BudgetExhausted(self.steps, placed)
        return self._closest(best)

    def _progress(self) -> int:
        """Return how many of the members that are asked for are placed. O(asks)."""
        asks = self.task.asks
        return sum(min(n, ask.count) for n, ask in zip(self.counts, asks, strict=True))

    def _moves(self) -> Iterator[tuple[Kind, int]]:
        """Iterate over what may be placed next: the kinds that are still needed first.

        The nodes are as they were at the first step whenever the next one is taken.
        """
        if not self._may_meet():
            return
        lacking = [ask for n, ask in zip(self.counts, self.task.asks, strict=True) if n < ask.count]
        kinds = [kind for kind, left in self.left.items() if left]
        kinds.sort(key=lambda kind: -sum(kind.counts_for(ask) for ask in lacking))
        for kind in kinds:
            for index in self._accepted(kind):
                yield kind, index

    def _accepted(self, kind: Kind) -> Iterator[int]:
        nodes, pod_class, domain = self.task.nodes, kind.pod_class, self.domain(kind)
        pod_class.judgements.refresh(nodes, self.task.judges[pod_class])
        check, by_index = self.task.checks[kind], nodes.by_index
        empty: set[tuple[Hashable, ...]] = set()
        others = tuple(self.task.checks.values())
        listed = list(choose_node.candidates(nodes, pod_class, check, domain))
        self._spend(len(listed) // _LISTED)
        for _score, index in listed:
            info, given = by_index[index], nodes.classes.of(index)
            if not info.holders:
                # what tells nodes apart for any kind does so for this one, too: it may be in the
                # way of the others
                group = (given, *(each.group_of(info) for each in others))
                if group in empty:
                    continue
                empty.add(group)
            self._spend(1)
            if not check.refusal(info):
                yield index

    def _spend(self, steps: int) -> None:
        taken = min(steps, self._budget)
        self._budget -= taken
        self.steps += taken
        if taken < steps:
            raise _BudgetSpent

    def _may_meet(self) -> bool:
        """Return whether the members that are left may meet what is asked for. O(asks x kinds)."""
        return all(
            most >= ask.count for most, ask in zip(self._most(), self.task.asks, strict=True)
        )

    def _most(self) -> list[int]:
        """Return how many members may be placed at most for each ask. O(asks x kinds)."""
        placeable: dict[Kind, int] = {}
        for kind, left in self.left.items():
            pod_class = kind.pod_class
            pod_class.judgements.refresh(self.task.nodes, self.task.judges[pod_class])
            bound = self.task.checks[kind].bound()
            placeable[kind] = min(len(left), pod_class.judgements.headroom, bound)
        return [
            count + sum(n for kind, n in placeable.items() if kind.counts_for(ask))
            for count, ask in zip(self.counts, self.task.asks, strict=True)
        ]

    def beyond_bounds(self, placed: list[int]) -> Impossible[Kind] | None:
        """Return the first ask of which the nodes, without members, take too few of each kind.

        None if there is no such ask. With *placed*, what a greedy pass placed for each.
        """
        for number, (most, ask) in enumerate(zip(self._most(), self.task.asks, strict=True)):
            if most < ask.count:
                exact = len(self.task.asks) == 1 and placed[number] >= most
                return self._impossible(number, most, exact=exact)
        return None

    def _closest(self, best: list[int]) -> Impossible[Kind]:
        """Return the first ask that is not met at the position that comes closest."""
        asks = self.task.asks
        number = next(n for n, ask in enumerate(asks) if best[n] < ask.count)
        return self._impossible(number, asks[number].count - 1, exact=False)

    def _impossible(self, number: int, fits: int, *, exact: bool) -> Impossible[Kind]:
        asks = self.task.asks
        ask = asks[number]
        kinds = frozenset(kind for kind in self.task.kinds if kind.counts_for(ask))
        pending = sum(len(self.task.kinds[kind]) for kind in kinds)
        return Impossible(
            Quota(kinds, ask.count, str(number)),
            fits=fits,
            exact=exact,
            alone=len(asks) == 1,
            pending=pending,
            resource=None,
            in_pieces=False,
            steps=self.steps,
        )
