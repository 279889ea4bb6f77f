"""What a plugin declares so that its answers are computed once for like pods and like nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Protocol, TypeAlias

from gangsched.model import Pod
from gangsched.protocols._views import CycleView, NodeView

__all__ = [
    "EvaluatesNodes",
    "NodeEvaluator",
    "NodeLabelsRead",
    "NodeSignature",
    "PodSignature",
    "SignatureInCycle",
    "SignsAllocatable",
    "SignsAttributes",
    "SignsNodeAlone",
    "TopologyKeys",
]


class PodSignature(Protocol):
    """Optional for a plugin with ``filter`` or ``score``: which part of a pod it reads.

    Pods with equal signatures get equal answers on equal nodes, so the answer is computed once
    for them. A plugin whose answer depends on anything but the pod's signature and the node must
    not have this method. Pods of a profile with such a plugin are evaluated one by one.

    Source: the signatures of KEP-5598.
    """

    def pod_signature(self, pod: Pod) -> Hashable:
        """Return the part of *pod* that this plugin reads."""
        ...


class SignsAttributes(Protocol):
    """Optional for a plugin with ``pod_signature``: which attributes of a pod that reads.

    A plugin is not asked for the signature of a pod that sets none of them. So it costs nothing for
    most pods. A subclass that overrides ``pod_signature`` has to override this attribute, too;
    otherwise it is asked about every pod.
    """

    @property
    def attributes_signed(self) -> Collection[str] | None:
        """Attributes of ``Pod`` that have a default, or None to be asked about every pod.

        For a pod with the defaults of all of these, ``pod_signature`` returns None.
        """
        ...


class SignatureInCycle(Protocol):
    """Optional for a plugin without ``pod_signature``: which part of a pod it reads in one cycle.

    It is for a plugin whose answer depends on all nodes, too. While the nodes stay as they are,
    pods with equal signatures get equal answers. So like members of a gang are evaluated once for
    each placement of the gang, if every filter and score plugin has one of the two methods.
    """

    def signature_in_cycle(self, pod: Pod) -> Hashable:
        """Return the part of *pod* that this plugin reads."""
        ...


class NodeSignature(Protocol):
    """Optional for a plugin with ``filter`` or ``score``: which part of a node it reads.

    Nodes with equal signatures, and equal labels if the plugin reads labels, get equal answers for
    equal pods, so the answer is computed once for them. If a plugin lacks this method, each node
    is evaluated by itself whenever it changes.

    Labels that differ from node to node, such as the host name, do not belong here. A plugin that
    reads labels names their keys with ``labels_read``.
    """

    def node_signature(self, node: NodeView) -> Hashable:
        """Return the part of *node* that this plugin reads, except its labels."""
        ...


class SignsNodeAlone(Protocol):
    """Optional for a plugin with ``node_signature``: whether pods change what that returns.

    Each pod that a node takes or releases gives the node another signature. A plugin that declares
    that it signs ``node.node`` alone is not asked again for it. A subclass that overrides
    ``node_signature`` has to override this attribute, too; otherwise it is asked.
    """

    @property
    def signs_node_alone(self) -> bool:
        """Whether ``node_signature`` reads neither ``free`` nor ``pod_count`` nor ``pods``."""
        ...


class SignsAllocatable(Protocol):
    """Optional for a plugin with ``node_signature``: whether that contains what the node offers.

    A node that offers what no other node offers is never like another node, whatever pods it has.
    If a plugin declares so much, such a node is not signed again with each pod. A subclass that
    overrides ``node_signature`` has to override this attribute, too; otherwise it does not count.
    """

    @property
    def signs_allocatable(self) -> bool:
        """Whether nodes with different ``node.allocatable`` never have equal signatures."""
        ...


class NodeLabelsRead(Protocol):
    """Optional for a plugin with ``node_signature``: which node labels it reads."""

    def labels_read(self, pod: Pod) -> Iterable[str]:
        """Return the keys of the node labels that this plugin reads for pods like *pod*."""
        ...


class TopologyKeys(Protocol):
    """Optional for a plugin with ``reads_pods``: the labels that tell its answers apart.

    Nodes with equal values of these labels get equal answers while no pod is placed or taken off.
    So ``filter`` is called once for all of them, if the labels tell classes of nodes apart. Name a
    label in ``labels_read`` too, unless it differs from node to node.
    """

    def topology_keys(self, state: CycleView, pod: Pod) -> Iterable[str] | None:
        """Return the keys of the labels; None if ``filter`` reads more of a node than labels."""
        ...

    def node_group(self, state: CycleView, pod: Pod, node: NodeView) -> Hashable:
        """Return what tells *node* from other nodes without pods that are of its class.

        None if nothing does: then a search need try only one of them.
        """
        ...


NodeEvaluator: TypeAlias = Callable[["NodeView"], "tuple[int, int] | None"]
"""Returns the headroom and the score of a node, or None if it is refused."""


class EvaluatesNodes(Protocol):
    """Optional for a plugin with ``filter``, ``headroom`` and ``score``: one function for these.

    Where no two nodes are alike, a plugin that reads free capacity is asked about each node. One
    call of a function that was made for the pod costs a fraction of three calls. It is used if no
    other filter or score plugin reads what pods change of a node. A subclass that overrides
    ``filter``, ``headroom`` or ``score`` has to override this method, too; else it is not used.
    """

    def node_evaluator(self, pod: Pod) -> NodeEvaluator | None:
        """Return a function that evaluates a node for pods with the ``pod_signature`` of *pod*.

        The function returns what ``headroom`` and ``score`` do, or None where ``filter`` refuses
        the node; then ``filter`` is called for the reasons. Pure, and it keeps no state. None in
        place of the function: the three methods are called for such pods.
        """
        ...
