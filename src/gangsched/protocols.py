"""The ports: what the scheduler asks of a cluster and of a plugin, as protocols.

Rules:
  R1  ``ClusterState`` is read-only and local: it answers from memory and never blocks. It shows a
      change before the scheduler gets the event of that change;
  R2  a plugin is any object with the methods of its extension points: no base class, no
      registration, no handle. A method gets values and ``now``, and returns an outcome;
  R3  the views that a plugin gets are read-only, and valid until the method returns;
  R4  a plugin keeps no state between calls on which an outcome depends, unless it declares it with
      ``KeepsState`` or ``Forkable``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from attrs import frozen

from gangsched.cluster_objects import ClusterObject, Service
from gangsched.constraints.matchers import CarriedTerm, NodeMatcher, PodMatcher
from gangsched.events import Bind, Effect, Event, VolumeChoice
from gangsched.model import FrozenMap, GroupKey, Node, NodeName, Pod, PodGroup, PodUID, Resources
from gangsched.outcomes import EvictGroup, Outcome, RejectGroup, Skip, Verdict

__all__ = [
    "BindPlugin",
    "ChecksConstraints",
    "ChoosesVolumes",
    "ClusterState",
    "CycleView",
    "DomainCounts",
    "EntityView",
    "EvaluatesNodes",
    "FilterPlugin",
    "Fitting",
    "Forkable",
    "FourCalls",
    "GroupRequests",
    "GroupView",
    "GroupWide",
    "ClusterHeadroom",
    "Headroom",
    "HinderedBy",
    "IgnoresPods",
    "KeepsScratch",
    "KeepsState",
    "MinimaFirst",
    "NamesNodes",
    "NodeEvaluator",
    "NodeLabelsRead",
    "NodeSignature",
    "NodeView",
    "NormalizeScore",
    "ObjectsRead",
    "ObjectsScored",
    "PodEnded",
    "ObjectsView",
    "Observer",
    "PermitPlugin",
    "Plugin",
    "PodCounts",
    "PodSignature",
    "PodsAffected",
    "PodsRead",
    "PodsSelected",
    "PostBindPlugin",
    "PostFilterPlugin",
    "PreBindPlugin",
    "PreEnqueuePlugin",
    "PreFilterExtensions",
    "PreFilterPlugin",
    "PreScorePlugin",
    "QueueSortPlugin",
    "QuorumRule",
    "QueueSortKey",
    "ReservePlugin",
    "RoleRule",
    "RoleView",
    "ScorePlugin",
    "ScoresByPods",
    "SkipsPods",
    "ShowsObjects",
    "ShowsServices",
    "SignsAllocatable",
    "SignatureInCycle",
    "SignsAttributes",
    "SignsNodeAlone",
    "StateKey",
    "TopologyKeys",
]

T = TypeVar("T")

QueueSortKey: TypeAlias = tuple[Any, ...]
"""A sort key in the queue: the smallest goes first. ``gangsched.SortKey`` is one, with names."""


class ClusterState(Protocol):
    """What exists in the cluster: nodes, pods, pod groups. Nothing that is only planned.

    Every method answers from memory. The order of iteration depends only on the history of the
    cluster, so that two runs over one history agree.
    """

    def nodes(self) -> Iterable[Node]:
        """Return every node."""
        ...

    def node(self, name: NodeName) -> Node | None:
        """Return one node, or None if there is no such node. O(1)."""
        ...

    def pods(self) -> Iterable[Pod]:
        """Return every pod, in every phase."""
        ...

    def pod(self, uid: PodUID) -> Pod | None:
        """Return one pod, or None if there is no such pod. O(1)."""
        ...

    def pods_on(self, node: NodeName) -> Iterable[Pod]:
        """Return the unfinished pods that are assigned to *node*. O(pods on the node)."""
        ...

    def pod_groups(self) -> Iterable[PodGroup]:
        """Return every pod group."""
        ...

    def pod_group(self, key: GroupKey) -> PodGroup | None:
        """Return the specification of one pod group, or None if there is no such group. O(1)."""
        ...


class ObjectsView(Protocol):
    """The objects of a cluster that constraints refer to, read-only.

    They are of the classes in ``gangsched.cluster_objects``: namespaces, volumes and so on.
    """

    def get(self, kind: type[T], key: str, /) -> T | None:
        """Return the object of a class with a key; None if there is none. O(1)."""
        ...

    def all(self, kind: type[T], /) -> Iterable[T]:
        """Return every object of a class. O(objects of the class)."""
        ...


class ShowsServices(Protocol):
    """Optional for ``ObjectsView``: the services that select a pod, found without reading each.

    Without this method each lookup reads every service of the cluster.
    """

    def services_of(self, namespace: str, labels: Mapping[str, str], /) -> Iterable[Service]:
        """Return the services of a namespace that select pods with these labels.

        Runtime complexity: O(labels + services that select one of them).
        """
        ...


class ShowsObjects(Protocol):
    """Optional for a cluster state: the objects of the cluster that constraints refer to.

    Without this attribute plugins find no such object. So a pod that needs one, such as a pod with
    a claim for storage, is not scheduled.
    """

    @property
    def objects(self) -> ObjectsView:
        """The objects; after ``ObjectChanged`` and ``ObjectDeleted`` as these events say."""
        ...


class FourCalls(Protocol):
    """The four calls of a scheduler, as a driver needs them; see ``Scheduler``."""

    def handle(self, event: Event, *, now: float) -> tuple[Effect, ...]:
        """Process an event; return the effects."""
        ...

    def advance(self, *, now: float) -> tuple[Effect, ...]:
        """Let time pass until *now*; return the effects."""
        ...

    def schedule_one(self, *, now: float) -> tuple[Effect, ...] | None:
        """Run one scheduling cycle; return None if there is nothing to schedule or report."""
        ...

    def next_deadline(self) -> float | None:
        """Return when ``advance`` is due; None until the next event."""
        ...


class Observer(Protocol):
    """Sees every event and every effect of a scheduler, in order, under any driver.

    Notices are effects: ``GroupScheduled``, ``PodUnschedulable`` and so on. An observer that raises
    ends the run.
    """

    def event(self, event: Event, now: float) -> None:
        """Observe an event before the scheduler handles it, also a repeated or late event."""
        ...

    def effects(self, effects: tuple[Effect, ...], now: float) -> None:
        """Observe what a call of the scheduler returned, before it is performed."""
        ...

    def settled(self, now: float) -> None:
        """Observe that nothing more happens until time passes or an event arrives."""
        ...


# What a plugin is shown ---------------------------------------------------------------------


class RoleView(Protocol):
    """The members of a group that have one role, counted as in ``GroupView``."""

    @property
    def unscheduled(self) -> int:
        """The number of members of this role without a node."""
        ...

    @property
    def waiting(self) -> int:
        """The number of members of this role that wait on permit."""
        ...

    @property
    def scheduled(self) -> int:
        """The number of members of this role with a node: waiting, being bound, or bound."""
        ...

    @property
    def untried(self) -> int:
        """The number of unscheduled members of this role that the attempt has not tried yet."""
        ...

    @property
    def succeeded(self) -> int:
        """The number of members of this role that have succeeded on their nodes."""
        ...


class GroupView(Protocol):
    """A pod group as the scheduler knows it, read-only.

    The member counts are disjoint: each member is in exactly one state.
    """

    @property
    def key(self) -> GroupKey:
        """``namespace/name``."""
        ...

    @property
    def uid(self) -> int:
        """The scheduler's number of this group, ascending in the order of arrival."""
        ...

    @property
    def min_available(self) -> int | None:
        """The quorum; None while it is unknown."""
        ...

    @property
    def roles(self) -> Mapping[str, int]:
        """The minimum number of members by role; empty if any members form the quorum."""
        ...

    def role(self, name: str) -> RoleView:
        """Return the counts of the members of a role; zeros for a role without members. O(1).

        A member without a role, or of a role without a minimum, counts for the group only.
        """
        ...

    @property
    def schedule_timeout(self) -> float | None:
        """The permit timeout of the group in seconds; None for the default of the policy."""
        ...

    @property
    def min_resources(self) -> Resources:
        """The total request that the group states; empty if it states none."""
        ...

    @property
    def priority(self) -> int:
        """The priority that all members share."""
        ...

    @property
    def created_at(self) -> float:
        """When the group was created; without a specification, its first member."""
        ...

    @property
    def last_failure_at(self) -> float | None:
        """When its last attempt was rejected; None if none was since it was last scheduled."""
        ...

    @property
    def attempts(self) -> int:
        """The number of attempts that have begun, which is the number of the last attempt."""
        ...

    @property
    def attempt_started_at(self) -> float | None:
        """When the current attempt began; None between attempts."""
        ...

    @property
    def was_scheduled(self) -> bool:
        """Whether the group has been released once."""
        ...

    @property
    def all(self) -> int:
        """The number of unscheduled and scheduled members; not gated, terminating or finished."""
        ...

    @property
    def unscheduled(self) -> int:
        """The number of members without a node."""
        ...

    @property
    def waiting(self) -> int:
        """The number of members that wait on permit, each with a node."""
        ...

    @property
    def assumed(self) -> int:
        """The number of members with a node that are not yet bound: waiting, or being bound."""
        ...

    @property
    def assigned(self) -> int:
        """The number of bound members."""
        ...

    @property
    def scheduled(self) -> int:
        """The number of members with a node: assumed and assigned."""
        ...

    @property
    def untried(self) -> int:
        """The number of unscheduled members that the current attempt has not tried yet."""
        ...

    @property
    def succeeded(self) -> int:
        """The number of members that have succeeded on their nodes, and are not being deleted."""
        ...


