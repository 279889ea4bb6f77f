"""The gang rule, as arithmetic.

Rules:
  R1  counts in, an outcome out; nothing else is known here;
  R2  the branches are exhaustive and exclusive for every count of at least 0 and every minimum
      of at least 1: there is a quorum, or there can still be one, or there cannot.

Source: the three branches of in-tree Kubernetes' PlacementFeasible (KEP-4671).
"""

from __future__ import annotations

from gangsched.outcomes import SUCCESS, Outcome, Success, Unschedulable, Wait

__all__ = ["complete", "decide"]


def decide(*, min_available: int, scheduled: int, remaining: int, timeout: float = 0.0) -> Outcome:
    """Decide about members that hold a node.

    Args:
        min_available: The quorum.
        scheduled: Members that hold a node.
        remaining: Members that may still get one in this attempt.
        timeout: For how many seconds to wait for them.

    Returns:
        ``Success`` with a quorum, ``Wait`` while there can still be one, else ``Unschedulable``.
    """
    if scheduled >= min_available:
        return SUCCESS
    if scheduled + remaining >= min_available:
        return Wait(timeout)
    return Unschedulable(
        f"{scheduled} of {min_available} members can be placed, and {remaining} more may be"
    )


def complete(*, min_available: int, present: int) -> Success | Unschedulable:
    """Decide whether enough members exist for a quorum to be possible at all."""
    if present >= min_available:
        return SUCCESS
    return Unschedulable(
        f"waiting for {min_available - present} more members: {present} of {min_available} exist",
        resolvable=False,
    )
