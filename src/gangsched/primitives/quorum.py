"""The gang rule: which members count for a quorum, and what follows from how a group stands.

Theory of operation. A quorum is at least ``min_available`` members that hold a node, and of each
role at least its minimum. A member of a role with a minimum counts twice: for its role and for the
total. A member without such a role counts for the total only. The match policy says which members
count; ``_standing`` compares them with the minima.

Given the members that hold a node (*scheduled*) and those that may still get one in this attempt
(*remaining*), there are three cases:

- scheduled >= minimum: ``Success``;
- scheduled + remaining >= minimum: ``Wait``;
- otherwise: ``Unschedulable``.

Rules:
  R1  functions take counts and return an outcome; they depend on nothing else;
  R2  for all counts >= 0 and minima >= 1 exactly one of the three cases holds.

Source: KEP-34; the three branches of PlacementFeasible in kube-scheduler (KEP-4671); the match
policies are Koordinator's.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NoReturn

from gangsched.outcomes import SUCCESS, Outcome, Success, Unschedulable, Wait
from gangsched.primitives.counters import MemberState
from gangsched.primitives.gang_tree import SubGroup, tree_of
from gangsched.primitives.group_info import PodGroupInfo
from gangsched.primitives.standing import (
    Counts,
    Row,
    Standing,
    alone,
    by_role,
    counted,
    least_needed,
    standing,
)
from gangsched.protocols import GroupView, RoleView
from gangsched.values.fields import refuse_choice

__all__ = [
    "MatchPolicy",
    "absence",
    "brings_nearer",
    "complete",
    "copies_needed",
    "decide",
    "in_all",
    "is_lost",
    "lacks_members",
    "members_needed",
    "missing",
    "roles_needed",
    "stands",
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


def in_all(group: GroupView, policy: MatchPolicy) -> Row:
    """Return how many members of any role count for the minimum of a group. O(1)."""
    held = group.waiting if policy is MatchPolicy.ONLY_WAITING else group.scheduled
    return counted(group.min_available or 0, held, group.unscheduled, group.succeeded)


def stands(group: GroupView, policy: MatchPolicy) -> Standing:
    """Return how a group stands: in total, by the key ``""``, and each role, by name.

    Runtime complexity: O(sub groups).
    """
    if isinstance(group, PodGroupInfo):
        if policy is not MatchPolicy.ONLY_WAITING:
            return group.standing
        return group.stands((MemberState.WAITING,))
    if not group.roles:
        return alone(in_all(group, policy))
    tree = tree_of(group.min_available or 0, group.roles)
    total = _counts(group, policy)
    return standing(tree, by_role(total, lambda role: _counts(group.role(role), policy)))


def _counts(group: GroupView | RoleView, policy: MatchPolicy) -> Counts:
    held = group.waiting if policy is MatchPolicy.ONLY_WAITING else group.scheduled
    return Counts(held, group.unscheduled, group.succeeded)


def _goes_one_by_one(group: GroupView, policy: MatchPolicy) -> bool:
    """Return whether no minimum is known, or the first release satisfied it once and for all."""
    if group.min_available is None:
        return True
    return policy is MatchPolicy.ONCE_SATISFIED and group.was_scheduled


def roles_needed(group: GroupView, policy: MatchPolicy) -> Mapping[str, int]:
    """Return the number of members that each sub group lacks, by its path; see ``GangExtensions``.

    Of copies of a role, the policy holds for each: the release of a copy satisfies
    ``once_satisfied`` as long as a member of it is bound, or its bind is under way.

    Runtime complexity: O(sub groups).
    """
    if not _goes_one_by_one(group, policy):
        return stands(group, policy).lacking
    return copies_needed(group)


def copies_needed(group: GroupView) -> Mapping[str, int]:
    """Return what copies and slices need to start that do not run. O(sub groups)."""
    if not isinstance(group, PodGroupInfo) or not group.has_parts:
        return {}
    found, needed = group.standing.lacking, dict[str, int]()
    for copy in group.tree.copies():
        counts = [group.role(leaf.role) for leaf in copy.leaves if leaf.role is not None]
        if not any(each.scheduled > each.waiting for each in counts):
            needed |= {sub.key: found[sub.key] for sub in copy.sub_groups()}
    return needed


def members_needed(group: GroupView, policy: MatchPolicy) -> int | None:
    """Return the number of members that the quorum of a group lacks. O(sub groups).

    Returns:
        The number; 0 or less with a quorum. None if members are released one by one: the group
        has no minimum, or its first release satisfied the policy once and for all.
    """
    if _goes_one_by_one(group, policy):
        return None
    return stands(group, policy).needed


def missing(group: GroupView) -> int:
    """Return how many members with a node a group lacks; succeeded ones count. O(roles)."""
    return max(members_needed(group, MatchPolicy.WAITING_AND_RUNNING) or 0, 0)


def lacks_members(group: GroupView) -> bool:
    """Return whether fewer members than the minimum hold a node; succeeded ones count. O(roles)."""
    return missing(group) > 0


def brings_nearer(group: GroupView, role: str | None) -> bool:
    """Return whether one more member brings a group nearer to its minimum. O(roles).

    False for an elastic member, beyond the minimum of the group and of its role, and for one of a
    copy that its role does not need. True if the group has no minimum.

    Args:
        group: The group.
        role: The role of the member; None for a member without one.
    """
    if group.min_available is None:
        return True
    found = stands(group, MatchPolicy.WAITING_AND_RUNNING)
    if isinstance(group, PodGroupInfo) and group.has_parts:
        return _is_wanted(group.tree, role, found.lacking)
    lacking = {key: more for key, more in found.lacking.items() if key and more > 0}
    return role in lacking or found.needed > sum(lacking.values())


def _is_wanted(tree: SubGroup, role: str | None, lacking: Mapping[str, int]) -> bool:
    """Return whether a tree lacks members of a role, or more than its sub groups. O(sub groups)."""

    def lacks(sub: SubGroup) -> int:
        return least_needed(sub, lambda each: lacking.get(each.key, 0))

    if lacks(tree) > sum(max(lacks(child), 0) for child in tree.children):
        return lacks(tree) > 0
    path = next((above for leaf, above in tree.paths() if leaf.role == role), ())
    return bool(path) and all(lacks(sub) > 0 for sub in path)


def decide(found: Standing, timeout: float = 0.0) -> Outcome:
    """Decide about the members of a group that hold a node.

    Args:
        found: How it stands, with those that may still get a node in this attempt.
        timeout: The timeout of ``Wait`` in seconds.

    Returns:
        ``Success`` with a quorum, ``Wait`` if there can still be one, else ``Unschedulable``.
    """
    if found.is_met:
        return SUCCESS
    if found.is_complete:
        return Wait(timeout)
    role, row = next((role, row) for role, row in found.rows.items() if row.is_short)
    return Unschedulable(
        f"{row.held} of {row.least} {role or 'members'} have a node, at most"
        f" {row.present - row.held} more can get one"
    )


def is_lost(group: GroupView, found: Standing) -> bool:
    """Return whether an attempt has too few untried members left for a minimum. O(roles)."""
    for role, row in found.rows.items():
        if row.is_of_children:
            continue  # they are tried as a whole
        untried = group.role(role).untried if role else group.untried
        if row.held + untried < row.least:
            return True
    return False


def complete(found: Standing) -> Success | Unschedulable:
    """Decide whether enough members exist for a quorum."""
    if found.is_complete:
        return SUCCESS
    return Unschedulable(f"waiting for {absence(found.rows)}", resolvable=False)


def absence(rows: Mapping[str, Row]) -> str:
    """Describe the missing members: ``1 more ps: 0 of 1 exist``."""
    parts: list[str] = []
    for role, row in rows.items():
        if row.is_short:
            more = row.least - row.present
            name = role or ("member" if more == 1 else "members")
            parts.append(f"{more} more {name}: {row.present} of {row.least} exist")
    return "; ".join(parts)
