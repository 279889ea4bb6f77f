"""Which pods make nodes be told apart by the labels that plugins read for them.

Theory of operation. Nodes with equal signatures are one class, and the labels that plugins read are
part of the signature. A pod that selects a host makes each node a class of its own. So only pods
that may still need a node count: pods without a node, and pods whose bind is not confirmed yet. A
pod that runs does not count.

Rules:
  R1  a pod counts from the moment it is admitted until the cluster state shows it on a node, or it
      ends; see ``is_pending``;
  R2  a label without readers is read for a while, so that a stream of pods that select a host does
      not classify every node twice for each; see ``LabelsRead``.
"""

from __future__ import annotations

from gangsched._core._counters import MemberState
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.state.pod_classes import PodClasses
from gangsched.framework.state.pods import Member

__all__ = ["forget_idle", "is_pending", "leave", "note"]

_WITHOUT_NODE = (MemberState.UNSCHEDULED, MemberState.GATED, MemberState.REFUSED)


def is_pending(member: Member) -> bool:
    """Return whether a node may still have to be found for a pod. O(1)."""
    return member.node is not None or member.state in _WITHOUT_NODE


def note(nodes: Nodes, pod_classes: PodClasses, member: Member) -> bool:
    """Count a pod as a reader, or not any more, by its state now.

    Runtime complexity: O(1); O(nodes x plugins) if nodes must be classified again.

    Returns:
        Whether it is the first pending pod of its class.
    """
    pending = is_pending(member)
    if pending is member.is_counted:
        return False
    if not pending:
        leave(nodes, pod_classes, member)
        return False
    member.is_counted = True
    pod_class = member.pod_class
    pod_class.pending += 1
    if pod_class.pending > 1:
        return False
    if pod_class.labels and pod_classes.labels.add(pod_class.labels):
        nodes.classify_anew()
    return True


def leave(nodes: Nodes, pod_classes: PodClasses, member: Member) -> None:
    """Count a pod as a reader no more. See ``note``."""
    if not member.is_counted:
        return
    member.is_counted = False
    pod_class = member.pod_class
    pod_class.pending -= 1
    if pod_class.pending or not pod_class.labels:
        return
    if pod_classes.labels.discard(pod_class.labels):
        nodes.classify_anew()


def forget_idle(nodes: Nodes, pod_classes: PodClasses) -> None:
    """Tell nodes apart no more by labels that were not read for long. O(1) amortised."""
    if pod_classes.labels.forget_idle(nodes.version, len(nodes.infos)):
        nodes.classify_anew()
