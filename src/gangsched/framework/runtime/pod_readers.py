"""Plugins that read which pods are on nodes: asked about one node at a time.

Theory of operation. The answers of a filter or score plugin are kept for each class of nodes, since
nodes of one class look alike to every plugin. Which pods are on a node is not part of its class:
otherwise each node would be a class of its own. A plugin that reads the pods on nodes says for
which pods it does so (``reads_pods``). For such a pod the work is divided:

- All other plugins are asked once for each class of nodes, as for any pod. Their answers are an
  upper bound: a node that they refuse cannot take the pod, one that they accept may.
- The plugins that read pods are asked here, about one node of the accepted classes after another.
  Their answers are not cached from decision to decision.

A pod on a node may also affect pods for which no plugin reads pods (``pods_affected``). A pod that
a carried term is about is treated in the same way, by the plugins with such terms (``affected``).

Whether scores depend on other pods may depend on objects of the cluster (``scores_by_pods``). That
is asked in each cycle, and the scores of all accepted nodes are computed here then.

Some of these plugins read no more of a node than a few labels (``topology_keys``). If these labels
tell classes of nodes apart, the plugin is asked once for all nodes with equal labels. When a member
is placed or taken back, it is asked again.

A pod may also break the plan of a gang with a reservation, such as by a host port that the gang
needs. Then ``PlanGuard`` is asked about each node that the plugins accept.

Rules:
  R1  for a pod for which no plugin reads pods, that no term is about and that no plan is concerned
      by, nothing is asked here and nothing costs more;
  R2  the plugins see all nodes in one state: with the pods that are bound and assumed, and the
      siblings that were planned before. Pods that the decision takes as gone are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar, cast, final

from gangsched import _plugin_calls as calls
from gangsched.constraints.matchers import PodMatcher
from gangsched.cycle_state import CycleState
from gangsched.framework.nodes.node_class import NodeClass
from gangsched.framework.nodes.node_info import NodeInfo
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.plan_guard import Concern, PlanCheck
from gangsched.framework.runtime import cluster_headroom
from gangsched.framework.state.pods import Member
from gangsched.framework.state.settings import Settings
from gangsched.model import FrozenMap, NodeName, Pod
from gangsched.outcomes import Outcome, Skip, Success, Unschedulable
from gangsched.protocols import NodeView

__all__ = [
    "NOT_SELECTED",
    "NO_TERMS",
    "Affecting",
    "NodeCheck",
    "affected",
    "affected_among",
    "depends_on_pods",
    "readers",
    "scoring_by_pods",
    "selected_among",
]

_T = TypeVar("_T")
_FILTERED: Final = (Success, Skip, Unschedulable)
_BEST: Final = 100

Affecting: TypeAlias = PodMatcher | Concern
"""What a pod is affected by: the pods that a carried term is about, or the reserved gang."""

NO_TERMS: Final[frozenset[Affecting]] = frozenset()
"""What a pod is affected by if no term is about it."""


NOT_SELECTED: Final[frozenset[PodMatcher]] = frozenset()
"""What selects a member if no sibling does."""


def affected(nodes: Nodes, pod: Pod) -> frozenset[Affecting]:
    """Return what the terms that pods on nodes carry, and that are about *pod*, select.

    If *pod* may be in the way of the reserved gang, the result says by what.

    Runtime complexity: O(1) if no pod carries a term, else as ``PodCounts.carried_about``; plus
    O(plugins) while a gang has a reservation.
    """
    concern = None if nodes.guard is None else nodes.guard.concern(pod)
    found = _affected_by_terms(nodes, pod)
    return found if concern is None else found | {concern}


def _affected_by_terms(nodes: Nodes, pod: Pod) -> frozenset[Affecting]:
    if not nodes.counts.has_terms:
        return NO_TERMS
    found = frozenset[Affecting](term.pods for term, _counts in nodes.counts.carried_about(pod))
    return found or NO_TERMS


def affected_among(nodes: Nodes, members: Sequence[Member]) -> list[frozenset[Affecting]]:
    """Return the same for members that are placed together, also by the terms of each other.

    Runtime complexity: O(members), and O(members x terms) if members carry terms. O(members x
    plugins) while a gang has a reservation.
    """
    found = _affected_by_each_other(nodes, members)
    if nodes.guard is None:
        return found
    concerns = [nodes.guard.concern(member.pod) for member in members]
    return [
        terms if concern is None else terms | {concern}
        for terms, concern in zip(found, concerns, strict=True)
    ]


def depends_on_pods(nodes: Nodes, members: Sequence[Member]) -> bool:
    """Return whether a plugin reads pods for a member, or a carried term is about it.

    See ``affected_among`` for the cost.
    """
    if not nodes.watches_pods:
        return False
    return any(member.pod_class.reads_pods for member in members) or any(
        affected_among(nodes, members)
    )


def _affected_by_each_other(nodes: Nodes, members: Sequence[Member]) -> list[frozenset[Affecting]]:
    carried = {
        term.pods: None
        for pod_class in dict.fromkeys(member.pod_class for member in members)
        for term in pod_class.carried
    }
    if not carried:
        if not nodes.counts.has_terms:
            return [NO_TERMS] * len(members)
        return [_affected_by_terms(nodes, member.pod) for member in members]

    def about(pod: Pod) -> frozenset[Affecting]:
        own = (one for one in carried if one.may_match(pod.namespace, pod.labels))
        return _affected_by_terms(nodes, pod).union(own) or NO_TERMS

    return _by_labels(members, about)


def _by_labels(
    members: Iterable[Member], answer: Callable[[Pod], frozenset[_T]]
) -> list[frozenset[_T]]:
    """Return an answer for each of the members; it is asked once for all with equal labels."""
    known: dict[tuple[str, FrozenMap[str]], frozenset[_T]] = {}
    found: list[frozenset[_T]] = []
    for member in members:
        pod = member.pod
        place = (pod.namespace, pod.labels)
        given = known.get(place)
        if given is None:
            given = known[place] = answer(pod)
        found.append(given)
    return found


def selected_among(members: Sequence[Member]) -> list[frozenset[PodMatcher]]:
    """Return, for each of the members that are placed together, which matchers of them select it.

    Members that are alike otherwise are not interchangeable if a sibling depends on one of them and
    not on the other. Runtime complexity: O(members), and O(members x matchers) if there are any.
    """
    matchers = {
        matcher: None
        for pod_class in dict.fromkeys(member.pod_class for member in members)
        for matcher in pod_class.selected
    }
    if not matchers:
        return [NOT_SELECTED] * len(members)
    return _by_labels(
        members,
        lambda pod: frozenset(one for one in matchers if one.may_match(pod.namespace, pod.labels)),
    )


def readers(settings: Settings, pod: Pod, *, is_affected: bool = False) -> tuple[Any, ...]:
    """Return the filter and score plugins that read, for *pod*, which pods are on nodes.

    Args:
        settings: What the caller set.
        pod: The pod.
        is_affected: Whether a carried term may be about the pod.
    """
    affecting = {id(plugin) for plugin in settings.profile.affecting} if is_affected else ()
    return tuple(
        plugin
        for plugin in settings.profile.pod_readers
        if id(plugin) in affecting or calls.call(plugin, "reads_pods", pod, bool, pod)
    )


def scoring_by_pods(settings: Settings, cycle: CycleState, pod: Pod) -> tuple[Any, ...]:
    """Return the plugins whose scores read, in this cycle, which pods are on nodes.

    Asked for a pod for which no plugin reads pods otherwise. O(plugins with ``scores_by_pods``).
    """
    return tuple(
        plugin
        for plugin in settings.profile.scoring_by_pods
        if calls.call(plugin, "scores_by_pods", pod, bool, cycle, pod)
    )


@final
class NodeCheck:
    """The plugins that read pods on nodes, for one pod or for pods like it.

    Args:
        settings: What the caller set.
        cycle: The cycle that the plugins are given; of like pods, that of the first.
        pod: The pod; of like pods, the first.
        is_affected: Whether a carried term may be about the pod, now or after a sibling is placed.

    Attributes:
        scores: Whether one of the plugins scores nodes.
        asked: How often the plugins were asked about a node.
        counts: Whether one of the plugins counts the siblings that are planned (``add_pod``).
        ranks_alone: Whether the sums of scores contain those of all plugins, so that the scores of
            classes of nodes are not added.
        named: The names of the only nodes that can be accepted; None for any node.
    """

    __slots__ = (
        "_bounds",
        "_cycle",
        "_every",
        "_extensions",
        "_filters",
        "_groupers",
        "_is_affected",
        "_keys",
        "_nodes",
        "_normalizers",
        "_plan",
        "_pod",
        "_refused",
        "_weighted",
        "_wide",
        "asked",
        "counts",
        "named",
        "ranks_alone",
        "scores",
    )

    def __init__(
        self,
        settings: Settings,
        nodes: Nodes,
        cycle: CycleState,
        pod: Pod,
        *,
        is_affected: bool = False,
    ) -> None:
        reading = readers(settings, pod, is_affected=is_affected)
        numbers = {id(plugin) for plugin in reading}
        self._nodes = nodes
        self._every = settings.profile.filter
        self._cycle = cycle
        self._pod = pod
        filters = [p for p in reading if callable(getattr(p, "filter", None))]
        profile = settings.profile
        # scores that are relative to other nodes are computed anew, among the accepted nodes
        self.ranks_alone: bool = bool(profile.normalizers)
        self._weighted = tuple(
            each for each in profile.weighted if self.ranks_alone or id(each[0]) in numbers
        )
        self._normalizers = profile.normalizers
        self._bounds = tuple(p for p in reading if callable(getattr(p, "cluster_headroom", None)))
        self._extensions = tuple(p for p in reading if callable(getattr(p, "add_pod", None)))
        self.scores: bool = bool(self._weighted)
        self.asked: int = 0
        self.counts: bool = bool(self._extensions)
        self._groupers = tuple(p for p in reading if callable(getattr(p, "node_group", None)))
        self._is_affected = is_affected
        self._keys = self._labels()
        self._note_wide(filters)
        self._refused: dict[tuple[int, Hashable], tuple[str, ...]] = {}
        self._plan: PlanCheck | None = None if nodes.guard is None else nodes.guard.check(pod)
        self.named: frozenset[NodeName] | None = self._named(reading)

    def _note_wide(self, filters: Iterable[Any]) -> None:
        """Note of which filters the answers are equal for all nodes with equal labels."""
        self._filters = tuple((plugin, self._is_wide(plugin)) for plugin in filters)
        self._wide = tuple(plugin for plugin, wide in self._filters if wide)

    def _is_wide(self, plugin: Any) -> bool:
        if self._keys is None or not callable(getattr(plugin, "topology_keys", None)):
            return False
        keys = calls.call(
            plugin, "topology_keys", self._pod, (Iterable, type(None)), self._cycle, self._pod
        )
        return keys is not None and set(keys) <= self._keys

    def _labels(self) -> set[str] | None:
        """Return the keys of the labels that tell classes of nodes apart; None if unknown."""
        given = next(self._nodes.classes.occupied(), None)
        if given is None or given.key is None:
            return None
        # the last part of a key: each label with its value
        return {name for name, _value in cast("Iterable[tuple[str, object]]", given.key[-1])}

    def _named(self, reading: Iterable[Any]) -> frozenset[NodeName] | None:
        found: frozenset[NodeName] | None = None
        for plugin in reading:
            if callable(getattr(plugin, "nodes_named", None)):
                names = calls.call(
                    plugin, "nodes_named", self._pod, (Iterable, type(None)), self._pod
                )
                if names is not None:
                    found = frozenset(names) if found is None else found.intersection(names)
        return found

    def refusal(self, node: NodeInfo) -> tuple[str, ...]:
        """Return why a node cannot take the pod; empty if it can. O(plugins)."""
        self.asked += 1
        for plugin, wide in self._filters:
            if wide:
                reasons = self._of_class(plugin, self._nodes.classes.of(node.index), node)
            else:
                reasons = self._ask(plugin, node)
            if reasons:
                return reasons
        return () if self._plan is None else self._breaks_plan(self._plan, node)

    def _breaks_plan(self, plan: PlanCheck, node: NodeInfo) -> tuple[str, ...]:
        before = plan.asked
        reasons = plan.refusal(node)
        self.asked += plan.asked - before
        return reasons

    def refuses(self, given: NodeClass) -> bool:
        """Return whether all nodes of a class are refused by their labels. O(plugins)."""
        if not self._wide or not given.nodes:
            return False
        sample = self._nodes.by_index[given.nodes[0]]
        return any(self._of_class(plugin, given, sample) for plugin in self._wide)

    def _of_class(self, plugin: Any, given: NodeClass, node: NodeInfo) -> tuple[str, ...]:
        assert given.key is not None  # otherwise no plugin is asked about labels
        key = (id(plugin), given.key[-1])
        reasons = self._refused.get(key)
        if reasons is None:
            reasons = self._refused[key] = self._ask(plugin, node)
        return reasons

    def _ask(self, plugin: Any, node: NodeView) -> tuple[str, ...]:
        answer: Outcome = calls.call(
            plugin, "filter", self._pod, _FILTERED, self._cycle, self._pod, node
        )
        return answer.reasons if isinstance(answer, Unschedulable) else ()

    def is_resolvable(self, node: NodeView) -> bool:
        """Return False if a filter refuses a node and says that evictions cannot help."""
        for plugin, _wide in self._filters:
            answer: Outcome = calls.call(
                plugin, "filter", self._pod, _FILTERED, self._cycle, self._pod, node
            )
            if isinstance(answer, Unschedulable) and not answer.resolvable:
                return False
        return True

    def in_order(self, others: Sequence[Any]) -> tuple[Any, ...] | None:
        """Return all filters in the order of the profile; None if *others* all come before these.

        As in kube-scheduler, the reason against a node is that of the first filter that refuses
        it. *others* are asked about classes of nodes, and so before these.
        """
        own = [plugin for plugin, _wide in self._filters]
        wanted = {id(plugin) for plugin in (*own, *others)}
        every = tuple(p for p in self._every if id(p) in wanted)
        if self.named is None and list(map(id, every)) == list(map(id, (*others, *own))):
            return None
        return every

    def first_refusal(self, node: NodeInfo, filters: Iterable[Any]) -> tuple[str, ...]:
        """Return the reasons of the first of some filters that refuses a node. O(plugins).

        If all accept it, the plan of the reserved gang may still refuse it.
        """
        for plugin in filters:
            reasons = self._ask(plugin, node)
            if reasons:
                return reasons
        return () if self._plan is None else self._breaks_plan(self._plan, node)

    def bound(self) -> int:
        """Return how many further pods like the pod the plugins accept at most. O(plugins)."""
        return (
            cluster_headroom.bound(self._bounds, self._cycle, self._pod)
            if self._bounds
            else (cluster_headroom.UNBOUNDED)
        )

    def group_of(self, node: NodeView) -> Hashable:
        """Return what tells an empty node from others of its class; None if nothing does."""
        named = self.named
        if not self._groupers and self._plan is None and named is None:
            return None
        pod = self._pod
        groups: list[object] = [
            calls.call(plugin, "node_group", pod, object, self._cycle, pod, node)
            for plugin in self._groupers
        ]
        if self._plan is not None:
            groups.append(self._plan.group_of(node))
        if named is not None:
            groups.append(node.node.name if node.node.name in named else None)
        return tuple(groups)

    def totals(self, nodes: Sequence[NodeView]) -> list[int]:
        """Return the weighted sums of the scores of accepted nodes. O(nodes x plugins)."""
        self.asked += len(nodes)
        found = [0] * len(nodes)
        for plugin, weight in self._weighted:
            scores = [self._score(plugin, node) for node in nodes]
            if id(plugin) in self._normalizers:
                scores = self._normalized(plugin, nodes, scores)
            found = [total + weight * score for total, score in zip(found, scores, strict=True)]
        return found

    def _score(self, plugin: Any, node: NodeView) -> int:
        score: Any = calls.call(plugin, "score", self._pod, object, self._cycle, self._pod, node)
        normalizes = id(plugin) in self._normalizers
        if type(score) is not int or not (normalizes or 0 <= score <= _BEST):
            raise calls.returned(plugin, "score", self._pod, score, "an int" if normalizes else "")
        return score

    def _normalized(
        self, plugin: Any, nodes: Sequence[NodeView], scores: Sequence[int]
    ) -> list[int]:
        names = [node.node.name for node in nodes]
        given = dict(zip(names, scores, strict=True))
        point = "normalize_score"
        answer = calls.call(plugin, point, self._pod, Mapping, self._cycle, self._pod, given)
        try:
            found: dict[Any, Any] = dict(answer)
        except Exception as error:
            raise calls.raised(plugin, point, self._pod, error) from error
        if found.keys() != given.keys() or not all(
            type(score) is int and 0 <= score <= _BEST for score in found.values()
        ):
            raise calls.returned(plugin, point, self._pod, answer)
        return [found[name] for name in names]

    def add(self, added: Pod, node: NodeView) -> None:
        """Tell the plugins that a sibling is planned on a node. O(plugins)."""
        self._account("add_pod", added, node)

    def remove(self, removed: Pod, node: NodeView) -> None:
        """Tell the plugins that a sibling is not planned on a node any more. O(plugins)."""
        self._account("remove_pod", removed, node)

    def _account(self, point: str, other: Pod, node: NodeView) -> None:
        self._refused.clear()
        if self._plan is not None:
            self._plan.forget()
        for plugin in self._extensions:
            calls.call(plugin, point, self._pod, type(None), self._cycle, self._pod, other, node)
        if self._is_affected:
            # the sibling may carry a term about labels that the plugins did not read before
            self._note_wide(plugin for plugin, _wide in self._filters)
