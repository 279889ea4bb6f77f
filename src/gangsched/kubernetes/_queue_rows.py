"""What waits, as rows of ``kubectl gang queue`` and of the scheduler's page ``/queue``."""

from __future__ import annotations

from typing import Any

from gangsched.explain import in_utc
from gangsched.listings import PendingRow

__all__ = ["queue_item"]


def queue_item(row: PendingRow) -> dict[str, Any]:
    """Return a pod or a group that waits as plain data."""
    return {
        "name": row.name,
        "gang": row.group is not None,
        "place": row.position,
        "priority": row.priority,
        "pods": row.pods,
        "needed": row.needed,
        "age": round(row.age),
        "state": in_utc(row.why),
    }
