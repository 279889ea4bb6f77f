"""The search for victims within one domain: which units are taken until a preemptor fits.

Theory of operation. Priorities are considered in ascending order. At each priority, units are taken
until the preemptor fits, in these steps:

1. Units that end no gang (elastic members, nominations), by how much they gain.
2. All of these together, as one of them may help only with what another frees.
3. Other choices of elastic members: those on one node after the other, by gain.
4. All units, by gain.
5. All units, in batches that double.

How much a unit gains is counted as the number of lacking pods that its capacity would take
(``Shortfall``). Bounds on it are kept in a heap, and only the first is computed exactly.

Each step ends after its part of the budget. If none was enough by then, units are taken from one
node after the other, of any priority.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import final

from attrs import define

from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.preemption import choices, eviction_units
from gangsched.framework.preemption.eviction_units import EvictionUnit
from gangsched.framework.preemption.spared_units import SparedUnits
from gangsched.framework.preemption.victim_budget import BOUND, LOOK, POD
from gangsched.framework.preemption.victim_plan import Shortfall, VictimPlan
from gangsched.model import PodUID

__all__ = ["DomainSearch"]

_MILD, _BY_NODE, _COMPARING, _TAKING, _PLACING = 0.4, 0.5, 0.6, 0.75, 0.9
"""The parts of the steps of a search after which it ends something.

