"""The units that are off the nodes, and whether the preemptor fits without them.

Rules:
  R1  what is taken is a unit, with what was on nodes of it and not taken before. Of a gang that is
      evicted as a whole only what is in the domain, unless pods and capacity elsewhere matter;
  R2  while budgets are kept, no unit is taken that violates one;
  R3  with reclaim, no unit is taken that may not go now: see ``reclaim``;
  R4  a pod is taken off its node once, and counts once for a budget, in however many units it is.
"""

from __future__ import annotations

from typing import final

from gangsched.core.admission.reclaim import AccountTrial
from gangsched.core.attempt.placing import Places
from gangsched.core.nodes.domains import EVERYWHERE, Domain
from gangsched.core.nodes.node_table import Needs
from gangsched.core.preemption.disruption_budgets import DisruptionBudgets
from gangsched.core.preemption.eviction_units import EvictionUnit
from gangsched.core.preemption.preemptor import Preemptor
from gangsched.core.preemption.victim_plan import Taken
from gangsched.core.records.gang import PodRecord
from gangsched.core.records.trial import Lifted, Trial

__all__ = ["TakenUnits"]


@final
class TakenUnits:
    """The units that are off the nodes.

    Args:
        preemptor: The preemptor.
        trial: The trial in which units are taken.
        domain: Where the preemptor has to fit.
        budgets: The disruption budgets, if there are any.
        keeps: Whether budgets are kept.
        slot: The one node on which the preemptor has to fit; None for all of the domain.
        accounts: The accounts, with reclaim; None without.

    Attributes:
        taken: The units that were taken, in order, each with what was taken off nodes for it.
        places: Where the pods of the preemptor fitted last.
        gone: What is off the nodes.
    """

    def __init__(
        self,
        preemptor: Preemptor,
        trial: Trial,
        domain: Domain,
        budgets: DisruptionBudgets | None,
        *,
        keeps: bool,
        slot: int | None,
        accounts: AccountTrial | None = None,
    ) -> None:
        self.accounts = accounts
        self.taken: list[Taken] = []
        self.places: Places | None = None
        self.gone: set[Lifted] = set()
        self._preemptor = preemptor
        self._trial = trial
        self._domain = domain
        self._kept_budgets = budgets if keeps else None
        self._slot = slot
        self._evicted: set[PodRecord] = set()
        self._order: dict[EvictionUnit, int] = {}
        self._ratios: dict[Needs, int] = {}
        # the nodes on which it matters what is taken; None for all
        self._slots: frozenset[int] | None = None
        if domain != EVERYWHERE and not (preemptor.depends_on_pods or preemptor.depends_on_total):
            self._slots = frozenset(preemptor.state.table.domains.slots(domain))

    def _left(self, unit: EvictionUnit) -> list[Lifted]:
        """Return what a unit takes off nodes that is not taken yet; see R1. O(its pods)."""
        gone = self.gone
        return [each for each in self._here(unit) if each not in gone]

    def _here(self, unit: EvictionUnit) -> list[Lifted]:
        slots = self._slots
        if slots is None or unit.elastic is not None or unit.nomination is not None:
            return unit.taken
        return [each for each in unit.taken if each.slot in slots]

    def take(self, unit: EvictionUnit) -> None:
        """Take a unit off the nodes, unless that violates a budget that is kept. O(its pods)."""
        some = self._left(unit)
        # of a gang all members are evicted, wherever they are
        pods = some if unit.elastic is not None else unit.taken
        evicted = [p for p in pods if isinstance(p, PodRecord) and p not in self._evicted]
        taken = (unit, some, evicted)
        if not self._may_go(unit, evicted):
            return
        if self._kept_budgets is not None and not self._kept_budgets.take(evicted):
            return
        self._lift(taken)
        self._preemptor.steps.count_pods(len(some))
        self.taken.append(taken)
        self._order[unit] = len(self.taken)

    def _may_go(self, unit: EvictionUnit, evicted: list[PodRecord]) -> bool:
        if self.accounts is None or unit.gang is None or unit.nomination is not None:
            return True
        return self.accounts.may_take(unit.gang, evicted)

    @property
    def are_allowed(self) -> bool:
        """Whether the units that are taken may go one after the other, as they were. O(pods)."""
        accounts = self.accounts
        if accounts is None:
            return True
        for _unit, _some, evicted in self.taken:
            accounts.land(evicted)
        allowed = True
        for unit, _some, evicted in sorted(self.taken, key=self._when):
            allowed = allowed and (not evicted or self._may_go(unit, evicted))
            accounts.lift(evicted)
        return allowed

    def _when(self, taken: Taken) -> int:
        return self._order.get(taken[0], 0)

    def take_again(self, taken: Taken) -> None:
        """Take off the nodes again what was put back. O(pods)."""
        self._lift(taken)
        if self._kept_budgets is not None:
            self._kept_budgets.take(taken[2])

    def _lift(self, taken: Taken) -> None:
        unit, some, evicted = taken
        self._trial.lift(some)
        self.gone.update(some)
        self._evicted.update(evicted)
        if self.accounts is not None:
            self.accounts.lift(evicted)
            if unit.nomination is not None:
                self.accounts.drop(unit.nomination.gang)

    def put_back(self, taken: Taken) -> None:
        """Put back what was taken off the nodes. O(pods)."""
        unit, some, evicted = taken
        self._trial.land(some)
        self._preemptor.steps.count_pods(len(some))
        self.gone.difference_update(some)
        self._evicted.difference_update(evicted)
        if self.accounts is not None:
            self.accounts.land(evicted)
            if unit.nomination is not None:
                self.accounts.keep(unit.nomination.gang)
        if self._kept_budgets is not None:
            self._kept_budgets.give_back(evicted)

    def lacking(self) -> int:
        """Return how many pods of the preemptor lack capacity."""
        return self._preemptor.shortfall(self._domain)

    def gain(self, unit: EvictionUnit, lacking: int) -> int:
        """Return how many lacking pods the capacity of a unit would take. O(its pods)."""
        some = self._left(unit)
        self._trial.lift(some)
        self._preemptor.steps.count_pods(2 * len(some))
        left = self.lacking()
        self._trial.land(some)
        return lacking - left

    def bound(self, unit: EvictionUnit) -> int:
        """Return an upper bound on the gain of a unit, as if no pod shared its node. O(pods)."""
        ratios, total = self._ratios, 0
        for each in self._here(unit):
            ratio = ratios.get(each.needs)
            if ratio is None:
                ratio = ratios[each.needs] = self._preemptor.most_by(each.needs)
            total += ratio
        return total

    def fits(self) -> bool:
        """Return whether the preemptor fits; if so, note where its pods go."""
        preemptor = self._preemptor
        if self.accounts is not None and not self.accounts.fits():
            return False
        if self._slot is not None:
            fits = preemptor.fits_on(self._slot)
            if fits is not None:
                return fits
        if preemptor.steps.are_spent or preemptor.shortfall(self._domain):
            return False
        places = preemptor.places(self._trial)
        if places is not None:
            self.places = places
        return places is not None

    def undo(self, down_to: int = 0) -> None:
        """Put back all units that were taken, except the first *down_to*."""
        while len(self.taken) > down_to:
            self.put_back(self.taken.pop())
