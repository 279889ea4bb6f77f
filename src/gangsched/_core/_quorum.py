"""The gang rule as arithmetic: is there a quorum, can there still be one, or not?

Theory of operation. A quorum is at least ``min_available`` members that hold a node, and of each
role at least its minimum. A member of a role with a minimum counts twice: for its role and for the
total. A member without such a role counts for the total only. The match policy says which members
count.

Members that have succeeded have done their part. They count under every match policy if the other
members are too few to be a quorum: a recreated member need not wait for members that are done. If
the others suffice, they are a new gang, and the succeeded members do not count. Members that have
failed never count. So a gang of which all members failed needs a whole quorum again.

Given the members that hold a node (*scheduled*) and those that may still get one in this attempt
(*remaining*), there are three cases:

- scheduled >= minimum: ``Success``;
- scheduled + remaining >= minimum: ``Wait``;
- otherwise: ``Unschedulable``.

Rules:
  R1  functions take counts and return an outcome; they depend on nothing else;
  R2  for all counts >= 0 and minima >= 1 exactly one of the three cases holds;
  R3  only this module decides which members count for a quorum.

Source: KEP-34 for succeeded members; the three branches of PlacementFeasible in kube-scheduler
(KEP-4671); the match policies are Koordinator's.
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
    "brings_nearer",
    "complete",
    "counted",
    "decide",
    "lacking_roles",
    "lacks_members",
    "members_needed",
    "missing",
    "roles_needed",
    "shares",
]


class MatchPolicy(enum.Enum):
    """Which members count for the quorum of a group after its first release."""

    ONCE_SATISFIED = "once_satisfied"
    """All members with a node. After the first release, later members are released one by one,
    as long as a member holds a node."""
    WAITING_AND_RUNNING = "waiting_and_running"
    """All members with a node, for every release: a replacement of a member is released if enough
    of the others still run."""
    ONLY_WAITING = "only_waiting"
    """The members that wait on permit, for every release: running members do not count, so that
    each release needs a full quorum."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        refuse_choice(cls, "match_policy", value)


@final
@frozen
class Share:
    """The member counts of one role with a minimum.

    Attributes:
        role: The role.
        least: The minimum of the role.
        scheduled: The number of its members that count; see ``counted``.
        unscheduled: The number of its members without a node.
        untried: The number of unscheduled members not tried in the current attempt.
    """

    role: str
    least: int
    scheduled: int
    unscheduled: int = 0
    untried: int = 0


def counted(group: GroupView | RoleView, policy: MatchPolicy, least: int) -> int:
    """Return the number of members that count for a minimum, of a group or of a role. O(1)."""
    held = group.waiting if policy is MatchPolicy.ONLY_WAITING else group.scheduled
    if held >= least or held + group.unscheduled >= least:
        return held
    return held + group.succeeded


def shares(group: GroupView, policy: MatchPolicy) -> list[Share]:
    """Return the counts of each role with a minimum. O(roles)."""
    found: list[Share] = []
    for role, least in group.roles.items():
        view = group.role(role)
        found.append(
            Share(role, least, counted(view, policy, least), view.unscheduled, view.untried)
        )
    return found


def roles_needed(group: GroupView, policy: MatchPolicy) -> dict[str, int]:
    """Return the number of members that each role lacks; see ``GangExtensions``. O(roles)."""
    if group.min_available is None:
        return {}
    if policy is MatchPolicy.ONCE_SATISFIED and group.was_scheduled:
        return {}
    needed = {share.role: share.least - share.scheduled for share in shares(group, policy)}
    return {"": group.min_available - counted(group, policy, group.min_available), **needed}