class EntityView(Protocol):
    """An entity of the queue, a pod or a pod group, read-only."""

    @property
    def priority(self) -> int:
        """The priority of the pod or the group."""
        ...

    @property
    def created_at(self) -> float:
        """When the pod or the group was created."""
        ...

    @property
    def queued_at(self) -> float:
        """When it was last enqueued: on arrival, or after a failed attempt."""
        ...

    @property
    def seq(self) -> int:
        """A unique number, ascending in the order of arrival."""
        ...

    @property
    def pod(self) -> Pod:
        """The pod; of a group, its first pending member."""
        ...

    @property
    def group(self) -> GroupView | None:
        """The group; None for a regular pod."""
        ...


class NodeView(Protocol):
    """A read-only node with its free capacity and its pods; assumed pods count."""

    @property
    def node(self) -> Node:
        """The node itself."""
        ...

    @property
    def free(self) -> Mapping[str, int]:
        """What is free, in thousandths; negative if the node is overcommitted."""
        ...

    @property
    def defaulted(self) -> FrozenMap[int]:
        """What the pods on the node count for in scores beyond what they request, in thousandths.

        It is not taken from what is free; see ``Resources.defaulted``.
        """
        ...

    @property
    def pod_count(self) -> int:
        """The number of pods on the node, and of pods for which capacity is reserved there."""
        ...

    @property
    def pods(self) -> Collection[Pod]:
        """The pods on the node: bound, assumed, and planned earlier in the same decision.

        In ``filter`` and ``score`` the *node* argument shows them only for a pod for which the
        plugin's ``reads_pods`` returns True; see ``PodsRead``. Otherwise reading it raises.
        """
        ...


