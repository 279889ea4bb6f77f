"""Whether the reserved gang can still start as planned if a pod is placed on a node.

Capacity is held for the plan. A pod may break it in other ways: it takes a host port, or matches
the anti-affinity of a member. Its own anti-affinity may keep the members away, it may fill a domain
of a spread constraint, and it may use a volume. One of them may want a domain for itself.

1. ``concerns``: most pods cannot be in the way. The plugins that read pods for a member say where
   another pod would be (``hindered_within``), and the terms that the pod carries are compared with
   the members.
2. A node in none of these domains is accepted at once.
3. For any other node the start is carried out on the nodes without the pods that will have left:
   first the pod comes, then one member after another. The late plugins are asked before each. A
   member that is refused is tried after the others, and then before them.

To the placement of a pod this is one more plugin that filters nodes.

Rules:
  R1  if the members were accepted in some order that was tried, the plan is valid;
  R2  a pod that will have left by then is in the way of no member, and helps none;
  R3  what a plugin raises while it is asked for ``concerns`` is raised at the end of the call, and
      the pod counts as being in the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple, final

from gangsched.core.evaluation.pod_class import Late
from gangsched.core.nodes.views import NodeView
from gangsched.core.placement import late
from gangsched.core.records.gang import PodRecord
from gangsched.core.state import State
from gangsched.core.state.reserved import ActiveReservation
from gangsched.cycle_state import CycleState
from gangsched.errors import GangschedError
from gangsched.model import Pod
from gangsched.outcomes import SUCCESS, Outcome, Unschedulable
from gangsched.primitives.gang_tree import HOST
from gangsched.profile import calls

__all__ = ["ReservedPlan"]

_NODE: Final = ""
"""Stands for the node itself, among the keys of labels."""

_Cycles = dict[PodRecord, CycleState]


class _Where(NamedTuple):
    """Where a pod may be in the way: by node labels, or anywhere."""

    keys: frozenset[str]
    anywhere: bool


@final
class ReservedPlan:
    """The plan of a reservation; see ``records.Guard``.

    Attributes:
        has_refused: Whether a node was refused to a pod.
    """

    DERIVED: ClassVar[Mapping[str, Callable[[], Any]]] = {"_known": dict}
    """What a copy begins with: the classes of pods in the keys would be those of the original."""

    def __init__(self, state: State, reservation: ActiveReservation) -> None:
        self.has_refused = False
        self._state = state
        self._reservation = reservation
        self._planned: list[tuple[PodRecord, int]] = [
            (record, slot)
            for record, slot in reservation.planned
            if state.records.pods.get(record.uid) is record and record.pod_class is not None
        ]
        self._samples = {record.pod_class: record for record, _slot in self._planned}
        self._known: dict[Any, _Where | None] = {}
        self._labels = dict.fromkeys((r.pod.namespace, r.pod.labels) for r, _s in self._planned)

    @property
    def reason(self) -> str:
        """Why a node is refused."""
        gang = self._reservation.gang
        group = gang.group
        holder = f"pod {gang.pod.key}" if group is None else f"pod group {group.key}"
        return f"node(s) where the pod would delay the reserved start of {holder}"

    def concerns(self, record: PodRecord) -> bool:
        """Return whether a pod may be in the way. O(plugins x classes of members)."""
        return self._where(record) is not None

    def check(self, record: PodRecord) -> Late | None:
        """Return the plugin that refuses a pod nodes; None if it cannot be in the way."""
        where = self._where(record)
        return None if where is None else Late(_Check(self, record, where), True, 0)

    def _where(self, record: PodRecord) -> _Where | None:
        key = (record.pod_class, record.pod.namespace, record.pod.labels)
        if key not in self._known:
            self._known[key] = self._find(record)
        return self._known[key]

    def _find(self, record: PodRecord) -> _Where | None:
        state, pod = self._state, record.pod
        keys, anywhere = set[str](), False
        try:
            for found in self._hindered(pod):
                anywhere = anywhere or found is None
                keys.update(found or ())
            keys.update(*(levels for levels, _same in self._exclusive(record)))
            for term in state.evaluator.carried(pod):
                if term.weight is None and any(term.pods.may_match(*e) for e in self._labels):
                    keys.add(term.topology_key)
        except GangschedError as error:
            if not state.call.errors:
                state.call.errors.append(error)
            anywhere = True
        return _Where(frozenset(keys), anywhere) if keys or anywhere else None

    def _hindered(self, pod: Pod) -> Iterator[Sequence[str] | None]:
        """Yield where a pod is in the way of a member, for each class and plugin that is asked."""
        for sample in self._samples.values():
            for each in sample.pod_class.late if sample.pod_class is not None else ():
                if each.filters and not each.only_about_carried:
                    cycle = self._state.cycle(sample)
                    yield _hindered_within(each.plugin, cycle, sample.pod, pod)

    def _exclusive(self, record: PodRecord) -> Iterator[tuple[tuple[str, ...], int]]:
        """Yield the levels of which a pod and a member share no domain, and the member's node."""
        tenancy = self._state.records.tenancy
        mine = tenancy.asks(record)
        for other, slot in self._planned:
            levels = (*mine.levels, *tenancy.asks(other).levels)
            if levels and not mine.is_resident:
                yield levels, slot

    def _shares_a_domain(self, record: PodRecord, slot: int) -> bool:
        """Return whether a pod on a node would share a domain that one of the two wants alone."""
        around = self._state.table.domains.around
        return any(
            around(slot, level) is not None and around(slot, level) == around(planned, level)
            for levels, planned in self._exclusive(record)
            for level in levels
        )

    def is_near(self, where: _Where, slot: int) -> bool:
        """Return whether a node is in a domain in which a pod may be in the way."""
        table = self._state.table
        node = table.nodes[slot]
        if where.anywhere or node is None:
            return True
        for _record, planned in self._planned:
            other = table.nodes[planned]
            if other is None or (_NODE in where.keys and slot == planned):
                return True
            for key in where.keys - {_NODE}:
                value = node.labels.get(key)
                if value is not None and value == other.labels.get(key):
                    return True
                if key == HOST and slot == planned:
                    return True
        return False

    def holds_with(self, record: PodRecord, slot: int) -> bool:
        """Return whether the plan is valid with a pod on a node, and was found to be; see R1."""
        state = self._state
        records, table = state.records, state.table
        if any(table.nodes[planned] is None for _record, planned in self._planned):
            return False
        if self._shares_a_domain(record, slot):
            return False
        leaving = [
            other
            for other in records.pods.values()
            if other.slot >= 0 and self._reservation.is_gone(other.uid)
        ]
        guard, records.guard = records.guard, None
        length = records.planned
        for other in leaving:
            records.lift(other)
        try:
            return self._starts(record, slot)
        finally:
            records.clear_plan(length)
            for other in leaving:
                records.land(other)
            records.guard = guard

    def _starts(self, candidate: PodRecord, slot: int) -> bool:
        records, tries = self._state.records, 0
        planned: list[tuple[PodRecord, int]] = self._planned
        while tries <= self._state.settings.search_budget:
            length = records.planned
            cycles = self._cycles()
            if cycles is None:
                return False
            self._show(candidate, slot, cycles)
            left: list[tuple[PodRecord, int]] = planned
            while left:
                refused = [each for each in left if not self._put(*each, cycles)]
                tries += len(left)
                if len(refused) == len(left):
                    break
                left = refused
            records.clear_plan(length)
            if not left:
                return True
            if list(planned[: len(left)]) == left:
                return False
            # another member may have filled the domain of one with a constraint
            planned = [*left, *(each for each in planned if each not in left)]
        return False

    def _cycles(self) -> _Cycles | None:
        """Return a fresh cycle of each member; None if PreFilter refuses one."""
        state, cycles = self._state, _Cycles()
        for record, _slot in self._planned:
            cycle = state.cycle(record)
            if state.points.pre_filter(cycle, record.pod, state.records.now) is not None:
                return None
            cycles[record] = cycle
        for slot, pod in state.records.plans:
            self._tell(pod, slot, cycles)
        return cycles

    def _put(self, record: PodRecord, slot: int, cycles: _Cycles) -> bool:
        """Show a member on its node if the plugins accept it."""
        pod_class, cycle = record.pod_class, cycles[record]
        assert pod_class is not None
        views = self._state.views
        asked = late.asked_about(pod_class, cycle, record, views)
        if late.accepted(asked, record, cycle, views, slot) is not None:
            return False
        self._show(record, slot, cycles)
        return True

    def _show(self, record: PodRecord, slot: int, cycles: _Cycles) -> None:
        self._state.records.plan(slot, record.pod)
        self._tell(record.pod, slot, cycles)

    def _tell(self, added: Pod, slot: int, cycles: _Cycles) -> None:
        """Tell the plugins of each member that a pod is on a node."""
        view = self._state.views.at(slot)
        for record, cycle in cycles.items():
            for each in record.pod_class.late if record.pod_class is not None else ():
                if callable(getattr(each.plugin, "add_pod", None)):
                    args = (cycle, record.pod, added, view)
                    calls.call(each.plugin, "add_pod", record.pod, type(None), *args)


@final
class _Check:
    """The plan as a plugin that filters nodes for one pod."""

    name: Final = "Reservation"

    def __init__(self, plan: ReservedPlan, record: PodRecord, where: _Where) -> None:
        self._plan = plan
        self._record = record
        self._where = where

    def filter(self, _cycle: CycleState, _pod: Pod, view: NodeView) -> Outcome:
        """Refuse a node on which the pod would break the plan."""
        plan, slot = self._plan, view.slot
        if not plan.is_near(self._where, slot) or plan.holds_with(self._record, slot):
            return SUCCESS
        plan.has_refused = True
        return Unschedulable(plan.reason)


def _hindered_within(plugin: Any, cycle: CycleState, pod: Pod, other: Pod) -> Sequence[str] | None:
    """Return the keys of labels within which *other* is in the way of a pod; None for anywhere."""
    if not callable(getattr(plugin, "hindered_within", None)):
        return None
    answer = calls.call(plugin, "hindered_within", pod, object, cycle, pod, other)
    return None if answer is None else calls.names_in(plugin, "hindered_within", pod, answer)
