"""The ports: what the scheduler asks of a cluster, and what it asks of a plugin.

Rules:
  R1  ``ClusterState`` is read-only and local: it answers from memory and never blocks. It shows a
      fact before the fact is told;
  R2  a plugin is any object with the method of its point: no base class, no registration, no
      handle. It gets values and ``now``, and returns a decision;
  R3  the views that plugins get are read-only and valid for the length of the call;
  R4  a plugin keeps nothing between calls that a decision depends on, unless it says so.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from attrs import frozen

from gangsched.events import Bind, Effect, Event
from gangsched.model import GroupKey, Node, NodeName, Pod, PodGroup, PodUID, Resources
from gangsched.outcomes import EvictGroup, Outcome, RejectGroup, Skip, Verdict

__all__ = [
    "BindPlugin",
    "ClusterState",
    "CycleView",
    "EntityView",
    "FilterPlugin",
    "Fitting",
    "Forkable",
    "FourCalls",
    "GroupRequests",
    "GroupView",
    "GroupWide",
    "Headroom",
    "KeepsScratch",
    "KeepsState",
    "NodeLabelsRead",
    "NodeSignature",
    "NodeView",
    "Observer",
    "PermitPlugin",
    "Plugin",
    "PodSignature",
    "PodsRead",
    "PostBindPlugin",
    "PostFilterPlugin",
    "PreBindPlugin",
    "PreEnqueuePlugin",
    "PreFilterExtensions",
    "PreFilterPlugin",
    "PreScorePlugin",
    "QueueSortPlugin",
    "QuorumRule",
    "Rank",
    "ReservePlugin",
    "RoleRule",
    "RoleView",
    "ScorePlugin",
    "StateKey",
]

T = TypeVar("T")

Rank: TypeAlias = tuple[int, float, int, int, int]
"""A place in the queue: smaller goes first. ``gangsched.SortKey`` is one, with names."""


class ClusterState(Protocol):
    """What is there: nodes, assigned pods, groups. Never what is only planned.

    Every method answers from memory. Iteration is in an order that depends on the cluster's
    history alone, so that two runs over one history agree.
    """

    def nodes(self) -> Iterable[Node]:
        """Return every node."""
        ...

    def node(self, name: NodeName) -> Node | None:
        """Return one node; None when there is none. O(1)."""
        ...

    def pods(self) -> Iterable[Pod]:
        """Return every pod, whatever its state."""
        ...

    def pod(self, uid: PodUID) -> Pod | None:
        """Return one pod; None when there is none. O(1)."""
        ...

    def pods_on(self, node: NodeName) -> Iterable[Pod]:
        """Return the pods that are assigned to *node* and not finished. O(pods on the node)."""
        ...

    def pod_groups(self) -> Iterable[PodGroup]:
        """Return every pod group."""
        ...

    def pod_group(self, key: GroupKey) -> PodGroup | None:
        """Return one pod group's specification; None when there is none. O(1)."""
        ...


class FourCalls(Protocol):
    """The four calls of a scheduler, for who drives one; see ``Scheduler``."""

    def handle(self, event: Event, *, now: float) -> tuple[Effect, ...]:
        """Take in a fact; return what follows from it."""
        ...

    def advance(self, *, now: float) -> tuple[Effect, ...]:
        """Let time pass; return what follows from it."""
        ...

    def schedule_one(self, *, now: float) -> tuple[Effect, ...] | None:
        """Make one decision; None when there is nobody to decide about and nothing to tell."""
        ...

    def next_deadline(self) -> float | None:
        """Return when ``advance`` has something to do; None when only a fact changes anything."""
        ...


class Observer(Protocol):
    """Sees everything that goes into a scheduler and comes out, in order, under any shell.

    Notices are effects: ``GroupScheduled``, ``PodUnschedulable`` and so on. An observer that raises
    ends the run.
    """

    def event(self, event: Event, now: float) -> None:
        """Be told of a fact, before the scheduler is; as often as it is, and as late."""
        ...

    def effects(self, effects: tuple[Effect, ...], now: float) -> None:
        """Be told what a call of the scheduler returned, before it is performed."""
        ...

    def settled(self, now: float) -> None:
        """Be told that nothing more happens until time passes or a fact comes."""
        ...


# What a plugin is shown ---------------------------------------------------------------------


