"""Prefer nodes whose resources are used more evenly with the pod than without it.

Source: ``NodeResourcesBalancedAllocation`` of kube-scheduler 1.36.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import final

from attrs import field, frozen

from gangsched.model import Pod
from gangsched.plugins._scores import BEST
from gangsched.protocols import CycleView, NodeView
from gangsched.values.fields import as_tuple, check_each

__all__ = ["NodeResourcesBalancedAllocation"]


def _names(given: Sequence[str]) -> tuple[str, ...]:
    return as_tuple(given)


@final
@frozen
class NodeResourcesBalancedAllocation:
    """Score nodes by how evenly their resources are used after the pod is placed.

    Attributes:
        resources: The resources that are compared.
    """

    resources: tuple[str, ...] = field(
        default=("cpu", "memory"), converter=_names, validator=check_each(str, "a string")
    )

    @property
    def name(self) -> str:
        """``NodeResourcesBalancedAllocation``."""
        return "NodeResourcesBalancedAllocation"

    def pod_signature(self, pod: Pod) -> Hashable:
        """Return the requests."""
        return pod.requests

    def node_signature(self, node: NodeView) -> Hashable:
        """Return allocatable and free amounts of the resources."""
        offers, free = node.node.allocatable, node.free
        return tuple((offers.amount(name), free.get(name, 0)) for name in self.resources)

    def score(self, state: CycleView, pod: Pod, node: NodeView) -> int:
        """Return 50 to 100: 75 if the pod changes nothing, more if it makes the use more even.

        0 for a pod that requests none of the resources, as in kube-scheduler.
        """
        offers, free = node.node.allocatable, node.free
        amounts = [(offers.amount(name), free.get(name, 0)) for name in self.resources]
        return self._score(pod, amounts)

    def scores_by_amounts(
        self,
        pod: Pod,
        numbers: Mapping[str, int],
        frees: Sequence[Sequence[int]],
        offers: Sequence[Sequence[int]],
    ) -> list[int]:
        """Return what ``score`` does for many nodes; see ``NodeResources.scores_by_amounts``."""
        places = [numbers.get(name) for name in self.resources]
        return [
            self._score(pod, [(0, 0) if n is None else (offer[n], free[n]) for n in places])
            for free, offer in zip(frees, offers, strict=True)
        ]

    def _score(self, pod: Pod, amounts: Sequence[tuple[int, int]]) -> int:
        """Return the score of a node by what it offers and has free of each resource."""
        if not any(pod.requests.amount(name) for name in self.resources):
            return 0
        before: list[float] = []
        after: list[float] = []
        for name, (capacity, free) in zip(self.resources, amounts, strict=True):
            asked = pod.requests.amount(name)
            if not capacity or (not asked and "/" in name):
                continue
            used = capacity - free
            before.append(min(used / capacity, 1.0))
            after.append(min((used + asked) / capacity, 1.0))
        half = BEST // 2
        return half + (half + _evenness(after) - _evenness(before)) // 2


def _evenness(shares: Sequence[float]) -> int:
    """Return 100 less the standard deviation of shares, in percent."""
    deviation = 0.0
    if len(shares) == 2:
        deviation = abs((shares[0] - shares[1]) / 2)
    elif len(shares) > 2:
        mean = sum(shares) / len(shares)
        deviation = math.sqrt(sum((share - mean) ** 2 for share in shares) / len(shares))
    return int((1 - deviation) * BEST)
