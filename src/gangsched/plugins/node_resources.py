"""Fit pods to what is free, and prefer emptier or fuller nodes.

Rules:
  R1  a pod fits when each resource that it asks for is free, and one more pod is allowed; what
      it does not ask for does not matter, however overcommitted;
  R2  scores are whole numbers computed from whole numbers.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable
from typing import Final, NoReturn, final

from attrs import field, frozen

from gangsched._fields import refuse_choice
from gangsched.model import Pod
from gangsched.outcomes import SUCCESS, Outcome, Unschedulable
from gangsched.protocols import CycleView, NodeView
from gangsched.quantity import MILLI

__all__ = ["NodeResources", "Strategy"]

_TOO_MANY: Final = Unschedulable("Too many pods")
_BOUNDLESS: Final = 1 << 40


class Strategy(enum.Enum):
    """Which of the nodes that fit is the better."""

    LEAST_ALLOCATED = "least_allocated"
    """The emptier one: spread."""
    MOST_ALLOCATED = "most_allocated"
    """The fuller one: pack."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        refuse_choice(cls, "strategy", value)


@final
@frozen
class NodeResources:
    """Refuse nodes on which a pod does not fit; score the others.

    Attributes:
        strategy: Prefer emptier or fuller nodes.
    """

    strategy: Strategy = field(default=Strategy.LEAST_ALLOCATED, converter=Strategy)

    @property
    def name(self) -> str:
        """``NodeResourcesFit``, as in Kubernetes."""
        return "NodeResourcesFit"

    def pod_signature(self, pod: Pod) -> Hashable:
        """Depends on the requests."""
        return pod.requests

    def node_signature(self, node: NodeView) -> Hashable:
        """Depends on what the node offers, what is free, and on how many pods if they are bounded.

        What is neither offered nor short is left out: it makes no difference.
        """
        offers = node.node.allocatable
        free = tuple(sorted((name, amount) for name, amount in node.free.items() if amount))
        return (offers, free, node.pod_count if "pods" in offers else 0)

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        """Refuse *node* when something is short there, naming all that is."""
        missing = pod.requests.missing_from(node.free)
        if missing:
            return Unschedulable(", ".join(f"Insufficient {name}" for name in missing))
        limit = node.node.allocatable.get("pods")
        if limit is not None and (node.pod_count + 1) * MILLI > limit:
            return _TOO_MANY
        return SUCCESS

    def fitted(self, pod: Pod) -> Iterable[str]:
        """Return all that *pod* asks for."""
        return pod.requests

    def headroom(self, pod: Pod, node: NodeView) -> int:
        """Return how many pods with these requests fit beside each other on *node*."""
        free = node.free
        bound = _BOUNDLESS
        for name, need in pod.requests.items():
            bound = min(bound, free.get(name, 0) // need)
        limit = node.node.allocatable.get("pods")
        if limit is not None:
            bound = min(bound, limit // MILLI - node.pod_count)
        return max(bound, 0)

    def score(self, state: CycleView, pod: Pod, node: NodeView) -> int:
        """Return the mean share, in percent, that is free (or taken) with *pod* placed.

        Over cpu, memory and what the pod asks for, as far as *node* offers it.
        """
        total = count = 0
        free = node.free
        allocatable = node.node.allocatable
        for name in dict.fromkeys(("cpu", "memory", *pod.requests)):
            capacity = allocatable.amount(name)
            if capacity and name != "pods":
                left = max(free.get(name, 0) - pod.requests.amount(name), 0)
                total += 100 * left // capacity
                count += 1
        share = total // count if count else 0
        return share if self.strategy is Strategy.LEAST_ALLOCATED else 100 - share
