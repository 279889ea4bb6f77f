"""Queue order by quality-of-service class among equal priorities.

The published comparator says "before" both ways for two Guaranteed pods. This order is strict:
ties fall to the time of enqueueing, then to the order of arrival.
"""

from __future__ import annotations

from typing import final

from attrs import frozen

from gangsched.protocols import EntityView, Rank

__all__ = ["QOSSort"]


@final
@frozen
class QOSSort:
    """Higher priority first; among equals Guaranteed, Burstable, BestEffort; then by time.

    Of a group, the class of its first pending member counts when it is enqueued.
    """

    @property
    def name(self) -> str:
        """``QOSSort``."""
        return "QOSSort"

    def queue_sort(self, entity: EntityView) -> Rank:
        """Return the entity's place."""
        # the class goes before the time, and both after the priority: a place has five parts,
        # of which the first two are priority and time, so the two are folded into one number
        rank = -entity.priority * 4 + int(entity.pod.qos_class)
        return (rank, entity.queued_at, 0, entity.seq, 0)
