"""Plugins that read which pods are on nodes: asked about one node at a time.

Theory of operation. The answers of a filter or score plugin are kept for each class of nodes, since
nodes of one class look alike to every plugin. Which pods are on a node is not part of its class:
otherwise each node would be a class of its own. A plugin that reads the pods on nodes says for
which pods it does so (``reads_pods``). For such a pod the work is divided:

- All other plugins are asked once for each class of nodes, as for any pod. Their answers are an
  upper bound: a node that they refuse cannot take the pod, one that they accept may.
- The plugins that read pods are asked here, about one node of the accepted classes after another.
  Nothing is kept of their answers.

Rules:
  R1  for a pod for which no plugin reads pods, nothing is asked here and nothing costs more;
  R2  the plugins see all nodes in one state: pods that are bound and assumed, the siblings that
      were planned before, and without the pods that the decision takes as gone.
"""

from __future__ import annotations

from typing import Any, final

from gangsched.framework.config.cycle_state import CycleState
from gangsched.framework.runtime import extension_points
from gangsched.framework.state.scheduler_state import State
from gangsched.model import Pod
from gangsched.outcomes import Outcome, Skip, Success, Unschedulable
from gangsched.protocols import NodeView

__all__ = ["NodeCheck", "readers"]

_FILTERED = (Success, Skip, Unschedulable)


def readers(state: State, pod: Pod) -> tuple[Any, ...]:
    """Return the filter and score plugins that read, for *pod*, which pods are on nodes."""
    return tuple(
        plugin
        for plugin in state.profile.pod_readers
        if extension_points.call(plugin, "reads_pods", pod, bool, pod)
    )


@final
class NodeCheck:
    """The plugins that read pods on nodes, for one pod or for pods like it.

    Args:
        state: The scheduler's memory.
        cycle: The cycle that the plugins are given; of like pods, that of the first.
        pod: The pod; of like pods, the first.

    Attributes:
        scores: Whether one of the plugins scores nodes.
    """

    __slots__ = ("_cycle", "_extensions", "_filters", "_pod", "_scorers", "scores")

    def __init__(self, state: State, cycle: CycleState, pod: Pod) -> None:
        reading = readers(state, pod)
        self._cycle = cycle
        self._pod = pod
        self._filters = tuple(p for p in reading if callable(getattr(p, "filter", None)))
        self._scorers = tuple(p for p in reading if callable(getattr(p, "score", None)))
        self._extensions = tuple(p for p in reading if callable(getattr(p, "add_pod", None)))
        self.scores: bool = bool(self._scorers)

    def refusal(self, node: NodeView) -> str:
        """Return why a node cannot take the pod; empty if it can. O(plugins)."""
        for plugin in self._filters:
            answer: Outcome = extension_points.call(
                plugin, "filter", self._pod, _FILTERED, self._cycle, self._pod, node
            )
            if isinstance(answer, Unschedulable):
                return answer.reason or str(plugin.name)
        return ""

    def score(self, node: NodeView) -> int:
        """Return the sum of the scores of a node that can take the pod. O(plugins)."""
        found = 0
        for plugin in self._scorers:
            found += extension_points.call(
                plugin, "score", self._pod, int, self._cycle, self._pod, node
            )
        return found

    def add(self, added: Pod, node: NodeView) -> None:
        """Tell the plugins that a sibling is planned on a node. O(plugins)."""
        self._account("add_pod", added, node)

    def remove(self, removed: Pod, node: NodeView) -> None:
        """Tell the plugins that a sibling is not planned on a node any more. O(plugins)."""
        self._account("remove_pod", removed, node)

    def _account(self, point: str, other: Pod, node: NodeView) -> None:
        for plugin in self._extensions:
            extension_points.call(
                plugin, point, self._pod, type(None), self._cycle, self._pod, other, node
            )
