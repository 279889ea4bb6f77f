"""The units that a search for victims has taken off the nodes, and what they gain.

The search works on the nodes themselves. Units are taken off and put back one by one, each for
operations of the budget (``VictimBudget``).

Rules:
  R1  ``taken`` has the units in the order in which they were taken, each with what it freed;
  R2  a unit that would violate a budget is not taken while budgets are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import define, field

from gangsched.framework.nodes.node_class import NodeClass
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.nodes_view import Holder, NodesView
from gangsched.framework.placement.plan import Domain
from gangsched.framework.preemption.budgets import Budgets
from gangsched.framework.preemption.eviction_units import EvictionUnit, IsCandidate
from gangsched.framework.preemption.victim_budget import BACK, GAIN, LOOK, POD, TAKE
from gangsched.framework.preemption.victim_plan import Preemptor, Shortfall, Taken
from gangsched.framework.state.pod_classes import PodClasses
from gangsched.framework.state.pods import Member, Pods
from gangsched.model import PodUID

__all__ = ["TakenUnits", "headroom_of"]


@define(eq=False)
class TakenUnits:
    """The units that a search within one domain has taken off the nodes.

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
    taken: list[Taken] = field(factory=list[Taken])
    places: list[tuple[Member, int]] | None = None
    violating: frozenset[EvictionUnit] | None = None
    begun_at: int = field(init=False, default=0)
    _held: dict[EvictionUnit, list[Holder]] = field(
        init=False, factory=dict[EvictionUnit, list[Holder]]
    )
    _most_freed: dict[str, int] | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self.begun_at = self.preemptor.budget.steps

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

    def _note_violating(self, units: Iterable[EvictionUnit]) -> None:
        """Note the units that violate a budget if all that were taken are evicted."""
        self.violating = frozenset(units)

    def _note_places(self, places: list[tuple[Member, int]] | None) -> None:
        """Note the nodes on which the preemptor was placed without the units that are taken."""
        self.places = places

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
                count * (headroom_of(each, after) - headroom_of(each, before))
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

    def _evicted(self, taken: Taken) -> list[PodUID]:
        """Return the pods that are evicted: of a gang all members, wherever they are.

        Of a nomination these are its pods. No budget counts them, as they hold no node.
        """
        unit, held = taken
        if unit.groups and not unit.is_elastic:
            return [member.pod.uid for member in unit.members(self.nodes, self.pods)]
        return [holder.uid for holder in held]


def headroom_of(shortfall: Shortfall, given: NodeClass) -> int:
    """Return how many pods of a shortfall a node of a class can take. O(1), else O(plugins)."""
    return shortfall.pod_class.judgements.judgement(given, shortfall.judge).max_pods