class DomainCounts(Protocol):
    """How many matching pods are in each domain: on the nodes with one value of a label."""

    @property
    def total(self) -> int:
        """The number of matching pods in all domains."""
        ...

    @property
    def domains(self) -> int:
        """The number of domains."""
        ...

    @property
    def least(self) -> int:
        """The smallest number of matching pods in a domain; 0 without domains."""
        ...

    def get(self, value: str) -> int:
        """Return the number of matching pods in the domain of a value. O(1)."""
        ...

    def nodes(self, value: str) -> int:
        """Return the number of counted nodes with a value of the label. O(1)."""
        ...


class PodCounts(Protocol):
    """Counts of the pods on nodes by domain, in the same state as the nodes of the cycle."""

    def matching(
        self, pods: PodMatcher, key: str, nodes: NodeMatcher | None = None
    ) -> DomainCounts:
        """Return how many matching pods are in each domain. O(1), O(pods + nodes) the first time.

        The counts follow the pods as they are placed and taken off; do not keep them.

        Args:
            pods: The pods; its namespaces are given by name, or as every namespace.
            key: The key of the node label whose values are the domains.
            nodes: The nodes that count; None for all.
        """
        ...

    def carried_about(self, pod: Pod) -> Iterable[tuple[CarriedTerm, DomainCounts]]:
        """Iterate over the terms of pods on nodes that may be about *pod*; see ``PodsAffected``.

        Whether the labels of the pod's namespace match is left to the caller.
        """
        ...


