"""Filter nodes by free capacity; prefer emptier or fuller nodes.

Rules:
  R1  a pod fits if each requested resource is free and the node allows one more pod. A resource
      that the pod does not request is ignored, even if it is overcommitted;
  R2  scores are ints, computed from ints without rounding errors.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable, Mapping, Sequence
from operator import add
from typing import Final, NoReturn, final

from attrs import field, frozen

from gangsched.errors import InvalidValueError
from gangsched.model import FrozenMap, Pod
from gangsched.outcomes import SUCCESS, Outcome, Unschedulable
from gangsched.protocols import CycleView, NodeView
from gangsched.quantity import MILLI
from gangsched.values.fields import as_counts, as_tuple, check_counts, refuse_choice

__all__ = ["NodeResources", "NodeResourcesFit", "ScoringStrategy", "Strategy"]

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
        free = frozenset([item for item in node.free.items() if item[1]])
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

    def score(self, state: CycleView, pod: Pod, node: NodeView) -> int:
        """Return the mean percentage that is free, or used, after *pod* is placed on *node*.

        The mean is over cpu, memory and the requested resources that *node* has.
        """
        total = count = 0
        free, requests = node.free, pod.requests
        allocatable = node.node.allocatable
        for name in requests if "cpu" in requests and "memory" in requests else _names(requests):
            capacity = allocatable.amount(name)
            if capacity and name != "pods":
                left = free.get(name, 0) - requests.amount(name)
                if left > 0:
                    total += 100 * left // capacity
                count += 1
        share = total // count if count else 0
        return share if self.strategy is Strategy.LEAST_ALLOCATED else 100 - share

    def scores_by_amounts(
        self,
        pod: Pod,
        numbers: Mapping[str, int],
        frees: Sequence[Sequence[int]],
        offers: Sequence[Sequence[int]],
    ) -> list[int]:
        """Return what ``score`` does for many nodes, one resource after another.

        Args:
            pod: The pod.
            numbers: The index of each resource in the amounts of a node.
            frees: What each node has free, in thousandths.
            offers: What each node offers, in thousandths.
        """
        nothing = [0] * len(frees)
        totals: list[int] = []
        counts: list[int] = []  # resources that only some nodes offer
        even = 0  # resources that all nodes offer
        for name in _names(pod.requests):
            number = numbers.get(name)
            if number is None or name == "pods":
                continue
            need = pod.requests.amount(name)
            try:
                shares = [
                    100 * (free[number] - need) // offer[number]
                    for free, offer in zip(frees, offers, strict=True)
                ]
            except ZeroDivisionError:
                capacities = [offer[number] for offer in offers]
            else:
                even += 1
                if min(shares, default=0) < 0:
                    shares = [share if share > 0 else 0 for share in shares]
                totals = list(map(add, totals, shares)) if totals else shares
                continue
            counts = [n + 1 if c else n for n, c in zip(counts or nothing, capacities, strict=True)]
            totals = [
                total + max(100 * (free[number] - need) // capacity, 0) if capacity else total
                for total, free, capacity in zip(totals or nothing, frees, capacities, strict=True)
            ]
        if counts:
            shares = [
                total // (even + count) if even + count else 0
                for total, count in zip(totals, counts, strict=True)
            ]
        else:
            shares = [total // even for total in totals] if even else nothing
        if self.strategy is Strategy.LEAST_ALLOCATED:
            return shares
        return [100 - share for share in shares]


def _names(requests: Iterable[str]) -> Iterable[str]:
    return dict.fromkeys(("cpu", "memory", *requests))


class ScoringStrategy(enum.Enum):
    """How ``NodeResourcesFit`` scores a node, as in kube-scheduler."""

    LEAST_ALLOCATED = "LeastAllocated"
    """The share that is free after the pod is placed."""
    MOST_ALLOCATED = "MostAllocated"
    """The share that is used after the pod is placed."""
    REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"
    """A function of the share that is used, given by points."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        refuse_choice(cls, "scoring_strategy", value)