class RoleView(Protocol):
    """The members of a group that have one role, counted in the words of ``GroupView``."""

    @property
    def unscheduled(self) -> int:
        """Members of this role that hold no node."""
        ...

    @property
    def waiting(self) -> int:
        """Members of this role that hold a node and wait on permit."""
        ...

    @property
    def scheduled(self) -> int:
        """Members of this role that hold a node: waiting, being bound, or bound."""
        ...

    @property
    def untried(self) -> int:
        """Unscheduled members of this role whose turn in the attempt is still to come."""
        ...


class GroupView(Protocol):
    """What the scheduler knows of a pod group, for reading.

    The member counts are disjoint: each member is in exactly one state.
    """

    @property
    def key(self) -> GroupKey:
        """``namespace/name``."""
        ...

    @property
    def uid(self) -> int:
        """The scheduler's own number for this group, ascending in the order of arrival."""
        ...

    @property
    def min_available(self) -> int | None:
        """The quorum; None while nobody has said it."""
        ...

    @property
    def roles(self) -> Mapping[str, int]:
        """How many members of which role the quorum must have; empty when any will do."""
        ...

    def role(self, name: str) -> RoleView:
        """Return the counts of the members that have a role; zeros for one that nobody has. O(1).

        A member without a role, or with one that has no minimum, counts for the whole only.
        """
        ...

    @property
    def schedule_timeout(self) -> float | None:
        """The group's own permit timeout in seconds; None for the policy's default."""
        ...

    @property
    def min_resources(self) -> Resources:
        """What the group says that it needs in all; empty when it does not say."""
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
        """When its last attempt fell; None before any did, and again once it is scheduled."""
        ...

    @property
    def attempts(self) -> int:
        """How many attempts have begun: the number of the current or last one."""
        ...

    @property
    def attempt_started_at(self) -> float | None:
        """When the current attempt began; None between attempts."""
        ...

    @property
    def was_scheduled(self) -> bool:
        """Whether the group has been let go once."""
        ...

    @property
    def all(self) -> int:
        """Members that count: unscheduled and scheduled. Not gated, terminating or finished."""
        ...

    @property
    def unscheduled(self) -> int:
        """Members that hold no node."""
        ...

    @property
    def waiting(self) -> int:
        """Members that hold a node and wait on permit."""
        ...

    @property
    def assumed(self) -> int:
        """Members that hold a node and are not known to be bound: waiting, or being bound."""
        ...

    @property
    def assigned(self) -> int:
        """Members that are bound."""
        ...

    @property
    def scheduled(self) -> int:
        """Members that hold a node: assumed and assigned."""
        ...

    @property
    def untried(self) -> int:
        """Unscheduled members whose turn in the current attempt is still to come."""
        ...


class EntityView(Protocol):
    """What stands in the queue, a pod or a group, for reading."""

    @property
    def priority(self) -> int:
        """Its priority."""
        ...

    @property
    def created_at(self) -> float:
        """When the pod or the group was created."""
        ...

    @property
    def queued_at(self) -> float:
        """When it last came into the queue: on arrival, or after a try that failed."""
        ...

    @property
    def seq(self) -> int:
        """An ascending number: no two entities share one."""
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
    """A node with what is free on it, assumed pods discounted, for reading."""

    @property
    def node(self) -> Node:
        """The node itself."""
        ...

    @property
    def free(self) -> Mapping[str, int]:
        """What is free, in thousandths; below zero where the node is overcommitted."""
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


@frozen(eq=False)
class StateKey(Generic[T]):
    """A typed key of a cycle's scratch: make one per plugin, at module level."""

    name: str


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
        """Its name, for messages; unique in a profile."""
        ...


class PodSignature(Protocol):
    """Optional for plugins with ``filter`` or ``score``: on which part of a pod they depend.

    Two pods with equal signatures get equal answers on equal nodes, so the answer is computed
    once for both. Plugins whose answer depends on anything but the pod's signature and the node
    must not have this method; the pods of a profile with such a plugin are evaluated one by one.

    Source: the signatures of KEP-5598.
    """

    def pod_signature(self, pod: Pod) -> Hashable:
        """Return the part of *pod* that this plugin reads."""
        ...


class NodeSignature(Protocol):
    """Optional for plugins with ``filter`` or ``score``: on which part of a node they depend.

    Two nodes with equal signatures, and equal labels where the plugin reads labels, get equal
    answers for equal pods, so the answer is computed once for all of them. With a plugin that
    does not have this method, each node is evaluated by itself whenever it changes.

    Labels that differ from node to node, such as a host's name, do not belong here: a plugin
    that reads labels names them with ``labels_read``.
    """

    def node_signature(self, node: NodeView) -> Hashable:
        """Return the part of *node* that this plugin reads, but for its labels."""
        ...


