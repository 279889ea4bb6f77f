"""Facts that go in, effects and notices that come out.

Rules:
  R1  facts are past tense, effects imperative, notices past participle;
  R2  a fact is told after the cluster state shows it, and may be told twice, late or out of
      order: telling it again changes nothing;
  R3  effects come in the order in which they must be performed; notices tell what was decided
      and need no action;
  R4  all three are frozen values.
"""

from __future__ import annotations

from typing import TypeAlias, final

from attrs import field, frozen

from gangsched.model import GroupKey, Node, NodeName, Pod, PodGroup, PodUID

__all__ = [
    "Bind",
    "BindFailed",
    "Bound",
    "Effect",
    "Event",
    "Evict",
    "GroupIncomplete",
    "GroupRejected",
    "GroupScheduled",
    "NodeAdded",
    "NodeDeleted",
    "NodeUpdated",
    "Nominated",
    "NominationLapsed",
    "Notice",
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
    "Release",
]

# Facts ------------------------------------------------------------------------------------


@final
@frozen
class PodAdded:
    """A pod exists."""

    pod: Pod


@final
@frozen
class PodUpdated:
    """A pod changed: its phase, its node, its gates, its deletion; or it was replaced."""

    pod: Pod


@final
@frozen
class PodDeleted:
    """A pod is gone."""

    uid: PodUID = field(converter=PodUID)


@final
@frozen
class NodeAdded:
    """A node exists."""

    node: Node


@final
@frozen
class NodeUpdated:
    """A node changed: what it offers, its labels, its taints, whether it is cordoned."""

    node: Node


@final
@frozen
class NodeDeleted:
    """A node is gone."""

    name: NodeName = field(converter=NodeName)


@final
@frozen
class PodGroupAdded:
    """A pod group's specification exists."""

    group: PodGroup


@final
@frozen
class PodGroupUpdated:
    """A pod group's specification changed."""

    group: PodGroup


@final
@frozen
class PodGroupDeleted:
    """A pod group's specification is gone; its pods may live on."""

    key: GroupKey = field(converter=GroupKey)


@final
@frozen
class Bound:
    """A ``Bind`` was performed.

    Attributes:
        uid: The pod.
        node: The node that it is bound to.
        attempt: The attempt that the ``Bind`` carried.
    """

    uid: PodUID = field(converter=PodUID)
    node: NodeName = field(converter=NodeName)
    attempt: int


@final
@frozen
class BindFailed:
    """A ``Bind`` could not be performed; nothing was bound.

    Attributes:
        uid: The pod.
        attempt: The attempt that the ``Bind`` carried. News of any other attempt is late and
            changes nothing.
        reason: Why, in words.
    """

    uid: PodUID = field(converter=PodUID)
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
    | Bound
    | BindFailed
)

# Effects ----------------------------------------------------------------------------------


@final
@frozen
class Release:
    """The members go together: their ``Bind`` effects follow at once.

    A shell that can perform several binds as one transaction takes these for its bounds; another
    may pass it over.

    Attributes:
        group: The group.
        members: Who is let go in this step, in the order of their binds.
    """

    group: GroupKey
    members: tuple[PodUID, ...]


@final
@frozen
class Bind:
    """Bind the pod to the node, then tell ``Bound`` or ``BindFailed`` with the same attempt.

    Attributes:
        uid: The pod.
        node: The node.
        attempt: Which attempt of this pod it is, from 1.
    """

    uid: PodUID
    node: NodeName
    attempt: int


@final
@frozen
class Evict:
    """Delete the pod, which is bound or being bound, then tell ``PodDeleted`` when it is gone.

    Whoever made the pod makes a new one. A shell tries until the pod is gone: until then it holds
    its node, and counts as terminating.

    Attributes:
        uid: The pod.
        node: The node that it holds.
        reason: Why.
    """

    uid: PodUID
    node: NodeName
    reason: str


# Notices ----------------------------------------------------------------------------------


@final
@frozen
class PodRefused:
    """A pod will not be scheduled as it is: its user has to change it."""

    uid: PodUID
    reason: str


@final
@frozen
class PodNotAdmitted:
    """A pod does not enter the queue yet; of a group that waits for others of its bundle, one."""

    uid: PodUID
    reason: str


@final
@frozen
class GroupIncomplete:
    """A group has fewer members than it needs; none of them is tried.

    Attributes:
        group: The group.
        present: How many members count.
        min_available: How many it needs; None while nobody has said it.
        roles: Of which roles it has too few: the role, how many it needs, how many count.
    """

    group: GroupKey
    present: int
    min_available: int | None
    roles: tuple[tuple[str, int, int], ...] = ()


@final
@frozen
class PodUnschedulable:
    """A try of one pod ended without a node."""

    uid: PodUID
    reason: str


@final
@frozen
class PodWaiting:
    """A pod holds a node and waits for its siblings.

    Attributes:
        uid: The pod.
        node: The node that it holds.
        deadline: When it gives the node back at the latest.
        remaining: How many more members the group needs.
    """

    uid: PodUID
    node: NodeName
    deadline: float
    remaining: int


@final
@frozen
class PodRejected:
    """A pod that held a node has given it back."""

    uid: PodUID
    node: NodeName
    reason: str


@final
@frozen
class GroupRejected:
    """An attempt of a group ended without a quorum; nothing is held for it any more.

    Attributes:
        group: The group.
        attempt: Which attempt of the group, from 1.
        reason: Why it fell.
        retry_after: When it may be tried again at the earliest.
    """

    group: GroupKey
    attempt: int
    reason: str
    retry_after: float


@final
@frozen
class GroupScheduled:
    """A group has its quorum and is let go.

    Attributes:
        group: The group.
        attempt: Which attempt of the group, from 1.
        scheduled: How many members hold a node in this instant.
        waited: Seconds since the group was complete for the first time.
    """

    group: GroupKey
    attempt: int
    scheduled: int
    waited: float


@final
@frozen
class PodScheduled:
    """A pod is bound."""

    uid: PodUID
    node: NodeName


@final
@frozen
class Nominated:
    """Room is made for a pod or a gang that fits nowhere: it is kept until those in it are gone.

    Meanwhile nobody of the same or of a lower priority is placed there. It is over when its pods
    are bound, there or elsewhere, or with ``NominationLapsed``.

    Attributes:
        group: The group; None for a regular pod.
        priority: The priority up to which the room is kept from others.
        places: Which pod is meant to go to which node.
        victims: The pods that are evicted for it by this call; empty where it only waits for
            those that are terminating already.
        deadline: Until when it is kept at the latest.
    """

    group: GroupKey | None
    priority: int
    places: tuple[tuple[PodUID, NodeName], ...]
    victims: tuple[PodUID, ...]
    deadline: float


@final
@frozen
class NominationLapsed:
    """The room that was kept for a pod or a gang is kept no more.

    Attributes:
        group: The group; None for a regular pod.
        pods: For whom it was kept, as far as they are there.
        reason: Why.
    """

    group: GroupKey | None
    pods: tuple[PodUID, ...]
    reason: str


Notice: TypeAlias = (
    PodRefused
    | PodNotAdmitted
    | GroupIncomplete
    | PodUnschedulable
    | PodWaiting
    | PodRejected
    | GroupRejected
    | GroupScheduled
    | PodScheduled
    | Nominated
    | NominationLapsed
)

Effect: TypeAlias = Release | Bind | Evict | Notice
"""What a call returns: effects and notices in one flat order."""
