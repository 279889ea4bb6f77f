"""Events that the caller reports, effects and notices that the scheduler returns.

Rules:
  R1  events have names in the past tense, effects in the imperative, notices as past participles;
  R2  the caller updates the cluster state first and reports the event then. Events may arrive
      twice, late or out of order: a repeated event changes nothing;
  R3  effects are in the order in which the caller must perform them. Notices report decisions and
      need no action;
  R4  all three are frozen values.
"""

from __future__ import annotations

from typing import TypeAlias, final

from attrs import field, frozen

from gangsched.cluster_objects import ClusterObject
from gangsched.model import GroupKey, Node, NodeName, Pod, PodGroup, PodUID

__all__ = [
    "Bind",
    "BindFailed",
    "Bound",
    "Effect",
    "Event",
    "Evict",
    "GroupBelowMinimum",
    "GroupBound",
    "GroupIncomplete",
    "GroupPartlyBound",
    "GroupRejected",
    "GroupRemoved",
    "GroupRestarted",
    "GroupScheduled",
    "NodeAdded",
    "NodeDeleted",
    "NodeUpdated",
    "Nominated",
    "NominationLapsed",
    "Notice",
    "ObjectChanged",
    "ObjectDeleted",
    "PermitAllowed",
    "PermitRejected",
    "PodAdded",
    "PodDeleted",
    "PodGroupAdded",
    "PodGroupDeleted",
    "PodGroupUpdated",
    "PodNotAdmitted",
    "PodRefused",
    "PodRejected",
    "PodScheduled",
    "PodUnschedulable",
    "PodUpdated",
    "PodWaiting",
    "PriorityOverruled",
    "Release",
    "RestartLimitReached",
    "VictimSearchExhausted",
    "VolumeChoice",
]

# Events -----------------------------------------------------------------------------------


@final
@frozen
class PodAdded:
    """A pod was created."""

    pod: Pod


@final
@frozen
class PodUpdated:
    """A pod changed: its phase, node, gates or deletion timestamp; or another pod replaced it."""

    pod: Pod


@final
@frozen
class PodDeleted:
    """A pod was deleted."""

    uid: PodUID = field(converter=PodUID)


@final
@frozen
class NodeAdded:
    """A node was added."""

    node: Node


@final
@frozen
class NodeUpdated:
    """A node changed: its allocatable resources, labels or taints, or it was (un)cordoned."""

    node: Node


@final
@frozen
class NodeDeleted:
    """A node was deleted."""

    name: NodeName = field(converter=NodeName)


@final
@frozen
class PodGroupAdded:
    """The specification of a pod group was created."""

    group: PodGroup


@final
@frozen
class PodGroupUpdated:
    """The specification of a pod group changed."""

    group: PodGroup


@final
@frozen
class PodGroupDeleted:
    """The specification of a pod group was deleted; its pods may remain."""

    key: GroupKey = field(converter=GroupKey)


@final
@frozen
class ObjectChanged:
    """An object that constraints refer to was created, or changed.

    Attributes:
        value: The object as it is now; see ``gangsched.cluster_objects``.
    """

    value: ClusterObject


@final
@frozen
class ObjectDeleted:
    """An object that constraints refer to was deleted.

    Attributes:
        object_kind: The name of its class: ``PersistentVolumeClaim``, as in Kubernetes.
        key: Its key: the name, or ``namespace/name``.
    """

    object_kind: str
    key: str


@final
@frozen
class Bound:
    """A ``Bind`` was performed.

    Attributes:
        uid: The pod.
        node: The node that the pod is bound to.
        attempt: The attempt number of the ``Bind``.
    """

    uid: PodUID = field(converter=PodUID)
    node: NodeName = field(converter=NodeName)
    attempt: int


@final
@frozen
class BindFailed:
    """A ``Bind`` failed; the pod is not bound.

    Attributes:
        uid: The pod.
        attempt: The attempt number of the ``Bind``. A report for any other attempt is late and
            changes nothing.
        reason: Why the bind failed.
    """

    uid: PodUID = field(converter=PodUID)
    attempt: int
    reason: str


