"""Bounds on the priority and the expected run time of the entities that wait in one queue.

Theory of operation. With backfill, an entity may run beside a reservation only if it ends in time
or has a higher priority. Hundreds of entities may wait in a queue, and most of the time none of
them may run. So the queue keeps the shortest run time and the highest priority of all of them. An
entity is *unread* until its run time is asked for, and again after an event about it. An entity
that leaves changes no bound: bounds that have become too wide are narrowed by ``renew``.

Invariants (checked by ``_check``):
  I1  each entity that waits is unread, or its expected run is within the bounds;
  I2  an unread entity waits.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import final

from gangsched._core._entity import QueuedEntity
from gangsched.errors import InternalError

__all__ = ["RunBounds"]


@final
class RunBounds:
    """Bounds on the expected runs of some entities. Each call is O(1), if not stated otherwise.

    Attributes:
        unread: The entities whose expected run is not within the bounds yet, by number.
        shortest: No other entity has a shorter expected run, in seconds; infinite without any.
        highest: No other entity has a higher priority; infinitely low without any.
    """

    __slots__ = ("highest", "shortest", "unread")

    def __init__(self) -> None:
        self.unread: dict[int, QueuedEntity] = {}
        self.shortest: float = math.inf
        self.highest: float = -math.inf

    def add(self, entity: QueuedEntity) -> None:
        """Note an entity that waits from now on, or that has changed."""
        self.unread[entity.seq] = entity

    def discard(self, entity: QueuedEntity) -> None:
        """Note an entity that waits no more."""
        self.unread.pop(entity.seq, None)

    def read(self, runs: Iterable[tuple[int, float]]) -> None:
        """Widen the bounds by the expected runs of all unread entities. O(unread entities)."""
        for priority, seconds in runs:
            self.shortest = min(self.shortest, seconds)
            self.highest = max(self.highest, priority)
        self.unread.clear()

    def renew(self, entities: Iterable[QueuedEntity]) -> None:
        """Narrow the bounds to the entities that wait, none of which is unread. O(entities)."""
        self.shortest, self.highest = math.inf, -math.inf
        self.read([each.expected_run for each in entities if each.expected_run is not None])

    def _check(self, entities: Collection[QueuedEntity]) -> None:
        waiting = {entity.seq: entity for entity in entities}
        if not self.unread.keys() <= waiting.keys():
            raise InternalError(f"of {list(self.unread)} some are unread and do not wait")
        for seq, entity in waiting.items():
            if seq in self.unread:
                continue
            run = entity.expected_run
            if run is None or run[0] > self.highest or run[1] < self.shortest:
                bounds = f"{self.highest} and {self.shortest} s"
                raise InternalError(f"entity {seq} with {run} is not within {bounds}")
