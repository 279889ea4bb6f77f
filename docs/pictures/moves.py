"""The moves of the two machines that are drawn: a member's states, and the places of the queue.

Rules:
  R1  every move that happens is in the table, and every move in the table happens: a test
      records the moves in histories of clusters;
  R2  a picture shows the moves of an ordinary life; the page lists all of them.
"""

from __future__ import annotations

from typing import Final

__all__ = ["MEMBERS", "QUEUE"]

UNKNOWN = "unknown"
NOWHERE = "nowhere"

_GONE = "is deleted"
_ENDING = "its deletion is requested"
_FINISHED = "has finished"
_CONTRADICTS = "changes, or its group changes, so that they contradict each other"
_TAKEN = "another scheduler binds it"

MEMBERS: Final[dict[tuple[str, str], str]] = {
    (UNKNOWN, "gated"): "is added, with scheduling gates",
    (UNKNOWN, "unscheduled"): "is added",
    (UNKNOWN, "refused"): "is added, and contradicts its group or itself",
    (UNKNOWN, "assigned"): "is listed as bound, as after a restart",
    (UNKNOWN, "terminating"): "is listed as terminating",
    (UNKNOWN, "succeeded"): "is listed as finished",
    (UNKNOWN, "ended"): "is listed as finished, and never ran to its end on a node",
    (UNKNOWN, "failed"): "is listed as finished",
    ("gated", "unscheduled"): "its last gate is removed",
    ("gated", "refused"): _CONTRADICTS,
    ("gated", "terminating"): _ENDING,
    ("gated", "ended"): _FINISHED,
    ("gated", "failed"): _FINISHED,
    ("gated", UNKNOWN): _GONE,
    ("refused", "unscheduled"): "no longer contradicts its group",
    ("refused", "gated"): "no longer contradicts its group, and has scheduling gates",
    ("refused", "assigned"): _TAKEN,
    ("refused", "terminating"): f"no longer contradicts its group, and {_ENDING}",
    ("refused", "ended"): f"no longer contradicts its group, and {_FINISHED}",
    ("refused", "failed"): f"no longer contradicts its group, and {_FINISHED}",
    ("refused", UNKNOWN): _GONE,
    ("unscheduled", "waiting"): "is given a node",
    ("unscheduled", "refused"): _CONTRADICTS,
    ("unscheduled", "assigned"): _TAKEN,
    ("unscheduled", "terminating"): _ENDING,
    ("unscheduled", "ended"): _FINISHED,
    ("unscheduled", "failed"): _FINISHED,
    ("unscheduled", UNKNOWN): _GONE,
    ("waiting", "binding"): "there is a quorum: it is released",
    ("waiting", "unscheduled"): "the attempt is rejected",
    ("waiting", "terminating"): "its deletion is requested, or it is deleted",
    ("binding", "assigned"): "`Bound` arrives",
    ("binding", "unscheduled"): "`BindFailed` arrives",
    ("binding", "terminating"): "its deletion is requested, or it is deleted",
    ("binding", "ended"): _FINISHED,
    ("binding", "failed"): _FINISHED,
    ("assigned", "terminating"): _ENDING,
    ("assigned", "succeeded"): _FINISHED,
    ("assigned", "failed"): _FINISHED,
    ("assigned", UNKNOWN): _GONE,
    ("terminating", "unscheduled"): "its eviction was due, and `BindFailed` arrives",
    ("terminating", "refused"): _CONTRADICTS,
    ("terminating", "ended"): _FINISHED,
    ("terminating", "failed"): _FINISHED,
    ("terminating", UNKNOWN): "is gone",
    ("succeeded", UNKNOWN): _GONE,
    ("ended", "refused"): _CONTRADICTS,
    ("ended", UNKNOWN): _GONE,
    ("failed", "refused"): _CONTRADICTS,
    ("failed", UNKNOWN): _GONE,
}
"""From state to state; ``unknown`` is before a pod is known, and after it is gone."""

_INCOMPLETE = "too few of its members are left, or it is not admitted yet"
_NO_PENDING = "it has no pending pod any more"

QUEUE: Final[dict[tuple[str, str], str]] = {
    (NOWHERE, "active"): "it gets a pending pod, and is complete",
    (NOWHERE, "gated"): "it gets a pending pod, and is incomplete or not admitted",
    (NOWHERE, "backoff"): "it gets a pending pod while it is in backoff",
    (NOWHERE, "line"): "the bind of its last pod failed",
    ("gated", "active"): "it is complete and admitted",
    ("gated", "backoff"): "it is complete and admitted, and still in backoff",
    ("gated", NOWHERE): _NO_PENDING,
    (
        "active",
        "line",
    ): "its attempt failed, or a more urgent one of its equivalence class is active",
    ("active", "gated"): _INCOMPLETE,
    ("active", NOWHERE): "its members are placed, or are gone",
    ("backoff", "active"): "its backoff is over",
    (
        "backoff",
        "line",
    ): "its backoff is over, and another of its equivalence class is active, or none may be",
    ("backoff", "gated"): _INCOMPLETE,
    ("backoff", NOWHERE): _NO_PENDING,
    ("line", "active"): "an event may help its equivalence class, or the one before it was tried",
    ("line", "backoff"): "an event may help its equivalence class, and it is in backoff",
    ("line", "gated"): _INCOMPLETE,
    ("line", NOWHERE): _NO_PENDING,
}
"""From place to place; ``gated`` and ``line`` are the two kinds of ``unschedulable``.

``line`` is the queue of one equivalence class, of which only the first is tried.
"""