@final
@frozen
class PermitAllowed:
    """A permit plugin allows a waiting pod, as ``WaitingPod.Allow`` of kube-scheduler.

    The pod is released once no plugin is pending. The members of a gang are released together, as
    soon as a quorum of them is allowed.

    Attributes:
        uid: The waiting pod. If the plugin answers for whole groups, every waiting sibling is
            allowed too.
        plugin: The name of the plugin. The plugin with the quorum of gangs allows nothing from
            outside: its answer is a count.
        attempt: The attempt number of the ``PodWaiting``. A report for any other attempt is late
            and changes nothing.
    """

    uid: PodUID = field(converter=PodUID)
    plugin: str
    attempt: int


@final
@frozen
class PermitRejected:
    """A permit plugin rejects a waiting pod, as ``WaitingPod.Reject`` of kube-scheduler.

    The pod gives its node back, and is tried again after a backoff. Its group is rejected too if
    the others are too few for the quorum.

    Attributes:
        uid: The waiting pod.
        plugin: The name of the plugin.
        attempt: The attempt number of the ``PodWaiting``. A report for any other attempt is late
            and changes nothing.
        reason: Why the pod is rejected.
    """

    uid: PodUID = field(converter=PodUID)
    plugin: str
    attempt: int
    reason: str


Event: TypeAlias = (
    PodAdded
    | PodUpdated
    | PodDeleted
    | NodeAdded
    | NodeUpdated
    | NodeDeleted
    | PodGroupAdded
    | PodGroupUpdated
    | PodGroupDeleted
    | ObjectChanged
    | ObjectDeleted
    | Bound
    | BindFailed
    | PermitAllowed
    | PermitRejected
)

# Effects ----------------------------------------------------------------------------------


@final
@frozen
class Release:
    """Permit is granted to members of a group; their ``Bind`` effects follow directly.

    A caller that can perform several binds in one transaction uses it as the bounds of the
    transaction. Any other caller may ignore it.

    Attributes:
        group: The group.
        members: The members that are released in this call, in the order of their binds.
    """

    group: GroupKey
    members: tuple[PodUID, ...]


@final
@frozen
class VolumeChoice:
    """How a claim for storage is to be met, a part of ``Bind``.

    Attributes:
        claim: The key of the claim, ``namespace/name``.
        node: The node that the pod goes to.
        volume: The name of the volume that the claim is bound to: its reference to a claim is to
            be set. Empty if a volume is to be provisioned for *node*: the claim is to be annotated
            with it.
    """

    claim: str
    node: NodeName
    volume: str = ""


@final
@frozen
class Bind:
    """Bind the pod to the node, then report ``Bound`` or ``BindFailed`` with the same attempt.

    Attributes:
        uid: The pod.
        node: The node.
        attempt: The number of the attempt. The numbers of a pod ascend, and are never used again,
            even if another pod is created under the same UID. The first number is 1.
        volumes: The volumes for claims of the pod that are not bound yet. Write these choices
            first. If that fails, report ``BindFailed``.
    """

    uid: PodUID
    node: NodeName
    attempt: int
    volumes: tuple[VolumeChoice, ...] = ()

    def __repr__(self) -> str:
        # most pods have no claims, and a log has many binds
        more = f", volumes={self.volumes!r}" if self.volumes else ""
        return f"Bind(uid={self.uid!r}, node={self.node!r}, attempt={self.attempt!r}{more})"


@final
@frozen
class Evict:
    """Delete the pod, which is bound, then report ``PodDeleted`` when it is gone.

    The pod's controller creates a new pod. The caller retries until the pod is gone: until then
    the pod keeps its node and counts as terminating. A pod whose bind is under way is evicted when
    the bind is reported as done; if it failed, there is nothing to evict.

    Attributes:
        uid: The pod.
        node: The node that the pod is bound to.
        reason: Why the pod is evicted.
    """

    uid: PodUID
    node: NodeName
    reason: str


# Notices ----------------------------------------------------------------------------------


@final
@frozen
class PodRefused:
    """A pod is invalid and is not scheduled until its user changes it."""

    uid: PodUID
    reason: str


