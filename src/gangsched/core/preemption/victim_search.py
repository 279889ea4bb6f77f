"""Victim search: which units are evicted so that a preemptor fits.

Theory of operation. Everything happens in a trial. Pods that terminate already are taken off first.
If the preemptor fits then, no pod is evicted. Otherwise units are searched in each of its domains
(``unit_search``), the fullest first.

A single pod needs one node. So each node is then searched by itself as well, as kube-scheduler
does: all units on it are taken, and put back in order of importance. The plans are compared.

A preemptor that depends on other pods may need that a pod has left another node than its own. So
every node is searched, and the terminating pods that it needs gone are named.

Rules:
  R1  a plan evicts no pod and assumes none; it names the victims, and a node for each pod of the
      preemptor;
  R2  the highest priority among the victims is as low as possible; of such plans, one is chosen
      with few gangs. A nomination is taken before pods of its priority are evicted, and after pods
      of lower ones. Then the ranks of kube-scheduler decide: a small sum of priorities, few pods,
      victims that came late. No victim of a plan can be spared;
  R3  a plan that violates no disruption budget goes before all others;
  R4  terminating pods are counted on before any pod is evicted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, final

from attrs import evolve

from gangsched.core.admission.reclaim import AccountTrial
from gangsched.core.nodes.domains import EVERYWHERE, Domain
from gangsched.core.preemption.disruption_budgets import DisruptionBudgets, disruption_budgets
from gangsched.core.preemption.eviction_units import EvictionUnit
from gangsched.core.preemption.preemptor import Preemptor
from gangsched.core.preemption.unit_search import UnitSearch
from gangsched.core.preemption.victim_plan import VictimPlan, level_of
from gangsched.core.records.gang import PodRecord, by_seq
from gangsched.core.records.trial import Lifted, Trial
from gangsched.core.state import State

__all__ = ["find"]

_MOST_NODES: Final = 100
"""The number of nodes that are compared if each is searched by itself, as in kube-scheduler."""
_ENOUGH_PLANS: Final = 2
"""The number of plans within different domains that are compared."""


def find(
    state: State,
    preemptor: Preemptor,
    units: Sequence[EvictionUnit],
    accounts: AccountTrial | None = None,
) -> VictimPlan | None:
    """Return a plan that makes a preemptor fit, on nodes and accounts; None if there is none.

    Runtime complexity: O(gangs), O(pods of the gangs that are considered), and a placement for
    each set of victims that is tried. If V units of N are evicted, these are about V log N.
    """
    with Trial(state.records) as trial:
        if accounts is None:
            return _Finder(state, preemptor, trial, None).find(units)
        with accounts:
            return _Finder(state, preemptor, trial, accounts).find(units)


@final
class _Finder:
    """The searches for one preemptor, in different places and with or without budgets."""

    def __init__(
        self, state: State, preemptor: Preemptor, trial: Trial, accounts: AccountTrial | None
    ) -> None:
        self._accounts = accounts
        self._state = state
        self._preemptor = preemptor
        self._trial = trial
        self._awaits: bool = preemptor.depends_on_pods or preemptor.depends_on_total
        # what a victim gives back to an account may be used on any node
        self._awaits |= accounts is not None and accounts.lacks_share
        self._ending: list[PodRecord] = []

    def find(self, units: Sequence[EvictionUnit]) -> VictimPlan | None:
        state, preemptor = self._state, self._preemptor
        overdue = state.nominations.overdue
        self._ending = [
            record
            for record in state.records.terminating.values()
            if record.slot >= 0 and record.uid not in overdue
        ]
        self._ending.sort(key=by_seq)
        self._lift(self._ending)
        preemptor.steps.count_pods(len(self._ending))
        accounts = self._accounts
        places = preemptor.places(self._trial)
        if places is None and accounts is not None:
            accounts.note_short_of(preemptor.short_of())
        if places is not None and (accounts is None or accounts.fits()):
            return self._with_awaited(VictimPlan(places))
        if not units:
            return None
        budgets = disruption_budgets(state)
        found: list[VictimPlan] = []
        for keeps in (True, False) if budgets is not None else (False,):
            found = self._in_domains(units, budgets, keeps=keeps)
            if preemptor.one is not None and accounts is None:
                most = min((plan.cost[0] for plan in found), default=(math.inf, True))
                near = [unit for unit in units if level_of(unit) <= most]
                found += self._on_nodes(near, budgets)
            if found:
                break
        return min(found, key=lambda plan: (plan.violations, *plan.cost), default=None)

    def _in_domains(
        self, units: Sequence[EvictionUnit], budgets: DisruptionBudgets | None, *, keeps: bool
    ) -> list[VictimPlan]:
        """Return plans within the domains of the preemptor, the fullest domain first."""
        preemptor, found = self._preemptor, list[VictimPlan]()
        for domain, within in self._by_domain(units):
            if preemptor.steps.are_spent or len(found) == _ENOUGH_PLANS:
                break
            search = self._search(domain, budgets, keeps=keeps)
            found += self._concluded(search, search.run(within))
        if preemptor.depends_on_pods and preemptor.domains != [EVERYWHERE]:
            # a pod outside of the domain may be in the way of the preemptor inside
            kept = [plan.cost[0] for plan in found if not plan.violations]
            least = min(kept, default=(math.inf, True))
            near = [unit for unit in units if level_of(unit) < least]
            for domain in preemptor.domains if near else ():
                search = self._search(domain, budgets, keeps=keeps)
                found += self._concluded(search, search.run(near))
        return found

    def _search(
        self, domain: Domain, budgets: DisruptionBudgets | None, *, keeps: bool
    ) -> UnitSearch:
        return UnitSearch(
            self._preemptor, self._trial, domain, budgets, keeps=keeps, accounts=self._accounts
        )

    def _by_domain(
        self, units: Sequence[EvictionUnit]
    ) -> list[tuple[Domain, Sequence[EvictionUnit]]]:
        domains = self._preemptor.domains
        if domains == [EVERYWHERE]:
            return [(EVERYWHERE, units)]
        slots: dict[int, list[Domain]] = {}
        for domain in domains:
            for slot in self._state.table.domains.slots(domain):
                slots.setdefault(slot, []).append(domain)
        held: dict[Domain, int] = dict.fromkeys(domains, 0)
        within: dict[Domain, dict[EvictionUnit, None]] = {domain: {} for domain in domains}
        for unit in units:
            for each in unit.taken:
                for domain in slots.get(each.slot, ()):
                    held[domain] += 1
                    within[domain][unit] = None
        order = sorted(domains, key=lambda domain: (-held[domain], str(domain)))
        if self._accounts is not None:
            for domain in order:  # what others give back is of use wherever they are
                within[domain] |= dict.fromkeys(units)
        return [(domain, list(within[domain])) for domain in order]

    def _on_nodes(
        self, units: Sequence[EvictionUnit], budgets: DisruptionBudgets | None
    ) -> list[VictimPlan]:
        """Return plans on single nodes, of those that need the lowest priorities first."""
        on: dict[int, dict[EvictionUnit, None]] = {}
        for unit in units:
            for each in unit.taken:
                on.setdefault(each.slot, {})[unit] = None
        levels: list[tuple[float, int, int]] = []
        for slot, here in on.items():
            level = self._level(slot, here)
            if level is not None:
                levels.append((level, len(here), slot))
        names = self._state.table.names
        levels.sort(key=lambda each: (each[0], names[each[2]]))
        found: list[VictimPlan] = []
        for _level, _count, slot in levels[:_MOST_NODES]:
            if self._preemptor.steps.are_spent:
                break
            search = UnitSearch(self._preemptor, self._trial, EVERYWHERE, budgets, slot=slot)
            found += self._concluded(search, search.run_sparing(list(on[slot])))
        return found

    def _level(self, slot: int, here: Iterable[EvictionUnit]) -> float | None:
        """Return the priority up to which units must leave a node; None if all are not enough."""
        one = self._preemptor.one
        assert one is not None
        pod_class = one.pod_class
        assert pod_class is not None
        table, gone = self._state.table, set[Lifted]()
        with self._trial.placing():
            for unit in sorted(here, key=lambda each: each.priority):
                for each in unit.taken:
                    if each.slot == slot and each not in gone:
                        gone.add(each)  # an elastic member is of the unit of its gang, too
                        table.take(slot, each.needs, -1)
                if pod_class.memo.fits(table.state_of[slot]):
                    return unit.priority
        return None

    def _concluded(self, search: UnitSearch, plan: VictimPlan | None) -> list[VictimPlan]:
        """Return the plan of a search, if it has one, and put everything back."""
        if plan is not None:
            plan = self._with_awaited(plan)
        search.undo()
        return [] if plan is None else [plan]

    def _with_awaited(self, plan: VictimPlan) -> VictimPlan:
        """Return a plan with the terminating pods that must have left, of all nodes.

        They are put back by halves, as far as the preemptor fits beside them.
        """
        if not self._awaits:
            return plan
        trial, preemptor = self._trial, self._preemptor
        places, needed, back = plan.places, list[PodRecord](), list[PodRecord]()
        parts = [self._ending] if self._ending else []
        while parts:
            part = parts.pop()
            if preemptor.steps.are_spent:
                needed += part
                continue
            self._land(part)
            fitting = preemptor.places(trial) if self._takes_share() else None
            if fitting is not None:
                places = fitting
                back += part
                continue
            self._lift(part)
            if len(part) == 1:
                needed += part
            else:
                half = len(part) // 2
                parts += [part[half:], part[:half]]
        self._lift(back)
        return evolve(plan, places=places, awaited=needed)

    def _lift(self, records: Sequence[PodRecord]) -> None:
        self._trial.lift(records)
        if self._accounts is not None:
            self._accounts.lift(records)

    def _land(self, records: Sequence[PodRecord]) -> None:
        self._trial.land(records)
        if self._accounts is not None:
            self._accounts.land(records)

    def _takes_share(self) -> bool:
        return self._accounts is None or self._accounts.fits()
