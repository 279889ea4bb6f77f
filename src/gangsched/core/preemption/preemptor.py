"""Preemptors, as ``victim_search`` asks about them: a gang, a copy, or a member that goes alone.

Rules:
  R1  whether a preemptor fits is decided as in its cycle: by the same checks and the same
      placement, and nothing is assumed;
  R2  a gang fits if as many members fit as it needs to start, and so does a surplus copy of a role;
      a member that goes alone fits by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, final

from gangsched.core.attempt.placing import Places, places
from gangsched.core.nodes.domains import EVERYWHERE, Domain
from gangsched.core.nodes.node_table import Needs
from gangsched.core.placement import late
from gangsched.core.placement.task import Task
from gangsched.core.preemption.steps import Steps
from gangsched.core.queue.demand import Minimum
from gangsched.core.records.gang import GangRecord, PodRecord
from gangsched.core.records.trial import Trial
from gangsched.core.state import State
from gangsched.outcomes import Unschedulable
from gangsched.primitives.gang_tree import HOST, SubGroup

__all__ = ["Preemptor"]

_PLACEMENT: Final = 1
"""The steps of a placement besides its search."""


@final
class Preemptor:
    """A gang that has not started, a copy that its role does not need, or a member that goes alone.

    Args:
        state: The state.
        gang: The gang.
        members: The members that are to be placed.
        needed: How many members each sub group lacks; None for a member that goes alone.
        minima: What the members ask of the nodes, class by class.
        steps: The steps that the search for victims may take.
        copy: The surplus copy that is to start as a whole; None for another preemptor.

    Attributes:
        depends_on_pods: Whether it depends on which pods are on other nodes than its own.
        one: Its only pod, if it needs one node, which may be any.
    """

    def __init__(
        self,
        state: State,
        gang: GangRecord,
        members: Sequence[PodRecord],
        needed: Mapping[str, int] | None,
        minima: Sequence[Minimum],
        steps: Steps,
        copy: SubGroup | None = None,
    ) -> None:
        self.state: State = state
        self.gang: GangRecord = gang
        self.members: Sequence[PodRecord] = members
        self.needed: Mapping[str, int] | None = needed
        self.steps: Steps = steps
        self._copy = copy
        self._minima = minima
        self._barred: frozenset[int] = frozenset()
        task = self._task(members, {})
        classes = {record.pod_class for record in members}
        asks_late = any(task.asks_late(c) for c in classes if c is not None)
        # who has a domain for itself is in the way wherever it is there
        self.depends_on_pods: bool = asks_late or state.records.tenancy.is_wanted
        self.one: PodRecord | None = members[0] if self._needs_one(members) else None
        if self.depends_on_pods:
            self._barred = self._unresolvable_for(members)

    @property
    def is_copy(self) -> bool:
        """Whether it is a surplus copy, and not what its gang needs to start."""
        return self._copy is not None

    def _needs_one(self, members: Sequence[PodRecord]) -> bool:
        if self.needed is None:
            return True
        return len(members) == 1 and self.domains == [EVERYWHERE]

    def required(self, found: Places) -> tuple[tuple[frozenset[str], int], ...]:
        """Return how many pods of some leaves it needs, given the copies that have places."""
        if self.needed is None:
            return ((frozenset((self.members[0].leaf,)), 1),)
        placed = {record.leaf for record, _slot in found}
        required: list[tuple[frozenset[str], int]] = []
        for sub in self.gang.tree.sub_groups():
            leaves, number = frozenset(leaf.key for leaf in sub.leaves), self.needed.get(sub.key, 0)
            if number > 0 and not placed.isdisjoint(leaves):
                required.append((leaves, number))
        return tuple(required)

    @property
    def depends_on_total(self) -> bool:
        """Whether it needs capacity in the cluster as a whole, beside that of its own nodes."""
        if self.needed is None or self._copy is not None:
            return False
        points = self.state.points
        return any(
            points.group_requests(info)
            for info in self.gang.infos.values()
            if not info.was_scheduled
        )

    @property
    def domains(self) -> list[Domain]:
        """The domains to search, each by itself."""
        for tree in (self._copy, self.gang.tree) if self.needed is not None else ():
            within = None if tree is None else tree.within
            if tree is not None and within is not None and within.required:
                if within.level == HOST:
                    break
                return list(self._task((), {}).domains(tree))
        return [EVERYWHERE]

    def shortfall(self, domain: Domain) -> int:
        """Return how many of its pods exceed free capacity; 0 does not mean that all fit."""
        if domain == EVERYWHERE:
            return sum(minimum.shortfall() for minimum in self._minima)
        return sum(minimum.shortfall(domain) for minimum in self._minima)

    def short_of(self) -> frozenset[str]:
        """Return the resources of which nodes have too little free, whatever the others say.

        If it is short of none alone, and still fits nowhere, it may lack any of them.

        Runtime complexity: O(nodes x resources).
        """
        table, needed = self.state.table, sum(minimum.number for minimum in self._minima)
        least: dict[int, int] = {}
        for number, amount in (each for record in self.members for each in record.needs):
            least[number] = min(amount, least.get(number, amount)) if amount else 0
        found = set[int]()
        for domain in self.domains:
            slots = range(len(table.nodes)) if domain == EVERYWHERE else table.domains.slots(domain)
            free = [table.state_of[slot].free for slot in slots if table.nodes[slot] is not None]
            short = {
                number
                for number, amount in least.items()
                if amount and sum(max(each[number], 0) // amount for each in free) < needed
            }
            if not short:
                return frozenset(
                    name for name, number in table.resources.items() if least.get(number)
                )
            found |= short
        return frozenset(name for name, number in table.resources.items() if number in found)

    def most_by(self, needs: Needs) -> int:
        """Return how many of its pods one evicted pod may make fit, at the most. O(classes)."""
        freed, most = dict(needs), 1
        for minimum in self._minima:
            for pod_class, _most in minimum.parts:
                for number, amount in pod_class.compared:
                    most = max(most, -(-freed.get(number, 0) // amount))
        return most

    def places(self, trial: Trial, *, anyway: bool = False) -> Places | None:
        """Return a node for each pod that is needed; None if too few fit.

        If the steps are spent, that is None too, unless the answer is wanted *anyway*.
        """
        if not anyway and self.steps.are_spent:
            return None
        self.steps.count(_PLACEMENT)
        return places(
            self.state,
            self.gang,
            self.members,
            self.needed,
            trial,
            budget=self.steps.for_search(),
            barred=self._barred,
            count=self.steps.count,
            is_surplus=self._copy is not None,
        )

    def fits_on(self, slot: int) -> bool | None:
        """Return whether its only pod fits on a node as it is now; None if ``places`` has to say.

        Runtime complexity: O(plugins).
        """
        record = self.one
        if record is None or slot in self._barred:
            return False
        if self.needed is not None:
            return None  # a gang of one is placed as any gang
        pod_class = record.pod_class
        assert pod_class is not None
        if not pod_class.memo.fits(self.state.table.state_of[slot]) or not self._is_in_domain(slot):
            return False
        if not self.depends_on_pods:
            return True
        cycle = self.state.cycle(record)
        if self.state.points.pre_filter(cycle, record.pod, self.state.records.now) is not None:
            return False
        views = self.state.views
        asked = late.asked_about(pod_class, cycle, record, views)
        return late.accepted(asked, record, cycle, views, slot) is None

    def _is_in_domain(self, slot: int) -> bool:
        """Return whether a node is where the running members of the gang have to be."""
        tree, table = self.gang.tree, self.state.table
        for sub in tree.constrained:
            within = sub.within
            assert within is not None
            assert self.one is not None
            if not within.required or self.one.leaf not in {leaf.key for leaf in sub.leaves}:
                continue
            pinned = self._task((), {}).pinned(sub)
            domain = table.domains.around(slot, within.level)
            if domain is None or (pinned is not None and domain not in pinned):
                return False
        return True

    def _unresolvable_for(self, members: Sequence[PodRecord]) -> frozenset[int]:
        """Return the nodes that are a candidate for none of some pods; see ``_unresolvable``."""
        found: frozenset[int] | None = None
        for record in {record.pod_class: record for record in reversed(members)}.values():
            found = self._unresolvable(record, found)
            if not found:
                break
        return found or frozenset()

    def _unresolvable(self, record: PodRecord, among: frozenset[int] | None) -> frozenset[int]:
        """Return the nodes where a plugin that reads pods says that evictions cannot help.

        It is asked on the nodes as they are, as kube-scheduler does. O(nodes x plugins).

        Args:
            record: The pod.
            among: The nodes to ask about; None for all of them.
        """
        state, pod_class = self.state, record.pod_class
        assert pod_class is not None
        cycle = state.cycle(record)
        if state.points.pre_filter(cycle, record.pod, state.records.now) is not None:
            return frozenset()
        views = state.views
        asked = late.asked_about(pod_class, cycle, record, views)
        found: set[int] = set()
        for slot in range(len(state.table.nodes)) if among is None else sorted(among):
            is_there = state.table.nodes[slot] is not None
            if is_there and pod_class.memo.accepts(state.table.state_of[slot]):
                refused = late.accepted(asked, record, cycle, views, slot)
                if isinstance(refused, Unschedulable) and not refused.resolvable:
                    found.add(slot)
        return frozenset(found)

    def _task(self, members: Sequence[PodRecord], needed: Mapping[str, int]) -> Task:
        return Task(self.gang, members, self.state.records, self.state.cycle, needed)
