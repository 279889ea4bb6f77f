"""Which pods get equal answers, and what plugins that filter and score answer.

A plugin that filters or scores is of one of three sorts:

- *capacity*: it compares requests with what is free (``fitted``). The core does that itself, so of
  such a plugin only the score is asked;
- *static*: it gives a pod signature, and reads of a node only static fields and labels that it
  names. It is asked once for each class of pods and kind of nodes;
- *late*: any other. It is asked about single nodes, and only those that all others accept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final, final
from weakref import WeakValueDictionary

from gangsched import _plugin_calls as calls
from gangsched.constraints.matchers import CarriedTerm
from gangsched.core.domains import Chain
from gangsched.core.node_table import NodeState, NodeTable
from gangsched.core.pod_class import Asked, Late, PodClass
from gangsched.core.views import StateView, StaticView
from gangsched.cycle_state import CycleState
from gangsched.model import Node, Pod
from gangsched.options.scheduling_unit import PlacementStrategy
from gangsched.outcomes import Skip, Success, Unschedulable
from gangsched.profile import Profile

__all__ = ["Evaluator"]

_FILTER: Final = (Success, Skip, Unschedulable)
_SIGNED: Final = "pod_signature"


@final
class Evaluator:
    """Makes classes of pods, and asks the plugins of a profile about them.

    Args:
        table: The nodes.
        profile: The plugins.
        placement: Which pods fill nodes.
        memory: About how many answers are kept.
    """

    def __init__(
        self,
        table: NodeTable,
        profile: Profile,
        placement: PlacementStrategy,
        memory: int = 1 << 21,
    ) -> None:
        self.table = table
        self.profile = profile
        self._placement = placement
        self._memory = memory
        self._classes: WeakValueDictionary[Hashable, PodClass] = WeakValueDictionary()
        self._recent: OrderedDict[PodClass, None] = OrderedDict()
        self._made = 0
        self._cycle = CycleState(None, {})
        plugins = {id(p): p for p in (*profile.filter, *profile.score)}.values()
        self._capacity: list[tuple[Any, int]] = [
            (p, self._weight(p)) for p in plugins if _has(p, "fitted")
        ]
        self._others = [p for p in plugins if not _has(p, "fitted")]
        self._signers = [p for p in plugins if _has(p, _SIGNED)]
        self._readers = [p for p in self._others if _is_signed(p) and _has(p, "labels_read")]

    # Classes ------------------------------------------------------------------------------------

    def class_of(self, pod: Pod) -> PodClass:
        """Return the class of a pod. O(plugins).

        Raises:
            PluginError: A plugin raised, or returned no signature.
        """
        signature = self._signature(pod)
        found = self._classes.get(signature)
        if found is None:
            labels = self._labels(pod)
            self.table.watch(labels)
            self._made += 1
            found = PodClass(self._made, signature, pod, labels, self)
            self._classes[signature] = found
        return found

    def packs(self, pod: Pod) -> bool:
        """Return whether pods like this one fill nodes."""
        match self._placement:
            case PlacementStrategy.PACK:
                return True
            case PlacementStrategy.AUTO:
                return any("/" in name for name in pod.requests)
            case _:
                return False

    def sort(self, pod: Pod) -> Asked:
        """Return which plugins are asked about pods like this one, and how."""
        filters: list[Any] = []
        scores: list[tuple[Any, int]] = []
        late: list[Late] = []
        for plugin in self._others:
            weight = self._weight(plugin)
            filtering = _has(plugin, "filter") and not _skips(plugin, pod)
            reads_pods = _has(plugin, "reads_pods") and bool(
                calls.call(plugin, "reads_pods", pod, bool, pod)
            )
            if _is_signed(plugin) and not reads_pods and not _has(plugin, "normalize_score"):
                if filtering:
                    filters.append(plugin)
                if weight:
                    scores.append((plugin, weight))
                if _has(plugin, "pods_affected"):
                    late.append(Late(plugin, filtering, weight, only_about_carried=True))
            elif filtering or weight:
                late.append(Late(plugin, filtering, weight))
        return Asked(tuple(filters), tuple(scores), tuple(late))

    def carried(self, pod: Pod) -> tuple[CarriedTerm, ...]:
        """Return the terms that a pod carries to its node; none for most pods."""
        found: list[CarriedTerm] = []
        for plugin in self.profile.affecting:
            if calls.call(plugin, "reads_pods", pod, bool, pod):
                found += calls.call(plugin, "pods_affected", pod, Iterable, pod)
        return tuple(found)

    def _weight(self, plugin: Any) -> int:
        """Return the weight of a plugin; 0 for one that does not score."""
        return next((weight for each, weight in self.profile.weighted if each is plugin), 0)

    def watch(self, labels: Chain) -> None:
        """Distinguish nodes by labels."""
        self.table.watch(labels)

    def note_used(self, used: PodClass) -> None:
        """Note that the answers of a class are needed; drop those not used for longest."""
        recent = self._recent
        recent[used] = None
        recent.move_to_end(used)
        while len(recent) > _FEW and len(recent) * len(self.table.states) > self._memory:
            recent.popitem(last=False)[0].forget()

    def forget(self) -> None:
        """Drop all answers: the effects stay the same."""
        for known in list(self._classes.values()):
            known.forget()
        self._recent.clear()

    def _signature(self, pod: Pod) -> Hashable:
        parts: list[Hashable] = [pod.requests, pod.requests.defaulted]
        plugin: Any = None
        try:
            for plugin in self._signers:
                parts.append(plugin.pod_signature(pod))
            signature = tuple(parts)
            hash(signature)
        except Exception as error:
            raise calls.raised(plugin, _SIGNED, pod, error) from error
        return signature

    def _labels(self, pod: Pod) -> Chain:
        found: dict[str, None] = {}
        for plugin in self._readers:
            names: Iterable[str] = calls.call_for_names(plugin, "labels_read", pod, pod)
            found.update(dict.fromkeys(names))
        return tuple(found)

    # Answers ------------------------------------------------------------------------------------

    def static(self, pod: Pod, asked: Asked, node: Node) -> int | Unschedulable:
        """Return the static score of a kind of nodes, or why it is refused.

        Raises:
            PluginError: A plugin raised, or returned what the point does not allow.
        """
        view = StaticView(node)
        for plugin in asked.filters:
            answer = calls.call(plugin, "filter", pod, _FILTER, self._cycle, pod, view)
            if isinstance(answer, Unschedulable):
                return answer
        return sum(w * self.score(p, self._cycle, pod, view) for p, w in asked.scores)

    def capacity_scores(
        self, pod: Pod, states: Sequence[NodeState], *, packs: bool
    ) -> list[int] | None:
        """Return the score of each state by its capacity; None if there is no such score."""
        total: list[int] | None = None
        for plugin, weight in self._capacity:
            if not weight or (packs and _has(plugin, "scores_by_amounts")):
                continue  # a pod that fills nodes is not spread by the default score
            if _has(plugin, "scores_by_amounts"):
                frees, offers = [s.free for s in states], [s.offered for s in states]
                found = plugin.scores_by_amounts(pod, self.table.resources, frees, offers)
            else:
                views = (StateView(self.table, state) for state in states)
                found = [self.score(plugin, self._cycle, pod, view) for view in views]
            found = found if weight == 1 else [weight * score for score in found]
            total = found if total is None else [a + b for a, b in zip(total, found, strict=True)]
        return total

    def score(self, plugin: Any, cycle: CycleState, pod: Pod, node: Any) -> int:
        """Return the score of one plugin for one node."""
        answer = calls.call_for_count(plugin, "score", pod, cycle, pod, node)
        if answer > 100 and not _has(plugin, "normalize_score"):
            raise calls.returned(plugin, "score", pod, answer)
        return answer


_FEW: Final = 64
"""Classes of which the answers are kept in any case."""


def _has(plugin: Any, method: str) -> bool:
    return callable(getattr(plugin, method, None))


def _is_signed(plugin: Any) -> bool:
    return _has(plugin, _SIGNED) and bool(getattr(plugin, "signs_node_alone", False))


def _skips(plugin: Any, pod: Pod) -> bool:
    """Return whether a plugin accepts every node for a pod."""
    return _has(plugin, "skips") and bool(calls.call(plugin, "skips", pod, bool, pod))
