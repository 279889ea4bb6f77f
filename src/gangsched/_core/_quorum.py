"""The gang rule, as arithmetic.

Rules:
  R1  counts in, an outcome out; nothing else is known here;
  R2  the branches are exhaustive and exclusive for every count of at least 0 and every minimum
      of at least 1: there is a quorum, or there can still be one, or there cannot;
  R3  which members count for a quorum is the match policy's to say, here and nowhere else.

Source: the three branches of in-tree Kubernetes' PlacementFeasible (KEP-4671); the match policies
are Koordinator's.
"""

from __future__ import annotations

import enum
from typing import NoReturn

from gangsched.errors import InvalidValueError
from gangsched.outcomes import SUCCESS, Outcome, Success, Unschedulable, Wait
from gangsched.protocols import GroupView

__all__ = ["MatchPolicy", "complete", "counted", "decide", "members_needed"]


class MatchPolicy(enum.Enum):
    """Which members count for the quorum of a group, once some of it run."""

    ONCE_SATISFIED = "once_satisfied"
    """All that hold a node; once the group was let go, later members go one by one, while one of
    its members is left that holds a node or has finished."""
    WAITING_AND_RUNNING = "waiting_and_running"
    """All that hold a node, each time: a member that takes another's place may go when enough of
    the others still run."""
    ONLY_WAITING = "only_waiting"
    """Those that wait on permit, each time: who runs already does not count, so a whole quorum
    must come anew."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise InvalidValueError("match_policy", value, "one of " + ", ".join(p.value for p in cls))


def counted(group: GroupView, policy: MatchPolicy) -> int:
    """Return how many members that hold a node count for the quorum. O(1)."""
    return group.waiting if policy is MatchPolicy.ONLY_WAITING else group.scheduled


def members_needed(group: GroupView, policy: MatchPolicy) -> int | None:
    """Return how many more members must hold a node for the group to be let go. O(1).

    Returns:
        0 or less with a quorum; None where members go one by one: nobody says how many the group
        needs, or it was let go before and the policy asks no more.
    """
    if group.min_available is None:
        return None
    if policy is MatchPolicy.ONCE_SATISFIED and group.was_scheduled:
        return None
    return group.min_available - counted(group, policy)


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
