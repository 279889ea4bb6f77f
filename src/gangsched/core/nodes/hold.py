"""Hold: capacity of one node that is kept for a pod or a gang that is not there yet.

A hold is a pseudo record. It takes capacity of the node table as a pod does, so whatever reads free
capacity sees it, and ``check_records`` adds it up with the pods. It shows no pod: constraints
between pods do not hold between a hold and a pod.
"""

from __future__ import annotations

from typing import final

from gangsched.core.nodes.marks import Asks
from gangsched.core.nodes.node_table import Needs

__all__ = ["Hold"]


@final
class Hold:
    """Capacity of one node. Holds are compared by identity.

    Attributes:
        slot: The node.
        needs: What is kept there.
        owner: For which pod group or pod, in words.
        asks: What the pod asks that comes there, which counts as if it were there already where
            gangs want domains of their own; None if it does not.
        since: The step at which it was taken.
        is_lent: Whether the capacity is shown as free: its owner is tried now.
        is_lendable: Whether it is shown as free between calls, too.
    """

    __slots__ = ("asks", "is_lendable", "is_lent", "needs", "owner", "since", "slot")

    def __init__(self, slot: int, needs: Needs, owner: str, asks: Asks | None = None) -> None:
        self.slot: int = slot
        self.needs: Needs = needs
        self.owner: str = owner
        self.asks: Asks | None = asks
        self.since: int = 0
        self.is_lent: bool = False
        self.is_lendable: bool = False

    def __repr__(self) -> str:
        return f"<Hold of {dict(self.needs)} on slot {self.slot}>"
