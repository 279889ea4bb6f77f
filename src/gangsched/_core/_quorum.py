"""The gang rule, as arithmetic.

Rules:
  R1  counts in, an outcome out; nothing else is known here;
  R2  the branches are exhaustive and exclusive for every count of at least 0 and every minimum
      of at least 1: there is a quorum, or there can still be one, or there cannot;
  R3  which members count for a quorum is the match policy's to say, here and nowhere else;
  R4  a quorum has enough members in all, and of each role that has a minimum: who is needed for
      a role counts for the whole too, and who is of no such role for the whole only.

Source: the three branches of in-tree Kubernetes' PlacementFeasible (KEP-4671); the match policies
are Koordinator's.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable
from typing import NoReturn, final

from attrs import frozen

from gangsched._fields import refuse_choice
from gangsched.outcomes import SUCCESS, Outcome, Success, Unschedulable, Wait
from gangsched.protocols import GroupView, RoleView

__all__ = [
    "MatchPolicy",
    "Share",
    "absence",
    "complete",
    "counted",
    "decide",
    "members_needed",
    "roles_needed",
    "shares",
]


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
        refuse_choice(cls, "match_policy", value)


@final
@frozen
class Share:
    """What a quorum must have of one role.

    Attributes:
        role: The role.
        least: How many members of it.
        scheduled: How many of them hold a node, and count.
        unscheduled: How many of them hold none.
        untried: How many of these have their turn in the current attempt still to come.
    """

    role: str
    least: int
    scheduled: int
    unscheduled: int = 0
    untried: int = 0


def counted(group: GroupView | RoleView, policy: MatchPolicy) -> int:
    """Return how many members that hold a node count for the quorum. O(1)."""
    return group.waiting if policy is MatchPolicy.ONLY_WAITING else group.scheduled


def shares(group: GroupView, policy: MatchPolicy) -> list[Share]:
    """Return what the quorum must have of each role that has a minimum. O(roles)."""
    found: list[Share] = []
    for role, least in group.roles.items():
        view = group.role(role)
        found.append(Share(role, least, counted(view, policy), view.unscheduled, view.untried))
    return found


def roles_needed(group: GroupView, policy: MatchPolicy) -> dict[str, int]:
    """Return how many more members of each role must hold a node; see ``RoleRule``. O(roles)."""
    if group.min_available is None:
        return {}
    if policy is MatchPolicy.ONCE_SATISFIED and group.was_scheduled:
        return {}
    needed = {share.role: share.least - share.scheduled for share in shares(group, policy)}
    return {"": group.min_available - counted(group, policy), **needed}


def members_needed(group: GroupView, policy: MatchPolicy) -> int | None:
    """Return how many more members must hold a node for the group to be let go. O(roles).

    Returns:
        0 or less with a quorum; None where members go one by one: nobody says how many the group
        needs, or it was let go before and the policy asks no more.
    """
    if group.min_available is None:
        return None
    if policy is MatchPolicy.ONCE_SATISFIED and group.was_scheduled:
        return None
    missing = group.min_available - counted(group, policy)
    if not group.roles:
        return missing
    lacking = sum(max(share.least - share.scheduled, 0) for share in shares(group, policy))
    return max(missing, lacking)


def decide(
    *,
    min_available: int,
    scheduled: int,
    remaining: int,
    roles: Collection[tuple[str, int, int, int]] = (),
    timeout: float = 0.0,
) -> Outcome:
    """Decide about members that hold a node.

    Args:
        min_available: The quorum.
        scheduled: Members that hold a node.
        remaining: Members that may still get one in this attempt.
        roles: The same three numbers for each role that has a minimum, after its name.
        timeout: For how many seconds to wait for them.

    Returns:
        ``Success`` with a quorum, ``Wait`` while there can still be one, else ``Unschedulable``.
    """
    if not roles and scheduled + remaining >= min_available:  # the same, but sooner
        return SUCCESS if scheduled >= min_available else Wait(timeout)
    parts = [("members", min_available, scheduled, remaining), *roles]
    if all(placed >= least for _who, least, placed, _more in parts):
        return SUCCESS
    short = [part for part in parts if part[2] + part[3] < part[1]]
    if not short:
        return Wait(timeout)
    who, least, placed, more = short[0]
    return Unschedulable(f"{placed} of {least} {who} can be placed, and {more} more may be")


def complete(
    *, min_available: int, present: int, roles: Collection[tuple[str, int, int]] = ()
) -> Success | Unschedulable:
    """Decide whether enough members exist for a quorum to be possible at all.

    Args:
        min_available: The quorum.
        present: Members that exist and count.
        roles: Role, minimum and members that exist of each role that has a minimum.
    """
    if not roles and present >= min_available:
        return SUCCESS
    short = [(role, least, some) for role, least, some in roles if some < least]
    if present >= min_available and not short:
        return SUCCESS
    return Unschedulable(f"waiting for {absence(min_available, present, short)}", resolvable=False)


def absence(min_available: int, present: int, roles: Iterable[tuple[str, int, int]]) -> str:
    """Return in words who does not exist: ``1 more ps: 0 of 1 exist``.

    Args:
        min_available: The quorum.
        present: Members that exist and count.
        roles: Role, minimum and members that exist, of each role of which too few do.
    """
    members = "member" if min_available - present == 1 else "members"
    parts = [(members, min_available, present)] if present < min_available else []
    parts += roles
    return "; ".join(f"{n - some} more {who}: {some} of {n} exist" for who, n, some in parts)
