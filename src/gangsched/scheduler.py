"""The four calls: events in, decisions, effects out."""

from __future__ import annotations

from gangsched.core.reading.queue_view import QueueEntry, SchedulingQueue
from gangsched.core.records.gang import QueuePlace
from gangsched.core.scheduler import Scheduler

__all__ = ["QueueEntry", "QueuePlace", "Scheduler", "SchedulingQueue"]
