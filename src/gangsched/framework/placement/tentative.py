"""Members that are placed one after another on a view of the nodes, and taken back.

Rules:
  R1  after each placement the nodes show the member, and ``add_pod`` has been called for the cycle
      of every kind of member. Taking the member back undoes both, in the reverse order;
  R2  the nodes are restored however the decision ends. So are the cycles, unless a plugin raised:
      then the decision has ended, and its cycles are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Self, final

from gangsched.framework.nodes.node_class import NodeClass
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.nodes_view import NodesView
from gangsched.framework.runtime.pod_readers import NodeCheck
from gangsched.framework.state.pods import Member

__all__ = ["Tentative"]


@final
class Tentative:
    """Members on the nodes that are tried for them; a context, at whose end all are taken back.

    Attributes:
        placed: The members in the order in which they were placed, with the index of the node.
    """

    __slots__ = ("_checks", "_nodes", "_view", "placed")

    def __init__(self, nodes: Nodes, checks: Iterable[NodeCheck]) -> None:
        self._nodes = nodes
        self._view = NodesView(nodes)
        self._checks = tuple(checks)
        self.placed: list[tuple[Member, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            # without a plugin that counts, the view takes all members off at once
            while error is None and self.placed and any(check.counts for check in self._checks):
                self.pop()
        finally:
            self._view.discard()

    def original(self, index: int) -> NodeClass:
        """Return the class that a node has without the members. O(1)."""
        return self._view.original(index)

    def put(self, member: Member, index: int) -> None:
        """Place a member on a node. O(log nodes + kinds x plugins)."""
        self._view.assume(member.pod, member.requests, index, member.pod_class.carried)
        self.placed.append((member, index))
        for check in self._checks:
            check.add(member.pod, self._nodes.by_index[index])

    def pop(self) -> None:
        """Take back the member that was placed last. O(log nodes + kinds x plugins)."""
        member, index = self.placed.pop()
        self._view.unassume(member.pod, member.requests, index)
        for check in self._checks:
            check.remove(member.pod, self._nodes.by_index[index])
