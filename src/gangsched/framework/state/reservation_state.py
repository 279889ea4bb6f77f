"""What is remembered of who asks for a reservation, and of the one that is made.

Rules:
  R1  who asks is a gang that fell for want of room; one that fell for another reason asks no more;
  R2  who was tried with all room free, and failed, fails again until there is more room.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import final

from attrs import define, field

from gangsched._core._entity import QueuedEntity
from gangsched.framework.config.backfill import Backfill
from gangsched.model import GroupKey, PodUID

__all__ = ["Promise", "Reserving"]


@final
@define(eq=False)
class Promise:
    """A reservation.

    Attributes:
        entity: The gang; of a bundle, the group that stands in the queue for all.
        key: Its key.
        since: When it was made.
        starts_at: When the gang can start; infinite where nobody knows.
        deadline: When it is looked at again at the latest.
        ends: When who holds a node is expected to leave it; of whom nobody knows, nothing.
    """

    entity: QueuedEntity
    key: GroupKey
    since: float
    starts_at: float
    deadline: float
    ends: dict[PodUID, float]


@final
@define(eq=False)
class Reserving:
    """The memory of backfill; empty where it is off.

    Attributes:
        policy: For whom room is reserved; None for nobody.
        asking: The gangs that ask for a reservation.
        lapses: How often nodes were drained for one of them in vain.
        hopeless: Those that would not fit on the empty cluster, with ``Nodes.altered`` as of then.
        promise: The reservation; None for none.
        failed: The shapes that failed with all room free, and at which step.
        gained: Whether there is more room since the gang was last looked at.
        is_contested: Whether one of a higher priority may ask.
        is_stale: Whether a fact may have moved the reservation.
        is_weary: Whether nodes were drained in vain, and nothing has come of it since.
        is_settled: Whether nobody who asks can be helped, as far as is known.
        settled_until: Until when, at most.
        altered: ``Nodes.altered`` when the promise was made.
        is_free: Whether the entity whose turn it is need not heed the reservation.
    """

    policy: Backfill | None = None
    asking: dict[GroupKey, None] = field(factory=dict[GroupKey, None])
    lapses: dict[GroupKey, int] = field(factory=dict[GroupKey, int])
    hopeless: dict[GroupKey, int] = field(factory=dict[GroupKey, int])
    promise: Promise | None = None
    failed: dict[Hashable, int] = field(factory=dict[Hashable, int])
    gained: bool = False
    is_contested: bool = False
    is_stale: bool = False
    is_weary: bool = False
    is_settled: bool = True
    settled_until: float = math.inf
    altered: int = 0
    is_free: bool = False

    def __len__(self) -> int:
        """Return how many things are remembered."""
        return (
            len(self.asking)
            + len(self.lapses)
            + len(self.hopeless)
            + len(self.failed)
            + (self.promise is not None)
        )

    def fell(
        self, entity: QueuedEntity, shape: Hashable, step: int, *, for_want_of_room: bool
    ) -> None:
        """Take note that an entity failed. O(1)."""
        if self.policy is None:
            return
        if self.is_free and step >= 0:
            self.failed[shape] = step
        group = entity.group
        if group is None:
            return
        if not for_want_of_room:
            self.forget(group.key)
        elif not group.was_scheduled:
            self.asking[group.key] = None
            self.is_settled = False
            self.is_contested |= self._outranks(entity)

    def news_of(self, entity: QueuedEntity) -> None:
        """Take note of a fact about an entity. O(1)."""
        if self.policy is None or entity.group is None:
            return
        entity.prospect = None
        key, promise = entity.group.key, self.promise
        if self.hopeless.pop(key, None) is not None:
            self.is_settled = False
        if promise is not None and promise.entity.group is not None:
            spec = promise.entity.group.spec
            self.is_stale |= promise.entity is entity or (spec is not None and key in spec.bundle)
            self.is_contested |= key in self.asking and self._outranks(entity)

    def _outranks(self, entity: QueuedEntity) -> bool:
        promise = self.promise
        return promise is not None and entity.priority > promise.entity.priority

    def news_of_room(self, since: int | None, disproved: Hashable) -> None:
        """Take note that nodes have more room; see ``_wakeups.gain``. O(shapes)."""
        if self.policy is None:
            return
        self.gained = True
        if since is None:
            self.failed.clear()
            self.is_weary = self.is_settled = False
            return
        for shape in [s for s, at in self.failed.items() if at >= since and s != disproved]:
            del self.failed[shape]

    def forget(self, key: GroupKey) -> None:
        """Take a gang as one that does not ask. O(1)."""
        self.asking.pop(key, None)
        self.lapses.pop(key, None)
        self.hopeless.pop(key, None)
        if self.promise is not None and self.promise.key == key:
            self.is_stale = True
