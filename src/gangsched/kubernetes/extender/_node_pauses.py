"""Nodes that kube-scheduler refuses for a pod that was decided to be on them.

kube-scheduler runs filters of its own before it asks. If they refuse the decided node, the gang is
withdrawn; without more, the scheduler would decide the same again. So the node takes no new gang
for a pause. The usual cause is that one of two watches is behind, and the pause is short then.

Rules:
  R1  the pause of a node is 2 s, 4 s, 8 s, … at most 60 s. It is 2 s again once a member was bound
      there;
  R2  what is kept is bounded by the nodes that exist: a node that is gone is forgotten.
"""

from __future__ import annotations

from typing import Final, final

from gangsched.model import NodeName

__all__ = ["NodePauses"]

_FIRST: Final = 2.0
"""More than the first backoff of a gang, which is 1 s: else it would be decided the same again."""
_LONGEST: Final = 60.0


@final
class NodePauses:
    """Which nodes take no new gang, and until when."""

    __slots__ = ("_next", "_until")

    def __init__(self) -> None:
        self._until: dict[NodeName, float] = {}
        self._next: dict[NodeName, float] = {}

    def __contains__(self, node: object) -> bool:
        """Return whether a node is paused."""
        return node in self._until

    def refused(self, node: NodeName, now: float) -> None:
        """Pause a node."""
        pause = self._next.get(node, _FIRST)
        self._next[node] = min(2 * pause, _LONGEST)
        self._until[node] = now + pause

    def accepted(self, node: NodeName) -> None:
        """Note that a member was bound to a node."""
        self._next.pop(node, None)

    def forget(self, node: NodeName) -> None:
        """Forget a node that is gone."""
        self._next.pop(node, None)
        self._until.pop(node, None)

    def ended(self, now: float) -> list[NodeName]:
        """Return the nodes of which the pause has ended; each once."""
        found = [node for node, until in self._until.items() if until <= now]
        for node in found:
            del self._until[node]
        return found

    def next_deadline(self) -> float | None:
        """Return when the next pause ends; None if no node is paused."""
        return min(self._until.values(), default=None)
