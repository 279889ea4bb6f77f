"""Victim search: which units are evicted so that a preemptor fits.

Theory of operation
    The search works on the nodes themselves: victims are taken off them (``NodesView``), and
    the preemptor is placed by the code that places it in its cycle. At the end every pod is back.

    Pods that terminate already are taken off first. If the preemptor fits then, no pod is evicted.
    Otherwise priorities are considered in ascending order. At each priority, units are taken
    until the preemptor fits, in these steps:

    1. Units that end no gang (elastic members, nominations), by how much they gain.
    2. All of these together, as one of them may help only with what another frees.
    3. Other choices of elastic members: those on one node after the other, by gain.
    4. All units, by gain.
    5. All units, in batches that double.

    How much a unit gains is counted as the number of lacking pods that its capacity would take
    (``Shortfall``). Bounds on it are kept in a heap, and only the first is computed exactly.

    A single pod that depends on no other pods needs one node. So each node is then searched by
    itself as well, as kube-scheduler does. All units on it, up to the priority that was found, are
    taken, and given back in order of importance. The plans are compared.

    If it fits, too much may have been taken. So units are given back, those most worth sparing
    first: by halves, so that of many units few are tried one by one. Then the plan is minimal: the
    preemptor does not fit if any one of its victims stays. For a preemptor that depends on other
    pods, a pod that stays may allow another one to stay, so that is repeated while any is spared.

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
      far as steps 1 to 3 find them.

The first half of R2 is exact if no search for a placement exhausts its budget. The second half is
exact where one gang is enough; where several are, a plan may name more than the fewest.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Protocol, TypeAlias, final

from attrs import define, evolve, field, frozen

from gangsched._core._registry import PodGroupInfo
from gangsched.framework.nodes.judgements import Judge
from gangsched.framework.nodes.node_class import NodeClass
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.nodes_view import Holder, NodesView
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.placement.plan import Domain
from gangsched.framework.preemption import choices, eviction_units
from gangsched.framework.preemption.budgets import Budgets, budgets
from gangsched.framework.preemption.choices import Choice, Choices
from gangsched.framework.preemption.eviction_units import EvictionUnit, IsCandidate
from gangsched.framework.preemption.victim_budget import (
    BACK,
    BOUND,
    GAIN,
    LOOK,
    POD,
    TAKE,
    UNIT,
    VictimBudget,
)
from gangsched.framework.state.pod_classes import PodClasses
from gangsched.framework.state.pods import Member, Pods
from gangsched.framework.state.role_count import RoleCount
from gangsched.framework.state.scheduler_state import State
from gangsched.model import PodUID

__all__ = ["Preemptor", "Shortfall", "VictimPlan", "find"]

_BASE = 2**31
"""Added to each priority of a sum, so that more pods never cost less; as in kube-scheduler."""

_ENOUGH_PLANS = 2
"""The number of plans within different domains that are compared."""

_MILD, _BY_NODE, _COMPARING, _TAKING, _PLACING = 0.4, 0.5, 0.6, 0.75, 0.9
"""The parts of the steps of a search after which it compares no more elastic members, no more of
them by node, and no more units; and after which it takes no more units by gain."""

_SHARE_OF_ALL_NODES = 0.7
"""The part of the steps for a single pod that may be spent before each node is searched alone."""

_AT_ONCE = 256
"""The number of terminating pods that are taken off at once."""

_FEW = 4
"""The number of victims that are tried at once, without asking first which are needed."""

_FEW_CLASSES = 8
"""The number of classes of pods up to which it is cheaper to sum up than to try."""


@final
@frozen
class Shortfall:
    """The number of pods of one class that exceed free capacity, or that it exceeds."""

    pod_class: PodClass
    judge: Judge
    count: int


class Preemptor(Protocol):
    """A pod or a gang that needs capacity."""

    @property
    def budget(self) -> VictimBudget:
        """The steps that the search for victims may take."""
        ...

    @property
    def required(self) -> tuple[RoleCount, ...]:
        """The number of its pods that need capacity."""
        ...

    @property
    def groups(self) -> list[PodGroupInfo]:
        """The groups of its pods; none of their members is a victim."""
        ...

    @property
    def domains(self) -> Sequence[Domain | None]:
        """The domains to search, each by itself; None for all nodes."""
        ...

    @property
    def depends_on_pods(self) -> bool:
        """Whether it depends on which pods are on other nodes than those it is placed on."""
        ...

    def shortfalls(self, domain: Domain | None) -> list[Shortfall] | None:
        """Return the pods that exceed free capacity, or None if unknown.

        An empty list does not mean that all pods fit together.
        """
        ...

    def slacks(self, domain: Domain | None) -> list[Shortfall] | None:
        """Return the number of pods of each class that fit beyond those needed; None if unknown."""
        ...

    def is_resolvable(self, given: NodeClass) -> bool:
        """Return whether evictions may make nodes of a class take one of its pods."""
        ...

    def bar_nodes(self) -> None:
        """Use no node from now on where plugins that read pods say that evictions cannot help."""
        ...

    def fits_on(self, index: int) -> bool | None:
        """Return whether a node takes it as it is now; None if only ``places`` can say."""
        ...

    def places(self, *, anyway: bool = False) -> list[tuple[Member, int]] | None:
        """Return a node for each pod, by index; None if too few pods fit.

        If the steps are spent, that is None too, unless the answer is wanted *anyway*.
        """
        ...


_Cost: TypeAlias = tuple[float, int, int, int, float]


@final
@frozen
class VictimPlan:
    """A plan that makes a preemptor fit.

    Attributes:
        places: A node for each pod of the preemptor, by index.
        units: The gangs, bundles and regular pods that are evicted, and the nominations that are
            taken.
        members: The elastic members that are evicted.
        cost: The sort key of R2: highest priority of a victim, gangs, sum of priorities, pods, and
            how early the first victim of the highest priority was created.
        violations: The number of evictions that violate a disruption budget.
        awaited: For a preemptor that depends on other pods, those that terminate already and must
            have left, on whichever nodes; None for any other, which needs only its nodes.
        held: What the victims hold, if only the filters were asked about the node so far; None if
            the preemptor was placed.
    """

    places: list[tuple[Member, int]]
    units: list[EvictionUnit] = field(factory=list[EvictionUnit])
    members: list[Member] = field(factory=list[Member])
    cost: _Cost = (float("-inf"), 0, 0, 0, 0.0)
    violations: int = 0
    awaited: list[PodUID] | None = None
    held: list[Holder] | None = None


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
        ending = _remove_terminating(state, view, budget)
        if ending is None:
            return None
        places = preemptor.places()
        if places is not None:
            without = VictimPlan(places)
            return _with_awaited(view, preemptor, ending, without) if depends else without
        limits = budgets(state.settings, state.pods, budget.count) if units else None
        is_one, where = _is_one_pod(preemptor), preemptor.domains
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
                search = _Search(
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
                if plan is not None and depends:
                    plan = _with_awaited(view, preemptor, ending, plan)
                search.undo()
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


def _remove_terminating(state: State, view: NodesView, budget: VictimBudget) -> list[Holder] | None:
    """Take the terminating pods off; None if that takes more steps than there are."""
    found: list[Holder] = []
    ending = eviction_units.terminating(state.nodes, state.pods, state.reservations)
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


def _is_one_pod(preemptor: Preemptor) -> bool:
    """Return whether a preemptor needs one node, which may be any."""
    return list(preemptor.domains) == [None] and sum(ask.count for ask in preemptor.required) == 1


_Taken: TypeAlias = tuple[EvictionUnit, list[Holder]]
"""A unit, with the capacity that it freed."""


@final
@define(eq=False)
class _Search:
    """The search within one domain.

    Attributes:
        budgets: The disruption budgets; None for none.
        keeps_budgets: Whether no unit is taken that violates one.
        at: The one node that is searched, by index, if the filters of that node decide; None to
            place the preemptor.
        ends_at: The number of steps of the budget at which no more units are taken; None for all.
        leaves_nodes: Whether units are not taken together if there are no steps to compare them,
            because each node is searched by itself later.
        violating: The units that violate a budget if all that were taken are evicted, the most
            important first; None to look at each by itself.
    """

    nodes: Nodes
    pods: Pods
    pod_classes: PodClasses
    preemptor: Preemptor
    view: NodesView
    domain: Domain | None
    is_candidate: IsCandidate
    budgets: Budgets | None = None
    keeps_budgets: bool = False
    at: int | None = None
    ends_at: int | None = None
    leaves_nodes: bool = False
    taken: list[_Taken] = field(factory=list[_Taken])
    places: list[tuple[Member, int]] | None = None
    violating: frozenset[EvictionUnit] | None = None
    begun_at: int = field(init=False, default=0)
    _held: dict[EvictionUnit, list[Holder]] = field(
        init=False, factory=dict[EvictionUnit, list[Holder]]
    )
    _most_freed: dict[str, int] | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self.begun_at = self.preemptor.budget.steps

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
            self.violating = frozenset(unit for (unit, _held), violates in both if violates)
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
                self.places = places

    def undo(self, down_to: int = 0) -> None:
        """Put back all units that were taken, except the first *down_to*."""
        for taken in self.taken[down_to:]:
            self.preemptor.budget.count(BACK * len(taken[1]))
            self.view.mark_ready(taken[1])
            if self.budgets is not None and self.keeps_budgets:
                self.budgets.give_back(self._evicted(taken))
        del self.taken[down_to:]

    def _is_over(self) -> bool:
        """Return whether no more units are taken, because steps are spent."""
        return self.preemptor.budget.ends(self.ends_at)

    def _is_over_after(self, part: float) -> bool:
        """Return whether a part of the steps of this search is spent."""
        return self.preemptor.budget.ends(self._at(part))

    def _at(self, part: float) -> int:
        """Return the number of steps of the budget when a part of those of this search is spent."""
        budget = self.preemptor.budget
        end = budget.total if self.ends_at is None else self.ends_at
        return self.begun_at + int((end - self.begun_at) * part)

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
            skip = without_gangs and unit.gangs
            most = 0 if skip else self._bound(unit, shortfalls, ratios, bounds)
            if most:
                heap.append((-most, unit.pods, -unit.created_at, -unit.seq, number))
        heapq.heapify(heap)
        gone = set[int]()
        while shortfalls and heap and not budget.ends(self._at(_TAKING)):
            most, pods, created, seq, number = heapq.heappop(heap)
            enough = sum(each.count for each in shortfalls)
            if -most > enough:
                heapq.heappush(heap, (-enough, pods, created, seq, number))
                continue
            is_cut = self._is_over_after(_MILD if without_gangs else _COMPARING)
            if is_cut and number not in known:
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
        shortfalls: Sequence[Shortfall],
        ratios: Sequence[int],
        bounds: dict[int, int],
    ) -> int:
        """Return an upper bound on the gain of a unit; *bounds* has those of each size."""
        if unit.nomination is not None:
            return sum(each.count for each in shortfalls)
        size = unit.size
        bound = bounds.get(size)
        if bound is None:
            self.preemptor.budget.count(BOUND * len(shortfalls))
            both = zip(shortfalls, ratios, strict=True)
            bound = bounds[size] = sum(min(each.count, size * ratio) for each, ratio in both)
        return bound

    def _gain(self, units: Iterable[EvictionUnit], shortfalls: Sequence[Shortfall]) -> int:
        """Return the number of lacking pods that the capacity of some units would take."""
        classes, domain = self.nodes.classes, self.domain
        before: dict[int, NodeClass] = {}
        after: dict[int, NodeClass] = {}
        infos, looks = self.nodes.by_index, 0
        for unit in units:
            for holder in self._holders_of(unit):
                looks += 1
                index = holder.at
                if not holder.is_on(infos[index]):
                    continue
                given = after.get(index)
                if given is None:
                    given = classes.of(index)
                    if domain is not None and not domain.has(given):
                        continue
                    before[index] = given
                after[index] = classes.giving_back(given, holder.requests)
        moves: dict[tuple[NodeClass, NodeClass], int] = {}
        for index, given in before.items():
            move = (given, after[index])
            moves[move] = moves.get(move, 0) + 1
        gain = 0
        for each in shortfalls:
            more = sum(
                count * (_headroom(each, after) - _headroom(each, before))
                for (before, after), count in moves.items()
            )
            gain += min(each.count, more)
        operations = POD * looks + GAIN * (len(before) + len(moves) * len(shortfalls))
        self.preemptor.budget.count(operations)
        return gain

    def _holders_of(self, unit: EvictionUnit) -> list[Holder]:
        """Return what a unit frees; of whole gangs within a domain, only what it frees there.

        The preemptor is placed in the domain, so what is free elsewhere makes no difference to it.
        """
        found = self._held.get(unit)
        if found is None:
            found = unit.holders(self.nodes, self.pods, self.is_candidate)
            self.preemptor.budget.count(LOOK * len(found))
            domain, classes = self.domain, self.nodes.classes
            if domain is not None and not unit.is_elastic and not self.preemptor.depends_on_pods:
                found = [holder for holder in found if domain.has(classes.of(holder.at))]
            self._held[unit] = found
        return found

    def _take(self, unit: EvictionUnit) -> None:
        holders = self._holders_of(unit)
        self.preemptor.budget.count(TAKE * len(holders))
        removed = self.view.remove(holders)
        limits = self.budgets if self.keeps_budgets else None
        if limits is not None and not limits.take(self._evicted((unit, removed))):
            self.view.mark_ready(removed)
            return
        self.taken.append((unit, removed))

    def _fits(self) -> bool:
        if self.preemptor.budget.ends():
            return False
        if self.at is not None:
            fits = self.preemptor.fits_on(self.at)
            if fits is not None:
                return fits
        if self.preemptor.shortfalls(self.domain):
            return False
        places = self.preemptor.places()
        if places is not None:
            self.places = places
        return places is not None

    # Giving back ----------------------------------------------------------------------------

    def _spare(self) -> VictimPlan:
        """Put back every unit that can be spared, and return the plan."""
        whole = [each for each in self.taken if each[0].gangs]
        whole.sort(key=self._worth)
        kept = self._victims_of([(unit, held) for unit, held in whole])
        ended = {info.uid for unit, _held in kept for info in unit.groups}
        pieces: list[_Taken] = []
        mild = [each for each in self.taken if not each[0].gangs]
        for unit, held in sorted(mild, key=self._worth):
            if not unit.is_elastic:
                pieces.append((unit, held))
            elif unit.groups[0].uid not in ended:
                # of elastic members the first to arrive is spared first
                pieces += [(unit, [holder]) for holder in reversed(held)]
        kept_pieces = self._victims_of(pieces)
        if self.preemptor.budget.is_spent:
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
        self.taken = evicted + [e for e in mild if self._has_ended(e[0], ended)]
        asked = None if self.places is not None else [h for _unit, held in self.taken for h in held]
        places, cost = self.places or [], _cost(evicted)
        return VictimPlan(places, found, members, cost, self._violations(), held=asked)

    def _without_others(
        self, kept: list[_Taken], pieces: list[_Taken]
    ) -> tuple[list[_Taken], list[_Taken]]:
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
        self.view.mark_ready(held)
        places = self.preemptor.places(anyway=True)
        if places is None:
            self.view.remove(held)
            return kept, pieces
        self.places, spared = places, {id(each) for each in others}
        return (
            [each for each in kept if id(each) not in spared],
            [each for each in pieces if id(each) not in spared],
        )

    def _spare_again(
        self, kept: list[_Taken], pieces: list[_Taken], mild: Sequence[_Taken]
    ) -> tuple[list[_Taken], list[_Taken]]:
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

    def _evicted(self, taken: _Taken) -> list[PodUID]:
        """Return the pods that are evicted: of a gang all members, wherever they are.

        Of a nomination these are its pods. No budget counts them, as they hold no node.
        """
        unit, held = taken
        if unit.groups and not unit.is_elastic:
            return [member.pod.uid for member in unit.members(self.nodes, self.pods)]
        return [holder.uid for holder in held]

    def _worth(self, taken: _Taken) -> tuple[bool, int, int, float, int]:
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

    def _victims_of(self, pieces: list[_Taken]) -> list[_Taken]:
        """Put back, in order, every piece that can be spared; return the others."""
        if len(pieces) < _FEW:
            return self._tried(pieces)
        needed = self._needed_alone(pieces)
        rest = {id(each) for each in self._tried([e for e in pieces if id(e) not in needed])}
        return [each for each in pieces if id(each) in needed or id(each) in rest]

    def _needed_alone(self, pieces: Sequence[_Taken]) -> set[int]:
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
                    _headroom(slack, given) - _headroom(slack, after[index])
                    for index, given in before.items()
                    if self.domain is None or self.domain.has(given)
                )
                if lost > slack.count:
                    found.add(id(each))
                    break
        return found

    def _tried(self, pieces: list[_Taken]) -> list[_Taken]:
        """Put back, in order, every piece that can be spared; return the others.

        The result is that of trying one by one. If all of a half can be spared, that takes one
        placement.
        """
        if not pieces or self.preemptor.budget.ends():
            return pieces
        held = [holder for _unit, holders in pieces for holder in holders]
        self.preemptor.budget.count(BACK * len(held))
        self.view.mark_ready(held)
        if self._fits():
            return []
        self.preemptor.budget.count(BACK * len(held))
        self.view.remove(held)
        if len(pieces) == 1:
            return pieces
        half = len(pieces) // 2
        return self._tried(pieces[:half]) + self._tried(pieces[half:])


def _importance(unit: EvictionUnit) -> tuple[int, float, int]:
    """Return the sort key of units, the most important first, as kube-scheduler orders pods."""
    return (-unit.priority, unit.created_at, unit.seq)


def _cost(evicted: Sequence[_Taken]) -> _Cost:
    """Return the cost of a plan; see ``VictimPlan``. O(victims)."""
    each = [
        (unit.priority, len(held) if unit.is_elastic else unit.pods, unit.created_at)
        for unit, held in evicted
    ]
    # no victim if a plugin changed its answer
    highest = max((priority for priority, _pods, _at in each), default=-math.inf)
    return (
        highest,
        sum(unit.gangs for unit, _held in evicted),
        sum((priority + _BASE) * pods for priority, pods, _at in each),
        sum(pods for _priority, pods, _at in each),
        -min((at for priority, _pods, at in each if priority == highest), default=0.0),
    )


def _headroom(shortfall: Shortfall, given: NodeClass) -> int:
    return shortfall.pod_class.judgement(given, shortfall.judge).max_pods


def _ratio(freed: Mapping[str, int], preemptor: PodClass) -> int:
    """Return an upper bound on the pods of a class that fit where a pod leaves these amounts."""
    asked = preemptor.sample.requests
    return max((-(-freed.get(n, 0) // need) for n, need in asked.items() if need), default=0) or 1


def _priority_of(unit: EvictionUnit) -> int:
    return unit.priority
