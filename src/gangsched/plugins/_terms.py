"""The terms of a pod with everything filled in that depends on the pod itself.

The API server fills in ``matchLabelKeys`` when it creates a pod. Then the selector has a condition
on these keys, and nothing is filled in again. A pod that comes from a file is filled in here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from gangsched.cluster_objects import Namespace
from gangsched.constraints import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeInclusionPolicy,
    PodAffinityTerm,
    TopologySpreadConstraint,
)
from gangsched.constraints.matchers import NodeMatcher, PodMatcher
from gangsched.model import Pod
from gangsched.protocols import CycleView, NodeView
from gangsched.resources import EMPTY, FrozenMap

__all__ = [
    "HOSTNAME",
    "all_of",
    "by_name",
    "labels_of_namespace",
    "node_matcher",
    "shared_host",
    "spread_matcher",
    "term_matcher",
]

HOSTNAME: Final = "kubernetes.io/hostname"
"""The topology key whose value differs from node to node."""
_NO_POD: Final = PodMatcher(LabelSelector())


def term_matcher(pod: Pod, term: PodAffinityTerm) -> PodMatcher | None:
    """Return which pods a term of *pod* is about; None if it is about none."""
    selector = term.label_selector
    if selector is None:
        return None
    if term.match_label_keys or term.mismatch_label_keys:
        selector = _filled_in(pod, selector, term.match_label_keys, term.mismatch_label_keys)
    if not term.namespaces and term.namespace_selector is None:
        return PodMatcher(selector, frozenset((pod.namespace,)))
    return PodMatcher(selector, frozenset(term.namespaces), term.namespace_selector)


def spread_matcher(pod: Pod, constraint: TopologySpreadConstraint) -> PodMatcher | None:
    """Return which pods a spread constraint of *pod* selects; None if it selects none.

    An empty selector is kept: it selects *pod* itself, but no pod on a node is counted for it.
    """
    selector = constraint.label_selector
    if selector is None:
        return None
    if constraint.match_label_keys:
        selector = _filled_in(pod, selector, constraint.match_label_keys, ())
    return PodMatcher(selector, frozenset((pod.namespace,)), live_only=True)


def node_matcher(
    pod: Pod, constraint: TopologySpreadConstraint, keys: Iterable[str]
) -> NodeMatcher:
    """Return which nodes count for a spread constraint of *pod*.

    Args:
        pod: The pod.
        constraint: The constraint.
        keys: The topology keys of all constraints that are considered together: a node must have
            each of them.
    """
    honors_affinity = constraint.node_affinity_policy is NodeInclusionPolicy.HONOR
    honors_taints = constraint.node_taints_policy is NodeInclusionPolicy.HONOR
    return NodeMatcher(
        tuple(sorted(set(keys))),
        pod.node_selector if honors_affinity else EMPTY,
        pod.affinity if honors_affinity else (),
        pod.tolerations if honors_taints else None,
    )


def by_name(state: CycleView, matcher: PodMatcher) -> PodMatcher:
    """Return a matcher with the namespaces that it selects by their labels given by name.

    An empty namespace selector is kept: it selects every namespace, also unknown ones.
    """
    selector = matcher.namespace_selector
    if selector is None or selector.is_empty:
        return matcher
    names = {each.name for each in state.objects.all(Namespace) if selector.matches(each.labels)}
    return PodMatcher(matcher.selector, matcher.namespaces | names, None, matcher.live_only)


def labels_of_namespace(state: CycleView, pod: Pod) -> FrozenMap[str]:
    """Return the labels of a pod's namespace; none if it is not known, as in kube-scheduler."""
    found = state.objects.get(Namespace, pod.namespace)
    return EMPTY if found is None else found.labels


def all_of(matchers: Sequence[PodMatcher | None]) -> PodMatcher | None:
    """Return which pods match every matcher, with namespaces by name; None if no pod can."""
    known = [one for one in matchers if one is not None]
    if not known or len(known) < len(matchers):
        return None
    if len(known) == 1:
        return known[0]
    expressions: dict[LabelSelectorRequirement, None] = {}
    names: frozenset[str] | None = None
    for one in known:
        for key, value in one.selector.match_labels.items():
            expressions[LabelSelectorRequirement(key, "In", (value,))] = None
        expressions.update(dict.fromkeys(one.selector.match_expressions))
        if not one.is_everywhere:
            names = one.namespaces if names is None else names & one.namespaces
    selector = LabelSelector(EMPTY, tuple(expressions))
    if names is None:
        return PodMatcher(selector, frozenset(), LabelSelector())
    return PodMatcher(selector, names)


def shared_host(state: CycleView, node: NodeView) -> str | None:
    """Return the host name of a node if another node has the same; None if it is its own.

    A node without a host name is in no domain of it, which tells it from the others: the empty
    string stands for that.
    """
    host = node.node.labels.get(HOSTNAME)
    if host is None:
        return ""
    return host if state.counts.matching(_NO_POD, HOSTNAME).nodes(host) > 1 else None


def _filled_in(
    pod: Pod, selector: LabelSelector, equal: Iterable[str], other: Iterable[str]
) -> LabelSelector:
    known = {one.key for one in selector.match_expressions if one.operator == "In"}
    added: list[LabelSelectorRequirement] = []
    for key in equal:
        value = pod.labels.get(key)
        if value is not None and key not in known:
            added.append(LabelSelectorRequirement(key, "In", (value,)))
    for key in other:
        value = pod.labels.get(key)
        if value is not None:
            one = LabelSelectorRequirement(key, "NotIn", (value,))
            if one not in selector.match_expressions:
                added.append(one)
    return selector.with_expressions(added)
