"""Which units are taken off the nodes so that a preemptor fits: on all, in a domain, or on one.

Units of ascending priority are taken until it fits (``run``), and those that it does not need are
put back. At each priority nominations come first, since no pod is evicted for them, and the surplus
of gangs before gangs. Of each kind, the one that gains most goes first: the one whose capacity
takes most of the lacking pods. Bounds on gains are kept in a heap, and only the first is computed.
What one unit frees may help only with what another frees, so the rest is taken in batches that
double.

Rule:
  R1  the preemptor does not fit if any one of the victims that are left stays, unless the steps
      were spent before that was tried. A copy of a role stays as a whole, without the members that
      could go by themselves, or goes as a whole (``pieces``).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final, final

from attrs import evolve

from gangsched.core.admission.reclaim import AccountTrial
from gangsched.core.nodes.domains import Domain
from gangsched.core.preemption.disruption_budgets import DisruptionBudgets
from gangsched.core.preemption.eviction_units import EvictionUnit
from gangsched.core.preemption.pieces import CopyKey, Piece, rounds
from gangsched.core.preemption.preemptor import Preemptor
from gangsched.core.preemption.taken_units import TakenUnits
from gangsched.core.preemption.victim_plan import Cost, Level, Taken, VictimPlan, cost_of, level_of
from gangsched.core.records.trial import Trial

__all__ = ["UnitSearch"]

_FEW: Final = 8
"""Up to so many units, all sets are tried if queues say who may go."""


@final
class UnitSearch:
    """A search on all nodes, within a domain, or on one node; its arguments: see ``TakenUnits``."""

    def __init__(
        self,
        preemptor: Preemptor,
        trial: Trial,
        domain: Domain,
        budgets: DisruptionBudgets | None,
        *,
        keeps: bool = False,
        slot: int | None = None,
        accounts: AccountTrial | None = None,
    ) -> None:
        self._off = TakenUnits(
            preemptor, trial, domain, budgets, keeps=keeps, slot=slot, accounts=accounts
        )
        self._preemptor = preemptor
        self._trial = trial
        self._budgets = budgets
        self._keeps = keeps and budgets is not None
        self._slot = slot
        self._violating: set[EvictionUnit] | None = None

    def undo(self) -> None:
        """Put back all units that were taken."""
        self._off.undo()

    # Runs ---------------------------------------------------------------------------------------

    def run(self, units: Sequence[EvictionUnit]) -> VictimPlan | None:
        """Consider one level after the other, the lowest first.

        Units below the first level that is enough are not enough by themselves. Other choices may
        do without some of them, so all up to that level are chosen from again. If it is one of
        nominations, as few priorities of pods as possible are chosen from.
        """
        if self._off.accounts is not None and len(units) <= _FEW:
            return self._run_all(units)
        below, here = self._first_enough(units, level_of)
        if not here:
            return None
        if below and here[0].nomination is not None:
            self._off.undo()
            below, here = self._first_enough([*below, *here], _level_of_pods)
        if below:
            self._choose_again([*below, *here])
        plan = self._spare()
        if self._off.are_allowed:
            return plan
        self._off.undo()
        whole = [unit for unit in units if unit.gangs]
        return self.run(whole) if len(whole) < len(units) else None

    def _run_all(self, units: Sequence[EvictionUnit]) -> VictimPlan | None:
        """Try every set of units that may go one after the other; the cheapest is the plan.

        Which units may go depends on those that went before, so taking one after the other may end
        where another choice does not. O(2 to the power of the units).
        """
        by_preference = sorted(units, key=_preference)
        seen: set[frozenset[EvictionUnit]] = set()
        enough: list[tuple[Cost, int, list[EvictionUnit]]] = []

        def explore(order: list[EvictionUnit]) -> None:
            seen.add(frozenset(order))
            if self._off.fits():
                enough.append((cost_of(self._off.taken), len(enough), order))
                return
            for unit in by_preference:
                before = len(self._off.taken)
                if unit not in order and frozenset([*order, unit]) not in seen:
                    self._off.take(unit)
                    if len(self._off.taken) > before:
                        explore([*order, unit])
                    self._off.undo(before)

        explore([])
        for _cost, _number, order in sorted(enough, key=itemgetter(0, 1)):
            self._off.undo()
            for unit in order:
                self._off.take(unit)
            if not self._off.fits():
                return None  # the steps are spent
            plan = self._spare(spares_gangs=False)  # who goes later may go because others went
            if self._off.are_allowed:
                return plan
        return None

    def _first_enough(
        self, units: Sequence[EvictionUnit], level: Callable[[EvictionUnit], Level]
    ) -> tuple[list[EvictionUnit], list[EvictionUnit]]:
        """Take units level by level; return those below the first level that is enough, and of it.

        If none is enough, or the steps are spent, no unit is of it.
        """
        below: list[EvictionUnit] = []
        for _level, equal in groupby(sorted(units, key=level), key=level):
            if self._preemptor.steps.are_spent:
                break
            here = list(equal)
            if self._take_enough(here):
                return below, here
            below += here
        return below, []

    def run_sparing(self, units: Sequence[EvictionUnit]) -> VictimPlan | None:
        """Take all units, then put back those that violate a budget, then the others.

        Source: ``SelectVictimsOnNode`` of kube-scheduler.
        """
        for unit in sorted(units, key=_importance):
            self._off.take(unit)
        if not self._off.fits():
            return None
        if self._budgets is not None:
            marks = self._budgets.marks(evicted for _unit, _some, evicted in self._off.taken)
            both = zip(self._off.taken, marks, strict=True)
            self._violating = {taken[0] for taken, violates in both if violates}
        plan = self._spare()
        if plan is not None and not plan.places:
            places = self._preemptor.places(self._trial, anyway=True)
            return None if places is None else evolve(plan, places=places)
        return plan

    # Taking -------------------------------------------------------------------------------------

    def _choose_again(self, units: list[EvictionUnit]) -> None:
        """Take other units that are enough, if there are any; otherwise the same ones again."""
        before, places = [taken[0] for taken in self._off.taken], self._off.places
        self._off.undo()
        if not self._take_enough(units):
            self._off.undo()
            for unit in before:
                self._off.take(unit)
            if not self._off.fits():  # the steps are spent: it was placed with these victims before
                self._off.places = places

    def _take_enough(self, units: list[EvictionUnit]) -> bool:
        """Take units until the preemptor fits; False if all of them are not enough."""
        mild = [unit for unit in units if not unit.gangs]
        if mild and self._take_mild(mild):
            return True
        taken = {taken[0] for taken in self._off.taken}
        left = [unit for unit in units if unit not in taken]
        return self._take_by_gain(left) or self._take_in_batches(left)

    def _take_mild(self, mild: list[EvictionUnit]) -> bool:
        """Take units that end no gang; if they are not enough, those with a gain stay taken."""
        before = len(self._off.taken)
        if self._take_by_gain(mild):
            return True
        by_gain = [taken[0] for taken in self._off.taken[before:]]
        if self._take_in_batches([unit for unit in mild if unit not in by_gain]):
            return True
        self._off.undo(before)
        if self._take_by_node(mild):
            return True
        self._off.undo(before)
        for unit in by_gain:
            self._off.take(unit)
        return False

    def _take_by_gain(self, units: Sequence[EvictionUnit]) -> bool:
        """Take the unit with the greatest gain, of equals that of the lowest priority, and so on.

        Gains only shrink as others are taken, so an old gain is a bound.
        """
        steps, lacking = self._preemptor.steps, self._off.lacking()
        if not lacking:
            return self._off.fits()
        heap = [
            (-min(self._off.bound(unit), lacking), _preference(unit), number)
            for number, unit in enumerate(units)
        ]
        heap = [each for each in heap if each[0]]
        heapq.heapify(heap)
        known: dict[int, int] = {}
        while lacking and heap and not steps.are_spent:
            most, preference, number = heapq.heappop(heap)
            if -most > lacking:
                heapq.heappush(heap, (-lacking, preference, number))
                continue
            if known.get(number) != len(self._off.taken):
                gain = self._off.gain(units[number], lacking)
                known[number] = len(self._off.taken)
                if gain < -most:
                    if gain > 0:
                        heapq.heappush(heap, (-gain, preference, number))
                    continue
            self._off.take(units[number])
            lacking = self._off.lacking()
        return not lacking and self._off.fits()

    def _take_in_batches(self, units: Iterable[EvictionUnit]) -> bool:
        taken = {taken[0] for taken in self._off.taken}
        left = [unit for unit in units if unit not in taken]
        # those that accounts limit cannot be exchanged afterwards, so the right ones go at once
        by_priority = self._off.accounts is not None
        left.sort(
            key=lambda unit: (
                unit.gangs,
                unit.priority if by_priority else 0,
                *(unit.pods, -unit.created_at, -unit.seq),
            )
        )
        count = 1
        while left and not self._preemptor.steps.are_spent:
            for unit in left[:count]:
                self._off.take(unit)
            del left[:count]
            count *= 2
            if self._off.fits():
                return True
        return False

    def _take_by_node(self, mild: Sequence[EvictionUnit]) -> bool:
        """Take another surplus than the last to arrive: that on one node after the other."""
        elastic = [unit for unit in mild if unit.elastic is not None]
        if not elastic or self._slot is not None:
            return False
        for unit in mild:
            if unit.elastic is None:
                self._off.take(unit)
        return self._take_from_nodes(_units_by_node(elastic))

    def _take_from_nodes(self, on: dict[int, list[EvictionUnit]]) -> bool:
        """Take the surplus on the node with the greatest gain, and so on.

        As in ``_take_by_gain``, the gain of a node is found anew only when the node comes first.
        """
        lacking = self._off.lacking()
        heap = [(-lacking, slot) for slot in sorted(on)]
        while lacking and heap and not self._preemptor.steps.are_spent:
            most, slot = heapq.heappop(heap)
            before = len(self._off.taken)
            for unit in on[slot]:
                self._off.take(unit.on_node(slot, self._off.gone))
            gain = lacking - self._off.lacking()
            # another node may come first, now that the gain is known
            if gain <= 0 or (gain < -most and heap and gain < -heap[0][0]):
                self._off.undo(before)
                if gain > 0:
                    heapq.heappush(heap, (-gain, slot))
                continue
            lacking -= gain
        return not lacking and self._off.fits()

    # Sparing ------------------------------------------------------------------------------------

    def _spare(self, *, spares_gangs: bool = True) -> VictimPlan | None:
        """Put back every unit that can be spared, whole gangs first, and return the plan."""
        whole = sorted((each for each in self._off.taken if each[0].gangs), key=self._worth)
        mild = sorted((each for each in self._off.taken if not each[0].gangs), key=self._worth)
        kept = self._victims_of(whole) if spares_gangs else whole
        ended = {unit.gang for unit, _some, _evicted in kept}
        # elastic members of a gang that ends are evicted with it
        alone = [e for e in mild if e[0].elastic is None or e[0].gang not in ended]
        kept_pieces = self._spare_in_parts(alone)
        if self._preemptor.depends_on_pods:
            kept, kept_pieces = self._spare_again(kept, kept_pieces)
        elsewhere = [e for e in mild if e[0].elastic is not None and e[0].gang in ended]
        victims = [*kept, *kept_pieces]
        self._off.taken = [*victims, *elsewhere]
        members = [
            each
            for unit, _some, evicted in kept_pieces
            if unit.elastic is not None
            for each in evicted
        ]
        units = [taken[0] for taken in victims if taken[0].elastic is None]
        violations = 0
        if self._budgets is not None and not self._keeps:
            violations = self._budgets.violations(r for taken in self._off.taken for r in taken[2])
        return VictimPlan(self._off.places or [], units, members, cost_of(victims), violations)

    def _spare_in_parts(self, mild: Iterable[Taken]) -> list[Taken]:
        """Put back what can be spared of units; a copy that goes takes along what is in it."""
        kept: list[Taken] = []
        copies: dict[CopyKey, Taken] = {}
        for alike in rounds(mild):
            tried: list[Piece] = []
            for piece in alike:
                around = next((copies[key] for key in piece.around if key in copies), None)
                if around is None:
                    tried.append(piece)
                else:
                    around[1].extend(piece.taken[1])
                    around[2].extend(piece.taken[2])
            left = self._victims_of([piece.taken for piece in tried])
            staying = {id(taken) for taken in left}
            for piece in tried:
                if piece.copy is not None and id(piece.taken) in staying:
                    copies[piece.copy] = piece.taken
            kept += left
        return kept

    def _spare_again(
        self, kept: list[Taken], pieces: list[Taken]
    ) -> tuple[list[Taken], list[Taken]]:
        """Put back what can be spared because others were: a pod may allow another one to stay."""
        in_parts = {taken[0].gang for taken in self._off.taken if taken[0].elastic is not None}
        fixed = [each for each in kept if each[0].gang in in_parts]
        left = [each for each in (*kept, *pieces) if each not in fixed]
        count = len(left) + 1
        while 1 < len(left) < count:
            count = len(left)
            left = self._victims_of(left)
        staying = {id(each) for each in (*fixed, *left)}
        return (
            [each for each in kept if id(each) in staying],
            [each for each in pieces if id(each) in staying],
        )

    def _worth(self, taken: Taken) -> tuple[bool, int, int, float, int]:
        """Return the sort key of units that are put back: the one most worth sparing is first."""
        unit = taken[0]
        violates = False
        if self._violating is not None:
            violates = unit in self._violating
        elif self._budgets is not None and not self._keeps:
            violates = bool(self._budgets.violations(taken[2]))
        return (not violates, -unit.priority, -unit.pods, unit.created_at, unit.seq)

    def _victims_of(self, pieces: list[Taken]) -> list[Taken]:
        """Put back, in order, every piece that can be spared; return the others.

        The result is that of trying one by one. If all of a half can be spared, that takes one
        placement.
        """
        if not pieces or self._preemptor.steps.are_spent:
            return pieces
        back: list[Taken] = []
        for piece in pieces:
            self._off.put_back(piece)
            back.append(piece)
            if self._slot is None and self._off.lacking():
                break  # the others would only take more
        else:
            if self._off.fits():
                return []
        for piece in back:
            self._off.take_again(piece)
        if len(pieces) == 1:
            return pieces
        half = len(pieces) // 2
        return self._victims_of(pieces[:half]) + self._victims_of(pieces[half:])


def _units_by_node(elastic: Iterable[EvictionUnit]) -> dict[int, list[EvictionUnit]]:
    """Return the units of surplus by the nodes that their gangs are on. O(members)."""
    on: dict[int, list[EvictionUnit]] = {}
    for unit in elastic:
        assert unit.gang is not None
        for slot in {r.slot for r in unit.gang.members.values() if r.slot >= 0}:
            on.setdefault(slot, []).append(unit)
    return on


def _level_of_pods(unit: EvictionUnit) -> Level:
    return (-math.inf, False) if unit.nomination is not None else level_of(unit)


def _preference(unit: EvictionUnit) -> tuple[int, int, float, int]:
    """Return the sort key of units that gain as much, the one that is taken first."""
    return (unit.priority, unit.pods, -unit.created_at, -unit.seq)


def _importance(unit: EvictionUnit) -> tuple[int, float, int]:
    """Return the sort key of units, the most important first, as kube-scheduler orders pods."""
    return (-unit.priority, unit.created_at, unit.seq)