It compares no more elastic members, no more of them by node, and no more units. It takes no more
units by gain, and none on one node after the other.
"""


@final
@define(eq=False)
class DomainSearch(SparedUnits):
    """The search within one domain; see ``TakenUnits`` for its attributes."""

    def run_sparing(self, units: Sequence[EvictionUnit]) -> VictimPlan | None:
        """Take all units, then give back those that violate a budget, then the others.

        Source: ``SelectVictimsOnNode`` of kube-scheduler.
        """
        for unit in sorted(units, key=_importance):
            if self._is_over():
                return None
            self._take(unit)
        if not self._fits():
            return None
        if self.budgets is not None:
            marks = self.budgets.marks(map(self._evicted, self.taken))
            both = zip(self.taken, marks, strict=True)
            self._note_violating(unit for (unit, _held), violates in both if violates)
        return self._spare()

    def run(self, units: Sequence[EvictionUnit]) -> VictimPlan | None:
        """Consider one priority after the other, the lowest first.

        Units below the first priority that is enough are not enough by themselves, and all taken
        by then. Other choices may do without some of them, so all up to that priority are chosen
        from again.
        """
        below: list[EvictionUnit] = []
        units = sorted(units, key=_priority_of)
        for _priority, equal in groupby(units, key=_priority_of):
            if self._is_over():
                return None
            here = list(equal)
            up_to = below + here
            if self._take_enough(here):
                if below:
                    self._choose_again(up_to)
                return self._spare()
            if self._is_over_after(_COMPARING):
                break
            below = up_to
        else:
            return None
        if self.leaves_nodes:
            return None
        taken = {unit for unit, _held in self.taken}
        rest = [unit for unit in units if unit not in taken]
        return self._spare() if self._take_on_nodes(rest) else None

    def _choose_again(self, units: list[EvictionUnit]) -> None:
        """Take other units that are enough, if there are any; otherwise the same ones again.

        In another order, units that help may be refused: a budget is used up by others.
        """
        if self._is_over_after(_COMPARING):
            return
        before, places = [unit for unit, _holders in self.taken], self.places
        self.undo()
        if not self._take_enough(units):
            self.undo()
            for unit in before:
                self._take(unit)
            if not self._fits():  # the steps are spent: it was placed with these victims before
                self._note_places(places)

    # Taking ---------------------------------------------------------------------------------

    def _take_enough(self, left: list[EvictionUnit]) -> bool:
        """Take units until the preemptor fits; False if all of them are not enough."""
        if self._take_without_gangs(left) or self._take_by_gain(left):
            return True
        # what one unit frees may help only with what another frees
        count = 1
        left.sort(key=lambda unit: (unit.gangs, unit.pods, -unit.created_at, -unit.seq))
        while left and not self._is_over_after(_COMPARING):
            batch = left[:count]
            del left[:count]
            count *= 2
            for unit in batch:
                if self._is_over_after(_TAKING):
                    return False
                self._take(unit)
            if self._fits():
                return True
        return False

    def _take_on_nodes(self, left: Sequence[EvictionUnit]) -> bool:
        """Take all units on one node after the other, of any priority, where that gains anything.

        It is done where there are no steps to compare units.
        """
        gone, shortfalls = set[int](), self.preemptor.shortfalls(self.domain)
        nodes = choices.on_nodes(
            self.nodes, self.pods, left, self.is_candidate, self.preemptor.budget
        )
        for index, here in nodes:
            if not shortfalls or self._is_over_after(_PLACING):
                break
            if self.domain is not None and not self.domain.has(self.nodes.classes.of(index)):
                continue
            chosen = [number for number in here if number not in gone]
            if not self._gain([left[number] for number in chosen], shortfalls):
                continue
            for number in chosen:
                self._take(left[number])
            gone.update(chosen)
            shortfalls = self.preemptor.shortfalls(self.domain)
        return shortfalls is not None and not shortfalls and self._fits()

    def _take_without_gangs(self, left: list[EvictionUnit]) -> bool:
        """Take units that end no gang; if they are not enough, only those with a gain stay taken.

        The units with a gain are removed from *left*.
        """
        before, mild = len(self.taken), [unit for unit in left if not unit.gangs]
        if not mild:
            return False
        if self._take_by_gain(left, without_gangs=True):
            return True
        by_gain = self.taken[before:]
        rest = [unit for unit in left if not unit.gangs]
        for unit in rest:
            if self._is_over_after(_MILD):
                break
            self._take(unit)
        else:
            if rest and self._fits():
                return True
        self.undo(before)
        if self._take_by_node(mild):
            return True
        for unit, _holders in by_gain:
            self._take(unit)
        return False

    def _take_by_node(self, mild: Sequence[EvictionUnit]) -> bool:
        """Take other elastic members than the last to arrive: those on one node after the other.

        Of each gang, the members on a node are taken that it can give up there. Gains only shrink
        as gangs give up members, so an old gain is a bound, as in ``_take_by_gain``.
        """
        elastic = [unit for unit in mild if unit.is_elastic]
        if not elastic:
            return False
        before, gone = len(self.taken), set[PodUID]()
        for unit in mild:
            if not unit.is_elastic:
                self._take(unit)
        budget = self.preemptor.budget
        shortfalls = self.preemptor.shortfalls(self.domain)
        on_node: dict[int, list[EvictionUnit]] = {}
        for unit in elastic:
            budget.count(LOOK * unit.groups[0].scheduled)
            for index in eviction_units.elastic_nodes(self.nodes, self.pods, unit.groups[0]):
                if self.is_candidate(index):
                    on_node.setdefault(index, []).append(unit)
        most = sum(each.count for each in shortfalls or ())
        heap = [(-most, index) for index in sorted(on_node)]
        known = set[int]()
        while shortfalls and heap and not budget.ends(self._at(_TAKING)):
            bound, index = heapq.heappop(heap)
            is_cut = self._is_over_after(_BY_NODE)
            if is_cut and index not in known:
                continue
            known.add(index)
            budget.count(POD * sum(unit.groups[0].scheduled for unit in on_node[index]))
            chosen = [unit.on_node(self.nodes, self.pods, index, gone) for unit in on_node[index]]
            gain = self._gain(chosen, shortfalls)
            if not gain:
                continue
            if gain < -bound and heap and gain < -heap[0][0] and not is_cut:
                heapq.heappush(heap, (-gain, index))
                continue
            for unit in chosen:
                self._take(unit)
                gone.update(
                    each.uid for each in unit.holders(self.nodes, self.pods, self.is_candidate)
                )
            shortfalls = self.preemptor.shortfalls(self.domain)
        if shortfalls is not None and not shortfalls and self._fits():
            return True
        self.undo(before)
        return False

    def _take_by_gain(self, left: list[EvictionUnit], *, without_gangs: bool = False) -> bool:
        """Take the unit with the greatest gain, of equals the one with the fewest pods, and so on.

        The gain is bounded by the requests of the pods in the unit. Only the first unit of the
        heap is computed exactly, and again after another was taken.
        """
        budget, shortfalls = self.preemptor.budget, self.preemptor.shortfalls(self.domain)
        if not shortfalls:
            return shortfalls is not None and self._fits()
        ratios = self._ratios(shortfalls)
        heap: list[tuple[int, int, float, int, int]] = []
        known: dict[int, int] = {}
        bounds: dict[int, int] = {}
        budget.count(BOUND * len(left))
        for number, unit in enumerate(left):
            if without_gangs and unit.gangs:
                continue
            size = 1 if unit.member is not None else unit.size
            most = bounds.get(size) if unit.nomination is None else None
            if most is None:
                most = self._bound(unit, size, shortfalls, ratios, bounds)
            if most:
                heap.append((-most, unit.pods, -unit.created_at, -unit.seq, number))
        heapq.heapify(heap)
        gone, is_cut = set[int](), False
        while shortfalls and heap and not budget.ends(self._at(_TAKING)):
            most, pods, created, seq, number = heapq.heappop(heap)
            enough = sum(each.count for each in shortfalls)
            if -most > enough:
                heapq.heappush(heap, (-enough, pods, created, seq, number))
                continue
            if not is_cut and self._is_over_after(_MILD if without_gangs else _COMPARING):
                # only units of which the gain was computed may be taken from here on
                is_cut, heap = True, [each for each in heap if each[-1] in known]
                heapq.heapify(heap)
                if number not in known:
                    continue
            if known.get(number) != len(gone):
                gain = self._gain((left[number],), shortfalls)
                known[number] = len(gone)
                if gain and gain < -most and not is_cut:
                    heapq.heappush(heap, (-gain, pods, created, seq, number))
                if gain < -most and not (gain and is_cut):
                    continue
            self._take(left[number])
            gone.add(number)
            shortfalls = self.preemptor.shortfalls(self.domain)
        left[:] = [unit for number, unit in enumerate(left) if number not in gone]
        return shortfalls is not None and not shortfalls and self._fits()

    def _ratios(self, shortfalls: Sequence[Shortfall]) -> list[int]:
        """Return, for each shortfall, the number of its pods that one evicted pod makes fit.

        That is an upper bound, as if one victim freed the most of every resource.
        """
        most = self._most_freed
        if most is None:
            most = self._most_freed = {}
            victims = self.pod_classes.by_signature.values()
            self.preemptor.budget.count(BOUND * len(victims))
            for victim in victims:
                for name, amount in victim.sample.requests.items():
                    if amount > most.get(name, 0):
                        most[name] = amount
        self.preemptor.budget.count(BOUND * len(shortfalls))
        return [_ratio(most, each.pod_class) for each in shortfalls]

    def _bound(
        self,
        unit: EvictionUnit,
        size: int,
        shortfalls: Sequence[Shortfall],
        ratios: Sequence[int],
        bounds: dict[int, int],
    ) -> int:
        """Return an upper bound on the gain of a unit; *bounds* gets that of its size."""
        if unit.nomination is not None:
            return sum(each.count for each in shortfalls)
        self.preemptor.budget.count(BOUND * len(shortfalls))
        both = zip(shortfalls, ratios, strict=True)
        bound = bounds[size] = sum(min(each.count, size * ratio) for each, ratio in both)
        return bound


def _importance(unit: EvictionUnit) -> tuple[int, float, int]:
    """Return the sort key of units, the most important first, as kube-scheduler orders pods."""
    return (-unit.priority, unit.created_at, unit.seq)


def _ratio(freed: Mapping[str, int], preemptor: PodClass) -> int:
    """Return an upper bound on the pods of a class that fit where a pod leaves these amounts."""
    asked = preemptor.sample.requests
    return max((-(-freed.get(n, 0) // need) for n, need in asked.items() if need), default=0) or 1


def _priority_of(unit: EvictionUnit) -> int:
    return unit.priority