class NodeLabelsRead(Protocol):
    """Optional for plugins with ``node_signature``: which labels of nodes they read."""

    def labels_read(self, pod: Pod) -> Iterable[str]:
        """Return the keys of the labels that this plugin reads of nodes for pods like *pod*."""
        ...


class PodsRead(Protocol):
    """Optional for plugins with ``filter`` or ``score``: for which pods they read other pods.

    For a pod for which this returns True, ``filter`` and ``score`` are called for one node after
    another, are shown the pods on each node, and are called again for every member of a gang that
    is planned. Nothing is kept of their answers. They may look at every node of ``state.nodes``.
    For any other pod the answers are kept, so they must not depend on the pods on nodes.

    ``node_signature`` and ``labels_read`` must still cover all that the plugin reads of a node
    besides its pods.
    """

    def reads_pods(self, pod: Pod) -> bool:
        """Return whether the answers for *pod* depend on which pods are on nodes.

        Pure. Pods with equal ``pod_signature`` get equal answers.
        """
        ...


class PreFilterExtensions(Protocol):
    """Optional for plugins with ``pre_filter`` and ``reads_pods``: keep a count up to date.

    ``pre_filter`` may count the pods on nodes and write the count into the cycle. While a gang is
    planned, these methods tell the cycle of each member which siblings are placed. Where a
    decision is tried without some victims, ``pre_filter`` is called anew on the nodes without
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
    """Optional for plugins with ``filter``: which resources a pod must find free on its node.

    Lets the scheduler prove from sums of what is free that a gang cannot fit, and name the
    resource. Without a plugin that has it, only a search of every way can tell.
    """

    def fitted(self, pod: Pod) -> Iterable[str]:
        """Return the resources of which this plugin refuses a node that has less than *pod* asks.

        Of each, the pod takes from its node exactly what it asks for.
        """
        ...


class Headroom(Protocol):
    """Optional for plugins with ``filter``: a bound on how many pods a node could take.

    Lets the scheduler see that a gang cannot fit without trying it: without a plugin that has
    it, every node that passes the filters is taken to have room for any number.
    """

    def headroom(self, pod: Pod, node: NodeView) -> int:
        """Return how many pods like *pod* could hold *node* at most, as it is now."""
        ...


class QuorumRule(Protocol):
    """Optional for plugins with ``permit``: how many more members a group needs at once.

    Tells the scheduler when an attempt of a group cannot succeed any more, and when a group's
    members go one by one. Without a plugin that has it, the rule is ``once_satisfied``.
    """

    def members_needed(self, group: GroupView) -> int | None:
        """Return how many more members must hold a node for *group* to be let go.

        0 or less with a quorum; None where its members go one by one.
        """
        ...


class RoleRule(Protocol):
    """Optional for plugins with ``members_needed``: which members a group needs, by role.

    Without it the plugin's rule knows no roles, and ``GroupView.roles`` is not looked at.
    """

    def roles_needed(self, group: GroupView) -> Mapping[str, int]:
        """Return how many more members of each role must hold a node for *group* to be let go.

        Under ``""`` stands how many of any role; 0 or less where there are enough already. Empty
        where its members go one by one. What is needed at once, ``members_needed``, is the number
        under ``""`` or the sum of what the roles lack, whichever is more.
        """
        ...


class GroupRequests(Protocol):
    """Optional for plugins with ``permit``: what a group needs of the cluster in all.

    An attempt is made only while the nodes have that much free in all, and its failure is
    remembered until they do: nothing polls.
    """

    def group_requests(self, group: GroupView) -> Resources:
        """Return what the nodes must have free for *group*, with what its members hold."""
        ...


class GroupWide(Protocol):
    """Optional for plugins that speak of groups: which answers hold for a whole group.

    Where one decision is about a gang, a point named here is asked of one of its members, and the
    answer counts for all. A plugin that looks at the pod or the node must not name the point.
    """

    @property
    def group_wide(self) -> Collection[str]:
        """Names out of ``pre_filter``, ``reserve`` and ``permit``."""
        ...


class KeepsState(Protocol):
    """Optional for plugins that keep something between calls: what a snapshot has of it.

    Without it a plugin's own state is not in a snapshot, and is whatever the plugin has where the
    snapshot is restored.
    """

    def snapshot(self) -> object:
        """Return what this plugin keeps, as plain JSON data."""
        ...

    def restore(self, data: Any) -> None:
        """Keep what *data* says, in the place of what is kept, or raise having changed nothing.

        Args:
            data: What ``snapshot`` returned, perhaps of another process.
        """
        ...


class KeepsScratch(Protocol):
    """Optional for plugins that write into a cycle: what a snapshot keeps of a placement.

    What is written under these keys must be plain JSON data. Of a pod that holds a node, what is
    written under any other key cannot be kept, and the snapshot is refused.
    """

    @property
    def state_keys(self) -> Iterable[StateKey[Any]]:
        """The keys; no two plugins have different keys of one name."""
        ...


class Forkable(Protocol):
    """May be added to a plugin that keeps something between calls, so that *what if* can be asked.

    ``Scheduler.what_if`` makes its calls with ``fork()`` in the place of the plugin. Without this
    method a plugin is asked itself, if it can be seen to keep nothing: it has no attributes, or it
    is a frozen ``attrs`` class or dataclass that holds nothing but values that never change. Any
    other is refused. The same holds for the ``RunTimes`` of backfill, and for what a plugin writes
    into the scratch of a cycle; there, lists, dicts and sets of values are copied.

    A ``ClusterState`` may have it too: what it returns is read in its place, and shows the same.
    """

    def fork(self) -> object:
        """Return another that keeps the same, and shares nothing that either may change."""
        ...


class PreEnqueuePlugin(Plugin, Protocol):
    """Holds a pod back before it takes a place in the queue."""

    def pre_enqueue(self, pod: Pod, group: GroupView | None, *, now: float) -> Outcome:
        """Return ``Success`` or ``Skip`` to let *pod* queue, ``Unschedulable`` to hold it.

        Asked again whenever the pod or its group changes.
        """
        ...


class QueueSortPlugin(Plugin, Protocol):
    """Orders the queue. A profile has exactly one."""

    def queue_sort(self, entity: EntityView) -> Rank:
        """Return the entity's place: smaller goes first, and no two entities share one.

        Asked once per enqueueing, not per comparison; the answer is kept until the entity is
        put in anew.
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
    """Runs when no node, or no quorum, can be had."""

    def post_filter(
        self, state: CycleView, pod: Pod, reason: str, *, now: float
    ) -> Outcome | Verdict:
        """Return what becomes of the pod's group, or ``Skip``."""
        ...