@frozen(eq=False)
class StateKey(Generic[T]):
    """A typed key of cycle state: make one per plugin, at module level.

    Attributes:
        name: The name, which snapshots write.
        derived: Whether the plugin computes the value anew where none is written. Such a value is
            left out of snapshots, so it need not be plain data.
    """

    name: str
    derived: bool = False


class CycleView(Protocol):
    """One cycle of one pod: its group, the nodes, and a scratch that lives as long."""

    @property
    def group(self) -> GroupView | None:
        """The pod's group; None for a regular pod."""
        ...

    @property
    def nodes(self) -> Mapping[NodeName, NodeView]:
        """All nodes, in the same state as the node that ``filter`` and ``score`` are given."""
        ...

    @property
    def counts(self) -> PodCounts:
        """Counts of the pods on these nodes by domain; see ``PodsRead``."""
        ...

    @property
    def objects(self) -> ObjectsView:
        """The namespaces, volumes and other objects of the cluster; see ``ObjectsRead``."""
        ...

    @property
    def bind_failures(self) -> int:
        """In ``unreserve`` after a failed bind: how many binds of the pod in a row have failed."""
        ...

    @property
    def can_evict(self) -> bool:
        """In ``unreserve`` after a failed bind: whether the host performs evictions."""
        ...

    def read(self, key: StateKey[T]) -> T | None:
        """Return what was written under *key* in this cycle; None when nothing was."""
        ...

    def write(self, key: StateKey[T], value: T) -> None:
        """Keep *value* under *key* until the end of this cycle."""
        ...


# Extension points, in the order in which they run --------------------------------------------


class Plugin(Protocol):
    """What every plugin has."""

    @property
    def name(self) -> str:
        """Its name in messages, unique in a profile."""
        ...


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


class SignatureInCycle(Protocol):
    """Optional for a plugin without ``pod_signature``: which part of a pod it reads in one cycle.

    It is for a plugin whose answer depends on all nodes, too. While the nodes stay as they are,
    pods with equal signatures get equal answers. So like members of a gang are evaluated once for
    each placement of the gang, if every filter and score plugin has one of the two methods.
    """

    def signature_in_cycle(self, pod: Pod) -> Hashable:
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


class NodeLabelsRead(Protocol):
    """Optional for a plugin with ``node_signature``: which node labels it reads."""

    def labels_read(self, pod: Pod) -> Iterable[str]:
        """Return the keys of the node labels that this plugin reads for pods like *pod*."""
        ...


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


class ObjectsScored(Protocol):
    """Optional for a plugin with ``normalize_score``: the objects that only scores depend on.

    Such scores are computed in each cycle, so nothing is dropped or requeued when one of these
    objects changes. A scheduler on Kubernetes watches some kinds only if a plugin names them.
    """

    def objects_scored(self) -> Iterable[type[ClusterObject]]:
        """Return the classes of these objects. Pure."""
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


class ChoosesVolumes(Protocol):
    """Optional for a plugin with ``reserve``: the volumes that a bind writes."""

    def volume_choices(self, pod: Pod, node: NodeName) -> Iterable[VolumeChoice]:
        """Return the choices for the claims of a pod that is about to be bound to its node."""
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


