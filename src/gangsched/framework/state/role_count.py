"""RoleCount: how many pods of a group, or of one of its roles, must be placed.

Rules:
  R1  a count without a role is about all pods of the group, those with a role included. So the
      counts of the roles are parts of it, and are not added to it.
"""

from __future__ import annotations

from typing import final

from attrs import frozen

from gangsched.model import GroupKey

__all__ = ["RoleCount"]


@final
@frozen
class RoleCount:
    """How many pods must be placed.

    Attributes:
        group: Their group; None for a regular pod, and where the group makes no difference.
        role: Their role; None for pods of any role.
        count: The number.
    """

    group: GroupKey | None
    role: str | None
    count: int

    def covers(self, group: GroupKey | None, role: str | None) -> bool:
        """Return whether a pod of a group, with a role or without, counts for it. O(1)."""
        return group == self.group and (self.role is None or role == self.role)
