"""Single nodes for pods with late plugins: those of which the answer is no function of a state.

Such a plugin is asked only about nodes that capacity and all static plugins accept. Without a late
score, nodes are asked about in the order of the memo until one is accepted; with one, all of them.
See ``late_scores`` for the scores.

A plugin may name the labels that its answers depend on (``topology_keys``). If these labels tell
kinds of nodes apart, as zones do, it is asked about one node of a kind, and the others of a refused
kind are passed over. A host name tells no kinds apart, so nodes are then asked about one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Hashable, Iterable, Iterator, Mapping
from typing import Any, Final, final

from attrs import frozen

from gangsched.core.evaluation.pod_class import Late, PodClass
from gangsched.core.nodes.domains import EVERYWHERE, Domain
from gangsched.core.nodes.hold import Hold
from gangsched.core.nodes.views import NodeView, NodeViews
from gangsched.core.placement.late_scores import prepared, totals
from gangsched.core.placement.pinned import Limit
from gangsched.core.records.gang import PodRecord
from gangsched.cycle_state import CycleState
from gangsched.explain import Diagnosis
from gangsched.model import Pod
from gangsched.outcomes import SUCCESS, Skip, Success, Unschedulable
from gangsched.profile import calls

__all__ = [
    "RESERVED",
    "accepted",
    "asked_about",
    "best_slot",
    "diagnosis",
    "look",
    "ordered_slots",
    "withheld",
]

RESERVED: Final = "node(s) whose free capacity is reserved for"
"""The reason of nodes where a pod would fit but for what is held; the owner follows."""
_FILTER: Final = (Success, Skip, Unschedulable)
_NO_SIBLINGS: Final[Mapping[int, int]] = {}


@final
class _AllBut:
    """All nodes but some."""

    def __init__(self, slots: set[int]) -> None:
        self._slots = slots

    def __contains__(self, slot: object) -> bool:
        return slot not in self._slots


def best_slot(
    record: PodRecord,
    cycle: CycleState,
    views: NodeViews,
    domain: Domain,
    barred: Collection[int] = (),
    siblings: Mapping[int, int] = _NO_SIBLINGS,
) -> int | Unschedulable | None:
    """Return the best node for one pod that is not barred; None if no node is accepted.

    Args:
        record: The pod.
        cycle: Its cycle.
        views: The nodes.
        domain: Where it may be.
        barred: Nodes that it may not have.
        siblings: How many siblings nodes have; one with fewer goes first. None is asked twice.

    Returns:
        Why PreScore refuses the pod on all of them, if it does.
    """
    slot = _best_slot(record, cycle, views, domain, {*siblings, *barred} if siblings else barred)
    for number in sorted(set(siblings.values())):
        if isinstance(slot, int):
            break
        some = {each for each, count in siblings.items() if count == number}
        slot = _best_slot(record, cycle, views, domain, _AllBut(some.difference(barred)))
    return slot


def _best_slot(
    record: PodRecord, cycle: CycleState, views: NodeViews, domain: Domain, barred: Container[int]
) -> int | Unschedulable | None:
    pod_class = record.pod_class
    assert pod_class is not None
    late = asked_about(pod_class, cycle, record, views)
    accepts = _accepted_slots(pod_class, late, record, cycle, views, domain, barred)
    if not any(each.weight or each.prepares for each in late):
        return next(accepts, None)
    found = list(accepts)
    if not found:
        return None
    denied = prepared(late, record, cycle, views, found)
    if denied is not None:
        return denied
    sums = totals(pod_class, late, record, cycle, views, found)
    names = pod_class.table.names
    return min(found, key=lambda slot: (-sums[slot], names[slot]))


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
        if late.may_skip and not calls.call(
            late.plugin, "scores_in_cycle", record.pod, bool, cycle, record.pod
        ):
            continue
        if late.by_kind and pod_class.is_even(late):
            continue
        found.append(late)
    named = _named(record.pod, found)
    guard = None if views.guard is None else views.guard.check(record)
    return [*named, *found] if guard is None else [*named, *found, guard]


@final
@frozen
class _Named:
    """Refuses the nodes that plugins do not name for a pod, before any plugin is asked about them.

    Attributes:
        name: The names of these plugins, as kube-scheduler gives them.
        nodes: The nodes that all of them name.
    """

    name: str
    nodes: frozenset[str]

    def node_signature(self, node: NodeView) -> str | None:
        """Return what tells the nodes that are named from others."""
        return node.node.name if node.node.name in self.nodes else None

    def filter(self, _cycle: CycleState, _pod: Pod, node: NodeView) -> Success | Unschedulable:
        """Refuse a node that is not named."""
        if node.node.name in self.nodes:
            return SUCCESS
        reason = f"node(s) didn't satisfy plugin(s) [{self.name}]"
        return Unschedulable(reason, resolvable=False)


def _named(pod: Pod, late: Iterable[Late]) -> list[Late]:
    """Return what refuses the nodes that plugins do not name; empty if all may be accepted."""
    nodes: frozenset[str] | None = None
    naming: list[str] = []
    for each in late:
        plugin = each.plugin
        if each.filters and callable(getattr(plugin, "nodes_named", None)):
            answer = calls.call(plugin, "nodes_named", pod, object, pod)
            if answer is not None:
                names = frozenset(calls.names_in(plugin, "nodes_named", pod, answer))
                nodes = names if nodes is None else nodes & names
                naming.append(calls.name_of(plugin))
    if nodes is None:
        return []
    plugin = _Named(" ".join(sorted(naming)), nodes)
    return [Late(plugin, filters=True, weight=0, is_first=True)]


def accepted(
    late: Iterable[Late], record: PodRecord, cycle: CycleState, views: NodeViews, slot: int
) -> Unschedulable | None:
    """Return why a node is refused; None if it is accepted."""
    view: NodeView | None = None
    shows = True
    for each in late:
        if each.filters:
            if view is None or shows is not each.shows_pods:
                shows = each.shows_pods
                view = views.at(slot, shows_pods=shows)
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
    barred: Container[int],
) -> Iterator[int]:
    """Yield the nodes that are accepted and not barred, the best first."""
    state_of = pod_class.table.state_of
    by_kind, by_node = _by_kind(late, record, cycle, pod_class)
    good, refused = set[int](), set[int]()
    names = pod_class.table.names
    named = next((each.plugin.nodes for each in late if isinstance(each.plugin, _Named)), None)
    for slot in ordered_slots(pod_class, domain, refused):
        if slot in barred or (named is not None and names[slot] not in named):
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
    table = pod_class.memo.refresh().table
    if isinstance(domain, int):
        if pod_class.memo.fits(table.state_of[domain]):
            yield domain
        return
    if domain != EVERYWHERE:
        slots = [s for s in table.domains.slots(domain) if pod_class.memo.fits(table.state_of[s])]
        names = table.names
        slots.sort(key=lambda s: (pod_class.memo.rank(table.state_of[s]), names[s]))
        yield from (slot for slot in slots if table.state_of[slot].kind not in refused)
        return
    for _rank, state in pod_class.memo.in_order():
        if state.kind in refused:
            continue
        yield table.first_in(state)
        if state.count > 1 and state.kind not in refused:
            for slot in table.slots_in(state)[1:]:
                if state.kind in refused:
                    break
                yield slot


def diagnosis(
    record: PodRecord, cycle: CycleState, views: NodeViews, limit: Limit | None = None
) -> Diagnosis:
    """Return why no node takes a pod. O(nodes) with late plugins or a limit.

    Each node has the reason of the first plugin that refuses it, in the order of the profile. Where
    enough is free but held, the reason is for whom.
    """
    pod_class = record.pod_class
    assert pod_class is not None
    found, table = pod_class.memo.diagnosis(), pod_class.table
    late = asked_about(pod_class, cycle, record, views)
    more, memo = withheld(pod_class, views.holds), pod_class.memo
    reserved = {slot: who for slot, who in more.items() if not memo.fits(table.state_of[slot])}
    if not late and limit is None and not reserved:
        return found
    counts = dict(found.reasons)
    within = _AllBut(set()) if limit is None else limit.slots(table)
    outside = "" if limit is None else limit.reason(table)
    left = _count_late(counts, late, record, cycle, views, within, outside)
    for slot in _put_first(counts, late, record, cycle, views):
        reserved.pop(slot, None)
    for slot, owner in reserved.items():
        if slot in within:
            why = f"{RESERVED} {owner}"
            _recount(counts, memo.reasons_of(table.state_of[slot]), (why,))
    denied = prepared(late, record, cycle, views, left) if left else None
    for reason in () if denied is None else denied.reasons:
        counts[reason] = counts.get(reason, 0) + len(left)
    return Diagnosis(found.nodes, tuple(sorted((why, n) for why, n in counts.items() if n)))


def _count_late(
    counts: dict[str, int],
    late: list[Late],
    record: PodRecord,
    cycle: CycleState,
    views: NodeViews,
    within: Container[int],
    outside: str,
) -> list[int]:
    """Count the reasons of the nodes that capacity and static plugins accept. O(nodes).

    Return the nodes that all accept. Those that are not *within* a limit are refused as *outside*.
    """
    pod_class, left = record.pod_class, list[int]()
    assert pod_class is not None
    for slot in ordered_slots(pod_class, EVERYWHERE):
        reasons: tuple[str, ...] = (outside,)
        if slot in within:
            refused = accepted(late, record, cycle, views, slot)
            if refused is None:
                left.append(slot)
                continue
            reasons = refused.reasons
        for reason in reasons:
            counts[reason] = counts.get(reason, 0) + 1
    return left


def _put_first(
    counts: dict[str, int],
    late: Iterable[Late],
    record: PodRecord,
    cycle: CycleState,
    views: NodeViews,
) -> list[int]:
    """Count the reasons of plugins that come before what compares capacity. O(refused nodes).

    That a node is not named comes before all else. Return the nodes for which that was done.
    """
    found: list[int] = []
    first = [each for each in late if each.is_first]
    pod_class = record.pod_class
    assert pod_class is not None
    table = pod_class.table
    for slot, state in enumerate(table.state_of) if first else ():
        if table.nodes[slot] is None or pod_class.memo.fits(state):
            continue
        is_full = pod_class.memo.accepts(state)
        asked = first if is_full else [each for each in first if type(each.plugin) is _Named]
        refused = accepted(asked, record, cycle, views, slot)
        if refused is not None:
            _recount(counts, pod_class.memo.reasons_of(state), refused.reasons)
            found.append(slot)
    return found


def _recount(counts: dict[str, int], before: Iterable[str], after: Iterable[str]) -> None:
    """Count a node with other reasons than before."""
    for change, reasons in ((-1, before), (1, after)):
        for reason in reasons:
            counts[reason] = counts.get(reason, 0) + change


def withheld(pod_class: PodClass, holds: Iterable[Hold]) -> dict[int, str]:
    """Return the nodes that would take more pods without what is held there, and for whom it is.

    Runtime complexity: O(holds).
    """
    state_of, memo = pod_class.table.state_of, pod_class.memo
    held: dict[int, dict[int, int]] = {}
    owners: dict[int, str] = {}
    for hold in holds:
        is_there = pod_class.table.nodes[hold.slot] is not None
        if is_there and hold.needs and not hold.is_lent and memo.accepts(state_of[hold.slot]):
            amounts = held.setdefault(hold.slot, {})
            for number, amount in hold.needs:
                amounts[number] = amounts.get(number, 0) + amount
            owners[hold.slot] = hold.owner
    found: dict[int, str] = {}
    for slot, amounts in held.items():
        state = state_of[slot]
        counts = [(state.free[n] + amounts.get(n, 0)) // amount for n, amount in memo.compared]
        if min(counts, default=0) > memo.fits(state):
            found[slot] = owners[slot]
    return found