@final
@frozen
class PriorityOverruled:
    """A pending member has another priority than its group; the priority of the group decides.

    Attributes:
        uid: The member.
        group: The group.
        priority: The priority of the member.
        used: The priority of the group, with which the member is queued.
    """

    uid: PodUID
    group: GroupKey
    priority: int
    used: int


@final
@frozen
class PodNotAdmitted:
    """A pod is not admitted to the queue yet.

    If a group waits for the other groups of its bundle, the notice names one member only.
    """

    uid: PodUID
    reason: str


@final
@frozen
class GroupIncomplete:
    """A group has fewer members than its minimum; no member is tried.

    Attributes:
        group: The group.
        present: The number of members that count for the quorum.
        min_available: The minimum; None if neither a specification nor a member gives it.
        roles: The roles with too few members: role, minimum, members that count.
    """

    group: GroupKey
    present: int
    min_available: int | None
    roles: tuple[tuple[str, int, int], ...] = ()


@final
@frozen
class PodUnschedulable:
    """A pending pod is not placed: it found no node, or its group failed or is incomplete.

    A pod that was tried itself is told after each try. The other pending members of its group are
    told only if their reason is another one than they were told last.

    Attributes:
        uid: The pod.
        reason: Why: what refused it, or why its group was rejected.
    """

    uid: PodUID
    reason: str


@final
@frozen
class PodWaiting:
    """A pod is assumed on a node and waits on permit, such as for other members of its group.

    Attributes:
        uid: The pod.
        node: The node that the pod is assumed on.
        deadline: When the wait ends at the latest; the pod then loses the node.
        remaining: The number of members that the quorum still lacks.
        attempt: The number of the attempt of the pod; the ``Bind`` of this attempt has the same.
            0 at a ``Gate``, which makes no binds.
        plugins: The permit plugins that let the pod wait. It is released when each of them allows
            it; see ``PermitAllowed``. Without any, it waits for siblings that a plugin lets wait.
    """

    uid: PodUID
    node: NodeName
    deadline: float
    remaining: int
    attempt: int = 0
    plugins: tuple[str, ...] = ()


@final
@frozen
class PodRejected:
    """A pod was rejected after it was assumed on a node; the node is free again."""

    uid: PodUID
    node: NodeName
    reason: str


@final
@frozen
class GroupRejected:
    """An attempt of a group was rejected; no member waits on permit any more.

    Attributes:
        group: The group.
        attempt: The number of the attempt of the group, from 1. If a failed bind takes a release
            back, it is the number of the ``GroupScheduled`` before; otherwise it is a new one.
        reason: Why the attempt was rejected.
        retry_after: When the backoff of the group ends.
    """

    group: GroupKey
    attempt: int
    reason: str
    retry_after: float


@final
@frozen
class GroupScheduled:
    """A group reached its quorum and its waiting members were released.

    Attributes:
        group: The group.
        attempt: The number of the attempt of the group, from 1.
        scheduled: The number of members that hold a node at this instant.
        waited: Seconds since the group had enough members for the first time.
    """

    group: GroupKey
    attempt: int
    scheduled: int
    waited: float


@final
@frozen
class GroupBound:
    """A group runs: after its start, a quorum is bound and no bind is under way any more.

    It follows ``GroupScheduled`` once for each start of the group, when the last of the binds is
    reported. A group that was bound already when the scheduler first saw it has no such notice.

    Attributes:
        group: The group.
        attempt: The number of the attempt that started it; see ``GroupScheduled``.
        bound: The number of bound members.
    """

    group: GroupKey
    attempt: int
    bound: int


@final
@frozen
class GroupPartlyBound:
    """A bind failed, and too few members of the group hold a node for it to run.

    The other members stay on their nodes, and the member is tried again. The notice is repeated
    for each failure that leaves the group so.

    Attributes:
        group: The group.
        scheduled: The number of members that hold a node.
        min_available: The minimum of the group.
        uid: The member whose bind failed.
        reason: Why it failed, and why the other members are not evicted.
    """

    group: GroupKey
    scheduled: int
    min_available: int
    uid: PodUID
    reason: str


