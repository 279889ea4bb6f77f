"""PlanGuard: which nodes a pod must leave alone so that a planned gang can start as planned.

Capacity of a reservation is withheld from the nodes. Constraints between pods cannot be: a host
port, a domain or a volume is no amount. So whether a pod would break the plan of the reserved gang
is asked about each pod that may be in its way.

Rules:
  R1  ``check`` is asked about pods that are not exempt from the reservation; for the others the
      nodes have none, see ``reserved_views``. ``concern`` is also asked about others that were
      bound;
  R2  two pods with one ``Concern`` and one pod signature get the same answers.
"""

from __future__ import annotations

from typing import Protocol, final

from attrs import frozen

from gangsched.model import NodeName, Pod
from gangsched.protocols import NodeView

__all__ = ["Concern", "PlanCheck", "PlanGuard"]


@final
@frozen
class Concern:
    """That a pod may be in the way of the reserved gang, and by what: its labels, or its UID.

    Attributes:
        of: What tells the pod from others that may be in the way, besides its signature.
    """

    of: str

    def __repr__(self) -> str:
        return f"in the way of the reservation: {self.of}"


class PlanCheck(Protocol):
    """The questions about one pod.

    Attributes:
        asked: How many planned members were placed to answer them.
    """

    asked: int

    def refusal(self, node: NodeView) -> tuple[str, ...]:
        """Return why the plan would not hold with the pod on *node*; empty if it would.

        Runtime complexity: O(1) for a node that no constraint of the plan is about, else
        O(planned members x plugins).
        """
        ...

    def group_of(self, node: NodeView) -> object:
        """Return what tells *node* from nodes that get the same answer. O(topology keys)."""
        ...

    def forget(self) -> None:
        """Forget the answers, since a pod was placed or taken back. O(1)."""
        ...


class PlanGuard(Protocol):
    """What keeps the plan of the reserved gang valid.

    Attributes:
        has_refused: Whether a node was refused to a pod since the reservation was made or moved.
        now: The instant of the current decision.
    """

    has_refused: bool
    now: float

    def concern(self, pod: Pod) -> Concern | None:
        """Return by what *pod* may be in the way; None if it cannot be.

        Runtime complexity: O(plugins x classes of members).
        """
        ...

    def check(self, pod: Pod) -> PlanCheck | None:
        """Return the questions about *pod*; None if it is unknown or cannot be in the way.

        Runtime complexity: O(plugins x classes of members).
        """
        ...

    def note_started(self, pod: Pod, node: NodeName) -> None:
        """Note that a pod was bound; its end is among the known ones, if it has one. O(plugins)."""
        ...
