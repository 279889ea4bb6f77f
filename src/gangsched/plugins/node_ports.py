"""Filter nodes by the host ports that a pod takes.

Source: ``NodePorts`` of kube-scheduler 1.36.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final, final

from attrs import frozen

from gangsched.constraints.ports import HostPort
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
        return ("",) if _conflicts(_by_number(pod), other) else ()

    def skips(self, pod: Pod) -> bool:
        """Return whether the pod has no host port."""
        return not pod.host_ports

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        """Refuse *node* if a port is taken. O(host ports of pods on the node)."""
        if not pod.host_ports:
            return SUCCESS
        wanted = _by_number(pod)
        return _REASON if any(_conflicts(wanted, other) for other in node.pods) else SUCCESS


def _by_number(pod: Pod) -> dict[int, list[HostPort]]:
    found: dict[int, list[HostPort]] = {}
    for port in pod.host_ports:
        found.setdefault(port.host_port, []).append(port)
    return found


def _conflicts(wanted: Mapping[int, Sequence[HostPort]], other: Pod) -> bool:
    """Return whether a pod has a port that conflicts with one of some, by number. O(its ports)."""
    return any(
        port.conflicts_with(taken)
        for taken in other.host_ports
        for port in wanted.get(taken.host_port, ())
    )