class PreScorePlugin(Plugin, Protocol):
    """Prepares for scoring."""

    def pre_score(self, state: CycleView, pod: Pod, *, now: float) -> Outcome:
        """Return ``Success``, or ``Unschedulable`` to end the cycle."""
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
        """Return ``Success``, or ``Unschedulable`` to give everything back."""
        ...

    def unreserve(
        self, state: CycleView, pod: Pod, node: NodeName, *, cause: str, now: float
    ) -> RejectGroup | EvictGroup | None:
        """Undo ``reserve``. Idempotent; may be called for a pod that was never reserved.

        Runs for every member that gives its node back without being bound, in the reverse order
        of ``reserve``. Answers that name a group which is falling already change nothing.

        Args:
            state: The cycle's state.
            pod: The pod.
            node: The node that it gives back.
            cause: ``timeout``, ``deleted``, ``changed`` (it ended, is ending or is gated, or it is
                another pod or in another group for the scheduler), ``rejected``, ``refused`` (a
                later point said no), ``bind_failed`` or ``node_gone``.
            now: The current instant.
        """
        ...


class PermitPlugin(Plugin, Protocol):
    """The last gate before binding."""

    def permit(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        """Return ``Success`` to let the pod, and every sibling that waits, go; ``Wait`` to hold.

        The pod counts as assumed already.
        """
        ...


class PreBindPlugin(Plugin, Protocol):
    """Runs for each pod that is let go, before its bind."""

    def pre_bind(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        """Return ``Success``, or ``Unschedulable`` to give the node back."""
        ...


class BindPlugin(Plugin, Protocol):
    """Says how a pod is bound."""

    def bind(self, pod: Pod, node: NodeName, attempt: int, *, now: float) -> Bind | Skip:
        """Return the effect that binds *pod*, or ``Skip`` to leave it to the next plugin."""
        ...


class PostBindPlugin(Plugin, Protocol):
    """Is told of each pod that was bound."""

    def post_bind(self, pod: Pod, node: NodeName, *, now: float) -> None:
        """Take note."""
        ...
