"""Filter nodes by the node selector and the required node affinity of a pod."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final, final

from attrs import frozen

from gangsched.model import Pod
from gangsched.outcomes import SUCCESS, Outcome, Unschedulable
from gangsched.protocols import CycleView, NodeView

__all__ = ["NodeAffinity"]

_REASON: Final = Unschedulable(
    "node(s) didn't match Pod's node affinity/selector", resolvable=False
)


@final
@frozen
class NodeAffinity:
    """Refuse a node that lacks a selected label, or that matches no required affinity term."""

    @property
    def name(self) -> str:
        """``NodeAffinity``."""
        return "NodeAffinity"

    def pod_signature(self, pod: Pod) -> Hashable:
        """Return the node selector and the affinity."""
        return (pod.node_selector, pod.affinity)

    def node_signature(self, node: NodeView) -> Hashable:
        """Return a constant: the plugin reads only labels."""
        return None

    def labels_read(self, pod: Pod) -> Iterable[str]:
        """Return the label keys of the selector and the affinity."""
        return (*pod.node_selector, *(r.key for t in pod.affinity for r in t.requirements))

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        """Refuse *node* if its labels do not match."""
        labels = node.node.labels
        for key, value in pod.node_selector.items():
            if labels.get(key) != value:
                return _REASON
        if pod.affinity and not any(term.matches(labels) for term in pod.affinity):
            return _REASON
        return SUCCESS
