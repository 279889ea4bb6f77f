"""Filter nodes by the node selector and the required node affinity of a pod.

A term may name nodes (``match_fields``), as the pods of a DaemonSet do. Names are no part of the
class of a node, so the plugin is asked about single nodes for such a pod. If each term names its
nodes, only these are asked about.

Source: ``NodeAffinity`` of kube-scheduler 1.36.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Final, final

from attrs import frozen

from gangsched.cluster_objects import ClusterObject
from gangsched.model import NodeName, Pod
from gangsched.outcomes import SUCCESS, Outcome, Unschedulable
from gangsched.plugins._scores import by_largest
from gangsched.protocols import CycleView, NodeView

__all__ = ["NodeAffinity", "PreferredNodeAffinity"]

_REASON: Final = Unschedulable(
    "node(s) didn't match Pod's node affinity/selector", resolvable=False
)
_CONFLICT: Final = Unschedulable("pod affinity terms conflict", resolvable=False)


@frozen
class NodeAffinity:
    """Refuse a node that lacks a selected label, or that matches no required affinity term."""

    @property
    def name(self) -> str:
        """``NodeAffinity``."""
        return "NodeAffinity"

    def pod_signature(self, pod: Pod) -> Hashable:
        """Return the node selector and the affinity; None if both are empty."""
        return (pod.node_selector, pod.affinity) if pod.node_selector or pod.affinity else None

    @property
    def signs_node_alone(self) -> bool:
        """True: the signature is constant."""
        return True

    def node_signature(self, node: NodeView) -> Hashable:
        """Return a constant: the plugin reads only labels, and names of single nodes."""
        return None

    def labels_read(self, pod: Pod) -> Iterable[str]:
        """Return the label keys of the selector and the affinity."""
        if not pod.node_selector and not pod.affinity:
            return ()
        return (*pod.node_selector, *(r.key for t in pod.affinity for r in t.requirements))

    def reads_pods(self, pod: Pod) -> bool:
        """Return whether a term is about the names of nodes, so that they are asked one by one."""
        return bool(pod.affinity) and any(term.match_fields for term in pod.affinity)

    def topology_keys(self, state: CycleView, pod: Pod) -> None:
        """Return None: a term may be about the names of nodes."""

    def node_group(self, state: CycleView, pod: Pod, node: NodeView) -> Hashable:
        """Return which of the terms that are about names *node* matches."""
        one = node.node
        return tuple(
            term.matches(one.labels, one.name) for term in pod.affinity if term.match_fields
        )

    def skips(self, pod: Pod) -> bool:
        """Return whether the pod has neither a selector nor a required term."""
        return not pod.node_selector and not pod.affinity

    def objects_read(self, pod: Pod) -> Iterable[type[ClusterObject]]:
        """Return nothing: what ``pre_filter`` refuses stays refused until the pod changes."""
        return ()

    def pre_filter(self, state: CycleView, pod: Pod, *, now: float) -> Outcome:
        """Refuse a pod if no node could have the names that each of its terms asks for."""
        named = self.nodes_named(pod)
        return _CONFLICT if named is not None and not named else SUCCESS

    def nodes_named(self, pod: Pod) -> Collection[NodeName] | None:
        """Return the nodes that the terms name; None if one of the terms names none."""
        if not pod.affinity:
            return None
        names: set[NodeName] = set()
        for term in pod.affinity:
            own: set[str] | None = None
            for one in term.match_fields:
                if one.operator == "In":
                    own = set(one.values) if own is None else own & set(one.values)
            if own is None:
                return None
            names.update(map(NodeName, own))
        return names

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        """Refuse *node* if its labels or its name do not match."""
        labels = node.node.labels
        for key, value in pod.node_selector.items():
            if labels.get(key) != value:
                return _REASON
        if pod.affinity:
            name = node.node.name
            if not any(term.matches(labels, name) for term in pod.affinity):
                return _REASON
        return SUCCESS


@final
@frozen
class PreferredNodeAffinity(NodeAffinity):
    """``NodeAffinity`` with the score of kube-scheduler: preferred terms that a node matches."""

    def pod_signature(self, pod: Pod) -> Hashable:
        """Return the node selector and the affinity; None if all are empty."""
        read = (pod.node_selector, pod.affinity, pod.preferred_node_affinity)
        return read if any(read) else None

    def labels_read(self, pod: Pod) -> Iterable[str]:
        """Return the label keys of the selector and of all terms."""
        preferred = (term.preference for term in pod.preferred_node_affinity)
        return (
            *super().labels_read(pod),
            *(one.key for term in preferred for one in term.requirements),
        )

    def reads_pods(self, pod: Pod) -> bool:
        """Return whether a term is about the names of nodes, so that they are asked one by one."""
        return super().reads_pods(pod) or any(
            term.preference.match_fields for term in pod.preferred_node_affinity
        )

    def score(self, state: CycleView, pod: Pod, node: NodeView) -> int:
        """Return the sum of the weights of the preferred terms that *node* matches."""
        labels, name = node.node.labels, node.node.name
        return sum(
            term.weight
            for term in pod.preferred_node_affinity
            if term.preference.matches(labels, name)
        )

    def normalize_score(
        self, state: CycleView, pod: Pod, scores: Mapping[NodeName, int]
    ) -> Mapping[NodeName, int]:
        """Return each sum as a percentage of the largest."""
        return by_largest(scores)
