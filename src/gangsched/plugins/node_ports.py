"""Filter nodes by the host ports that a pod takes.

Source: ``NodePorts`` of kube-scheduler 1.36.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import Final, final

from attrs import frozen

from gangsched.model import Pod
from gangsched.outcomes import SUCCESS, Outcome, Unschedulable
from gangsched.protocols import CycleView, NodeView

__all__ = ["NodePorts"]

_REASON: Final = Unschedulable("node(s) didn't have free ports for the requested pod ports")


@final
@frozen
class NodePorts:
    """Refuse a node if a pod on it has one of the pod's host ports."""

    @property
    def name(self) -> str:
        """``NodePorts``."""
        return "NodePorts"

    @property
    def attributes_signed(self) -> Collection[str]:
        """The host ports."""
        return ("host_ports",)

    def pod_signature(self, pod: Pod) -> Hashable:
        """Return the host ports."""
        return pod.host_ports or None

    @property
    def signs_node_alone(self) -> bool:
        """True: the signature is constant."""
        return True

    def node_signature(self, node: NodeView) -> Hashable:
        """Return a constant: of a node the plugin reads only its pods."""
        return None

    def reads_pods(self, pod: Pod) -> bool:
        """Return whether the pod has host ports."""
        return bool(pod.host_ports)

    def hindered_within(self, state: CycleView, pod: Pod, other: Pod) -> Iterable[str]:
        """Return the node itself if the pods have a host port in common."""
        return ("",) if _conflict(pod, other) else ()

    def skips(self, pod: Pod) -> bool:
        """Return whether the pod has no host port."""
        return not pod.host_ports

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        """Refuse *node* if a port is taken. O(pods on the node)."""
        if not pod.host_ports:
            return SUCCESS
        return _REASON if any(_conflict(pod, other) for other in node.pods) else SUCCESS


def _conflict(pod: Pod, other: Pod) -> bool:
    for taken in other.host_ports:
        if any(port.conflicts_with(taken) for port in pod.host_ports):
            return True
    return False
