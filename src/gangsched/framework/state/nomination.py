"""Nomination: the nodes that a preemptor is meant to go to once its victims have terminated.

Rules:
  R1  the capacity is reserved in the ledger of the nodes, one entry for each nominated pod. Other
      entities see it as taken;
  R2  a nomination lasts until its pods hold nodes, or until it lapses.
"""

from __future__ import annotations

from typing import final

from attrs import define, frozen

from gangsched._core._entity import QueuedEntity
from gangsched.framework.nodes.reserved_capacity import ReservedCapacity
from gangsched.framework.state.role_count import RoleCount
from gangsched.model import GroupKey, NodeName, PodGroup, PodUID

__all__ = ["NominatedPod", "Nomination"]


@final
@frozen
class NominatedPod:
    """One pod with its nominated node.

    Attributes:
        seq: The number of the member; a member that is recreated or changed has another.
        uid: The pod.
        group: Its group; None for a regular pod.
        role: Its role.
        reserved: The capacity that is reserved for it.
    """

    seq: int
    uid: PodUID
    group: GroupKey | None
    role: str | None
    reserved: ReservedCapacity

    @property
    def node(self) -> NodeName:
        """The nominated node."""
        return self.reserved.node


@final
@define(eq=False)
class Nomination:
    """The nominated nodes of a pod, or of the members of a gang.

    Attributes:
        entity: The queued entity that the nodes are nominated for.
        priority: Its priority: entities of this priority or a lower one cannot use the capacity.
        pods: The nominated pods.
        required: The number of pods that need capacity for the entity to start.
        specs: The specifications of the groups that start with it, when it was made.
        awaited: The terminating pods that still hold capacity on the nominated nodes; of an entity
            that depends on other pods, also those that must leave other nodes.
        deadline: The instant at which it lapses if some of them are still there, unless the bind of
            one of them is under way.
    """

    entity: QueuedEntity
    priority: int
    pods: dict[PodUID, NominatedPod]
    required: tuple[RoleCount, ...]
    specs: tuple[tuple[GroupKey, PodGroup | None], ...]
    awaited: list[PodUID]
    deadline: float

    @property
    def group(self) -> GroupKey | None:
        """The group that it is for; None for a regular pod."""
        return None if self.entity.group is None else self.entity.group.key

    @property
    def nodes(self) -> list[NodeName]:
        """The nominated nodes, each once. O(pods)."""
        return list(dict.fromkeys(each.node for each in self.pods.values()))

    @property
    def reserved(self) -> list[ReservedCapacity]:
        """The capacity that is reserved for its pods. O(pods)."""
        return [each.reserved for each in self.pods.values()]

    @property
    def is_sufficient(self) -> bool:
        """Whether as many pods are nominated as the entity needs to start. O(pods)."""
        return all(
            sum(ask.covers(each.group, each.role) for each in self.pods.values()) >= ask.count
            for ask in self.required
        )
