"""Evaluator: judge nodes that differ only in what pods change with one call of one plugin.

Where no two nodes are alike, each node is a class of its own. Most of them differ in free capacity
alone, and one plugin reads it. What the others answer is kept for each kind of nodes; see
``gangsched.framework.nodes.node_class.NodeKind``. For each class, that plugin is called once; see
``gangsched.protocols.EvaluatesNodes``.

Rules:
  R1  an answer is what ``filter``, ``headroom`` and ``score`` of all plugins would answer;
  R2  an answer that the protocol does not allow raises a ``PluginError``, as at any other point.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias, TypeGuard, cast, final

from gangsched import _plugin_calls as calls
from gangsched.framework.nodes.judgements import Judgement
from gangsched.framework.nodes.node_class import NodeKind
from gangsched.model import Pod
from gangsched.protocols import EvaluatesNodes, NodeEvaluator

__all__ = ["Accepted", "Evaluator"]

_BEST: Final = 100
_EXPECTED: Final = "None, or a tuple of two ints: a headroom >= 0 and a score from 0 to 100"
Accepted: TypeAlias = tuple[int, dict[object, Judgement]]
"""See ``Evaluator.accepted``."""


@final
class Evaluator:
    """The function that one plugin gave for pods that get equal answers.

    Args:
        plugin: The plugin.
        weight: The weight of its scores.
        pod: A pod.

    Attributes:
        function: The function; None if the plugin has none for such pods.
        refused: The judgement of each kind of nodes that another plugin refuses.
        accepted: By kind that no other plugin refuses, the scores of the others in sum, and the
            judgements so far by what the function returned.
    """

    __slots__ = ("_by_score", "_weight", "accepted", "function", "refused")

    def __init__(self, plugin: EvaluatesNodes, weight: int, pod: Pod) -> None:
        found: object = calls.call(plugin, "node_evaluator", pod, object, pod)
        if found is not None and not callable(found):
            raise calls.returned(plugin, "node_evaluator", pod, found)
        self.function: NodeEvaluator | None = cast("NodeEvaluator | None", found)
        self.refused: dict[NodeKind, Judgement] = {}
        self.accepted: dict[NodeKind, Accepted] = {}
        self._weight = weight
        # kinds of which the other plugins have one score share their judgements
        self._by_score: dict[int, Accepted] = {}

    def accept(self, kind: NodeKind, score: int) -> None:
        """Note that the other plugins accept a kind of nodes, with these scores in sum. O(1)."""
        self.accepted[kind] = self._by_score.setdefault(score, (score, {}))

    def note(
        self, plugin: EvaluatesNodes, of_kind: Accepted, found: object, pod: Pod, *, is_real: bool
    ) -> Judgement | None:
        """Keep and return the judgement for what the function returned. O(1).

        Args:
            plugin: The plugin, for messages.
            of_kind: What is known of the kind.
            found: What the function returned.
            pod: The pod, for messages.
            is_real: Whether there is such a node. A node that does not exist may have more free
                than it can have.

        Returns:
            The judgement; None if the plugins have to be asked one by one.

        Raises:
            PluginError: The function may not return that.
        """
        headroom, score = found if _are_two_ints(found) else (-1, -1)
        if headroom < 0 or (is_real and not 0 <= score <= _BEST):
            raise calls.returned(plugin, "node_evaluator", pod, found, _EXPECTED)
        if not 0 <= score <= _BEST:
            return None
        others, judgements = of_kind
        made = Judgement(others + self._weight * score, headroom, ())
        judgements[found] = made
        return made


def _are_two_ints(found: Any) -> TypeGuard[tuple[int, int]]:
    if type(found) is not tuple:
        return False
    return [type(part) for part in cast("tuple[object, ...]", found)] == [int, int]
