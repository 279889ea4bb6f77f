"""Giving units back that a search for victims has taken, so that no victim can be spared.

Units are given back, those most worth sparing first: by halves, so that of many units few are tried
one by one. Units without which too few pods fit, whatever else is evicted, are not tried.

Rules:
  R1  the preemptor does not fit if any one of the victims that are left stays, unless the steps of
      the budget were spent before that was tried;
  R2  for a preemptor that depends on other pods, a pod that stays may allow another one to stay, so
      giving back is repeated while any is spared.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define

from gangsched._packing.budget import STEP
from gangsched.framework.nodes.node_class import NodeClass
from gangsched.framework.preemption.eviction_units import EvictionUnit
from gangsched.framework.preemption.taken_units import TakenUnits, headroom_of
from gangsched.framework.preemption.victim_budget import BACK, GAIN
from gangsched.framework.preemption.victim_plan import Taken, VictimPlan, cost_of

__all__ = ["SparedUnits"]

_FEW = 4
"""The number of victims that are tried at once, without asking first which are needed."""

_FEW_CLASSES = 8
"""The number of classes of pods up to which it is cheaper to sum up than to try."""


@define(eq=False)
class SparedUnits(TakenUnits):
    """The units that were taken, as far as the preemptor needs them."""

    def _spare(self) -> VictimPlan:
        """Put back every unit that can be spared, and return the plan."""
        if self.preemptor.budget.is_exhausted:
            self.taken[:], _none = self._without_others(self.taken, [])
        whole = [each for each in self.taken if each[0].gangs]
        whole.sort(key=self._worth)
        kept = self._victims_of([(unit, held) for unit, held in whole])
        ended = {info.uid for unit, _held in kept for info in unit.groups}
        pieces: list[Taken] = []
        mild = [each for each in self.taken if not each[0].gangs]
        for unit, held in sorted(mild, key=self._worth):
            if not unit.is_elastic:
                pieces.append((unit, held))
            elif unit.groups[0].uid not in ended:
                # of elastic members the first to arrive is spared first
                pieces += [(unit, [holder]) for holder in reversed(held)]
        kept_pieces = self._victims_of(pieces)
        if self.preemptor.budget.is_exhausted:
            kept, kept_pieces = self._without_others(kept, kept_pieces)
        elif self.preemptor.depends_on_pods and len(kept) + len(kept_pieces) < len(whole + pieces):
            kept, kept_pieces = self._spare_again(kept, kept_pieces, mild)
        members = [
            self.pods.members[holder.uid]
            for unit, held in kept_pieces
            if unit.is_elastic
            for holder in held
        ]
        found = [unit for unit, _held in kept]
        found += [unit for unit, _held in kept_pieces if not unit.is_elastic]
        evicted = kept + kept_pieces
        self.taken[:] = evicted + [e for e in mild if self._has_ended(e[0], ended)]
        asked = None if self.places is not None else [h for _unit, held in self.taken for h in held]
        places, cost = self.places or [], cost_of(evicted)
        return VictimPlan(places, found, members, cost, self._violations(), held=asked)

    def _without_others(
        self, kept: list[Taken], pieces: list[Taken]
    ) -> tuple[list[Taken], list[Taken]]:
        """Put back the victims that hold nothing on the nodes of the plan, all at once.

        It is done where the steps did not suffice to try them one by one. If the preemptor is not
        placed without them, as where it depends on other nodes, they are taken again.
        """
        if self.places is None:
            return kept, pieces
        used = {index for _member, index in self.places}
        both = kept + pieces
        others = [each for each in both if all(holder.at not in used for holder in each[1])]
        held = [holder for _unit, held in others for holder in held]
        if not held:
            return kept, pieces
        self.preemptor.budget.count(BACK * len(held))
        self.view.mark_ready(held)
        places = self.preemptor.places(anyway=True)
        if places is None:
            self.view.remove(held)
            return kept, pieces
        self._note_places(places)
        spared = {id(each) for each in others}
        return (
            [each for each in kept if id(each) not in spared],
            [each for each in pieces if id(each) not in spared],
        )

    def _spare_again(
        self, kept: list[Taken], pieces: list[Taken], mild: Sequence[Taken]
    ) -> tuple[list[Taken], list[Taken]]:
        """Put back what can be spared because others were: a pod may allow another one to stay.

        A gang of which elastic members were taken before is left out, since its unit does not hold
        all that it would give back.
        """
        in_parts = {unit.groups[0].uid for unit, _held in mild if unit.is_elastic}
        fixed = [e for e in kept if any(info.uid in in_parts for info in e[0].groups)]
        left = [e for e in (*kept, *pieces) if e not in fixed]
        count = len(left) + 1
        while 1 < len(left) < count:
            count = len(left)
            left = self._victims_of(left)
        staying = {id(each) for each in (*fixed, *left)}
        return (
            [each for each in kept if id(each) in staying],
            [each for each in pieces if id(each) in staying],
        )

    def _violations(self) -> int:
        """Return how many evictions violate a disruption budget, after units were spared."""
        if self.budgets is None or self.keeps_budgets:
            return 0
        return self.budgets.violations(uid for each in self.taken for uid in self._evicted(each))

    def _worth(self, taken: Taken) -> tuple[bool, int, int, float, int]:
        """Return the sort key of units that are put back: the one most worth sparing is first."""
        unit = taken[0]
        violates = False
        if self.violating is not None:
            violates = unit in self.violating
        elif self.budgets is not None and not self.keeps_budgets:
            violates = bool(self.budgets.violations(self._evicted(taken)))
        return (not violates, -unit.priority, -unit.pods, unit.created_at, unit.seq)

    @staticmethod
    def _has_ended(unit: EvictionUnit, ended: set[int]) -> bool:
        return unit.is_elastic and unit.groups[0].uid in ended

    def _victims_of(self, pieces: list[Taken]) -> list[Taken]:
        """Put back, in order, every piece that can be spared; return the others."""
        if len(pieces) < _FEW:
            return self._tried(pieces)
        needed = self._needed_alone(pieces)
        rest = {id(each) for each in self._tried([e for e in pieces if id(e) not in needed])}
        return [each for each in pieces if id(each) in needed or id(each) in rest]

    def _needed_alone(self, pieces: Sequence[Taken]) -> set[int]:
        """Return the pieces without which too few pods fit though all others are evicted.

        No placement is tried for these. What pods free on nodes is summed up, as in ``_gain``.
        """
        slacks = None if self.nodes.ledger.expecting else self.preemptor.slacks(self.domain)
        if not slacks or len(slacks) > _FEW_CLASSES:
            return set()
        found: set[int] = set()
        classes = self.nodes.classes
        for each in pieces:
            if self.preemptor.budget.ends():
                break
            before: dict[int, NodeClass] = {}
            after: dict[int, NodeClass] = {}
            for holder in each[1]:
                given = after.get(holder.at)
                if given is None:
                    given = before[holder.at] = classes.of(holder.at)
                after[holder.at] = classes.taking(given, holder.requests)
            self.preemptor.budget.count(GAIN * len(before) * (1 + len(slacks)))
            for slack in slacks:
                lost = sum(
                    headroom_of(slack, given) - headroom_of(slack, after[index])
                    for index, given in before.items()
                    if self.domain is None or self.domain.has(given)
                )
                if lost > slack.count:
                    found.add(id(each))
                    break
        return found

    def _tried(self, pieces: list[Taken]) -> list[Taken]:
        """Put back, in order, every piece that can be spared; return the others.

        The result is that of trying one by one. If all of a half can be spared, that takes one
        placement.
        """
        if not pieces or self.preemptor.budget.ends():
            return pieces
        budget = self.preemptor.budget
        held = [holder for _unit, holders in pieces for holder in holders]
        # there are no steps to put all of them back and take them again
        is_too_much = budget.ends(budget.total - 2 * BACK * len(held) // STEP)
        if not is_too_much:
            budget.count(2 * BACK * len(held))
            self.view.mark_ready(held)
            if self._fits():
                return []
            self.view.remove(held)
        if len(pieces) == 1:
            return pieces
        half = len(pieces) // 2
        return self._tried(pieces[:half]) + self._tried(pieces[half:])
