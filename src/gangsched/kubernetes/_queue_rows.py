"""What waits, as rows of ``kubectl gang queue`` and of the scheduler's page ``/queue``."""

from __future__ import annotations

from typing import Any

from gangsched.explain import in_utc
from gangsched.listings import PendingRow

__all__ = ["queue_item"]


def queue_item(row: PendingRow, *, age: float | None = None) -> dict[str, Any]:
    """Return a pod or a group that waits as plain data.

    Args:
        row: The row.
        age: Its age in seconds; None for that of the row, which is that of the scheduler's last
            call.
    """
    return {
        "name": row.name,
        "gang": row.group is not None,
        "place": row.position,
        "priority": row.priority,
        "pods": row.pods,
        "needed": row.needed,
        "age": round(row.age if age is None else age),
        "state": in_utc(row.why),
    }
