"""Filter nodes by the hard topology spread constraints of a pod.

Theory of operation. A constraint counts matching pods by domain: by the value of a node label.
Only nodes count that have the labels of all hard constraints of the pod, and that its policies
accept. The domains are those of these nodes, so an empty domain has the count 0. A pod may go to a
domain if its number of matching pods, with the pod itself, is at most ``max_skew`` above the
smallest number of any domain. The counts are kept by the scheduler (``state.counts``).

Source: ``PodTopologySpread`` of kube-scheduler 1.36.

Rules:
  R1  the reasons are those of kube-scheduler;
  R2  terminating pods are not counted, and an empty selector counts no pod, as in kube-scheduler;
  R3  with fewer than ``min_domains`` domains the smallest number is taken as 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, final

from attrs import evolve, frozen

from gangsched.cluster_objects import ClusterObject
from gangsched.constraints.matchers import NodeMatcher, PodMatcher
from gangsched.errors import InvalidValueError
from gangsched.model import (
    LabelSelector,
    NodeInclusionPolicy,
    NodeName,
    Pod,
    TopologySpreadConstraint,
)
from gangsched.outcomes import SUCCESS, Outcome, Unschedulable
from gangsched.plugins._default_selector import SETS_OF_PODS, default_selector, spread_controller
from gangsched.plugins._scores import BEST
from gangsched.plugins._terms import HOSTNAME, node_matcher, shared_host, spread_matcher
from gangsched.protocols import CycleView, NodeView, StateKey

__all__ = ["SYSTEM_DEFAULT_CONSTRAINTS", "PodTopologySpread", "ScoringPodTopologySpread"]

SYSTEM_DEFAULT_CONSTRAINTS: Final = tuple(
    TopologySpreadConstraint(
        max_skew=max_skew, topology_key=key, when_unsatisfiable="ScheduleAnyway"
    )
    for max_skew, key in ((3, HOSTNAME), (5, "topology.kubernetes.io/zone"))
)
"""The default constraints of kube-scheduler without a configuration."""

_SKEW: Final = Unschedulable("node(s) didn't match pod topology spread constraints")
_NO_LABEL: Final = Unschedulable(
    "node(s) didn't match pod topology spread constraints (missing required label)",
    resolvable=False,
)
_LEFT_OUT: Final = -1
_NO_POD: Final = PodMatcher(LabelSelector())
"""Matches no pod: it has no namespace."""


class _Rule(NamedTuple):
    """One hard constraint.

    Attributes:
        key: The topology key.
        max_skew: The largest skew.
        min_domains: The least number of domains.
        pods: The pods that are counted.
        nodes: The nodes that count.
        itself: 1 if the pod matches its own selector, else 0.
    """

    key: str
    max_skew: int
    min_domains: int
    pods: PodMatcher
    nodes: NodeMatcher
    itself: int


_RULES: Final[StateKey[tuple[_Rule, ...]]] = StateKey("PodTopologySpread.rules", derived=True)


@frozen
class PodTopologySpread:
    """Refuse nodes in domains that would have too many matching pods."""

    @property
    def name(self) -> str:
        """``PodTopologySpread``."""
        return "PodTopologySpread"

    def pod_signature(self, pod: Pod) -> Hashable:
        """Return the hard constraints with what they read of the pod; None without constraints."""
        hard = _hard(pod)
        if not hard:
            return None
        honors_affinity = any(c.node_affinity_policy is NodeInclusionPolicy.HONOR for c in hard)
        honors_taints = any(c.node_taints_policy is NodeInclusionPolicy.HONOR for c in hard)
        return (
            hard,
            pod.namespace,
            pod.labels,
            (pod.node_selector, pod.affinity) if honors_affinity else None,
            pod.tolerations if honors_taints else None,
        )

    @property
    def signs_node_alone(self) -> bool:
        """True: the signature is constant."""
        return True

    def node_signature(self, node: NodeView) -> Hashable:
        """Return a constant: of a node by itself the plugin reads only labels."""
        return None

    def labels_read(self, pod: Pod) -> Iterable[str]:
        """Return the topology keys, except for the host name, which differs from node to node."""
        if not pod.topology_spread_constraints:
            return ()
        return {one.topology_key for one in _hard(pod)} - {HOSTNAME}

    def reads_pods(self, pod: Pod) -> bool:
        """Return whether the pod has hard constraints."""
        return bool(_hard(pod))

    def pods_selected(self, pod: Pod) -> tuple[PodMatcher, ...]:
        """Return the pods that the hard constraints count."""
        found = (spread_matcher(pod, one) for one in _hard(pod))
        return tuple(pods for pods in found if pods is not None)

    def hindered_within(self, state: CycleView, pod: Pod, other: Pod) -> Iterable[str]:
        """Return the keys of the hard constraints that count *other*: it fills its own domain."""
        found = ((one.topology_key, spread_matcher(pod, one)) for one in _hard(pod))
        return {
            key
            for key, pods in found
            if pods is not None and pods.may_match(other.namespace, other.labels)
        }

    def skips(self, pod: Pod) -> bool:
        """Return whether the pod has no hard constraint."""
        return not _hard(pod)

    def topology_keys(self, state: CycleView, pod: Pod) -> Iterable[str]:
        """Return the topology keys."""
        return {one.topology_key for one in _hard(pod)}

    def node_group(self, state: CycleView, pod: Pod, node: NodeView) -> Hashable:
        """Return what tells empty nodes with equal labels apart, besides their topology values.

        That is a host name that other nodes share, and which constraints count the node at all.
        """
        hard = _hard(pod)
        if not hard:
            return None
        one = node.node
        counted = tuple(r.nodes.matches(one.name, one.labels, one.taints) for r in _of(state, pod))
        by_host = any(constraint.topology_key == HOSTNAME for constraint in hard)
        return (counted, shared_host(state, node) if by_host else None)

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        """Refuse *node* if it lacks a label, or if its domain would be too full. O(constraints)."""
        if not pod.topology_spread_constraints:
            return SUCCESS
        labels, counts = node.node.labels, state.counts
        for rule in _of(state, pod):
            value = labels.get(rule.key)
            if value is None:
                return _NO_LABEL
            if rule.pods.selector.is_empty:
                found, least = 0, 0
            else:
                domains = counts.matching(rule.pods, rule.key, rule.nodes)
                found = domains.get(value)
                least = 0 if domains.domains < rule.min_domains else domains.least
            if found + rule.itself - least > rule.max_skew:
                return _SKEW
        return SUCCESS


def _hard(pod: Pod) -> tuple[TopologySpreadConstraint, ...]:
    """Return the constraints of a pod that are not only preferences."""
    given = pod.topology_spread_constraints
    return tuple(one for one in given if one.is_hard) if given else ()


def _of(state: CycleView, pod: Pod) -> tuple[_Rule, ...]:
    rules = state.read(_RULES)
    if rules is None:
        rules = _rules(pod)
        state.write(_RULES, rules)
    return rules


def _rules(pod: Pod) -> tuple[_Rule, ...]:
    hard = _hard(pod)
    keys = {one.topology_key for one in hard}
    found: list[_Rule] = []
    for one in hard:
        pods = spread_matcher(pod, one)
        found.append(
            _Rule(
                one.topology_key,
                one.max_skew,
                one.min_domains or 1,
                _NO_POD if pods is None else pods,
                node_matcher(pod, one, keys),
                int(pods is not None and pods.matches(pod.namespace, pod.labels)),
            )
        )
    return tuple(found)


_SOFT: Final[StateKey[tuple[Pod, tuple[TopologySpreadConstraint, ...]]]] = StateKey(
    "PodTopologySpread.soft", derived=True
)


@final
@frozen
class ScoringPodTopologySpread(PodTopologySpread):
    """``PodTopologySpread`` with the score of kube-scheduler for ``ScheduleAnyway``.

    Default constraints concern pods that state no constraint. They count the pods that belong
    together with the pod, by the services that select it and the controller that owns it. A pod
    without these has no default constraints, as in kube-scheduler, and costs one lookup in a cycle.

    Attributes:
        default_constraints: Constraints of pods that state none, each ``ScheduleAnyway``; see
            ``SYSTEM_DEFAULT_CONSTRAINTS``. Their selectors and ``match_label_keys`` are not read.
        default_selector: Returns which pods belong together with a pod; an answer of None stands
            for no default constraints. None for the services and controllers in ``state.objects``.
        requires_labels: Whether nodes without one of the labels of the default constraints are left
            out. kube-scheduler does so for constraints that are configured, and not for its own.

    Raises:
        InvalidValueError: A default constraint is hard.
    """

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    default_selector: Callable[[Pod], LabelSelector | None] | None = None
    requires_labels: bool = False

    def __attrs_post_init__(self) -> None:
        for place, one in enumerate(self.default_constraints):
            if one.is_hard:
                name = f"default_constraints[{place}]"
                raise InvalidValueError(name, one, "a constraint with ScheduleAnyway")

    def pod_signature(self, pod: Pod) -> Hashable:
        """Return the constraints with what they read of the pod.

        None if the pod states none and no default constraint can apply to it.
        """
        hard, soft = super().pod_signature(pod), _stated(pod)
        if soft:
            return (hard, soft, pod.namespace, pod.labels)
        if not self._may_default(pod):
            return hard
        return (hard, self._given(pod), pod.namespace, pod.labels, spread_controller(pod))

    def labels_read(self, pod: Pod) -> Iterable[str]:
        """Return the topology keys, except for the host name."""
        soft = self.default_constraints if self._given(pod) is not None else _stated(pod)
        if not soft and not pod.topology_spread_constraints:
            return ()
        keys = {one.topology_key for one in soft} | set(super().labels_read(pod))
        return keys - {HOSTNAME}

    def reads_pods(self, pod: Pod) -> bool:
        """Return whether the pod states constraints, or has them by *default_selector*."""
        return super().reads_pods(pod) or bool(_stated(pod)) or self._given(pod) is not None

    def scores_in_cycle(self, state: CycleView, pod: Pod) -> bool:
        """Return whether the pod has default constraints in this cycle."""
        return bool(self._soft(state, pod))

    def objects_scored(self) -> Iterable[type[ClusterObject]]:
        """Return services and controllers if they give the selector of default constraints."""
        if not self.default_constraints or self.default_selector is not None:
            return ()
        return SETS_OF_PODS

    def score(self, state: CycleView, pod: Pod, node: NodeView) -> int:
        """Return 0; -1 for a node that is left out because it lacks a label.

        The number of pods is weighted by the number of domains of all nodes that passed, so
        ``normalize_score`` adds it up.
        """
        labels = node.node.labels
        if any(one.topology_key not in labels for one in self._soft(state, pod)):
            is_strict = bool(pod.topology_spread_constraints) or self.requires_labels
            return _LEFT_OUT if is_strict else 0
        return 0

    def normalize_score(
        self, state: CycleView, pod: Pod, scores: Mapping[NodeName, int]
    ) -> Mapping[NodeName, int]:
        """Return 100 for the fewest pods, less for more, and 0 for a node that is left out.

        Runtime complexity: O(nodes x constraints).
        """
        soft = self._soft(state, pod)
        if not soft:
            return dict.fromkeys(scores, 0)
        counted = [name for name, score in scores.items() if score != _LEFT_OUT]
        sums = self._sums(state, pod, soft, counted)
        least, most = min(sums.values(), default=0), max(sums.values(), default=0)
        found = dict.fromkeys(scores, 0)
        for name, total in sums.items():
            found[name] = BEST * (most + least - total) // most if most else BEST
        return found

    def _sums(
        self,
        state: CycleView,
        pod: Pod,
        soft: tuple[TopologySpreadConstraint, ...],
        names: Sequence[NodeName],
    ) -> dict[NodeName, int]:
        """Return the weighted number of matching pods in the domains of each of the nodes."""
        is_strict = bool(pod.topology_spread_constraints) or self.requires_labels
        keys = {one.topology_key for one in soft} if is_strict else set[str]()
        nodes, totals = state.nodes, [0.0] * len(names)
        for one in soft:
            key, pods = one.topology_key, spread_matcher(pod, one) or _NO_POD
            values = [nodes[name].node.labels.get(key) for name in names]
            # without the label, nodes are one domain; each host is one
            domains = len(names) if key == HOSTNAME else len(set(values))
            weight = math.log(domains + 2)
            counts = None
            if not pods.selector.is_empty:
                counts = state.counts.matching(pods, key, node_matcher(pod, one, keys))
            for place, value in enumerate(values):
                if value is not None:
                    found = 0 if counts is None else counts.get(value)
                    totals[place] += found * weight + (one.max_skew - 1)
        return {name: math.floor(total + 0.5) for name, total in zip(names, totals, strict=True)}

    def _soft(self, state: CycleView, pod: Pod) -> tuple[TopologySpreadConstraint, ...]:
        """Return the constraints that are scored; they are found once in a cycle."""
        if pod.topology_spread_constraints or not self.default_constraints:
            return _stated(pod)
        known = state.read(_SOFT)
        if known is None or known[0] is not pod:
            known = (pod, self._by_default(state, pod))
            state.write(_SOFT, known)
        return known[1]

    def _by_default(self, state: CycleView, pod: Pod) -> tuple[TopologySpreadConstraint, ...]:
        if self.default_selector is None:
            selector = default_selector(state.objects, pod)
        else:
            selector = self._given(pod)
        if selector is None:
            return ()
        return tuple(
            evolve(one, label_selector=selector, match_label_keys=())
            for one in self.default_constraints
        )

    def _given(self, pod: Pod) -> LabelSelector | None:
        """Return what *default_selector* says of a pod without constraints; None for nothing."""
        if self.default_selector is None or not self._may_default(pod):
            return None
        selector = self.default_selector(pod)
        return None if selector is None or selector.is_empty else selector

    def _may_default(self, pod: Pod) -> bool:
        """Return whether the pod may have default constraints."""
        if not self.default_constraints or pod.topology_spread_constraints:
            return False
        by_objects = bool(pod.labels or pod.controller)
        return by_objects if self.default_selector is None else True


def _stated(pod: Pod) -> tuple[TopologySpreadConstraint, ...]:
    """Return the constraints that a pod states and that are only preferences."""
    given = pod.topology_spread_constraints
    return tuple(one for one in given if not one.is_hard) if given else ()
