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
    ("waiting", "refused"): _CONTRADICTS,
    ("waiting", "assigned"): _TAKEN,
    ("waiting", "terminating"): "its deletion is requested, or it is deleted",
    ("waiting", "ended"): _FINISHED,
    ("waiting", "failed"): _FINISHED,
    ("binding", "assigned"): "`Bound` arrives",
    ("binding", "unscheduled"): "`BindFailed` arrives",
    ("binding", "refused"): "has finished, and contradicts its group by then",
    ("binding", "terminating"): "its deletion is requested, or it is deleted",
    ("binding", "ended"): _FINISHED,
    ("binding", "failed"): _FINISHED,
    ("assigned", "terminating"): _ENDING,
    ("assigned", "succeeded"): _FINISHED,
    ("assigned", "failed"): _FINISHED,
    ("assigned", UNKNOWN): _GONE,
    ("terminating", "unscheduled"): "its eviction was due, and `BindFailed` arrives",
    ("terminating", "ended"): _FINISHED,
    ("terminating", "failed"): _FINISHED,
    ("terminating", UNKNOWN): "is gone",
    ("succeeded", UNKNOWN): _GONE,
    ("ended", UNKNOWN): _GONE,
    ("failed", UNKNOWN): _GONE,
}
"""From state to state; ``unknown`` is before a pod is known, and after it is gone."""

_DENIED = "PreEnqueue refuses it: too few of its members are left, or a quota is exceeded"
_NO_PENDING = "it has no pending pod any more"
_ADMITTED = "PreEnqueue refuses it no longer: it is complete, within its quota"

QUEUE: Final[dict[tuple[str, str], str]] = {
    (NOWHERE, "active"): "it gets a pending pod, and is admitted",
    (NOWHERE, "not admitted"): "it gets a pending pod, and PreEnqueue refuses it",
    (NOWHERE, "backoff"): "it gets a pending pod while it is in backoff, as after a failed bind",
    ("not admitted", "active"): _ADMITTED,
    ("not admitted", "backoff"): "it is admitted, and still in backoff",
    ("not admitted", NOWHERE): _NO_PENDING,
    ("active", "parked"): "it does not fit, or one that asks for the same does not",
    (
        "active",
        "backoff",
    ): "its attempt fails for a reason that no node can help, or at its deadline",
    ("active", "nominated"): "pods are evicted for it, and terminate",
    ("active", "not admitted"): _DENIED,
    ("active", NOWHERE): "its members are placed, or are gone",
    ("backoff", "active"): "its backoff is over",
    ("backoff", "parked"): "its backoff is over, and one that asks for the same does not fit",
    ("backoff", "not admitted"): _DENIED,
    ("backoff", NOWHERE): _NO_PENDING,
    ("parked", "active"): "a node may take more of it, or of the first one that asks for the same",
    ("parked", "backoff"): "its other members lose their nodes, as by a failed bind",
    ("parked", "not admitted"): _DENIED,
    ("parked", NOWHERE): _NO_PENDING,
    ("nominated", "active"): "its victims are gone, or its nomination lapses",
    ("nominated", "parked"): "its nomination lapses, and one that asks for the same does not fit",
    ("nominated", "not admitted"): _DENIED,
    ("nominated", NOWHERE): _NO_PENDING,
}
"""From place to place of the queue, while gangs are not being tried.

Of the parked gangs that ask for the same, only the first is tried.
"""
