"""Filter nodes by the node that a pod names.

A pod with ``node_name`` holds that node: the scheduler never looks for another, so no preset has
this plugin. It is for profiles that are asked about such pods by a program of their own.

Source: ``NodeName`` of kube-scheduler 1.36.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final, final

from attrs import frozen

from gangsched import model
from gangsched.model import Pod
from gangsched.outcomes import SUCCESS, Outcome, Unschedulable
from gangsched.protocols import CycleView, NodeView

__all__ = ["NodeName"]

_REASON: Final = Unschedulable("node(s) didn't match the requested node name", resolvable=False)


@final
@frozen
class NodeName:
    """Refuse every node but the one that the pod names."""

    @property
    def name(self) -> str:
        """``NodeName``."""
        return "NodeName"

    def pod_signature(self, pod: Pod) -> Hashable:
        """Return the name of the node."""
        return pod.node_name

    @property
    def signs_node_alone(self) -> bool:
        """True: the signature is constant."""
        return True

    def node_signature(self, node: NodeView) -> Hashable:
        """Return a constant: names are read node by node."""
        return None

    def reads_pods(self, pod: Pod) -> bool:
        """Return whether the pod names a node, so that nodes are evaluated one by one."""
        return pod.node_name is not None

    def skips(self, pod: Pod) -> bool:
        """Return whether the pod names no node."""
        return pod.node_name is None

    def nodes_named(self, pod: Pod) -> Iterable[model.NodeName] | None:
        """Return the node that the pod names; None if it names none."""
        return None if pod.node_name is None else (pod.node_name,)

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        """Refuse *node* if the pod names another one."""
        if pod.node_name is None or pod.node_name == node.node.name:
            return SUCCESS
        return _REASON
