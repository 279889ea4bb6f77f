"""Single nodes for pods with late plugins: those of which the answer is no function of a state.

Such a plugin is asked only about nodes that capacity and all static plugins accept. Without a late
score, nodes are asked about in the order of the memo until one is accepted; with one, all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from gangsched import _plugin_calls as calls
from gangsched.core.domains import EVERYWHERE, Domain
from gangsched.core.pod_class import Late, PodClass
from gangsched.core.records import PodRecord
from gangsched.core.views import NodeView, NodeViews
from gangsched.cycle_state import CycleState
from gangsched.explain import Diagnosis
from gangsched.model import NodeName
from gangsched.outcomes import SUCCESS, Skip, Success, Unschedulable

__all__ = ["accepted", "asked_about", "best_slot", "diagnosis", "ordered_slots"]

_FILTER: Final = (Success, Skip, Unschedulable)


def best_slot(
    record: PodRecord,
    cycle: CycleState,
    views: NodeViews,
    domain: Domain,
    barred: Collection[int] = (),
) -> int | None:
    """Return the best node for one pod that is not barred; None if no node is accepted."""
    pod_class = record.pod_class
    assert pod_class is not None
    late = asked_about(pod_class, cycle, record, views)
    slots = (slot for slot in ordered_slots(pod_class, domain) if slot not in barred)
    accepts = (slot for slot in slots if accepted(late, record, cycle, views, slot) is None)
    if not any(each.weight for each in late):
        return next(accepts, None)
    found = list(accepts)
    if not found:
        return None
    totals = _totals(pod_class, late, record, cycle, views, found)
    names = pod_class.table.names
    return min(found, key=lambda slot: (-totals[slot], names[slot]))


def asked_about(
    pod_class: PodClass, cycle: CycleState, record: PodRecord, views: NodeViews
) -> list[Late]:
    """Return the late plugins that have to be asked about a pod."""
    about = None
    found: list[Late] = []
    for late in pod_class.late:
        if late.only_about_carried:
            if about is None:
                about = any(True for _each in cycle.counts.carried_about(record.pod))
            if not about:
                continue
        found.append(late)
    guard = None if views.guard is None else views.guard.check(record)
    return found if guard is None else [*found, guard]


def accepted(
    late: Iterable[Late], record: PodRecord, cycle: CycleState, views: NodeViews, slot: int
) -> Unschedulable | None:
    """Return why a node is refused; None if it is accepted."""
    view: NodeView | None = None
    for each in late:
        if each.filters:
            view = view or views.at(slot)
            pod = record.pod
            answer = calls.call(each.plugin, "filter", pod, _FILTER, cycle, pod, view)
            if answer is not SUCCESS and isinstance(answer, Unschedulable):
                return answer
    return None


def ordered_slots(pod_class: PodClass, domain: Domain) -> Iterator[int]:
    """Yield the nodes that the memo accepts within a domain, the best first, then by name."""
    table = pod_class.refresh().table
    if isinstance(domain, int):
        if pod_class.fits(table.state_of[domain]):
            yield domain
        return
    if domain != EVERYWHERE:
        slots = [s for s in table.domains.slots(domain) if pod_class.fits(table.state_of[s])]
        names = table.names
        yield from sorted(slots, key=lambda s: (pod_class.rank(table.state_of[s]), names[s]))
        return
    for _rank, state in list(pod_class.in_order()):
        yield from table.slots_in(state)


def _totals(
    pod_class: PodClass,
    late: Iterable[Late],
    record: PodRecord,
    cycle: CycleState,
    views: NodeViews,
    slots: list[int],
) -> dict[int, int]:
    table, pod = pod_class.table, record.pod
    totals = {slot: pod_class.score(table.state_of[slot]) for slot in slots}
    for each in late:
        if not each.weight:
            continue
        plugin, score = each.plugin, pod_class.evaluator.score
        raw: dict[NodeName, int] = {
            table.names[slot]: score(plugin, cycle, pod, views.at(slot)) for slot in slots
        }
        if callable(getattr(plugin, "normalize_score", None)):
            found: Any = calls.call(plugin, "normalize_score", pod, object, cycle, pod, raw)
            raw = dict(found)
        for slot in slots:
            totals[slot] += each.weight * raw[table.names[slot]]
    return totals


def diagnosis(record: PodRecord, cycle: CycleState, views: NodeViews) -> Diagnosis:
    """Return why no node takes a pod, late plugins included. O(nodes) with late plugins."""
    pod_class = record.pod_class
    assert pod_class is not None
    found = pod_class.diagnosis()
    late = asked_about(pod_class, cycle, record, views)
    if not late:
        return found
    counts = dict(found.reasons)
    for slot in ordered_slots(pod_class, EVERYWHERE):
        refused = accepted(late, record, cycle, views, slot)
        for reason in () if refused is None else refused.reasons:
            counts[reason] = counts.get(reason, 0) + 1
    return Diagnosis(found.nodes, tuple(sorted(counts.items())))
