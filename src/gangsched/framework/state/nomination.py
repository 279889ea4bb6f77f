"""Nomination: the room that is kept for somebody until those in it are gone.

Rules:
  R1  the room is held by stand-ins: pods that are assumed on the nodes as others are, ask for what
      is to come, and are known to nobody else. So whoever is placed sees it as taken;
  R2  a stand-in has a UID of its own, which no pod can have: it begins with a NUL.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from attrs import define, evolve, frozen

from gangsched._core._entity import QueuedEntity
from gangsched.model import GroupKey, NodeName, Pod, PodGroup, PodUID

__all__ = ["Kept", "Nomination"]


@final
@frozen
class Kept:
    """The room for one pod.

    Attributes:
        seq: The number of the member that it is for: one that changed has another.
        uid: The pod.
        node: The node.
        stand_in: Who holds it meanwhile.
        group: Its group; None for a regular pod.
        role: Its role.
    """

    seq: int
    uid: PodUID
    node: NodeName
    stand_in: Pod
    group: GroupKey | None
    role: str | None

    @classmethod
    def make(
        cls, pod: Pod, seq: int, node: NodeName, group: GroupKey | None, role: str | None
    ) -> Kept:
        """Keep room for a pod."""
        stand_in = evolve(pod, uid=PodUID(f"\0{pod.uid}"))
        return cls(seq, pod.uid, node, stand_in, group, role)


@final
@define(eq=False)
class Nomination:
    """The room that is kept for a pod or a gang.

    Attributes:
        entity: For whom.
        priority: The priority up to which it is kept from others.
        kept: The room, by pod.
        asks: How many pods have to have room for it to be of use: group, role, number; the group
            is None for a regular pod, and the role empty where any will do.
        specs: The specifications of the groups that start with it, as they were.
        awaited: The pods that have to be gone from it.
        deadline: Until when it is kept at the latest.
        is_lifted: Whether the stand-ins have stepped aside for a turn.
    """

    entity: QueuedEntity
    priority: int
    kept: dict[PodUID, Kept]
    asks: tuple[tuple[GroupKey | None, str, int], ...]
    specs: tuple[tuple[GroupKey, PodGroup | None], ...]
    awaited: list[PodUID]
    deadline: float
    is_lifted: bool = False

    @property
    def group(self) -> GroupKey | None:
        """The group that it is for; None for a regular pod."""
        return None if self.entity.group is None else self.entity.group.key

    @property
    def nodes(self) -> list[NodeName]:
        """The nodes, each once. O(pods)."""
        return list(dict.fromkeys(each.node for each in self.kept.values()))

    @property
    def is_of_use(self) -> bool:
        """Whether there is room for as many as it takes. O(pods)."""
        return all(
            sum(
                each.group == group and (not role or each.role == role)
                for each in self.kept.values()
            )
            >= count
            for group, role, count in self.asks
        )

    def stand_ins(self) -> Iterator[Pod]:
        """Iterate over who holds the room; nobody while they have stepped aside."""
        return iter(()) if self.is_lifted else (each.stand_in for each in self.kept.values())