def _points(given: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    return as_tuple(given)


_CPU_AND_MEMORY: Final = FrozenMap({"cpu": 1, "memory": 1})


@final
@frozen(kw_only=True)
class NodeResourcesFit(NodeResources):
    """``NodeResources`` with the scores of kube-scheduler.

    A container without a request counts as 100m of cpu and 200Mi of memory, on the node and in the
    pod that is placed; see ``Resources.defaulted``. A ``Pod`` that is made without containers
    counts for what it requests.

    Source: ``NodeResourcesFit`` of kube-scheduler 1.36.

    Attributes:
        scoring_strategy: How a node is scored.
        resources: The resources that count, each with its weight.
        shape: For ``RequestedToCapacityRatio``, the points of the function: percentages used, in
            ascending order, each with a score from 0 to 10.

    Raises:
        InvalidValueError: A value is malformed. The error names the attribute and the value.
    """

    scoring_strategy: ScoringStrategy = field(
        default=ScoringStrategy.LEAST_ALLOCATED, converter=ScoringStrategy
    )
    resources: FrozenMap[int] = field(
        default=_CPU_AND_MEMORY, converter=as_counts, validator=check_counts
    )
    shape: tuple[tuple[int, int], ...] = field(default=(), converter=_points)

    def __attrs_post_init__(self) -> None:
        by_shape = self.scoring_strategy is ScoringStrategy.REQUESTED_TO_CAPACITY_RATIO
        strategy = ScoringStrategy.REQUESTED_TO_CAPACITY_RATIO.value
        if by_shape and not self.shape:
            expected = f"given if scoring_strategy is {strategy}"
            raise InvalidValueError("shape", self.shape, expected)
        if self.shape and not by_shape:
            expected = f"empty unless scoring_strategy is {strategy}"
            raise InvalidValueError("shape", self.shape, expected)
        expected = "points of two ints, with ascending percentages and scores from 0 to 10"
        last = -1
        for point in self.shape:
            if not isinstance(point, tuple) or len(point) != 2:
                raise InvalidValueError("shape", point, expected)
            used, score = point
            if type(used) is not int or not last < used <= 100:
                raise InvalidValueError("shape", point, expected)
            if type(score) is not int or not 0 <= score <= 10:
                raise InvalidValueError("shape", point, expected)
            last = used

    def pod_signature(self, pod: Pod) -> Hashable:
        """Return the requests, and what is defaulted."""
        return (pod.requests, pod.requests.defaulted)

    def node_signature(self, node: NodeView) -> Hashable:
        """Return what ``NodeResources`` reads, and what the pods on the node count for."""
        return (super().node_signature(node), node.defaulted)

    def score(self, state: CycleView, pod: Pod, node: NodeView) -> int:
        """Return the weighted mean of the scores of the resources, 0 to 100."""
        offers, free = node.node.allocatable, node.free
        # of the node and of the pod, what is only counted here and takes no capacity
        on_node, of_pod = node.defaulted, pod.requests.defaulted
        total = weights = 0
        for name, weight in self.resources.items():
            capacity, asked = offers.amount(name), pod.requests.amount(name)
            # an extended resource counts only for pods that request it
            if not capacity or (not asked and "/" in name):
                continue
            used = capacity - free.get(name, 0) + asked
            score = self._of(used + on_node.get(name, 0) + of_pod.get(name, 0), capacity)
            if self.shape and score <= 0:
                continue
            total += weight * score
            weights += weight
        if not weights:
            return 0
        return (2 * total + weights) // (2 * weights) if self.shape else total // weights

    def _of(self, used: int, capacity: int) -> int:
        """Return the score of one resource, of which *used* is used with the pod."""
        match self.scoring_strategy:
            case ScoringStrategy.LEAST_ALLOCATED:
                return 0 if used > capacity else 100 * (capacity - used) // capacity
            case ScoringStrategy.MOST_ALLOCATED:
                return 100 * min(used, capacity) // capacity
            case ScoringStrategy.REQUESTED_TO_CAPACITY_RATIO:
                return self._on_shape(100 if used > capacity else 100 * used // capacity)

    def _on_shape(self, percentage: int) -> int:
        """Return ten times the value of the function at a percentage."""
        before: tuple[int, int] | None = None
        for used, score in self.shape:
            if percentage <= used:
                if before is None:
                    return 10 * score
                rise = 10 * (score - before[1]) * (percentage - before[0])
                run = used - before[0]
                # towards zero, as integers are divided in Go
                step = abs(rise) // run
                return 10 * before[1] + (step if rise >= 0 else -step)
            before = (used, score)
        return 10 * self.shape[-1][1]
