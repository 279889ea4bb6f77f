"""Filter out cordoned nodes."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, final

from attrs import frozen

from gangsched.constraints import Taint
from gangsched.model import Pod
from gangsched.outcomes import SUCCESS, Outcome, Unschedulable
from gangsched.protocols import CycleView, NodeView

__all__ = ["NodeUnschedulable"]

_CORDON: Final = Taint("node.kubernetes.io/unschedulable")
_REASON: Final = Unschedulable("node(s) were unschedulable", resolvable=False)


@final
@frozen
class NodeUnschedulable:
    """Refuse a cordoned node, unless the pod tolerates the taint that ``kubectl cordon`` sets."""

    @property
    def name(self) -> str:
        """``NodeUnschedulable``."""
        return "NodeUnschedulable"

    def pod_signature(self, pod: Pod) -> Hashable:
        """Return the tolerations; None if there are none."""
        return pod.tolerations or None

    @property
    def signs_node_alone(self) -> bool:
        """True: pods do not cordon nodes."""
        return True

    def node_signature(self, node: NodeView) -> Hashable:
        """Return whether the node is cordoned."""
        return node.node.unschedulable

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        """Refuse *node* if it is cordoned and the pod does not tolerate that."""
        if node.node.unschedulable and not any(t.tolerates(_CORDON) for t in pod.tolerations):
            return _REASON
        return SUCCESS
