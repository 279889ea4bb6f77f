"""Spares: room on nodes for members that running groups may lose."""

from __future__ import annotations

from typing import final

from gangsched.core.nodes.hold import Hold
from gangsched.core.records.gang import GangRecord
from gangsched.model import GroupKey
from gangsched.resources import Resources

__all__ = ["Spare", "Spares"]


@final
class Spare:
    """Room for one pod.

    Attributes:
        hold: The room.
        requests: What the pod would request.
        is_charged: Whether the quotas of the group are charged for it.
    """

    __slots__ = ("hold", "is_charged", "requests")

    def __init__(self, hold: Hold, requests: Resources) -> None:
        self.hold: Hold = hold
        self.requests: Resources = requests
        self.is_charged: bool = False


@final
class Spares:
    """The room that is kept for groups.

    Attributes:
        known: The room by group; a group without any is left out.
    """

    __slots__ = ("known",)

    def __init__(self) -> None:
        self.known: dict[GroupKey, list[Spare]] = {}

    def of(self, gang: GangRecord) -> list[Spare]:
        """Return the room of a gang. O(groups)."""
        if not self.known:
            return []
        return [spare for key in gang.infos for spare in self.known.get(key, ())]
