"""Order the queue as kube-scheduler does: by priority, then by the time of enqueueing."""

from __future__ import annotations

from typing import final

from attrs import frozen

from gangsched.protocols import EntityView, QueueSortKey

__all__ = ["PrioritySort"]


@final
@frozen
class PrioritySort:
    """Higher priority first; among equal priorities, the entity that was enqueued first."""

    @property
    def name(self) -> str:
        """``PrioritySort``."""
        return "PrioritySort"

    def queue_sort(self, entity: EntityView) -> QueueSortKey:
        """Return the sort key: priority, time of enqueueing, order of arrival."""
        return (-entity.priority, entity.queued_at, entity.seq)
