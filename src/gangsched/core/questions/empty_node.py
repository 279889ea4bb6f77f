"""Why an empty node of some shape would not take a pod."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, final

from gangsched.core.evaluation.evaluator import Evaluator
from gangsched.cycle_state import CycleState
from gangsched.model import FrozenMap, Node, Pod
from gangsched.outcomes import Skip, Success, Unschedulable
from gangsched.profile import calls

__all__ = ["refusals"]


@final
class _EmptyNode:
    """A node of a shape without pods, as plugins see it."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node: Node = node

    @property
    def free(self) -> Mapping[str, int]:
        """All that it offers, but the number of pods."""
        offers = self.node.allocatable.to_milli()
        return {name: amount for name, amount in offers.items() if name != "pods"}

    @property
    def defaulted(self) -> FrozenMap[int]:
        """Nothing: there is no pod on it."""
        return FrozenMap()

    @property
    def pod_count(self) -> int:
        """The number of pods on it."""
        return 0

    @property
    def pods(self) -> Collection[Pod]:
        """The pods on it."""
        return ()


def refusals(evaluator: Evaluator, pod: Pod, cycle: CycleState, shape: Node) -> tuple[str, ...]:
    """Return why an empty node refuses a pod, in kube-scheduler's words; empty if it takes it.

    Raises:
        PluginError: A plugin raised, or returned what the point does not allow.
    """
    node: Any = _EmptyNode(shape)
    for plugin in evaluator.profile.filter:
        answer = calls.call(plugin, "filter", pod, (Success, Skip, Unschedulable), cycle, pod, node)
        if isinstance(answer, Unschedulable):
            return answer.reasons
    return ()