class PodEnded(Protocol):
    """Optional for plugins that refuse pods because of other pods, wherever these run: a quota.

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


class ChecksConstraints(Protocol):
    """Optional for a plugin with ``filter``: which constraints of pods it checks.

    A pod with a constraint that no plugin of a profile checks is not scheduled, and the reason
    names the constraint. Plugins with the names of kube-scheduler's need not have this attribute.
    """

    @property
    def constraints_checked(self) -> Collection[str]:
        """Attributes of ``Pod``: ``pod_affinity``, ``host_ports`` and so on."""
        ...


class PreFilterExtensions(Protocol):
    """Optional for plugins with ``pre_filter`` and ``reads_pods``: keep a count up to date.

    ``pre_filter`` may count the pods on nodes and write the count into the cycle. While a gang is
    planned, these methods are called for each sibling that is placed or taken back. Meanwhile,
    members with equal signatures share the cycle of the first of them. So *added* may be *pod*
    itself, which stands for a like member from then on.

    If a decision is tried without some victims, ``pre_filter`` is called again on the nodes without
    them. The point ``pre_filter`` of such a plugin must not be ``group_wide``.

    Source: ``PreFilterExtensions`` of kube-scheduler.
    """

    def add_pod(self, state: CycleView, pod: Pod, added: Pod, node: NodeView) -> None:
        """Account for *added*, which is on *node* from now on, in the cycle of *pod*."""
        ...

    def remove_pod(self, state: CycleView, pod: Pod, removed: Pod, node: NodeView) -> None:
        """Account for *removed*, which is not on *node* any more, in the cycle of *pod*."""
        ...


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


class NormalizeScore(Protocol):
    """Optional for a plugin with ``score``: turn raw scores into scores from 0 to 100.

    A raw score of such a plugin is any int. After all passing nodes are scored, this method gets
    the raw scores of all of them at once, as ``NormalizeScore`` in kube-scheduler does.

    The answer depends on all nodes, so the pods of a profile with such a plugin are evaluated one
    by one. A scheduling cycle then costs O(nodes), as it does with ``pre_score``. If an absolute
    score will do, leave this method out.
    """

    def normalize_score(
        self, state: CycleView, pod: Pod, scores: Mapping[NodeName, int]
    ) -> Mapping[NodeName, int]:
        """Return the normalized score of each node, an int from 0 to 100.

        Nodes with equal raw scores must get equal normalized scores.
        """
        ...


class QuorumRule(Protocol):
    """Optional for a plugin with ``permit``: how many more members a group needs at once.

    With this method the scheduler sees when an attempt of a group can no longer succeed, and when
    the members of a group are released one by one. Without it the rule is ``once_satisfied``.
    """

    def members_needed(self, group: GroupView) -> int | None:
        """Return how many more members must have a node before *group* is released.

        0 or less if it has its quorum; None if its members are released one by one.
        """
        ...


class RoleRule(Protocol):
    """Optional for a plugin with ``members_needed``: how many more members it needs by role.

    Without this method the rule of the plugin ignores roles, and so ``GroupView.roles``.
    """

    def roles_needed(self, group: GroupView) -> Mapping[str, int]:
        """Return how many more members of each role must have a node before *group* is released.

        The key ``""`` stands for members of any role. A number is 0 or less for a role with enough
        members. The mapping is empty if the members are released one by one. The number of members
        needed at once, ``members_needed``, is the larger of two: the number under ``""``, and the
        sum of what the roles lack.
        """
        ...


class GroupRequests(Protocol):
    """Optional for a plugin with ``permit``: what a group needs of the cluster in total.

    The scheduler attempts the group only while all nodes together have that much free. It
    remembers a failure until they do, and never polls.
    """

    def group_requests(self, group: GroupView) -> Resources:
        """Return what must be free for *group*, counting what its members hold already."""
        ...


class MinimaFirst(Protocol):
    """Optional for a plugin with a quorum rule: whether elastic members wait for minima.

    Then the cycle of a whole gang places no more members than the gang needs. The others are queued
    anew, where ``queue_sort`` puts them. See ``gangsched.coscheduling.Coscheduling``.

    Source: KAI Scheduler and Volcano, which give each gang its minimum before any gang gets more.
    """

    @property
    def minima_first(self) -> bool:
        """Whether a cycle places the minimum only."""
        ...


class GroupWide(Protocol):
    """Optional for a plugin that decides about groups: at which points one answer holds for all.

    If one scheduling cycle is about a whole gang, a point named here is asked about one member, and
    the answer counts for all members. A plugin that reads the pod or the node must not name the
    point.
    """

    @property
    def group_wide(self) -> Collection[str]:
        """Names out of ``pre_filter``, ``reserve`` and ``permit``."""
        ...


class KeepsState(Protocol):
    """Optional for a plugin that keeps state between calls: its part of a snapshot.

    Without these methods a snapshot leaves the state of the plugin out. A restored scheduler then
    uses whatever state its plugin has.
    """

    def snapshot(self) -> object:
        """Return the state of this plugin as plain JSON data."""
        ...

    def restore(self, data: Any) -> None:
        """Replace the state of this plugin with *data*, or raise with nothing changed.

        Args:
            data: What ``snapshot`` returned, perhaps in another process.
        """
        ...


class KeepsScratch(Protocol):
    """Optional for a plugin that writes cycle state: which of it a snapshot contains.

    What is written under these keys must be plain JSON data. If a pod holds a node, and its cycle
    state has any other key that is not ``derived``, ``Scheduler.snapshot`` raises.
    """

    @property
    def state_keys(self) -> Iterable[StateKey[Any]]:
        """The keys; two different keys in a profile have different names."""
        ...


class Forkable(Protocol):
    """Optional for a plugin that keeps state between calls: lets it answer *what if*.

    ``Scheduler.what_if`` runs with ``fork()`` in the place of the plugin. Without this method, a
    plugin takes part itself if it visibly keeps no state: it has no attributes, or it is a frozen
    ``attrs`` class or dataclass of immutable values. Any other plugin is refused. For a mapping,
    use ``types.MappingProxyType`` over a dict that is not changed any more.

    The same holds for the ``RunTimes`` of backfill, and for the values that a plugin writes into
    cycle state; there, lists, dicts and sets of such values are copied. A ``ClusterState`` may have
    this method too: the fork is read in its place, and must show the same.
    """

    def fork(self) -> object:
        """Return an object with the same state that shares nothing mutable with this one."""
        ...


class PreEnqueuePlugin(Plugin, Protocol):
    """Admits pods to the queue."""

    def pre_enqueue(self, pod: Pod, group: GroupView | None, *, now: float) -> Outcome:
        """Return ``Success`` or ``Skip`` to admit *pod*, ``Unschedulable`` to keep it out.

        Called again whenever the pod or its group changes.
        """
        ...


class QueueSortPlugin(Plugin, Protocol):
    """Orders the queue. A profile has exactly one."""

    def queue_sort(self, entity: EntityView) -> QueueSortKey:
        """Return the sort key of *entity*: the smallest key goes first.

        A key is a non-empty tuple of numbers, strings and such tuples. Give every key the same
        kinds of parts: keys of different kinds are ordered by kind. End the key with
        ``entity.seq``, so that no two keys are equal. A key of at most five numbers is fastest.

        Called once per enqueueing, not per comparison. The key stays until the entity is enqueued
        again.
        """
        ...


class PreFilterPlugin(Plugin, Protocol):
    """Checks a pod before any node is evaluated, and may write counts into the cycle."""

    def pre_filter(self, state: CycleView, pod: Pod, *, now: float) -> Outcome:
        """Return ``Success``, ``Skip``, or ``Unschedulable`` to end the cycle."""
        ...


class FilterPlugin(Plugin, Protocol):
    """Accepts or refuses a node for a pod."""

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        """Return ``Success`` or ``Skip`` if *node* can take *pod*, else ``Unschedulable``.

        Pure. Called once for each class of nodes that the last pod with this signature did not
        meet. For a pod for which ``reads_pods`` returns True it is called for single nodes.
        """
        ...


class PostFilterPlugin(Plugin, Protocol):
    """Runs after a scheduling cycle found no node for a pod, or no quorum for its group."""

    def post_filter(
        self, state: CycleView, pod: Pod, reason: str, *, now: float
    ) -> Outcome | Verdict:
        """Return a verdict on a group, or ``Success``, to end the point.

        After ``Unschedulable`` and ``Skip`` the next plugin is asked, as in kube-scheduler.
        """
        ...


class PreScorePlugin(Plugin, Protocol):
    """Prepares for the scoring of nodes."""

    def pre_score(
        self, state: CycleView, pod: Pod, nodes: Sequence[NodeView], *, now: float
    ) -> Outcome:
        """Return ``Success`` or ``Skip``, or ``Unschedulable`` to end the cycle.

        Not called if no node passes the filters.

        Args:
            state: The state of the scheduling cycle.
            pod: The pod.
            nodes: The nodes that passed the filters, in the order in which they were added.
            now: The current instant.
        """
        ...


class ScorePlugin(Plugin, Protocol):
    """Scores the nodes that can take a pod."""

    def score(self, state: CycleView, pod: Pod, node: NodeView) -> int:
        """Return how good *node* is for *pod*, 0 to 100; scores of all plugins are added.

        Absolute, not relative to other nodes. Pure; called as often as ``filter``.
        """
        ...


class ReservePlugin(Plugin, Protocol):
    """Takes and gives back what a tentative placement needs."""

    def reserve(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        """Return ``Success`` or ``Skip``, or ``Unschedulable`` to undo the placement."""
        ...

    def unreserve(
        self, state: CycleView, pod: Pod, node: NodeName, *, cause: str, now: float
    ) -> RejectGroup | EvictGroup | None:
        """Undo ``reserve``. Idempotent; may be called for a pod that was never reserved.

        Runs for every member that gives its node back without being bound, in the reverse order of
        ``reserve``. A verdict on a group whose attempt is being rejected already changes nothing.

        Args:
            state: The state of the scheduling cycle.
            pod: The pod.
            node: The node that the pod gives back.
            cause: ``timeout``; ``deleted``; ``changed``: the pod has finished, is terminating or
                gated, or is now another pod or in another group; ``rejected``; ``refused``: a
                later point returned ``Unschedulable``; ``bind_failed``; or ``node_gone``.
            now: The current instant.
        """
        ...


class PermitPlugin(Plugin, Protocol):
    """The last decision before binding."""

    def permit(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        """Return ``Success`` to allow the pod, ``Wait`` to let it wait.

        The pod counts as assumed already. ``Unschedulable`` undoes its placement. A pod is released
        when each plugin has allowed it; the members of a gang are released together, when a quorum
        of them is allowed.

        After ``Wait`` the plugin is asked again when an event concerns the pod, its group, or an
        object that is read for it. The host may answer in its place with ``PermitAllowed`` and
        ``PermitRejected``. No answer makes the wait longer: it ends after the shortest timeout.
        """
        ...


class PreBindPlugin(Plugin, Protocol):
    """Runs for each released pod before its bind."""

    def pre_bind(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        """Return ``Success`` or ``Skip``, or ``Unschedulable`` to undo the placement."""
        ...


class BindPlugin(Plugin, Protocol):
    """Makes the effect that binds a pod."""

    def bind(self, pod: Pod, node: NodeName, attempt: int, *, now: float) -> Bind | Skip:
        """Return the effect that binds *pod*, or ``Skip`` to leave it to the next plugin."""
        ...


class PostBindPlugin(Plugin, Protocol):
    """Is notified of each bound pod."""

    def post_bind(self, pod: Pod, node: NodeName, *, now: float) -> None:
        """Process the notification; the return value is None."""
        ...