@final
@frozen
class GroupBelowMinimum:
    """A group that ran has fewer members on nodes than its minimum.

    It is posted once, until the group runs again. Members that have succeeded count, also if they
    were deleted since. If the group has a restart policy, ``GroupRestarted`` or
    ``RestartLimitReached`` follows.

    Attributes:
        group: The group.
        scheduled: The number of members that hold a node or have succeeded.
        min_available: The minimum of the group.
    """

    group: GroupKey
    scheduled: int
    min_available: int


@final
@frozen
class GroupRestarted:
    """A group that fell below its minimum is restarted: its other members are evicted.

    The effects that evict them follow. The group starts again as a whole, when all its old pods are
    gone, its controller has created new ones, and the backoff is over. ``GroupBound`` says that it
    runs again.

    Attributes:
        group: The group.
        restarts: How often the group was restarted, this time included. Keep it where the next
            scheduler finds it, as ``PodGroup.restarts``.
        limit: The limit of its policy.
        until: The end of the backoff; to be kept as ``PodGroup.restarting_until`` until the group
            is bound.
    """

    group: GroupKey
    restarts: int
    limit: int
    until: float


@final
@frozen
class RestartLimitReached:
    """A group that fell below its minimum was restarted as often as its policy allows.

    The other members stay on their nodes, and members that replace lost ones are placed one by one.

    Attributes:
        group: The group.
        restarts: How often the group was restarted.
    """

    group: GroupKey
    restarts: int


@final
@frozen
class GroupRemoved:
    """A group has neither a specification nor a pod any more, as after the end of its owner.

    No member waits, and nothing is reserved for it. A host that keeps something for the group may
    drop it. If pods come back under its name, it is a group again.

    Attributes:
        group: The group.
    """

    group: GroupKey


@final
@frozen
class PodScheduled:
    """The bind of a pod was reported as done."""

    uid: PodUID
    node: NodeName


@final
@frozen
class Nominated:
    """Nodes are nominated for a pod or a gang that preempts other pods.

    Capacity is reserved for it until its victims are gone. Meanwhile no pod of the same or a
    lower priority is placed there. The nomination ends when its pods are bound, on these nodes
    or others, or with ``NominationLapsed``.

    Attributes:
        group: The group; None for a regular pod.
        priority: Pods of this priority or a lower one cannot use the reserved capacity.
        places: The nominated node of each pod.
        victims: The pods that are evicted, at once or when their bind has ended; empty if the
            nomination waits only for pods that are terminating already.
        deadline: When the nomination ends at the latest.
    """

    group: GroupKey | None
    priority: int
    places: tuple[tuple[PodUID, NodeName], ...]
    victims: tuple[PodUID, ...]
    deadline: float


@final
@frozen
class NominationLapsed:
    """A nomination ended before its pods were bound; its reserved capacity is free again.

    Attributes:
        group: The group; None for a regular pod.
        pods: The nominated pods that still exist.
        reason: Why the nomination ended.
    """

    group: GroupKey | None
    pods: tuple[PodUID, ...]
    reason: str


@final
@frozen
class VictimSearchExhausted:
    """The search for victims of a preemptor was cut short by its budget.

    See ``search_budget`` of ``Scheduler`` and ``Preemption``. The notice is repeated with each
    attempt whose search is cut short.

    Attributes:
        group: The group; None for a regular pod.
        uid: The pod that needs capacity; of a group, the member that did not fit.
        steps: The number of steps that the search took.
        is_found: Whether victims were found. If so, ``Nominated`` follows, and fewer victims or
            other ones might be enough. If not, no pod is evicted, although victims may exist.
    """

    group: GroupKey | None
    uid: PodUID
    steps: int
    is_found: bool


Notice: TypeAlias = (
    PodRefused
    | PriorityOverruled
    | PodNotAdmitted
    | GroupIncomplete
    | PodUnschedulable
    | PodWaiting
    | PodRejected
    | GroupRejected
    | GroupScheduled
    | GroupBound
    | GroupPartlyBound
    | GroupBelowMinimum
    | GroupRestarted
    | RestartLimitReached
    | GroupRemoved
    | PodScheduled
    | Nominated
    | NominationLapsed
    | VictimSearchExhausted
)

Effect: TypeAlias = Release | Bind | Evict | Notice
"""What a call returns: effects and notices in one sequence."""
