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
  R2  the plugins see all nodes in one state: with the pods that are bound and assumed, and the
      siblings that were planned before. Pods that the decision takes as gone are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, final

from gangsched.framework.config.cycle_state import CycleState
from gangsched.framework.runtime import calls
from gangsched.framework.state.settings import Settings
from gangsched.model import Pod
from gangsched.outcomes import Outcome, Skip, Success, Unschedulable
from gangsched.protocols import NodeView

__all__ = ["NodeCheck", "readers"]

_FILTERED: Final = (Success, Skip, Unschedulable)
_BEST: Final = 100


def readers(settings: Settings, pod: Pod) -> tuple[Any, ...]:
    """Return the filter and score plugins that read, for *pod*, which pods are on nodes."""
    return tuple(
        plugin
        for plugin in settings.profile.pod_readers
        if calls.call(plugin, "reads_pods", pod, bool, pod)
    )


@final
class NodeCheck:
    """The plugins that read pods on nodes, for one pod or for pods like it.

    Args:
        settings: What the caller set.
        cycle: The cycle that the plugins are given; of like pods, that of the first.
        pod: The pod; of like pods, the first.

    Attributes:
        scores: Whether one of the plugins scores nodes.
    """

    __slots__ = ("_cycle", "_extensions", "_filters", "_normalizers", "_pod", "_weighted", "scores")

    def __init__(self, settings: Settings, cycle: CycleState, pod: Pod) -> None:
        reading = readers(settings, pod)
        numbers = {id(plugin) for plugin in reading}
        self._cycle = cycle
        self._pod = pod
        self._filters = tuple(p for p in reading if callable(getattr(p, "filter", None)))
        self._weighted = tuple(each for each in settings.profile.weighted if id(each[0]) in numbers)
        self._normalizers = settings.profile.normalizers
        self._extensions = tuple(p for p in reading if callable(getattr(p, "add_pod", None)))
        self.scores: bool = bool(self._weighted)

    def refusal(self, node: NodeView) -> tuple[str, ...]:
        """Return why a node cannot take the pod; empty if it can. O(plugins)."""
        for plugin in self._filters:
            answer: Outcome = calls.call(
                plugin, "filter", self._pod, _FILTERED, self._cycle, self._pod, node
            )
            if isinstance(answer, Unschedulable):
                return answer.reasons
        return ()

    def totals(self, nodes: Sequence[NodeView]) -> list[int]:
        """Return the weighted sums of the scores of accepted nodes. O(nodes x plugins)."""
        found = [0] * len(nodes)
        for plugin, weight in self._weighted:
            scores = [self._score(plugin, node) for node in nodes]
            if id(plugin) in self._normalizers:
                scores = self._normalized(plugin, nodes, scores)
            found = [total + weight * score for total, score in zip(found, scores, strict=True)]
        return found

    def _score(self, plugin: Any, node: NodeView) -> int:
        score: Any = calls.call(plugin, "score", self._pod, object, self._cycle, self._pod, node)
        normalizes = id(plugin) in self._normalizers
        if type(score) is not int or not (normalizes or 0 <= score <= _BEST):
            raise calls.returned(plugin, "score", self._pod, score, "an int" if normalizes else "")
        return score

    def _normalized(
        self, plugin: Any, nodes: Sequence[NodeView], scores: Sequence[int]
    ) -> list[int]:
        names = [node.node.name for node in nodes]
        given = dict(zip(names, scores, strict=True))
        point = "normalize_score"
        answer = calls.call(plugin, point, self._pod, Mapping, self._cycle, self._pod, given)
        try:
            found: dict[Any, Any] = dict(answer)
        except Exception as error:
            raise calls.raised(plugin, point, self._pod, error) from error
        if found.keys() != given.keys() or not all(
            type(score) is int and 0 <= score <= _BEST for score in found.values()
        ):
            raise calls.returned(plugin, point, self._pod, answer)
        return [found[name] for name in names]

    def add(self, added: Pod, node: NodeView) -> None:
        """Tell the plugins that a sibling is planned on a node. O(plugins)."""
        self._account("add_pod", added, node)

    def remove(self, removed: Pod, node: NodeView) -> None:
        """Tell the plugins that a sibling is not planned on a node any more. O(plugins)."""
        self._account("remove_pod", removed, node)

    def _account(self, point: str, other: Pod, node: NodeView) -> None:
        for plugin in self._extensions:
            calls.call(plugin, point, self._pod, type(None), self._cycle, self._pod, other, node)
