"""The in-tree queue order: priority, then time of enqueueing."""

from __future__ import annotations

from typing import final

from attrs import frozen

from gangsched.protocols import EntityView, Rank

__all__ = ["PrioritySort"]


@final
@frozen
class PrioritySort:
    """Higher priority first; among equals, who came into the queue first."""

    @property
    def name(self) -> str:
        """``PrioritySort``."""
        return "PrioritySort"

    def queue_sort(self, entity: EntityView) -> Rank:
        """Return the entity's place; ties fall to the order of arrival."""
        return (-entity.priority, entity.queued_at, 0, entity.seq, 0)
