"""What a plugin declares about the pods and the nodes that it accepts."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from gangsched.model import NodeName, Pod
from gangsched.protocols._views import CycleView, NodeView

__all__ = [
    "ChecksConstraints",
    "ClusterHeadroom",
    "Fitting",
    "Headroom",
    "IgnoresPods",
    "NamesNodes",
    "SkipsPods",
]


class Fitting(Protocol):
    """Optional for a plugin with ``filter``: which resources a pod must find free on its node.

    With this method the scheduler can prove from sums of free capacity that a gang cannot fit, and
    name the scarce resource. Without it only an exhaustive search can.
    """

    def fitted(self, pod: Pod) -> Iterable[str]:
        """Return the resources for which ``filter`` refuses a node with less than *pod* requests.

        Of each resource, the pod takes exactly its request from its node.
        """
        ...


class Headroom(Protocol):
    """Optional for a plugin with ``filter``: a bound on how many pods fit on a node.

    With this method the scheduler can see that a gang cannot fit without trying it. Without it a
    node that passes the filters counts as unbounded.
    """

    def headroom(self, pod: Pod, node: NodeView) -> int:
        """Return an upper bound, >= 0, on the number of pods like *pod* that *node* can take."""
        ...


class ClusterHeadroom(Protocol):
    """Optional for a plugin with ``filter`` and ``reads_pods``: how many pods all nodes take.

    With this method a gang that exceeds the bound is refused without a search, and is not tried
    again before it may fit. Without it, only the search of all placements can find that, and any
    pod that is bound or ends is a reason to try again.

    In kube-scheduler, the queueing hints of a plugin do the second.
    """

    def cluster_headroom(self, state: CycleView, pod: Pod) -> int | None:
        """Return an upper bound, >= 0, on the number of further pods like *pod*; None for none.

        Pure. It must not depend on the nodes without pods, nor on ``state.group``.

        Args:
            state: A cycle in which ``pre_filter`` was called for *pod*, and ``add_pod`` for each
                sibling that is placed.
            pod: The pod. Pods with equal ``pod_signature`` get equal answers.
        """
        ...


class NamesNodes(Protocol):
    """Optional for a plugin with ``reads_pods``: the only nodes that it can accept, by name.

    Source: ``PreFilterResult`` of kube-scheduler.
    """

    def nodes_named(self, pod: Pod) -> Iterable[NodeName] | None:
        """Return the names of the only nodes that ``filter`` may accept; None for any node.

        Pure. ``filter`` is not called for other nodes.
        """
        ...


class SkipsPods(Protocol):
    """Optional for a plugin with ``filter``: for which pods it accepts every node.

    Source: the status ``Skip`` of ``PreFilter`` in kube-scheduler.
    """

    def skips(self, pod: Pod) -> bool:
        """Return whether ``filter`` accepts every node for *pod*, so that it need not be called.

        Pure. Pods with equal ``pod_signature`` get equal answers.
        """
        ...


class IgnoresPods(Protocol):
    """Optional for a plugin with ``pod_signature``: with which pods it has nothing to do.

    The plugin is not called about such a pod at ``pre_filter``, ``reserve``, ``unreserve`` and
    ``post_bind``. So it costs nothing for most pods of a large gang.
    """

    def ignores(self, pod: Pod) -> bool:
        """Return whether the plugin need not be called about *pod* at these points.

        Pure. Pods with equal ``pod_signature`` get equal answers.
        """
        ...


class ChecksConstraints(Protocol):
    """Optional for a plugin with ``filter``: which constraints of pods it checks.

    A pod with a constraint that no plugin of a profile checks is not scheduled, and the reason
    names the constraint. Plugins with the names of kube-scheduler's need not have this attribute.
    """

    @property
    def constraints_checked(self) -> Collection[str]:
        """Attributes of ``Pod``: ``pod_affinity``, ``host_ports`` and so on."""
        ...
