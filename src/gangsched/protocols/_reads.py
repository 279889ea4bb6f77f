"""What a plugin declares about the other pods and the objects that it reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from gangsched.cluster_objects import ClusterObject
from gangsched.constraints.matchers import CarriedTerm, PodMatcher
from gangsched.model import NodeName, Pod
from gangsched.protocols._views import CycleView

__all__ = [
    "HinderedBy",
    "ObjectsRead",
    "ObjectsScored",
    "PodEnded",
    "PodsAffected",
    "PodsRead",
    "PodsSelected",
    "ScoresByPods",
]


class PodsRead(Protocol):
    """Optional for plugins with ``filter`` or ``score``: for which pods they read other pods.

    For a pod for which this returns True, ``filter`` and ``score`` are called for one node after
    another, and are shown the pods on each node. They are called again for every member of a gang
    that is planned. The answers are not cached. They may look at every node of ``state.nodes``. For
    any other pod the answers are cached, so they must not depend on the pods on nodes.

    ``node_signature`` and ``labels_read`` must still cover all that the plugin reads of a node
    besides its pods.
    """

    def reads_pods(self, pod: Pod) -> bool:
        """Return whether the answers for *pod* depend on which pods are on nodes.

        Pure. Pods with equal ``pod_signature`` get equal answers.
        """
        ...


class PodsAffected(Protocol):
    """Optional for a plugin with ``reads_pods``: which other pods a pod on a node affects.

    A pod whose labels no carried term is about is evaluated as if there were none, at no cost. So
    for a pod for which ``reads_pods`` returns False, ``filter`` must accept every node unless a pod
    carries a term about it. It finds these terms with ``state.counts.carried_about``.

    Source: the required anti-affinity of existing pods in ``InterPodAffinity`` of kube-scheduler.
    """

    def pods_affected(self, pod: Pod) -> Iterable[CarriedTerm]:
        """Return the terms that *pod* carries to its node; empty for most pods.

        Empty for a pod for which ``reads_pods`` returns False. Pure. Pods with equal
        ``pod_signature`` get equal answers.
        """
        ...


class PodsSelected(Protocol):
    """Optional for a plugin with ``reads_pods``: which other pods its answers depend on.

    Members of a gang with equal ``pod_signature`` are interchangeable, unless one of these matchers
    selects some of them and not the others. Without this method, ``pod_signature`` must cover what
    the plugin reads of a pod that is on a node already. Terms of ``pods_affected`` need not be
    repeated here.
    """

    def pods_selected(self, pod: Pod) -> Iterable[PodMatcher]:
        """Return the pods on nodes that the answers for *pod* depend on, by labels.

        Empty for a pod for which ``reads_pods`` returns False. Pure. Pods with equal
        ``pod_signature`` get equal answers.
        """
        ...


class HinderedBy(Protocol):
    """Optional for a plugin with ``filter`` and ``reads_pods``: where other pods are in the way.

    While a gang has a reservation, a pod is not placed where a member of the gang could not go to
    its reserved node any more. This says which pods may be in the way, so that the others cost
    nothing. Without it, any other pod is assumed to be in the way of a pod for which ``reads_pods``
    returns True. The terms of ``pods_affected`` need not be repeated here.
    """

    def hindered_within(self, state: CycleView, pod: Pod, other: Pod) -> Iterable[str] | None:
        """Return the node labels within whose values *other* may make ``filter`` refuse *pod*.

        Others with equal namespaces, labels and ``pod_signature`` get equal answers while the
        objects in *state* do not change.

        Returns:
            The keys of the labels, where the empty string stands for the node itself; empty if
            *other* is never in the way. None if it may be in the way on any node.
        """
        ...


class ObjectsRead(Protocol):
    """Optional for plugins with ``pre_filter``, ``filter`` or ``score``: which objects they read.

    These are the objects in ``state.objects``. Without this method the answers for a pod must not
    depend on any of them; see ``ObjectsScored`` for an exception.

    When an object of a named class changes, the kept answers for the pods that read the class are
    dropped, and these pods are requeued. In return, a pod that ``pre_filter`` of such a plugin
    refuses is not retried before an event. So the refusal must depend on nothing but the pod's
    signature, objects of these classes, nodes and other pods.

    Source: ``EventsToRegister`` of kube-scheduler.
    """

    def objects_read(self, pod: Pod) -> Iterable[type[ClusterObject]]:
        """Return the classes of objects that this plugin reads for *pod*; none for most pods.

        Pure. Pods with equal ``pod_signature`` get equal answers.
        """
        ...


class ObjectsScored(Protocol):
    """Optional for a plugin with ``normalize_score``: the objects that only scores depend on.

    Such scores are computed in each cycle, so nothing is dropped or requeued when one of these
    objects changes. A scheduler on Kubernetes watches some kinds only if a plugin names them.
    """

    def objects_scored(self) -> Iterable[type[ClusterObject]]:
        """Return the classes of these objects. Pure."""
        ...


class ScoresByPods(Protocol):
    """Optional for a plugin with ``normalize_score`` and ``reads_pods``: scores by pods in a cycle.

    ``reads_pods`` sees the pod alone. Whether the scores for a pod depend on other pods may depend
    on objects of the cluster too, such as the services that select the pod. This is asked in each
    cycle of a pod for which ``reads_pods`` returns False. ``filter`` must then accept every node.
    Nodes are scored one by one if it returns True, so ``node_signature`` and ``labels_read`` need
    not cover what is read of them.

    Source: ``PreScore`` of ``PodTopologySpread`` in kube-scheduler, which returns ``Skip``.
    """

    def scores_by_pods(self, state: CycleView, pod: Pod) -> bool:
        """Return whether ``score`` and ``normalize_score`` read pods on nodes in this cycle.

        If False, they give all nodes one score.
        """
        ...


class PodEnded(Protocol):
    """Optional for plugins that refuse pods because of a count of their own, wherever pods run.

    A plugin with ``reads_pods`` does not need it for what it refuses at ``filter``: that is tried
    again when a pod ends anywhere.

    The end of a pod gives capacity to a node. What only lacked that is tried again in any case. It
    does not help a pod that the plugin refused on other nodes, at ``pre_enqueue``, or in backoff:
    for these the plugin says itself that it may accept more.

    In kube-scheduler, ``EventsToRegister`` with a queueing hint for the deletion of pods does this.
    """

    def pod_ended(self, pod: Pod, node: NodeName, *, now: float) -> bool:
        """Note that a bound pod has ended; return whether pods that were refused may be accepted.

        Called once for each pod that has used a node: when it has succeeded or failed, or when it
        was deleted before that. A pod that was never bound is not reported; if it was reserved,
        ``unreserve`` is called.

        If it returns True:

        - ``pre_enqueue`` is called again for all that it had denied;
        - each pod and gang that no node takes is tried again if it may fit now;
        - a pod or gang that a plugin refused at ``pre_filter``, ``reserve``, ``permit`` or
          ``pre_bind`` is in backoff. That ends as soon as nothing else is to be tried.

        What asks for the same is tried one by one, until one fails. If False, the first and the
        last do not happen. A backoff after a bind that failed goes on in any case.
        """
        ...
