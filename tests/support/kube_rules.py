"""What kube-scheduler allows, said once more: by scanning all pods, for one pod and one node.

Written from the Kubernetes documentation and not from the plugins, without counts and without
classes of nodes. Slow, and meant for a handful of nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Final, TypeAlias

from gangsched import (
    LabelSelector,
    Node,
    NodeInclusionPolicy,
    Pod,
    PodAffinityTerm,
    TaintEffect,
    TopologySpreadConstraint,
    WhenUnsatisfiable,
)

__all__ = ["Accepts", "Placed", "can_be_placed", "hold_in_some_order", "refusal"]

Placed: TypeAlias = Sequence[tuple[Pod, Node]]
"""Pods, each with its node."""
Accepts: TypeAlias = Callable[[Placed, Pod, Node], bool]
"""Whether a pod may go to a node, beside those that are placed."""

AFFINITY: Final = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY: Final = "node(s) didn't match pod anti-affinity rules"
EXISTING: Final = "node(s) didn't satisfy existing pods anti-affinity rules"
SPREAD: Final = "node(s) didn't match pod topology spread constraints"
PORTS: Final = "node(s) didn't have free ports for the requested pod ports"


def refusal(
    nodes: Sequence[Node],
    placed: Placed,
    pod: Pod,
    node: Node,
    namespaces: Mapping[str, Mapping[str, str]],
) -> str | None:
    """Return why a pod may not go to a node; None if it may."""
    if _taken(placed, pod, node):
        return PORTS
    found = _free_of_resources(placed, pod, node)
    if found is not None:
        return found
    for constraint in pod.topology_spread_constraints:
        if constraint.when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE:
            missing = constraint.topology_key not in node.labels
            if missing:
                return f"{SPREAD} (missing required label)"
            if _skew(nodes, placed, pod, node, constraint) > constraint.max_skew:
                return SPREAD
    if not _has_companions(placed, pod, node, namespaces):
        return AFFINITY
    for term in pod.pod_anti_affinity:
        if any(
            _selects(pod, term, other, namespaces) and _together(term, node, where)
            for other, where in placed
        ):
            return ANTI_AFFINITY
    for other, where in placed:
        for term in other.pod_anti_affinity:
            if _selects(other, term, pod, namespaces) and _together(term, node, where):
                return EXISTING
    return None


def can_be_placed(
    pods: Sequence[Pod], placed: Placed, nodes: Sequence[Node], accepts: Accepts
) -> bool:
    """Return whether all pods can be placed one after another, in some order, on some nodes."""
    return _can_be_placed(list(pods), list(placed), nodes, accepts, set())


def _can_be_placed(
    pods: list[Pod],
    placed: list[tuple[Pod, Node]],
    nodes: Sequence[Node],
    accepts: Accepts,
    seen: set[frozenset[tuple[str, str]]],
) -> bool:
    position = frozenset((pod.uid, node.name) for pod, node in placed)
    if not pods or position in seen:
        return not pods
    seen.add(position)
    return any(
        accepts(placed, pod, node)
        and _can_be_placed(
            [other for other in pods if other is not pod],
            [*placed, (pod, node)],
            nodes,
            accepts,
            seen,
        )
        for pod, node in product(pods, nodes)
    )


def hold_in_some_order(members: Placed, placed: Placed, accepts: Accepts) -> bool:
    """Return whether pods can be placed on their nodes one after another, in some order."""
    return not members or any(
        accepts(placed, pod, node)
        and hold_in_some_order([*members[:n], *members[n + 1 :]], [*placed, (pod, node)], accepts)
        for n, (pod, node) in enumerate(members)
    )


def _taken(placed: Placed, pod: Pod, node: Node) -> bool:
    every = "0.0.0.0"
    for other, where in placed:
        if where.name != node.name:
            continue
        for mine, theirs in product(pod.host_ports, other.host_ports):
            same = (mine.host_port, mine.protocol) == (theirs.host_port, theirs.protocol)
            if same and (every in {mine.host_ip, theirs.host_ip} or mine.host_ip == theirs.host_ip):
                return True
    return False


def _free_of_resources(placed: Placed, pod: Pod, node: Node) -> str | None:
    here = [other for other, where in placed if where.name == node.name]
    for name, amount in pod.requests.items():
        used = sum(other.requests.amount(name) for other in here)
        if used + amount > node.allocatable.amount(name):
            return f"Insufficient {name}"
    if "pods" in node.allocatable and 1000 * (len(here) + 1) > node.allocatable.amount("pods"):
        return "Too many pods"
    return None


def _label_selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    if selector is None:
        return False
    for key, value in selector.match_labels.items():
        if key not in labels or labels[key] != value:
            return False
    for one in selector.match_expressions:
        has = one.key in labels
        if one.operator == "Exists" and not has:
            return False
        if one.operator == "DoesNotExist" and has:
            return False
        if one.operator == "In" and (not has or labels[one.key] not in one.values):
            return False
        if one.operator == "NotIn" and has and labels[one.key] in one.values:
            return False
    return True


def _selects(
    owner: Pod, term: PodAffinityTerm, other: Pod, namespaces: Mapping[str, Mapping[str, str]]
) -> bool:
    """Return whether a term of *owner* is about *other*."""
    if term.namespace_selector is None and not term.namespaces:
        if other.namespace != owner.namespace:
            return False
    elif other.namespace not in term.namespaces:
        selector = term.namespace_selector
        if selector is None or not _label_selects(selector, namespaces.get(other.namespace, {})):
            return False
    if not _label_selects(term.label_selector, other.labels):
        return False
    for key in term.match_label_keys:
        if (
            _fills_in(owner, key, term.label_selector)
            and other.labels.get(key) != owner.labels[key]
        ):
            return False
    for key in term.mismatch_label_keys:
        if key in owner.labels and other.labels.get(key) == owner.labels[key]:
            return False
    return True


def _fills_in(owner: Pod, key: str, selector: LabelSelector | None) -> bool:
    """Return whether a key is to be filled in: the API server has not done so before."""
    done = selector is not None and any(
        one.key == key and one.operator == "In" for one in selector.match_expressions
    )
    return key in owner.labels and not done


def _together(term: PodAffinityTerm, one: Node, other: Node) -> bool:
    key = term.topology_key
    return key in one.labels and key in other.labels and one.labels[key] == other.labels[key]


def _has_companions(
    placed: Placed, pod: Pod, node: Node, namespaces: Mapping[str, Mapping[str, str]]
) -> bool:
    terms = pod.pod_affinity
    if any(term.topology_key not in node.labels for term in terms):
        return False
    fitting = [
        where
        for other, where in placed
        if all(_selects(pod, term, other, namespaces) for term in terms)
    ]
    if all(any(_together(term, node, where) for where in fitting) for term in terms):
        return True
    if any(term.topology_key in where.labels for where in fitting for term in terms):
        return False
    return all(_selects(pod, term, pod, namespaces) for term in terms)


def _skew(
    nodes: Sequence[Node],
    placed: Placed,
    pod: Pod,
    node: Node,
    constraint: TopologySpreadConstraint,
) -> int:
    keys = [
        one.topology_key
        for one in pod.topology_spread_constraints
        if one.when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE
    ]
    counted = [
        one
        for one in nodes
        if all(key in one.labels for key in keys) and _includes(constraint, pod, one)
    ]
    selector = constraint.label_selector

    def matches(other: Pod) -> bool:
        same = all(
            other.labels.get(key) == pod.labels[key]
            for key in constraint.match_label_keys
            if _fills_in(pod, key, selector)
        )
        return other.namespace == pod.namespace and same and _label_selects(selector, other.labels)

    key = constraint.topology_key
    sizes = {one.labels[key]: 0 for one in counted}
    names = {one.name for one in counted}
    nothing = selector is None or (
        not selector.match_labels
        and not selector.match_expressions
        and not any(each in pod.labels for each in constraint.match_label_keys)
    )
    for other, where in placed:
        if where.name in names and other.deleted_at is None and matches(other) and not nothing:
            sizes[where.labels[key]] += 1
    least = min(sizes.values(), default=0)
    if len(sizes) < (constraint.min_domains or 1):
        least = 0
    return sizes.get(node.labels[key], 0) + matches(pod) - least


def _includes(constraint: TopologySpreadConstraint, pod: Pod, node: Node) -> bool:
    if constraint.node_affinity_policy is NodeInclusionPolicy.HONOR:
        if any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
            return False
        if pod.affinity and not any(t.matches(node.labels, node.name) for t in pod.affinity):
            return False
    if constraint.node_taints_policy is NodeInclusionPolicy.HONOR:
        for taint in node.taints:
            soft = taint.effect is TaintEffect.PREFER_NO_SCHEDULE
            if not soft and not any(one.tolerates(taint) for one in pod.tolerations):
                return False
    return True
