"""Filter nodes by the features that their kubelets declare.

Source: ``NodeDeclaredFeatures`` of kube-scheduler 1.36 (KEP-5328).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, final

from attrs import frozen

from gangsched.model import Pod
from gangsched.outcomes import SUCCESS, Outcome, Unschedulable
from gangsched.protocols import CycleView, NodeView

__all__ = ["NodeDeclaredFeatures"]

_REASON: Final = Unschedulable("node(s) didn't match Pod's required features", resolvable=False)


@final
@frozen
class NodeDeclaredFeatures:
    """Refuse a node that does not declare a feature which the pod requires."""

    @property
    def name(self) -> str:
        """``NodeDeclaredFeatures``."""
        return "NodeDeclaredFeatures"

    def pod_signature(self, pod: Pod) -> Hashable:
        """Return the required features; None if there are none."""
        return pod.required_features or None

    @property
    def signs_node_alone(self) -> bool:
        """True: pods change no feature."""
        return True

    def node_signature(self, node: NodeView) -> Hashable:
        """Return the declared features."""
        return node.node.declared_features

    def skips(self, pod: Pod) -> bool:
        """Return whether the pod requires no feature."""
        return not pod.required_features

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        """Refuse *node* if a required feature is not declared."""
        declared = node.node.declared_features
        if all(feature in declared for feature in pod.required_features):
            return SUCCESS
        return _REASON
