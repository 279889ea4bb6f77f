"""Planning whom to displace.

Rules:
  R1  nothing is displaced by a plan: it is made with pods laid aside for as long as it takes
      (``NodesView``), and says who would have to go, and who goes where then;
  R2  the victim with the highest priority has the lowest that can be; below that, as few gangs
      as possible fall, then as few pods as possible go. Of a plan nobody can be spared;
  R3  who is going already goes first: where that is enough, nobody else has to.

The first half of R2 is exact, as far as a search for a placement is not undecided. For the second
half, units are taken by how much room they make, and given back one by one, the dearest first:
where one gang is enough only one falls, but of several it may not be the fewest.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Protocol, final

from attrs import define, field, frozen

from gangsched.framework.nodes.node_class import NodeClass
from gangsched.framework.nodes.nodes_view import Holder, NodesView
from gangsched.framework.nodes.pod_class import Judge, PodClass
from gangsched.framework.placement.plan import Domain
from gangsched.framework.preemption import candidates
from gangsched.framework.preemption.candidates import EvictionUnit
from gangsched.framework.state.scheduler_state import Member, State

__all__ = ["Displacement", "Lack", "Task", "find"]

_ENOUGH_PLANS = 2
"""Of plans within different domains, so many are compared."""


@final
@frozen
class Lack:
    """Pods of a class for which there is too little room: so many."""

    pod_class: PodClass
    judge: Judge
    count: int


class Task(Protocol):
    """Who is to have room."""

    @property
    def domains(self) -> Sequence[Domain | None]:
        """Within what to look, each for itself; None for anywhere."""
        ...

    def lacks(self, domain: Domain | None) -> list[Lack] | None:
        """Return of whom there are too many for the room there is; None where nobody knows.

        Nobody does not mean that all fit.
        """
        ...

    def places(self) -> list[tuple[Member, int]] | None:
        """Return who goes to the node with which index; None where too few fit."""
        ...


@final
@frozen
class Displacement:
    """A plan.

    Attributes:
        places: Who goes to the node with which index.
        units: Who falls, and whose kept room is taken.
        members: Who is given up by gangs that go on.
        cost: What R2 says of it: the highest priority, gangs, pods.
    """

    places: list[tuple[Member, int]]
    units: list[EvictionUnit] = field(factory=list[EvictionUnit])
    members: list[Member] = field(factory=list[Member])
    cost: tuple[float, int, int] = (float("-inf"), 0, 0)


def find(state: State, task: Task, units: Sequence[EvictionUnit]) -> Displacement | None:
    """Return how room can be made; None when it cannot.

    Runtime complexity: O(gangs), O(pods of the gangs that are looked at), and a placement for each
    set of victims that may be enough: where V units of N have to go, about V log N.
    """
    view = NodesView(state.nodes)
    try:
        view.remove(candidates.leaving(state))
        places = task.places()
        if places is not None:
            return Displacement(places)
        found: list[Displacement] = []
        for domain, within in _by_domain(state, task.domains, units):
            search = _Search(state, task, view, domain)
            plan = search.run(within)
            search.undo()
            if plan is not None:
                found.append(plan)
            if len(found) == _ENOUGH_PLANS:
                break
        return min(found, key=lambda plan: plan.cost, default=None)
    finally:
        view.discard()


def _by_domain(
    state: State, domains: Sequence[Domain | None], units: Sequence[EvictionUnit]
) -> list[tuple[Domain | None, list[EvictionUnit]]]:
    """Return the domains with who holds room there, those first where the most is held."""
    if not units:
        return []
    values: dict[tuple[str, str | None], dict[EvictionUnit, int]] = {}
    classes = state.nodes.classes
    for key in {domain.key for domain in domains if domain is not None}:
        for unit in units:
            for holder in unit.holders(state):
                value = classes.of(holder.at).sample.node.labels.get(key)
                held = values.setdefault((key, value), {})
                held[unit] = held.get(unit, 0) + 1
    found: list[tuple[int, Domain | None, list[EvictionUnit]]] = []
    for domain in domains:
        if domain is None:
            found.append((0, None, list(units)))
            continue
        here: dict[EvictionUnit, int] = {}
        for value in sorted(domain.values):
            here.update(values.get((domain.key, value), {}))
        found.append((-sum(here.values()), domain, [unit for unit in units if unit in here]))
    found.sort(key=lambda each: each[0])
    return [(domain, within) for _held, domain, within in found]


@final
@define(eq=False)
class _Search:
    """The search within one domain."""

    state: State
    task: Task
    view: NodesView
    domain: Domain | None
    taken: list[tuple[EvictionUnit, list[Holder]]] = field(
        factory=list[tuple[EvictionUnit, list[Holder]]]
    )
    places: list[tuple[Member, int]] | None = None

    def run(self, units: Sequence[EvictionUnit]) -> Displacement | None:
        """Look at one priority after the other, the lowest first.

        Those below one that it takes are not enough, and are laid aside by then. As others may do
        without any of them, all up to that priority are chosen from anew.
        """
        below: list[EvictionUnit] = []
        for priority in sorted({unit.priority for unit in units}):
            here = [unit for unit in units if unit.priority == priority]
            up_to = below + here
            if self._take_enough(here):
                if below:
                    self.undo()
                    self._take_enough(up_to)
                return self._spare()
            below = up_to
        return None

    def undo(self) -> None:
        for _unit, holders in self.taken:
            self.view.put_back(holders)
        self.taken.clear()

    # Taking ---------------------------------------------------------------------------------

    def _take_enough(self, left: list[EvictionUnit]) -> bool:
        """Lay units aside until it fits; False when all of them are not enough."""
        if self._take_by_room(left, without_fall=True) or self._take_by_room(left):
            return True
        # what one of them frees may be of use only with what another does
        count = 1
        left.sort(key=lambda unit: (unit.falls, unit.pods, -unit.created_at, -unit.seq))
        while left:
            batch = left[:count]
            del left[:count]
            count *= 2
            for unit in batch:
                self._take(unit)
            if self._fits():
                return True
        return False

    def _take_by_room(self, left: list[EvictionUnit], *, without_fall: bool = False) -> bool:
        """Lay aside who makes the most room, of equals where the fewest pods go.

        Who makes room at most, by what he asks for, is no more than a bound: only the first is
        looked at, and looked at again after another was laid aside.
        """
        lacks = self.task.lacks(self.domain)
        ratios = self._ratios(lacks or ())
        heap: list[tuple[int, int, float, int, int]] = []
        known: dict[int, int] = {}
        for number, unit in enumerate(left):
            most = 0 if without_fall and unit.falls else self._bound(unit, lacks or (), ratios)
            if most:
                heap.append((-most, unit.pods, -unit.created_at, -unit.seq, number))
        heapq.heapify(heap)
        gone = set[int]()
        while lacks and heap:
            most, pods, created, seq, number = heapq.heappop(heap)
            enough = sum(lack.count for lack in lacks)
            if -most > enough:
                heapq.heappush(heap, (-enough, pods, created, seq, number))
                continue
            if known.get(number) != len(gone):
                gain = self._gain(left[number], lacks)
                known[number] = len(gone)
                if gain and gain < -most:
                    heapq.heappush(heap, (-gain, pods, created, seq, number))
                if gain < -most:
                    continue
            self._take(left[number])
            gone.add(number)
            lacks = self.task.lacks(self.domain)
        left[:] = [unit for number, unit in enumerate(left) if number not in gone]
        return lacks is not None and not lacks and self._fits()

    def _ratios(self, lacks: Sequence[Lack]) -> list[int]:
        """Return for how many of each that lack room one pod makes room on its node at most."""
        victims = self.state.classes.values()
        return [max(_ratio(v, each.pod_class) for v in victims) for each in lacks]

    @staticmethod
    def _bound(unit: EvictionUnit, lacks: Sequence[Lack], ratios: Sequence[int]) -> int:
        """Return for how many it makes room at most. O(kinds that lack room)."""
        if unit.nomination is not None:
            return sum(lack.count for lack in lacks)
        both = zip(lacks, ratios, strict=True)
        return sum(min(lack.count, unit.size * ratio) for lack, ratio in both)

    def _gain(self, unit: EvictionUnit, lacks: Sequence[Lack]) -> int:
        """Return for how many of those who lack room it makes room."""
        classes = self.state.nodes.classes
        before: dict[int, NodeClass] = {}
        after: dict[int, NodeClass] = {}
        held = self.state.nodes.by_index
        for uid, index, requests in unit.holders(self.state):
            if uid not in held[index].holders:
                continue
            if index not in before:
                before[index] = after[index] = classes.of(index)
            after[index] = classes.giving_back(after[index], requests)
        moves: dict[tuple[NodeClass, NodeClass], int] = {}
        for index, given in before.items():
            if self.domain is None or self.domain.has(given):
                move = (given, after[index])
                moves[move] = moves.get(move, 0) + 1
        gain = 0
        for lack in lacks:
            room = sum(
                count * (_room(lack, after) - _room(lack, before))
                for (before, after), count in moves.items()
            )
            gain += min(lack.count, room)
        return gain

    def _take(self, unit: EvictionUnit) -> None:
        self.taken.append((unit, self.view.remove(unit.holders(self.state))))

    def _fits(self) -> bool:
        if self.task.lacks(self.domain):
            return False
        places = self.task.places()
        if places is not None:
            self.places = places
        return places is not None

    # Giving back ----------------------------------------------------------------------------

    def _spare(self) -> Displacement:
        """Give back whoever can be spared, and return the plan."""
        whole = [each for each in self.taken if each[0].falls]
        whole.sort(key=lambda each: _worth(each[0]))
        kept = self._victims_of([(unit, held) for unit, held in whole])
        fallen = {info.uid for unit, _held in kept for info in unit.groups}
        pieces: list[tuple[EvictionUnit, list[Holder]]] = []
        mild = [each for each in self.taken if not each[0].falls]
        for unit, held in sorted(mild, key=lambda each: _worth(each[0])):
            if not unit.is_surplus:
                pieces.append((unit, held))
            elif unit.groups[0].uid not in fallen:
                # of its members the first to come is given back first
                pieces += [(unit, [holder]) for holder in reversed(held)]
        kept_pieces = self._victims_of(pieces)
        assert self.places is not None
        members = [
            self.state.members[holder.uid]
            for unit, held in kept_pieces
            if unit.is_surplus
            for holder in held
        ]
        found = [unit for unit, _held in kept]
        found += [unit for unit, _held in kept_pieces if not unit.is_surplus]
        self.taken = kept + kept_pieces + [e for e in mild if self._fell(e[0], fallen)]
        all_of = [unit.priority for unit, _held in kept + kept_pieces]
        cost = (
            max(all_of, default=float("-inf")),  # of nobody where a plugin changed its mind
            sum(unit.falls for unit in found),
            sum(unit.pods for unit in found) + len(members),
        )
        return Displacement(self.places, found, members, cost)

    @staticmethod
    def _fell(unit: EvictionUnit, fallen: set[int]) -> bool:
        return unit.is_surplus and unit.groups[0].uid in fallen

    def _victims_of(
        self, pieces: list[tuple[EvictionUnit, list[Holder]]]
    ) -> list[tuple[EvictionUnit, list[Holder]]]:
        """Give back, in order, whoever can be spared; return who cannot be.

        As if one by one: whom half of them cannot do without is looked for in that half.
        """
        if not pieces:
            return []
        held = [holder for _unit, holders in pieces for holder in holders]
        self.view.put_back(held)
        if self._fits():
            return []
        self.view.remove(held)
        if len(pieces) == 1:
            return pieces
        half = len(pieces) // 2
        return self._victims_of(pieces[:half]) + self._victims_of(pieces[half:])


def _worth(unit: EvictionUnit) -> tuple[int, int, float, int]:
    """Return the order in which units are given back: the first is the one most worth sparing."""
    return (-unit.priority, -unit.pods, unit.created_at, unit.seq)


def _room(lack: Lack, given: NodeClass) -> int:
    return lack.pod_class.judgement(given, lack.judge).room


def _ratio(victim: PodClass, comer: PodClass) -> int:
    """Return for how many of one class a pod of another makes room on its node at most."""
    freed, asked = victim.sample.requests, comer.sample.requests
    return max((-(-freed.amount(n) // need) for n, need in asked.items() if need), default=0) or 1