def members_needed(group: GroupView, policy: MatchPolicy) -> int | None:
    """Return the number of members that the quorum of a group lacks. O(roles).

    Returns:
        The number; 0 or less with a quorum. None if members are released one by one: the group
        has no minimum, or its first release satisfied the policy once and for all.
    """
    minimum = group.min_available
    if minimum is None or (policy is MatchPolicy.ONCE_SATISFIED and group.was_scheduled):
        return None
    missing = minimum - counted(group, policy, minimum)
    if not group.roles:
        return missing
    lacking = sum(max(share.least - share.scheduled, 0) for share in shares(group, policy))
    return max(missing, lacking)


def missing(group: GroupView) -> int:
    """Return how many members with a node a group lacks; succeeded ones count. O(roles)."""
    return max(members_needed(group, MatchPolicy.WAITING_AND_RUNNING) or 0, 0)


def lacks_members(group: GroupView) -> bool:
    """Return whether fewer members than the minimum hold a node; succeeded ones count. O(roles)."""
    return missing(group) > 0


def brings_nearer(group: GroupView, role: str | None) -> bool:
    """Return whether one more member brings a group nearer to its minimum. O(roles).

    False for an elastic member, beyond the minimum of the group and of its role. True if the group
    has no minimum.

    Args:
        group: The group.
        role: The role of the member; None for a member without one.
    """
    needed = members_needed(group, MatchPolicy.WAITING_AND_RUNNING)
    if needed is None:
        return True
    lacking = lacking_roles(group)
    return role in lacking or needed > sum(lacking.values())


def lacking_roles(group: GroupView) -> dict[str, int]:
    """Return how many members with a node each role lacks, if it lacks any. O(roles)."""
    policy = MatchPolicy.WAITING_AND_RUNNING
    return {
        each.role: each.least - each.scheduled
        for each in shares(group, policy)
        if each.scheduled < each.least
    }


def decide(
    *,
    min_available: int,
    scheduled: int,
    remaining: int,
    roles: Collection[tuple[str, int, int, int]] = (),
    timeout: float = 0.0,
) -> Outcome:
    """Decide about the members of a group that hold a node.

    Args:
        min_available: The minimum.
        scheduled: The number of members that hold a node.
        remaining: The number of members that may still get a node in this attempt.
        roles: Name, and the same three numbers, of each role with a minimum.
        timeout: The timeout of ``Wait`` in seconds.

    Returns:
        ``Success`` with a quorum, ``Wait`` if there can still be one, else ``Unschedulable``.
    """
    if not roles and scheduled + remaining >= min_available:  # a shortcut for the common case
        return SUCCESS if scheduled >= min_available else Wait(timeout)
    parts = [("members", min_available, scheduled, remaining), *roles]
    if all(placed >= least for _role, least, placed, _more in parts):
        return SUCCESS
    short = [part for part in parts if part[2] + part[3] < part[1]]
    if not short:
        return Wait(timeout)
    role, least, placed, more = short[0]
    return Unschedulable(f"{placed} of {least} {role} have a node, at most {more} more can get one")


def complete(
    *, min_available: int, present: int, roles: Collection[tuple[str, int, int]] = ()
) -> Success | Unschedulable:
    """Decide whether enough members exist for a quorum.

    Args:
        min_available: The minimum.
        present: The number of members that exist and count.
        roles: Name, minimum and existing members of each role with a minimum.
    """
    if not roles and present >= min_available:
        return SUCCESS
    short = [each for each in roles if each[2] < each[1]] if roles else []
    if present >= min_available and not short:
        return SUCCESS
    return Unschedulable(f"waiting for {absence(min_available, present, short)}", resolvable=False)


def absence(min_available: int, present: int, roles: Iterable[tuple[str, int, int]]) -> str:
    """Describe the missing members: ``1 more ps: 0 of 1 exist``.

    Args:
        min_available: The minimum.
        present: The number of members that exist and count.
        roles: Name, minimum and existing members of each role with too few members.
    """
    members = "member" if min_available - present == 1 else "members"
    parts = [(members, min_available, present)] if present < min_available else []
    parts += roles
    return "; ".join([f"{n - some} more {role}: {some} of {n} exist" for role, n, some in parts])
