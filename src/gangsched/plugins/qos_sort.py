"""Order the queue by quality-of-service class among equal priorities.

The comparator of the published plugin answers "before" both ways for two Guaranteed pods. The
order here is strict: ties are broken by the time of enqueueing, then by the order of arrival.
"""

from __future__ import annotations

from typing import final

from attrs import frozen

from gangsched.protocols import EntityView, QueueSortKey

__all__ = ["QOSSort"]


@final
@frozen
class QOSSort:
    """Higher priority first; then Guaranteed, Burstable, BestEffort; then by time.

    The class of a group is that of its first pending member at the time of enqueueing.
    """

    @property
    def name(self) -> str:
        """``QOSSort``."""
        return "QOSSort"

    def queue_sort(self, entity: EntityView) -> QueueSortKey:
        """Return the sort key: priority, class, time of enqueueing, order of arrival."""
        return (-entity.priority, int(entity.pod.qos_class), entity.queued_at, entity.seq)
