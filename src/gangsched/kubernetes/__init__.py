"""The adapter to a Kubernetes API server.

So far it has the pure half: the events of a watch as events of the scheduler, and decisions as
bodies of requests. It needs no client and no cluster.
"""

from __future__ import annotations

from gangsched.kubernetes.convert import (
    DEFAULT_SCHEDULERS,
    Notification,
    binding,
    deletion,
    read_event,
    read_notification,
    unschedulable_condition,
)

__all__ = [
    "DEFAULT_SCHEDULERS",
    "Notification",
    "binding",
    "deletion",
    "read_event",
    "read_notification",
    "unschedulable_condition",
]
