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
from collections.abc import Iterable, Sequence
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
from gangsched.framework.preemption.choices import Choices
from gangsched.framework.preemption.eviction_units import EvictionUnit, IsCandidate
from gangsched.framework.preemption.victim_budget import VictimBudget
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


@final
@frozen
class Shortfall:
    """The number of pods of one class that exceed free capacity."""

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

    def is_resolvable(self, given: NodeClass) -> bool:
        """Return whether evictions may make nodes of a class take one of its pods."""
        ...

    def bar_nodes(self) -> None:
        """Use no node from now on where plugins that read pods say that evictions cannot help."""
        ...

    def places(self) -> list[tuple[Member, int]] | None:
        """Return a node for each pod, by index; None if too few pods fit."""
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
    """

    places: list[tuple[Member, int]]
    units: list[EvictionUnit] = field(factory=list[EvictionUnit])
    members: list[Member] = field(factory=list[Member])
    cost: _Cost = (float("-inf"), 0, 0, 0, 0.0)
    violations: int = 0
    awaited: list[PodUID] | None = None


def find(state: State, preemptor: Preemptor, units: Sequence[EvictionUnit]) -> VictimPlan | None:
    """Return a plan that makes a preemptor fit; None if there is none.

    Runtime complexity: O(gangs), O(pods of the gangs that are considered), and a placement for
    each set of victims that is tried. If V units of N are evicted, these are about V log N.
    """
    depends = preemptor.depends_on_pods
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
        ending = view.remove(
            eviction_units.terminating(state.nodes, state.pods, state.reservations)
        )
        places = preemptor.places()
        if places is not None:
            without = VictimPlan(places)
            return _with_awaited(view, preemptor, ending, without) if depends else without
        limits = budgets(state.settings, state.pods) if units else None
        domains = choices.by_domain(state.nodes, state.pods, preemptor.domains, units, is_candidate)

        def plans(
            given: Choices, *, keeps: bool, enough: int | None, spares: bool = False
        ) -> list[VictimPlan]:
            found: list[VictimPlan] = []
            for domain, within in given:
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

        found = plans(domains, keeps=limits is not None, enough=_ENOUGH_PLANS)
        if _is_one_pod(preemptor) and not depends:
            most = min((plan.cost[0] for plan in found), default=math.inf)
            near = [unit for unit in units if unit.priority <= most]
            nodes = choices.by_node(state.nodes, state.pods, near, is_candidate)
            found += plans(nodes, keeps=False, enough=None, spares=True)
        if not found and limits is not None:
            if _is_one_pod(preemptor):
                nodes = choices.by_node(state.nodes, state.pods, units, is_candidate)
                for keeps in (True, False):
                    found += plans(nodes, keeps=keeps, enough=None)
            found = found or plans(domains, keeps=False, enough=_ENOUGH_PLANS)
        if depends and list(preemptor.domains) != [None]:
            # a pod outside of the domain may be in the way of the preemptor inside
            kept = [plan.cost[0] for plan in found if not plan.violations]
            near = [unit for unit in units if unit.priority < min(kept, default=math.inf)]
            anywhere: Choices = [(domain, near) for domain, _within in domains if near]
            found += plans(anywhere, keeps=limits is not None, enough=_ENOUGH_PLANS)
            if not found and limits is not None:
                found = plans(anywhere, keeps=False, enough=_ENOUGH_PLANS)
        if not found and depends and _is_one_pod(preemptor):
            # with victims on all nodes, a pod that it has affinity to may be among them
            nodes = choices.by_node(state.nodes, state.pods, units, is_candidate)
            found = plans(nodes, keeps=False, enough=None)
        return min(found, key=lambda plan: (plan.violations, *plan.cost), default=None)
    finally:
        view.discard()


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
    taken: list[_Taken] = field(factory=list[_Taken])
    places: list[tuple[Member, int]] | None = None
    violating: frozenset[EvictionUnit] | None = None

    def run_sparing(self, units: Sequence[EvictionUnit]) -> VictimPlan | None:
        """Take all units, then give back those that violate a budget, then the others.

        Source: ``SelectVictimsOnNode`` of kube-scheduler.
        """
        for unit in sorted(units, key=_importance):
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
        for priority in sorted({unit.priority for unit in units}):
            if self.preemptor.budget.is_spent:
                return None
            here = [unit for unit in units if unit.priority == priority]
            up_to = below + here
            if self._take_enough(here):
                if below:
                    self._choose_again(up_to)
                return self._spare()
            below = up_to
        return None

    def _choose_again(self, units: list[EvictionUnit]) -> None:
        """Take other units that are enough, if there are any; otherwise the same ones again.

        In another order, units that help may be refused: a budget is used up by others.
        """
        before = [unit for unit, _holders in self.taken]
        self.undo()
        if not self._take_enough(units):
            self.undo()
            for unit in before:
                self._take(unit)
            self._fits()

    def undo(self, down_to: int = 0) -> None:
        """Put back all units that were taken, except the first *down_to*."""
        for taken in self.taken[down_to:]:
            self.view.mark_ready(taken[1])
            if self.budgets is not None and self.keeps_budgets:
                self.budgets.give_back(self._evicted(taken))
        del self.taken[down_to:]

    # Taking ---------------------------------------------------------------------------------

    def _take_enough(self, left: list[EvictionUnit]) -> bool:
        """Take units until the preemptor fits; False if all of them are not enough."""
        if self._take_without_gangs(left) or self._take_by_gain(left):
            return True
        # what one unit frees may help only with what another frees
        count = 1
        left.sort(key=lambda unit: (unit.gangs, unit.pods, -unit.created_at, -unit.seq))
        while left:
            batch = left[:count]
            del left[:count]
            count *= 2
            for unit in batch:
                self._take(unit)
            if self._fits():
                return True
        return False

    def _take_without_gangs(self, left: list[EvictionUnit]) -> bool:
        """Take units that end no gang; if they are not enough, only those with a gain stay taken.

        The units with a gain are removed from *left*.
        """
        before, mild = len(self.taken), [unit for unit in left if not unit.gangs]
        if self._take_by_gain(left, without_gangs=True):
            return True
        by_gain = self.taken[before:]
        rest = [unit for unit in left if not unit.gangs]
        for unit in rest:
            self._take(unit)
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
        shortfalls = self.preemptor.shortfalls(self.domain)
        on_node: dict[int, list[EvictionUnit]] = {}
        for unit in elastic:
            for index in eviction_units.elastic_nodes(self.nodes, self.pods, unit.groups[0]):
                if self.is_candidate(index):
                    on_node.setdefault(index, []).append(unit)
        most = sum(each.count for each in shortfalls or ())
        heap = [(-most, index) for index in sorted(on_node)]
        while shortfalls and heap:
            bound, index = heapq.heappop(heap)
            chosen = [unit.on_node(self.nodes, self.pods, index, gone) for unit in on_node[index]]
            gain = self._gain(chosen, shortfalls)
            if not gain:
                continue
            if gain < -bound and heap and gain < -heap[0][0]:
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
        shortfalls = self.preemptor.shortfalls(self.domain)
        ratios = self._ratios(shortfalls or ())
        heap: list[tuple[int, int, float, int, int]] = []
        known: dict[int, int] = {}
        for number, unit in enumerate(left):
            skip = without_gangs and unit.gangs
            most = 0 if skip else self._bound(unit, shortfalls or (), ratios)
            if most:
                heap.append((-most, unit.pods, -unit.created_at, -unit.seq, number))
        heapq.heapify(heap)
        gone = set[int]()
        while shortfalls and heap:
            most, pods, created, seq, number = heapq.heappop(heap)
            enough = sum(each.count for each in shortfalls)
            if -most > enough:
                heapq.heappush(heap, (-enough, pods, created, seq, number))
                continue
            if known.get(number) != len(gone):
                gain = self._gain((left[number],), shortfalls)
                known[number] = len(gone)
                if gain and gain < -most:
                    heapq.heappush(heap, (-gain, pods, created, seq, number))
                if gain < -most:
                    continue
            self._take(left[number])
            gone.add(number)
            shortfalls = self.preemptor.shortfalls(self.domain)
        left[:] = [unit for number, unit in enumerate(left) if number not in gone]
        return shortfalls is not None and not shortfalls and self._fits()

    def _ratios(self, shortfalls: Sequence[Shortfall]) -> list[int]:
        """Return, for each shortfall, the number of its pods that one evicted pod makes fit."""
        victims = self.pod_classes.by_signature.values()
        return [max(_ratio(v, each.pod_class) for v in victims) for each in shortfalls]

    @staticmethod
    def _bound(unit: EvictionUnit, shortfalls: Sequence[Shortfall], ratios: Sequence[int]) -> int:
        """Return an upper bound on the gain of a unit. O(shortfalls)."""
        if unit.nomination is not None:
            return sum(each.count for each in shortfalls)
        both = zip(shortfalls, ratios, strict=True)
        return sum(min(each.count, unit.size * ratio) for each, ratio in both)

    def _gain(self, units: Iterable[EvictionUnit], shortfalls: Sequence[Shortfall]) -> int:
        """Return the number of lacking pods that the capacity of some units would take."""
        classes = self.nodes.classes
        before: dict[int, NodeClass] = {}
        after: dict[int, NodeClass] = {}
        infos = self.nodes.by_index
        for unit in units:
            for holder in unit.holders(self.nodes, self.pods, self.is_candidate):
                index = holder.at
                if not holder.is_on(infos[index]):
                    continue
                if index not in before:
                    before[index] = after[index] = classes.of(index)
                after[index] = classes.giving_back(after[index], holder.requests)
        moves: dict[tuple[NodeClass, NodeClass], int] = {}
        for index, given in before.items():
            if self.domain is None or self.domain.has(given):
                move = (given, after[index])
                moves[move] = moves.get(move, 0) + 1
        gain = 0
        for each in shortfalls:
            more = sum(
                count * (_headroom(each, after) - _headroom(each, before))
                for (before, after), count in moves.items()
            )
            gain += min(each.count, more)
        return gain

    def _take(self, unit: EvictionUnit) -> None:
        holders = unit.holders(self.nodes, self.pods, self.is_candidate)
        removed = self.view.remove(holders)
        limits = self.budgets if self.keeps_budgets else None
        if limits is not None and not limits.take(self._evicted((unit, removed))):
            self.view.mark_ready(removed)
            return
        self.taken.append((unit, removed))

    def _fits(self) -> bool:
        if not self.preemptor.budget.is_spent and self.preemptor.shortfalls(self.domain):
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
        if self.preemptor.depends_on_pods and len(kept) + len(kept_pieces) < len(whole + pieces):
            kept, kept_pieces = self._spare_again(kept, kept_pieces, mild)
        assert self.places is not None
        members = [
            self.pods.members[holder.uid]
            for unit, held in kept_pieces
            if unit.is_elastic
            for holder in held
        ]
        found = [unit for unit, _held in kept]
        found += [unit for unit, _held in kept_pieces if not unit.is_elastic]
        self.taken = kept + kept_pieces + [e for e in mild if self._has_ended(e[0], ended)]
        cost = _cost(kept + kept_pieces)
        return VictimPlan(self.places, found, members, cost, self._violations())

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
        """Return the pods that are evicted: of a gang all members, wherever they are."""
        unit, held = taken
        if unit.nomination is not None:
            return []
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
        """Put back, in order, every piece that can be spared; return the others.

        The result is that of trying one by one. If all of a half can be spared, that takes one
        placement.
        """
        if not pieces or self.preemptor.budget.is_spent:
            return pieces
        held = [holder for _unit, holders in pieces for holder in holders]
        self.view.mark_ready(held)
        if self._fits():
            return []
        self.view.remove(held)
        if len(pieces) == 1:
            return pieces
        half = len(pieces) // 2
        return self._victims_of(pieces[:half]) + self._victims_of(pieces[half:])


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


def _ratio(victim: PodClass, preemptor: PodClass) -> int:
    """Return an upper bound on the pods of one class that evicting a pod of another makes fit."""
    freed, asked = victim.sample.requests, preemptor.sample.requests
    return max((-(-freed.amount(n) // need) for n, need in asked.items() if need), default=0) or 1
