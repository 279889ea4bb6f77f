"""The minima of the roles of a group that are no copies, as oracles of flat groups read them."""

from __future__ import annotations

from gangsched import PodGroup

__all__ = ["minima"]


def minima(group: PodGroup) -> dict[str, int]:
    """Return the minimum of each role; the group must have no copies."""
    found: dict[str, int] = {}
    for name, role in group.roles.items():
        assert isinstance(role, int), f"role {name} of {group.key} is more than a minimum"
        found[name] = role
    return found
