"""Spares: room on nodes for members that running groups may lose."""

from __future__ import annotations

from typing import final

from gangsched.core.nodes.hold import Hold
from gangsched.core.records.gang import GangRecord
from gangsched.model import GroupKey
from gangsched.resources import Resources

__all__ = ["Spares"]


@final
class Spares:
    """The room that is kept for groups.

    Attributes:
        known: By group the holds, each with what one pod requests; a group without any is left out.
    """

    __slots__ = ("known",)

    def __init__(self) -> None:
        self.known: dict[GroupKey, dict[Hold, Resources]] = {}

    def of(self, gang: GangRecord) -> list[Hold]:
        """Return the holds of a gang. O(groups)."""
        if not self.known:
            return []
        return [hold for key in gang.infos for hold in self.known.get(key, ())]
