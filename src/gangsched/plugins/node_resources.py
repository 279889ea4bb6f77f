"""Filter nodes by free capacity; prefer emptier or fuller nodes.

Rules:
  R1  a pod fits if each requested resource is free and the node allows one more pod. A resource
      that the pod does not request is ignored, even if it is overcommitted;
  R2  scores are ints, computed from ints without rounding errors.
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

_TOO_MANY_PODS: Final = "Too many pods"
_TOO_MANY: Final = Unschedulable(_TOO_MANY_PODS)
_UNBOUNDED: Final = 1 << 40


class Strategy(enum.Enum):
    """Which of two nodes scores higher."""

    LEAST_ALLOCATED = "least_allocated"
    """The emptier node: pods spread."""
    MOST_ALLOCATED = "most_allocated"
    """The fuller node: pods pack."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        refuse_choice(cls, "strategy", value)


@final
@frozen
class NodeResources:
    """Refuse nodes without the free capacity that a pod requests; score the others.

    Attributes:
        strategy: Whether emptier or fuller nodes score higher.
    """

    strategy: Strategy = field(default=Strategy.LEAST_ALLOCATED, converter=Strategy)

    @property
    def name(self) -> str:
        """``NodeResourcesFit``, as in Kubernetes."""
        return "NodeResourcesFit"

    def pod_signature(self, pod: Pod) -> Hashable:
        """Return the requests."""
        return pod.requests

    def node_signature(self, node: NodeView) -> Hashable:
        """Return allocatable and free resources, and the number of pods if that is limited.

        A free amount of 0 is left out, since it equals an absent resource.
        """
        offers = node.node.allocatable
        free = tuple(sorted((name, amount) for name, amount in node.free.items() if amount))
        return (offers, free, node.pod_count if "pods" in offers else 0)

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        """Refuse *node* if it takes no further pod, or a request is not free; give every reason."""
        limit = node.node.allocatable.get("pods")
        is_full = limit is not None and (node.pod_count + 1) * MILLI > limit
        missing = pod.requests.missing_from(node.free)
        if missing:
            reasons = [f"Insufficient {name}" for name in missing]
            return Unschedulable([_TOO_MANY_PODS, *reasons] if is_full else reasons)
        return _TOO_MANY if is_full else SUCCESS

    def fitted(self, pod: Pod) -> Iterable[str]:
        """Return every resource that *pod* requests."""
        return pod.requests

    def headroom(self, pod: Pod, node: NodeView) -> int:
        """Return how many pods with these requests fit together on *node*."""
        free = node.free
        bound = _UNBOUNDED
        for name, need in pod.requests.items():
            bound = min(bound, free.get(name, 0) // need)
        limit = node.node.allocatable.get("pods")
        if limit is not None:
            bound = min(bound, limit // MILLI - node.pod_count)
        return max(bound, 0)

    def score(self, state: CycleView, pod: Pod, node: NodeView) -> int:
        """Return the mean percentage that is free, or used, after *pod* is placed on *node*.

        The mean is over cpu, memory and the requested resources that *node* has.
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
