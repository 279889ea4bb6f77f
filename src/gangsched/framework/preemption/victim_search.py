"""Victim search: which units are evicted so that a preemptor fits.

Theory of operation
    The search works on the nodes themselves: victims are taken off them (``NodesView``), and
    the preemptor is placed by the code that places it in its cycle. At the end every pod is back.

    Pods that terminate already are taken off first. If the preemptor fits then, no pod is evicted.
    Otherwise units of ascending priority are taken until the preemptor fits (``domain_search``),
    and those that it does not need are given back (``spared_units``).

    A single pod that depends on no other pods needs one node. So each node is then searched by
    itself as well, as kube-scheduler does. All units on it, up to the priority that was found, are
    taken, and given back in order of importance. The plans are compared.

    A preemptor that depends on other pods may need that a pod has left another node than its own.
    So the terminating pods are put back in the same way, and those that it needs gone are named.

    Placements have a budget (``VictimBudget``). When it is exhausted, a set of victims counts as
    not enough. So if there is no plan by then, none is found; otherwise no more units are given
    back.

    A node is not a candidate if a filter refuses the preemptor there with ``resolvable=False``:
    evictions there cannot help. As in kube-scheduler, this is judged on the nodes before any pod
    is taken off. For a preemptor that depends on other pods, a pod on any node may be in its way,
    so every node is a candidate. If it must be in one domain, the pods there are considered first,
    then all pods of a lower priority than the victims there. But a single pod is not placed where a
    plugin that reads pods has refused it with ``resolvable=False``: an affinity is not met by the
    eviction of its objects.

Rules:
  R1  a plan evicts no pod and assumes none; it names the victims, and a node for each pod of the
      preemptor;
  R2  the highest priority among the victims is as low as possible; of such plans, one is chosen
      with few gangs. Then the ranks of kube-scheduler decide: a small sum of priorities, few pods,
      victims that came late. No victim of a plan can be spared;
  R3  a plan that violates no disruption budget goes before all others, and units that violate one
      are spared first. Which unit uses up a budget is decided by the order of taking, so a plan
      without a violation may be missed where units differ. For a single pod, each node is
      searched by itself, and the fewest violations decide, as in kube-scheduler;
  R4  terminating pods are counted on before any pod is evicted;
  R5  no gang is ended where elastic members and nominations of these priorities are enough, as
      far as steps 1 to 3 of ``domain_search`` find them.

The first half of R2 is exact if no search for a placement exhausts its budget. The second half is
exact where one gang is enough; where several are, a plan may name more than the fewest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from attrs import evolve

from gangsched.framework.nodes.node_class import NodeClass
from gangsched.framework.nodes.nodes_view import Holder, NodesView
from gangsched.framework.preemption import choices, eviction_units
from gangsched.framework.preemption.budgets import budgets
from gangsched.framework.preemption.choices import Choice, Choices
from gangsched.framework.preemption.domain_search import DomainSearch
from gangsched.framework.preemption.eviction_units import EvictionUnit
from gangsched.framework.preemption.victim_budget import BACK, TAKE, UNIT, VictimBudget
from gangsched.framework.preemption.victim_plan import Preemptor, VictimPlan, is_one_pod
from gangsched.framework.state.scheduler_state import State

__all__ = ["find"]

_ENOUGH_PLANS = 2
"""The number of plans within different domains that are compared."""

_SHARE_OF_ALL_NODES = 0.7
"""The part of the steps for a single pod that may be spent before each node is searched alone."""

_AT_ONCE = 256
"""The number of terminating pods that are taken off at once."""


def find(
    state: State, preemptor: Preemptor, units: Sequence[EvictionUnit], failures: int = 1
) -> VictimPlan | None:
    """Return a plan that makes a preemptor fit; None if there is none.

    Args:
        state: The scheduler's state.
        preemptor: What needs capacity, with the budget of the search.
        units: What may be evicted.
        failures: The number of its failed attempts in a row; see ``choices.by_node``.

    Runtime complexity: O(gangs), O(pods of the gangs that are considered), and a placement for
    each set of victims that is tried. If V units of N are evicted, these are about V log N.
    """
    depends, budget = preemptor.depends_on_pods, preemptor.budget
    awaits = depends or preemptor.depends_on_total
    if depends:
        preemptor.bar_nodes()
    view = NodesView(state.nodes)
    verdicts: dict[NodeClass, bool] = {}
    known: dict[int, bool] = {}

    def is_candidate(index: int) -> bool:
        if depends:
            return True
        found = known.get(index)
        if found is None:
            given = view.original(index)
            if given not in verdicts:
                verdicts[given] = preemptor.is_resolvable(given)
            found = known[index] = verdicts[given]
        return found

    try:
        leaving = eviction_units.terminating(state.nodes, state.pods, state.reservations)
        ending = _removed(leaving, view, budget)
        if ending is None:
            return None
        places = preemptor.places()
        if places is not None:
            without = VictimPlan(places)
            return _with_awaited(view, preemptor, ending, without) if awaits else without
        limits = budgets(state.settings, state.pods, budget.count) if units else None
        is_one, where = is_one_pod(preemptor), preemptor.domains
        budget.count(UNIT * len(units))
        domains = choices.by_domain(state.nodes, state.pods, where, units, is_candidate, budget)
        attempt = max(failures - 1, 0)

        def plans(
            given: Choices, *, keeps: bool, enough: int | None, spares: bool = False
        ) -> list[VictimPlan]:
            found: list[VictimPlan] = []
            share = _SHARE_OF_ALL_NODES if is_one and not depends else 1
            ends_at = budget.steps + int(budget.left * share)
            for domain, within, at in given:
                if budget.ends():
                    break
                search = DomainSearch(
                    state.nodes,
                    state.pods,
                    state.pod_classes,
                    preemptor,
                    view,
                    domain,
                    is_candidate,
                    None if limits is None else limits.anew(),
                    keeps,
                    None if depends else at,
                    None if at is not None else ends_at,
                    is_one and not depends,
                )
                plan = search.run_sparing(within) if spares else search.run(within)
                if plan is not None and awaits:
                    plan = _with_awaited(view, preemptor, ending, plan)
                if not budget.is_spent or (is_one and not depends):
                    search.undo()  # otherwise nothing is tried any more
                if plan is not None:
                    found.append(plan)
                if len(found) == enough:
                    break
            return found

        def on_nodes(among: Sequence[EvictionUnit]) -> Choices:
            return choices.by_node(state.nodes, state.pods, among, is_candidate, budget, attempt)

        found = plans(domains, keeps=limits is not None, enough=_ENOUGH_PLANS)
        if is_one and not depends:
            most = min((plan.cost[0] for plan in found), default=math.inf)
            near = [unit for unit in units if unit.priority <= most]
            found += plans(on_nodes(near), keeps=False, enough=None, spares=True)
        if not found and limits is not None:
            if is_one:
                nodes = on_nodes(units)
                for keeps in (True, False):
                    found += plans(nodes, keeps=keeps, enough=None)
            found = found or plans(domains, keeps=False, enough=_ENOUGH_PLANS)
        if depends and list(preemptor.domains) != [None]:
            # a pod outside of the domain may be in the way of the preemptor inside
            kept = [plan.cost[0] for plan in found if not plan.violations]
            near = [unit for unit in units if unit.priority < min(kept, default=math.inf)]
            anywhere = [Choice(each.domain, near) for each in domains if near]
            found += plans(anywhere, keeps=limits is not None, enough=_ENOUGH_PLANS)
            if not found and limits is not None:
                found = plans(anywhere, keeps=False, enough=_ENOUGH_PLANS)
        if not found and depends and is_one:
            # with victims on all nodes, a pod that it has affinity to may be among them
            found = plans(on_nodes(units), keeps=False, enough=None)
        found.sort(key=lambda plan: (plan.violations, *plan.cost))
        return _first_that_places(view, preemptor, found)
    finally:
        view.discard()


def _removed(
    ending: Sequence[Holder], view: NodesView, budget: VictimBudget
) -> list[Holder] | None:
    """Take the terminating pods off; None if that takes more steps than there are."""
    found: list[Holder] = []
    for begin in range(0, len(ending), _AT_ONCE):
        if budget.ends():
            return None
        part = ending[begin : begin + _AT_ONCE]
        budget.count(TAKE * len(part))
        found += view.remove(part)
    return found


def _first_that_places(
    view: NodesView, preemptor: Preemptor, plans: Sequence[VictimPlan]
) -> VictimPlan | None:
    """Return the first plan with which the preemptor is placed; None if there is none.

    Where a single node was searched, only the filters were asked so far. The first plan is tried
    even if the steps are spent: it may take no more than a placement.
    """
    for number, plan in enumerate(plans):
        if plan.held is None:
            return plan
        if number and preemptor.budget.ends():
            return None
        removed = view.remove(plan.held)
        places = preemptor.places(anyway=True)
        if places is not None:
            return evolve(plan, places=places)
        view.mark_ready(removed)
    return None


def _with_awaited(
    view: NodesView, preemptor: Preemptor, ending: Sequence[Holder], plan: VictimPlan
) -> VictimPlan:
    """Return a plan with the terminating pods that must have left; see ``VictimPlan.awaited``.

    The nodes are as the plan leaves them, and are so again.
    """
    places, needed, back = plan.places, list[Holder](), list[Holder]()
    parts = [list(ending)] if ending else []
    while parts:
        part = parts.pop()
        if preemptor.budget.ends():
            needed += part
            continue
        preemptor.budget.count((BACK + TAKE) * len(part))
        view.mark_ready(part)
        found = preemptor.places()
        if found is not None:
            places = found
            back += part
            continue
        view.remove(part)
        if len(part) == 1:
            needed += part
        else:
            parts += [part[len(part) // 2 :], part[: len(part) // 2]]
    view.remove(back)
    return evolve(plan, places=places, awaited=[holder.uid for holder in needed])
