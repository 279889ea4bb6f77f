"""The moves of the two machines that are drawn: a member's states, and the places of the queue.

Rules:
  R1  every move that happens is in the table, and every move in the table happens: a test
      records them over histories of clusters;
  R2  a picture shows those of the table that make a life; the page lists all.
"""

from __future__ import annotations

from typing import Final

__all__ = ["MEMBERS", "QUEUE"]

UNKNOWN = "unknown"
NOWHERE = "nowhere"

_GONE = "is deleted"
_ENDING = "its end is asked for"
_FINISHED = "is seen to have finished"
_CONTRADICTS = "comes to contradict its group, or its group it"
_TAKEN = "somebody else binds it"

MEMBERS: Final[dict[tuple[str, str], str]] = {
    (UNKNOWN, "gated"): "comes, with scheduling gates",
    (UNKNOWN, "unscheduled"): "comes",
    (UNKNOWN, "refused"): "comes, and contradicts its group or itself",
    (UNKNOWN, "assigned"): "is found bound, as after a restart",
    (UNKNOWN, "terminating"): "is found ending",
    (UNKNOWN, "succeeded"): "is found finished",
    (UNKNOWN, "failed"): "is found finished",
    ("gated", "unscheduled"): "its last gate is lifted",
    ("gated", "refused"): _CONTRADICTS,
    ("gated", "terminating"): _ENDING,
    ("gated", "succeeded"): _FINISHED,
    ("gated", "failed"): _FINISHED,
    ("gated", UNKNOWN): _GONE,
    ("refused", "unscheduled"): "contradicts no more",
    ("refused", "gated"): "contradicts no more, and has scheduling gates",
    ("refused", "assigned"): _TAKEN,
    ("refused", "terminating"): f"contradicts no more, and {_ENDING}",
    ("refused", "succeeded"): f"contradicts no more, and {_FINISHED}",
    ("refused", "failed"): f"contradicts no more, and {_FINISHED}",
    ("refused", UNKNOWN): _GONE,
    ("unscheduled", "waiting"): "is given a node",
    ("unscheduled", "refused"): _CONTRADICTS,
    ("unscheduled", "assigned"): _TAKEN,
    ("unscheduled", "terminating"): _ENDING,
    ("unscheduled", "succeeded"): _FINISHED,
    ("unscheduled", "failed"): _FINISHED,
    ("unscheduled", UNKNOWN): _GONE,
    ("waiting", "binding"): "there is a quorum: it is let go",
    ("waiting", "unscheduled"): "the attempt falls",
    ("waiting", "terminating"): "its end is asked for, or it is deleted",
    ("binding", "assigned"): "`Bound` is told",
    ("binding", "unscheduled"): "`BindFailed` is told",
    ("binding", "terminating"): "its end is asked for, or it is deleted",
    ("binding", "succeeded"): _FINISHED,
    ("binding", "failed"): _FINISHED,
    ("assigned", "terminating"): _ENDING,
    ("assigned", "succeeded"): _FINISHED,
    ("assigned", "failed"): _FINISHED,
    ("assigned", UNKNOWN): _GONE,
    ("terminating", "refused"): _CONTRADICTS,
    ("terminating", "succeeded"): _FINISHED,
    ("terminating", "failed"): _FINISHED,
    ("terminating", UNKNOWN): "is gone",
    ("succeeded", "refused"): _CONTRADICTS,
    ("succeeded", UNKNOWN): _GONE,
    ("failed", "refused"): _CONTRADICTS,
    ("failed", UNKNOWN): _GONE,
}
"""From state to state; ``unknown`` is before a pod is heard of, and after it is gone."""

_INCOMPLETE = "too few of its members are left, or it may not start yet"
_NOBODY = "nobody of it is left to be placed"

QUEUE: Final[dict[tuple[str, str], str]] = {
    (NOWHERE, "active"): "somebody of it is to be placed, and it can be tried",
    (NOWHERE, "gated"): "somebody of it is to be placed, and it may not be tried yet",
    (NOWHERE, "backoff"): "somebody of it is to be placed, while it rests",
    (NOWHERE, "line"): "a bind failed, of the last that was to be placed",
    ("gated", "active"): "it is complete, and may be tried",
    ("gated", "backoff"): "it is complete, and still rests",
    ("gated", NOWHERE): _NOBODY,
    ("active", "line"): "its try failed, or a more urgent one of its shape leads",
    ("active", "gated"): _INCOMPLETE,
    ("active", NOWHERE): "its members are placed, or are gone",
    ("backoff", "active"): "its rest is over",
    ("backoff", "line"): "its rest is over, and its shape is tried by another, or is blocked",
    ("backoff", "gated"): _INCOMPLETE,
    ("backoff", NOWHERE): _NOBODY,
    ("line", "active"): "a fact opened its line, or who led it had its turn",
    ("line", "backoff"): "its line is open, and it rests",
    ("line", "gated"): _INCOMPLETE,
    ("line", NOWHERE): _NOBODY,
}
"""From place to place; ``gated`` and ``line`` are the two kinds of ``unschedulable``."""
