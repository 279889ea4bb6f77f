"""Single nodes for pods with late plugins: those of which the answer is no function of a state.

Such a plugin is asked only about nodes that capacity and all static plugins accept. Without a late
score, nodes are asked about in the order of the memo until one is accepted; with one, all of them.

A plugin may name the labels that its answers depend on (``topology_keys``). If these labels tell
kinds of nodes apart, as zones do, it is asked about one node of a kind, and the others of a refused
kind are passed over. A host name tells no kinds apart, so nodes are then asked about one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator
from typing import Any, Final, final

from attrs import frozen

from gangsched import _plugin_calls as calls
from gangsched.core.domains import EVERYWHERE, Domain
from gangsched.core.node_table import NodeTable
from gangsched.core.pod_class import Late, PodClass
from gangsched.core.records import PodRecord
from gangsched.core.views import NodeView, NodeViews
from gangsched.cycle_state import CycleState
from gangsched.explain import Diagnosis
from gangsched.model import NodeName, Pod
from gangsched.outcomes import SUCCESS, Skip, Success, Unschedulable

__all__ = ["Limit", "accepted", "asked_about", "best_slot", "diagnosis", "look", "ordered_slots"]

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
    accepts = _accepted_slots(pod_class, late, record, cycle, views, domain, barred)
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


def look(plugin: Any, cycle: CycleState, pod: Pod, view: NodeView) -> Hashable:
    """Return what a plugin reads of a node without pods; None if it does not say. O(labels)."""
    if not callable(getattr(plugin, "node_signature", None)):
        return None
    parts: list[Hashable] = [calls.call(plugin, "node_signature", pod, object, view)]
    if callable(getattr(plugin, "labels_read", None)):
        names = calls.call_for_names(plugin, "labels_read", pod, pod)
        parts += [view.node.labels.get(name) for name in names]
    if callable(getattr(plugin, "node_group", None)):
        parts.append(calls.call(plugin, "node_group", pod, object, cycle, pod, view))
    return tuple(parts)


def _accepted_slots(
    pod_class: PodClass,
    late: list[Late],
    record: PodRecord,
    cycle: CycleState,
    views: NodeViews,
    domain: Domain,
    barred: Collection[int],
) -> Iterator[int]:
    """Yield the nodes that are accepted and not barred, the best first."""
    state_of = pod_class.table.state_of
    by_kind, by_node = _by_kind(late, record, cycle, pod_class)
    good, refused = set[int](), set[int]()
    for slot in ordered_slots(pod_class, domain, refused):
        if slot in barred:
            continue
        kind = state_of[slot].kind
        if kind not in good:
            if accepted(by_kind, record, cycle, views, slot) is not None:
                refused.add(kind)
                continue
            good.add(kind)
        if accepted(by_node, record, cycle, views, slot) is None:
            yield slot


def _by_kind(
    late: Iterable[Late], record: PodRecord, cycle: CycleState, pod_class: PodClass
) -> tuple[list[Late], list[Late]]:
    """Return the filters that give one answer for all nodes of a kind, and the others."""
    by_kind: list[Late] = []
    by_node: list[Late] = []
    for each in late:
        plugin, keys = each.plugin, None
        if each.filters and callable(getattr(plugin, "topology_keys", None)):
            what = (Iterable, type(None))
            keys = calls.call(plugin, "topology_keys", record.pod, what, cycle, record.pod)
        is_told = keys is not None and pod_class.table.tells_apart(keys)
        (by_kind if is_told else by_node).append(each)
    return by_kind, by_node


def ordered_slots(
    pod_class: PodClass, domain: Domain, refused: Collection[int] = ()
) -> Iterator[int]:
    """Yield the nodes that the memo accepts within a domain, the best first, then by name.

    Nodes of *refused* kinds are left out; the caller may add kinds to it meanwhile. The order is
    read as it is needed, so nothing may be taken or refreshed meanwhile.
    """
    table = pod_class.refresh().table
    if isinstance(domain, int):
        if pod_class.fits(table.state_of[domain]):
            yield domain
        return
    if domain != EVERYWHERE:
        slots = [s for s in table.domains.slots(domain) if pod_class.fits(table.state_of[s])]
        names = table.names
        slots.sort(key=lambda s: (pod_class.rank(table.state_of[s]), names[s]))
        yield from (slot for slot in slots if table.state_of[slot].kind not in refused)
        return
    for _rank, state in pod_class.in_order():
        if state.kind in refused:
            continue
        yield table.first_in(state)
        if state.count > 1 and state.kind not in refused:
            for slot in table.slots_in(state)[1:]:
                if state.kind in refused:
                    break
                yield slot


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


@final
@frozen
class Limit:
    """Where the running members of a gang keep another one: the domains of a level; none for none.

    Attributes:
        level: The level.
        domains: Its domains that have a running member.
    """

    level: str
    domains: tuple[Domain, ...]

    def slots(self, table: NodeTable) -> set[int]:
        """Return the nodes in the domains. O(nodes there)."""
        return {slot for domain in self.domains for slot in table.domains.slots(domain)}

    def reason(self, table: NodeTable) -> str:
        """Return why nodes refuse the member that are in none of the domains."""
        if not self.domains:
            where = f"the {self.level} of its members, whose nodes have no such label"
        else:
            values = (table.names[d] if isinstance(d, int) else d[-1][1] for d in self.domains)
            where = f"{self.level}={'|'.join(sorted(values))}"
        return f"node(s) not within {where}"


def diagnosis(
    record: PodRecord, cycle: CycleState, views: NodeViews, limit: Limit | None = None
) -> Diagnosis:
    """Return why no node takes a pod. O(nodes) with late plugins or a limit."""
    pod_class = record.pod_class
    assert pod_class is not None
    found, table = pod_class.diagnosis(), pod_class.table
    late = asked_about(pod_class, cycle, record, views)
    if not late and limit is None:
        return found
    counts = dict(found.reasons)
    within = None if limit is None else limit.slots(table)
    outside = "" if limit is None else limit.reason(table)
    for slot in ordered_slots(pod_class, EVERYWHERE):
        reasons: tuple[str, ...] = (outside,)
        if within is None or slot in within:
            refused = accepted(late, record, cycle, views, slot)
            reasons = () if refused is None else refused.reasons
        for reason in reasons:
            counts[reason] = counts.get(reason, 0) + 1
    return Diagnosis(found.nodes, tuple(sorted(counts.items())))
