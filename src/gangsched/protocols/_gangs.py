"""What a plugin declares about whole gangs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from gangsched.model import Resources
from gangsched.protocols._groups import GroupView

__all__ = ["GroupRequests", "GroupWide", "MinimaFirst", "QuorumRule", "RoleRule"]


class QuorumRule(Protocol):
    """Optional for a plugin with ``permit``: how many more members a group needs at once.

    With this method the scheduler sees when an attempt of a group can no longer succeed, and when
    the members of a group are released one by one. Without it the rule is ``once_satisfied``.
    """

    def members_needed(self, group: GroupView) -> int | None:
        """Return how many more members must have a node before *group* is released.

        0 or less if it has its quorum; None if its members are released one by one.
        """
        ...


class RoleRule(Protocol):
    """Optional for a plugin with ``members_needed``: how many more members it needs by role.

    Without this method the rule of the plugin ignores roles, and so ``GroupView.roles``.
    """

    def roles_needed(self, group: GroupView) -> Mapping[str, int]:
        """Return how many more members of each role must have a node before *group* is released.

        The key ``""`` stands for members of any role. A number is 0 or less for a role with enough
        members. The mapping is empty if the members are released one by one. The number of members
        needed at once, ``members_needed``, is the larger of two: the number under ``""``, and the
        sum of what the roles lack.
        """
        ...


class GroupRequests(Protocol):
    """Optional for a plugin with ``permit``: what a group needs of the cluster in total.

    The scheduler attempts the group only while all nodes together have that much free. It
    remembers a failure until they do, and never polls.
    """

    def group_requests(self, group: GroupView) -> Resources:
        """Return what must be free for *group*, counting what its members hold already."""
        ...


class MinimaFirst(Protocol):
    """Optional for a plugin with a quorum rule: whether elastic members wait for minima.

    Then the cycle of a whole gang places no more members than the gang needs. The others are queued
    anew, where ``queue_sort`` puts them. See ``gangsched.coscheduling.Coscheduling``.

    Source: KAI Scheduler and Volcano, which give each gang its minimum before any gang gets more.
    """

    @property
    def minima_first(self) -> bool:
        """Whether a cycle places the minimum only."""
        ...


class GroupWide(Protocol):
    """Optional for a plugin that decides about groups: at which points one answer holds for all.

    If one scheduling cycle is about a whole gang, a point named here is asked about one member, and
    the answer counts for all members. A plugin that reads the pod or the node must not name the
    point.
    """

    @property
    def group_wide(self) -> Collection[str]:
        """Names out of ``pre_filter``, ``reserve`` and ``permit``."""
        ...
