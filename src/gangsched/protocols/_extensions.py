"""What a plugin may have beside its points: optional methods and attributes, by theme.

Each is optional by itself, so no plugin has to satisfy a whole protocol of this module. A plugin
declares an option by having it, and inherits from none of these classes: it would seem to have all
of their methods, each returning None. A ``Profile`` refuses such a plugin.

*Pure* means: the answer depends on nothing but the arguments, and nothing is changed. Where an
argument is a pod alone, pods with equal ``pod_signature`` get equal answers.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Any, Protocol

from gangsched.cluster_objects import ClusterObject
from gangsched.constraints.matchers import CarriedTerm, PodMatcher
from gangsched.events import VolumeChoice
from gangsched.model import NodeName, Pod, Resources
from gangsched.protocols._groups import GroupView
from gangsched.protocols._views import CycleView, NodeView, StateKey

__all__ = [
    "GangExtensions",
    "NodeExtensions",
    "ObjectExtensions",
    "PodExtensions",
    "QueueExtensions",
    "SignatureExtensions",
    "StateExtensions",
]


class SignatureExtensions(Protocol):
    """Which part of a pod and of a node ``filter`` and ``score`` read, so that answers are reused.

    Each method is optional by itself and declared by its presence, without inheritance. Without
    ``pod_signature`` or ``signs_node_alone``, the plugin is asked about each pod and each node by
    itself, and whenever the node changes.

    Source: ``SignPlugin`` of kube-scheduler (KEP-5598).
    """

    def pod_signature(self, pod: Pod) -> Hashable:
        """Return the part of *pod* that this plugin reads.

        Pods with equal signatures get equal answers on equal nodes, so the plugin is asked once for
        them. A plugin whose answer depends on anything but the pod's signature and the node must
        not have this method. *pod* stands for all pods of its signature, and may itself be among
        the pods of a node: do not compare UIDs.
        """
        ...

    def node_signature(self, node: NodeView) -> Hashable:
        """Return the part of *node* that this plugin reads, except its labels.

        Nodes with equal signatures, and equal values of ``labels_read``, get equal answers for
        equal pods. Without this method, nodes that differ in labels alone are equal.
        """
        ...

    @property
    def signs_node_alone(self) -> bool:
        """Whether ``node_signature`` reads ``node.node`` alone: no capacity and no pods.

        Then the plugin is not asked again when a node takes or releases a pod. False if absent. A
        subclass that overrides ``node_signature`` has to override this attribute, too; otherwise it
        counts as absent.
        """
        ...

    def labels_read(self, pod: Pod) -> Iterable[str]:
        """Return the keys of the node labels that this plugin reads for pods like *pod*.

        Without this method it reads none. Leave out labels that differ from node to node, such as
        the host name.
        """
        ...


class PodExtensions(Protocol):
    """What a plugin with ``filter`` or ``score`` reads of the pods that are on nodes.

    Each method is optional by itself and declared by its presence, without inheritance. Without
    ``reads_pods``, which all others need, answers must not depend on the pods on nodes.
    """

    def reads_pods(self, pod: Pod) -> bool:
        """Return whether the answers for *pod* depend on which pods are on nodes. Pure.

        For a pod for which this is True, ``filter`` and ``score`` are called for one node after
        another. They are shown the pods on each node, and may look at every node of
        ``state.nodes``. They are called again for every member of a gang that is planned. The
        answers are not cached. ``node_signature`` and ``labels_read`` must still cover all that the
        plugin reads of a node besides its pods. What ``filter`` refuses is tried again when a pod
        is bound or ends on any node.

        The rule must be symmetric: if pod A must not be near pod B, refuse A near B and B near A. A
        pod that is placed is not asked about again. ``gangsched.membership`` returns the group of a
        pod, however it is spelled.
        """
        ...

    def add_pod(self, state: CycleView, pod: Pod, added: Pod, node: NodeView) -> None:
        """Account for *added*, which is on *node* from now on, in the cycle of *pod*.

        ``pre_filter`` may count the pods on nodes and write the count into the cycle. While a gang
        is planned, this method and ``remove_pod``, of which neither goes without the other, are
        called for each sibling that is placed or taken back. Meanwhile, members with equal
        signatures share the cycle of the first of them. So *added* may be *pod* itself, which
        stands for a like member from then on.

        If a decision is tried without some victims, ``pre_filter`` is called again on the nodes
        without them. The point ``pre_filter`` of such a plugin must not be ``group_wide``.

        Source: ``PreFilterExtensions`` of kube-scheduler.
        """
        ...

    def remove_pod(self, state: CycleView, pod: Pod, removed: Pod, node: NodeView) -> None:
        """Account for *removed*, which is not on *node* any more, in the cycle of *pod*."""
        ...

    def cluster_headroom(self, state: CycleView, pod: Pod) -> int | None:
        """Return an upper bound, >= 0, on the number of further pods like *pod*; None for none.

        Pure. It must not depend on the nodes without pods, nor on ``state.group``. A gang that
        exceeds the bound is refused without a search, and not tried again before it may fit.
        Without this method, all placements are searched to find that, and any pod that is bound or
        ends is a reason to try again.

        Args:
            state: A cycle in which ``pre_filter`` was called for *pod*, and ``add_pod`` for each
                sibling that is placed.
            pod: The pod.
        """
        ...

    def pods_affected(self, pod: Pod) -> Iterable[CarriedTerm]:
        """Return the terms that *pod* carries to its node; empty for most pods. Pure.

        Empty for a pod for which ``reads_pods`` returns False. A pod whose labels no carried term
        is about is evaluated as if there were none, at no cost. So for a pod for which
        ``reads_pods`` returns False, ``filter`` must accept every node unless a pod carries a term
        about it. It finds these terms with ``state.counts.carried_about``. Without this method, no
        pod carries a term.

        Source: the required anti-affinity of existing pods in ``InterPodAffinity`` of
        kube-scheduler.
        """
        ...

    def pods_selected(self, pod: Pod) -> Iterable[PodMatcher]:
        """Return the pods on nodes that the answers for *pod* depend on, by labels. Pure.

        Empty for a pod for which ``reads_pods`` returns False. Members of a gang with equal
        ``pod_signature`` are interchangeable, unless one of these matchers selects some of them and
        not the others. Without this method, ``pod_signature`` must cover what the plugin reads of a
        pod that is on a node already. Terms of ``pods_affected`` need not be repeated here.
        """
        ...

    def hindered_within(self, state: CycleView, pod: Pod, other: Pod) -> Iterable[str] | None:
        """Return the node labels within whose values *other* may make ``filter`` refuse *pod*.

        While a gang has a reservation, a pod is not placed where a member of the gang could not go
        to its reserved node any more. This says which pods may be in the way, so that the others
        cost nothing. Without it, any other pod is assumed to be in the way of a pod for which
        ``reads_pods`` returns True. The terms of ``pods_affected`` need not be repeated here.

        Others with equal namespaces, labels and ``pod_signature`` get equal answers while the
        objects in *state* do not change.

        Returns:
            The keys of the labels, where the empty string stands for the node itself; empty if
            *other* is never in the way. None if it may be in the way on any node.
        """
        ...

    def topology_keys(self, state: CycleView, pod: Pod) -> Iterable[str] | None:
        """Return the keys of the labels that tell nodes apart; None if ``filter`` reads more.

        Nodes with equal values of these labels get equal answers while no pod is placed or taken
        off. So ``filter`` is called once for all of them, if the labels tell classes of nodes
        apart. Name a label in ``labels_read`` too, unless it differs from node to node. Needs
        ``node_group``. Without this method, ``filter`` is called for each node.
        """
        ...

    def node_group(self, state: CycleView, pod: Pod, node: NodeView) -> Hashable:
        """Return what tells *node* from other nodes without pods that are of its class.

        None if nothing does: then a search need try only one of them. Needs ``topology_keys``.
        """
        ...


class ObjectExtensions(Protocol):
    """Which other objects of the cluster a plugin reads, and which volumes it chooses.

    Each method is optional by itself and declared by its presence, without inheritance. Without
    them, no answer may depend on ``state.objects``.
    """

    def objects_read(self, pod: Pod) -> Iterable[type[ClusterObject]]:
        """Return the classes of objects that this plugin reads for *pod*; none for most pods.

        Pure. Needs ``pod_signature``. When an object of a named class changes, the kept answers for
        the pods that read the class are dropped, and these pods are requeued. In return, a pod that
        ``pre_filter`` of such a plugin refuses is not retried before an event. So the refusal must
        depend on nothing but the pod's signature, objects of these classes, nodes and other pods.

        Source: ``EventsToRegister`` of kube-scheduler.
        """
        ...

    def objects_scored(self) -> Iterable[type[ClusterObject]]:
        """Return the classes of the objects that only ``normalize_score`` depends on. Pure.

        Such scores are computed in each cycle, so nothing is dropped or requeued when one of these
        objects changes. A scheduler on Kubernetes watches some kinds only if a plugin names them.
        """
        ...

    def volume_choices(self, pod: Pod, node: NodeName) -> Iterable[VolumeChoice]:
        """Return the choices for the claims of a pod that is about to be bound to its node.

        Needs ``reserve``. Without this method, the bind writes no volumes.
        """
        ...


class NodeExtensions(Protocol):
    """How ``filter`` and ``score`` tell nodes apart, so that they are called less often.

    Each method is optional by itself and declared by its presence, without inheritance. Without
    them, ``filter`` is asked about every pod, and ``score`` is absolute, from 0 to 100.
    """

    def skips(self, pod: Pod) -> bool:
        """Return whether the plugin has nothing to do with *pod*. Pure.

        It is then not called about the pod at ``pre_filter``, ``filter``, ``reserve``,
        ``unreserve`` and ``post_bind``, and counts as accepting it. So it costs nothing for most
        pods of a large gang.

        Source: the status ``Skip`` of ``PreFilter`` in kube-scheduler.
        """
        ...

    def fitted(self, pod: Pod) -> Iterable[str]:
        """Return the resources for which ``filter`` refuses a node with less than *pod* requests.

        Of each resource, the pod takes exactly its request from its node. With this method, the
        scheduler compares amounts itself: sums of free capacity prove that a gang cannot fit, and
        name the scarce resource. Without it only an exhaustive search can.
        """
        ...

    def nodes_named(self, pod: Pod) -> Iterable[NodeName] | None:
        """Return the names of the only nodes that ``filter`` may accept; None for any node.

        Pure. Needs ``reads_pods``. ``filter`` is not called for other nodes.

        Source: ``PreFilterResult`` of kube-scheduler.
        """
        ...

    @property
    def constraints_checked(self) -> Collection[str]:
        """The constraints that ``filter`` checks: attributes of ``Pod`` such as ``host_ports``.

        A pod with a constraint that no plugin of a profile checks is not scheduled, and the reason
        names the constraint. Without this attribute, a plugin with a name of kube-scheduler's
        checks what it checks there, and any other plugin checks none.
        """
        ...

    def normalize_score(
        self, state: CycleView, pod: Pod, scores: Mapping[NodeName, int]
    ) -> Mapping[NodeName, int]:
        """Return the normalized score of each node, an int from 0 to 100.

        A raw score of such a plugin is any int. After all passing nodes are scored, this method
        gets the raw scores of all of them at once. Nodes with equal raw scores must get equal
        normalized scores.

        The answer depends on all nodes, so the pods of a profile with such a plugin are evaluated
        one by one. A scheduling cycle then costs O(nodes), as it does with ``pre_score``.

        Source: ``ScoreExtensions`` of kube-scheduler.
        """
        ...

    def scores_in_cycle(self, state: CycleView, pod: Pod) -> bool:
        """Return whether ``score`` and ``normalize_score`` tell nodes apart in this cycle.

        If False, they give all nodes one score, and no node is scored. A plugin that reads pods on
        nodes is asked for the pods of which ``reads_pods`` returns False; ``filter`` must then
        accept every node. One that has ``normalize_score``, or reads all nodes, is asked for each
        pod. Without this method, every cycle tells nodes apart.

        Source: ``PreScore`` of kube-scheduler, which returns ``Skip``.
        """
        ...


class QueueExtensions(Protocol):
    """On whose account a plugin with ``queue_sort`` puts pods, and which account goes first.

    Each method is optional by itself and declared by its presence, without inheritance. Without
    ``share``, the key of ``queue_sort`` alone orders the queue.
    """

    def account(self, pod: Pod) -> str:
        """Return the account of *pod*, such as a team; its namespace without this method.

        Called when the pod arrives or changes. ``Scheduler.usage`` returns what an account uses.
        """
        ...

    def share(self, account: str, usage: Resources) -> float:
        """Return the share of an account that uses so much: the account with the smallest is first.

        Among the gangs of one account, the key of ``queue_sort`` decides. Called when the usage of
        the account changes. A gang that holds nodes already is not interrupted. Pure.
        """
        ...


class GangExtensions(Protocol):
    """What a plugin decides about whole gangs.

    Each member is optional by itself and declared by its presence, without inheritance. Without
    them, the quorum is counted by the rule ``once_satisfied``, and each member is asked about. The
    first plugin of a profile counts that has a ``match_policy`` or ``members_needed``.
    """

    @property
    def match_policy(self) -> Any:
        """The ``MatchPolicy`` by which the scheduler counts which members a group lacks.

        A plugin with ``members_needed`` answers that itself, and no policy of it is read.
        """
        ...

    def members_needed(self, group: GroupView) -> int | None:
        """Return how many more members must have a node before *group* is released.

        0 or less if it has its quorum; None if its members are released one by one. Needs
        ``permit``. So the scheduler sees when an attempt
        of a group can no longer succeed, and when the members of a group are released one by one.
        """
        ...

    def roles_needed(self, group: GroupView) -> Mapping[str, int]:
        """Return how many more members of each role must have a node before *group* is released.

        The key ``""`` stands for members of any role. A number is 0 or less for a role with enough
        members. The mapping is empty if the members are released one by one. The number of members
        needed at once, ``members_needed``, is the larger of two: the number under ``""``, and the
        sum of what the roles lack. Without this method the rule of the plugin ignores roles, and so
        ``GroupView.roles``.
        """
        ...

    @property
    def minima_first(self) -> bool:
        """Whether the cycle of a whole gang places its minimum only; False if absent.

        Members beyond the minimum are queued anew, where ``queue_sort`` puts them. See
        ``gangsched.coscheduling.Coscheduling``. Read of the plugin that counts.

        Source: KAI Scheduler and Volcano, which give each gang its minimum before any gang gets
        more.
        """
        ...

    def group_requests(self, group: GroupView) -> Resources:
        """Return what must be free for *group*, counting what its members hold already.

        Needs ``permit``. The scheduler attempts the group only while all nodes together have that
        much free. It remembers a failure until they do, and never polls.
        """
        ...

    @property
    def group_wide(self) -> Collection[str]:
        """The points at which one answer holds for all members; none if absent.

        Names out of ``pre_filter``, ``reserve`` and ``permit``. If one scheduling cycle is about a
        whole gang, such a point is asked about one member, and the answer counts for all. A plugin
        that reads the pod or the node must not name the point.
        """
        ...


class StateExtensions(Protocol):
    """What a plugin with state between calls has, so that it can be saved, copied and told of ends.

    Each method is optional by itself and declared by its presence, without inheritance.
    """

    def pod_ended(self, pod: Pod, node: NodeName, *, now: float) -> bool:
        """Note that a bound pod has ended; return whether pods that were refused may be accepted.

        For a plugin that refuses pods because of a count of its own, wherever they run. Called once
        for each pod that has used a node: when it has succeeded or failed, or when it was deleted
        before that. A pod that was never bound is not reported; if it was reserved, ``unreserve``
        is called.

        If it returns True:

        - ``pre_enqueue`` is called again for all that it had denied;
        - each pod and gang that no node takes is tried again if it may fit now;
        - a pod or gang that a plugin refused at ``pre_filter``, ``reserve``, ``permit`` or
          ``pre_bind`` is in backoff. That ends as soon as nothing else is to be tried.

        What asks for the same is tried one by one, until one fails. If False, the first and the
        last do not happen. A backoff after a bind that failed goes on in any case. Without this
        method, an end helps what lacked the capacity that it frees, and what a plugin with
        ``reads_pods`` refused at ``filter``.

        In kube-scheduler, ``EventsToRegister`` with a queueing hint for the deletion of pods does
        this.
        """
        ...

    def snapshot(self) -> object:
        """Return the state of this plugin as plain JSON data. Needs ``restore``.

        Without these two methods, a snapshot leaves the state of the plugin out. A restored
        scheduler then uses whatever state its plugin has.
        """
        ...

    def restore(self, data: Any) -> None:
        """Replace the state of this plugin with *data*, or raise with nothing changed.

        Args:
            data: What ``snapshot`` returned, perhaps in another process.
        """
        ...

    @property
    def state_keys(self) -> Iterable[StateKey[Any]]:
        """The keys of cycle state that a snapshot contains; none if absent.

        What is written under these keys must be plain JSON data. Two different keys in a profile
        have different names. If a pod holds a node, and its cycle state has any other key that is
        not ``derived``, ``Scheduler.snapshot`` raises.
        """
        ...

    def fork(self) -> object:
        """Return an object with the same state that shares nothing mutable with this one.

        ``Scheduler.what_if`` runs with ``fork()`` in the place of the plugin. Without this method,
        a plugin takes part itself if it visibly keeps no state: it has no attributes, or it is a
        frozen ``attrs`` class or dataclass of immutable values. Any other plugin is refused. For a
        mapping, use ``types.MappingProxyType`` over a dict that is not changed any more.

        The same holds for the ``RunTimes`` of backfill, and for the values that a plugin writes
        into cycle state; there, lists, dicts and sets of such values are copied.
        """
        ...
