"""ReservedPlan: whether the reserved gang can still start as planned if a pod is placed.

Theory of operation
    The reservation has a plan: which members go to which nodes at the expected start. Capacity is
    withheld for it. A pod may break the plan in other ways: it takes a host port, or matches the
    anti-affinity of a member. Its own anti-affinity may keep the members away, it may fill a domain
    of a spread constraint, and it may use a volume.

    1. ``concern``: most pods cannot be in the way. The plugins that read pods for a member say
       where another pod would be (``HinderedBy``), and the carried terms of the pod are compared
       with the members. A gang without constraints is asked about pods with such terms only.
    2. A node in none of these domains is accepted at once.
    3. For any other node the start is carried out on a view of the nodes without the pods that
       will have left. It has the pod, and one member after another on its planned node. The
       plugins that read pods are asked before each of them. Some orders of the members are valid
       and others are not: one that is refused is tried after the others, and then before them.

Rules:
  R1  if the members were accepted in some order that was tried, the plan is valid. The gang can
      start by then, since at the expected start the search is over all orders and nodes;
  R2  a pod that will have left by then is in the way of no member, and helps none;
  R3  what is refused is refused until the reservation moves, or pods on nodes change;
  R4  what a plugin raises while it is asked for ``concern`` is raised at the end of the call, and
      the pod counts as being in the way. The answer is needed in steps that cannot stop half-way.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final, TypeAlias, final

from attrs import define, field, frozen

from gangsched import _plugin_calls as calls
from gangsched.cycle_state import CycleState
from gangsched.errors import GangschedError
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.nodes_view import Holder, NodesView
from gangsched.framework.nodes.plan_guard import Concern, PlanCheck
from gangsched.framework.placement.tentative import Tentative
from gangsched.framework.runtime import extension_points, pod_readers
from gangsched.framework.runtime.pod_readers import NodeCheck
from gangsched.framework.state.backfill_state import ActiveReservation
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pods import Member, Pods
from gangsched.framework.state.settings import Settings
from gangsched.model import FrozenMap, NodeName, Pod, PodUID
from gangsched.outcomes import Unschedulable
from gangsched.protocols import NodeView

__all__ = ["ReservedPlan"]

_Planned: TypeAlias = tuple[Member, int, NodeCheck]
"""A member with the index of its node, and the plugins that are asked about it."""
_NODE: Final = ""
"""Stands for the node itself, among the keys of labels."""


@final
@frozen
class _Domains:
    """Where a pod may be in the way.

    Attributes:
        keys: Keys of node labels, and ``_NODE``: it is in the way of members on nodes with an equal
            value.
        anywhere: Whether it may be in the way on any node.
        readers: The numbers of the readers for which it is in the way.
        is_known: Whether every plugin has said where. Otherwise only the pod itself is like it.
    """

    keys: frozenset[str]
    anywhere: bool
    readers: tuple[int, ...]
    is_known: bool


@final
@define(eq=False)
class ReservedPlan:
    """The plan of a reservation; see ``PlanGuard``.

    Attributes:
        reservation: The reservation.
        now: The instant of the current decision.
        has_refused: Whether a node was refused to a pod.
    """

    _settings: Settings = field(repr=False)
    _nodes: Nodes = field(repr=False)
    _pods: Pods = field(repr=False)
    _call: CurrentCall = field(repr=False)
    reservation: ActiveReservation = field(repr=False)
    now: float
    has_refused: bool = False
    # the members with their nodes; None until they are needed, since most plans are not asked
    _placed: list[tuple[Member, NodeName]] | None = field(default=None, init=False, repr=False)
    # by number: the position of a plugin that reads pods, a member, and a cycle of it
    _readers: list[tuple[int, Member, CycleState]] = field(
        factory=list[tuple[int, Member, CycleState]], init=False, repr=False
    )
    _labels: tuple[tuple[str, FrozenMap[str]], ...] = field(default=(), init=False, repr=False)
    _values: dict[str, frozenset[str]] = field(
        factory=dict[str, frozenset[str]], init=False, repr=False
    )
    # the pods that will have left and would be in the way, with their nodes; None until needed
    _leaving: dict[PodUID, NodeName] | None = field(default=None, init=False, repr=False)

    def concern(self, pod: Pod) -> Concern | None:
        """See ``PlanGuard``. O(plugins x classes of members)."""
        domains = self._domains(pod)
        if domains is None:
            return None
        if not domains.is_known or not self._settings.profile.signed:
            return Concern(pod.uid)
        labels = ",".join(f"{key}={value}" for key, value in sorted(pod.labels.items()))
        return Concern(f"{pod.namespace}/{labels}")

    def check(self, pod: Pod) -> PlanCheck | None:
        """See ``PlanGuard``."""
        member = self._pods.members.get(pod.uid)
        domains = None if member is None else self._domains(pod)
        return None if member is None or domains is None else _Check(self, member, domains)

    def note_started(self, pod: Pod, node: NodeName) -> None:
        """See ``PlanGuard``."""
        if self._leaving is not None and self.reservation.is_gone(pod.uid) and self._counts(pod):
            self._leaving[pod.uid] = node

    # Which pods may be in the way, and where ------------------------------------------------------

    def placed(self) -> list[tuple[Member, NodeName]]:
        """Return the planned members with their nodes. O(members) the first time."""
        if self._placed is not None:
            return self._placed
        members, settings, nodes = self._pods.members, self._settings, self._nodes
        self._placed = [
            (members[uid], name) for uid, name in self.reservation.planned if uid in members
        ]
        samples = {member.pod_class: member for member, _name in self._placed}
        for n, plugin in enumerate(settings.profile.pod_watchers):
            for sample in samples.values():
                # a plugin was asked already, with the class of these pods
                if callable(getattr(plugin, "filter", None)) and plugin.reads_pods(sample.pod):
                    cycle = CycleState(sample.group, nodes.infos, settings.cluster, nodes.counts)
                    self._readers.append((n, sample, cycle))
        of_each = [(member.pod.namespace, member.pod.labels) for member, _name in self._placed]
        self._labels = tuple(dict.fromkeys(of_each))
        return self._placed

    def _domains(self, pod: Pod) -> _Domains | None:
        """Return where a pod may be in the way; None if nowhere."""
        self.placed()
        keys, hits, anywhere, is_known = set[str](), list[int](), False, True
        for n, (position, member, cycle) in enumerate(self._readers):
            plugin = self._settings.profile.pod_watchers[position]
            if not callable(getattr(plugin, "hindered_within", None)):
                anywhere, is_known = True, False
                continue
            try:
                found = _hindered_within(plugin, cycle, member.pod, pod)
            except GangschedError as error:
                if not self._call.deferred:
                    self._call.deferred.append(error)
                found = None
            anywhere = anywhere or found is None
            if found:
                keys.update(found)
                hits.append(n)
        known = self._pods.members.get(pod.uid)
        # those of its class: they were asked for when the pod was read, so no plugin can raise here
        for term in () if known is None else known.pod_class.carried:
            if term.weight is None and any(term.pods.may_match(*each) for each in self._labels):
                keys.add(term.topology_key)
        if not keys and not anywhere:
            return None
        return _Domains(frozenset(keys), anywhere, tuple(hits), is_known)

    def values(self, key: str) -> frozenset[str]:
        """Return the values that the planned nodes have for a label; the names for ``_NODE``."""
        found = self._values.get(key)
        if found is None:
            names = dict.fromkeys(name for _member, name in self.placed())
            infos = self._nodes.infos
            if key == _NODE:
                found = frozenset[str](names)
            else:
                values = (infos[name].node.labels.get(key) for name in names if name in infos)
                found = frozenset(value for value in values if value is not None)
            self._values[key] = found
        return found

    def group_of(self, domains: _Domains, node: NodeView) -> Hashable:
        """Return what tells a node from others with the same answer; None if none is in the way."""
        if domains.anywhere:
            return node.node.name
        name, labels = node.node.name, node.node.labels
        parts: list[object] = []
        for key in sorted(domains.keys):
            value = name if key == _NODE else labels.get(key)
            if value is not None and value in self.values(key):
                parts.append((key, value))
        if not parts:
            return None
        for n in domains.readers:
            position, member, cycle = self._readers[n]
            plugin: Any = self._settings.profile.pod_watchers[position]
            if callable(getattr(plugin, "node_group", None)):
                args = (cycle, member.pod, node)
                parts.append(calls.call(plugin, "node_group", member.pod, object, *args))
        return tuple(parts)

    # Whether the plan holds -----------------------------------------------------------------------

    def holds_with(self, member: Member, name: NodeName, check: _Check) -> bool:
        """Return whether the plan is valid with a pod on a node, and was found to be; see R1.

        If more members were placed for the pod than the search budget allows, it is not looked for:
        the pod then waits until the reservation moves.
        """
        nodes = self._nodes
        if check.asked > self._settings.search_budget:
            return False
        guard, nodes.guard = nodes.guard, None
        view = NodesView(nodes)
        try:
            self._take_off(view)
            return self._starts(member, nodes.infos[name].index, check)
        finally:
            view.discard()
            nodes.guard = guard

    def _take_off(self, view: NodesView) -> None:
        """Take the pods that will have left off their nodes."""
        if self._leaving is None:
            self._leaving = {
                uid: name
                for name, info in self._nodes.infos.items()
                for uid in info.holders
                if self.reservation.is_gone(uid)
                and uid in self._pods.members
                and self._counts(self._pods.members[uid].pod)
            }
        infos = self._nodes.infos
        view.remove(
            Holder(uid, infos[name].index, infos[name].holders[uid])
            for uid, name in self._leaving.items()
            if name in infos and uid in infos[name].holders and self.reservation.is_gone(uid)
        )

    def _counts(self, pod: Pod) -> bool:
        return self._domains(pod) is not None

    def _starts(self, candidate: Member, index: int, check: _Check) -> bool:
        nodes, settings, placed = self._nodes, self._settings, self.placed()
        if any(name not in nodes.infos for _member, name in placed):
            return False
        members = [member for member, _name in placed]
        _own, *by_terms = pod_readers.affected_among(nodes, [candidate, *members])
        checks: dict[Hashable, NodeCheck] = {}
        asked: list[_Planned] = []
        for (member, name), terms in zip(placed, by_terms, strict=True):
            kind = (member.pod_class, member.group and member.group.key, terms)
            if kind not in checks:
                cycle = CycleState(member.group, nodes.infos, settings.cluster, nodes.counts)
                outcome = extension_points.pre_filter(settings, cycle, member.pod, self.now)
                if isinstance(outcome, Unschedulable):
                    return False
                checks[kind] = NodeCheck(
                    settings, nodes, cycle, member.pod, is_affected=bool(terms)
                )
            asked.append((member, nodes.infos[name].index, checks[kind]))
        begun = check.asked
        while check.asked - begun <= settings.search_budget:
            with Tentative(nodes, checks.values()) as tentative:
                tentative.put(candidate, index)
                left = _place(tentative, nodes, asked, check)
            if not left:
                return True
            if asked[: len(left)] == left:
                return False
            # another member may have filled the domain of one with a constraint
            chosen = {member.seq for member, _index, _check in left}
            asked = [*left, *(each for each in asked if each[0].seq not in chosen)]
        return False


def _place(
    tentative: Tentative, nodes: Nodes, members: list[_Planned], check: _Check
) -> list[_Planned]:
    """Place members on their nodes, until none is accepted; return those that are left."""
    while members:
        left = [each for each in members if not _put(tentative, nodes, *each)]
        check.asked += len(members)
        if len(left) == len(members):
            break
        members = left
    return members


def _put(tentative: Tentative, nodes: Nodes, member: Member, index: int, check: NodeCheck) -> bool:
    """Place a member on its node if the plugins accept it."""
    if check.refusal(nodes.by_index[index]):
        return False
    tentative.put(member, index)
    return True


def _hindered_within(
    plugin: Any, cycle: CycleState, pod: Pod, other: Pod
) -> tuple[str, ...] | None:
    """Ask a plugin for ``hindered_within``."""
    answer = calls.call(plugin, "hindered_within", pod, object, cycle, pod, other)
    return None if answer is None else calls.names_in(plugin, "hindered_within", pod, answer)


@final
@define(eq=False)
class _Check:
    """The questions about one pod; see ``PlanCheck``.

    The answers of nodes with one group are equal, until a sibling of the pod is placed.
    """

    _plan: ReservedPlan
    _member: Member
    _domains: _Domains
    asked: int = 0
    _answers: dict[Hashable, bool] = field(factory=dict[Hashable, bool], init=False, repr=False)

    def refusal(self, node: NodeView) -> tuple[str, ...]:
        """See ``PlanCheck``."""
        group = self._plan.group_of(self._domains, node)
        if group is None:
            return ()
        holds = self._answers.get(group)
        if holds is None:
            holds = self._plan.holds_with(self._member, node.node.name, self)
            self._answers[group] = holds
        if holds:
            return ()
        self._plan.has_refused = True
        key = self._plan.reservation.key
        return (f"node(s) where the pod would delay the reserved start of pod group {key}",)

    def group_of(self, node: NodeView) -> object:
        """See ``PlanCheck``."""
        return self._plan.group_of(self._domains, node)

    def forget(self) -> None:
        """See ``PlanCheck``."""
        self._answers.clear()
