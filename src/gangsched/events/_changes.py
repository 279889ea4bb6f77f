"""Events: what the caller reports to the scheduler."""

from __future__ import annotations

from typing import TypeAlias, final

from attrs import field, frozen

from gangsched.cluster_objects import ClusterObject
from gangsched.model import GroupKey, Node, NodeName, Pod, PodGroup, PodUID

__all__ = [
    "BindFailed",
    "Bound",
    "Event",
    "NodeAdded",
    "NodeDeleted",
    "NodeUpdated",
    "ObjectChanged",
    "ObjectDeleted",
    "PermitAllowed",
    "PermitRejected",
    "PodAdded",
    "PodDeleted",
    "PodGroupAdded",
    "PodGroupDeleted",
    "PodGroupUpdated",
    "PodUpdated",
]


@final
@frozen
class PodAdded:
    """A pod was created."""

    pod: Pod


@final
@frozen
class PodUpdated:
    """A pod changed: its phase, node, gates or deletion timestamp; or another pod replaced it.

    Attributes:
        pod: The pod as it is now, with its node: without ``node_name``, it is not bound any more.
    """

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
