"""Which pods get equal answers, and what plugins that filter and score answer.

A plugin that filters or scores is of one of three sorts:

- *capacity*: it compares requests with what is free (``fitted``). The core does that itself, so of
  such a plugin only the score is asked. Or it only scores, by amounts (``scores_by_amounts``);
- *static*: it gives a pod signature, and reads of a node only static fields and labels that it
  names. It is asked once for each class of pods and kind of nodes;
- *late*: any other. It is asked about single nodes, and only those that all others accept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final, final
from weakref import WeakValueDictionary

from gangsched.cluster_objects import ClusterObject, Namespace
from gangsched.constraints.matchers import CarriedTerm, PodMatcher
from gangsched.core.evaluation.memo import Filters, Memo, Scores
from gangsched.core.evaluation.pod_class import AskedPlugins, Late, PodClass
from gangsched.core.evaluation.selections import Selections
from gangsched.core.nodes.domains import Chain
from gangsched.core.nodes.marks import Asks, asks_of
from gangsched.core.nodes.node_table import NodeState, NodeTable
from gangsched.core.nodes.views import StateView, StaticView
from gangsched.cycle_state import CycleState
from gangsched.errors import PluginError
from gangsched.model import Node, Pod
from gangsched.options.scheduling_unit import PlacementStrategy
from gangsched.outcomes import Skip, Success, Unschedulable
from gangsched.profile import Profile, calls
from gangsched.profile.signing import is_about, signs_node_alone

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
        cluster: The cluster state, of which plugins see the objects.
        memory: About how many answers are kept.

    Attributes:
        selections: The selectors of known pods.
    """

    def __init__(
        self,
        table: NodeTable,
        profile: Profile,
        placement: PlacementStrategy,
        cluster: object = None,
        memory: int = 1 << 21,
    ) -> None:
        self.table = table
        self.profile = profile
        self._placement = placement
        self._memory = memory
        self._classes: WeakValueDictionary[Hashable, PodClass] = WeakValueDictionary()
        self._kept: OrderedDict[PodClass, None] = OrderedDict()
        self._memos: WeakValueDictionary[Hashable, Memo] = WeakValueDictionary()
        self._recent: OrderedDict[Memo, None] = OrderedDict()
        self._made = 0
        self._cycle = CycleState(None, {}, cluster)
        asked = (*profile.filter, *profile.score, *profile.pre_score)
        plugins = {id(p): p for p in asked}.values()
        of_states = [p for p in plugins if _compares(p) or _scores_states(p)]
        self._capacity: list[tuple[Any, int]] = [(p, self._weight(p)) for p in of_states]
        self._others = [p for p in plugins if not (_compares(p) or _scores_states(p))]
        self._static = [p for p in self._others if _is_signed(p) and _has(p, "node_signature")]
        order = list(profile.filter)
        compare = next((n for n, p in enumerate(order) if _compares(p)), 0)
        self._first = order[:compare]
        self._signers = [p for p in plugins if _has(p, _SIGNED)]
        self._readers = [p for p in self._others if _is_signed(p) and _has(p, "labels_read")]
        self._selecting = [p for p in plugins if _has(p, "pods_selected")]
        self._affecting = [p for p in plugins if _has(p, "pods_affected")]
        self._stating = list({id(p): p for p in (*self._affecting, *self._selecting)}.values())
        self._read: tuple[Pod, tuple[PodMatcher, ...]] | None = None
        self._object_readers = profile.having("objects_read")
        self.selections: Selections = Selections(self.selectors)

    def sign(self, node: Node) -> Hashable:
        """Return what static plugins read of a node besides its labels. O(plugins).

        Raises:
            PluginError: A plugin raised, or returned no signature.
        """
        view, found = StaticView(node), list[Hashable]()
        for plugin in self._static:
            signature = calls.call(plugin, "node_signature", node, object, view)
            try:
                hash(signature)
            except Exception as error:
                raise calls.returned(plugin, "node_signature", node, signature) from error
            found.append(signature)
        return tuple(found)

    # Classes ------------------------------------------------------------------------------------

    def class_of(self, pod: Pod, asks: Asks | None = None) -> PodClass:
        """Return the class of a pod. O(plugins).

        Args:
            pod: The pod.
            asks: Which domains it may be in; None for a pod whose gang asks for none of its own.

        Raises:
            PluginError: A plugin raised, or returned no signature.
        """
        signature = self._signature(pod)
        asks = asks_of(pod) if asks is None else asks
        key = (signature, self.selections.about(pod), asks)
        try:
            found = self._classes.get(key)
        except Exception as error:
            for plugin, part in zip(self._signers, signature[2:], strict=True):
                if not _is_hashable(part):
                    raise calls.returned(plugin, _SIGNED, pod, part) from error
            raise
        if found is None:
            labels = self._labels(pod)
            self.table.watch(labels)
            self._made += 1
            plugins = self._sort(pod)
            memo = self._memo(pod, signature, plugins, asks)
            objects = self._objects_read(pod)
            found = PodClass(self._made, signature, pod, memo, labels, plugins, objects, self)
            self._classes[key] = found
        kept = self._kept
        kept[found] = None
        kept.move_to_end(found)
        if len(kept) > _FEW:
            kept.popitem(last=False)
        return found

    def _memo(
        self, pod: Pod, signature: tuple[Hashable, ...], plugins: AskedPlugins, asks: Asks
    ) -> Memo:
        """Return the memo of a class: of what is signed for the plugins that it asks alone."""
        scoring = [plugin for plugin, _weight in (*plugins.scores, *self._capacity)]
        asked = {id(plugin) for plugin in (*plugins.filters, *scoring)}
        signed = zip(self._signers, signature[2:], strict=True)
        parts = tuple([part for plugin, part in signed if id(plugin) in asked])
        names = [tuple(map(calls.name_of, some)) for some in (plugins.filters, scoring)]
        key = (*signature[:2], *names, parts, asks)
        found = self._memos.get(key)
        if found is None:
            static = plugins.filters, plugins.scores
            found = self._memos[key] = Memo(pod, static, self, asks, packs=self._packs(pod))
        return found

    def is_like(self, pod: Pod, pod_class: PodClass | None) -> bool:
        """Return whether a pod by itself is one of a class. O(plugins)."""
        return pod_class is not None and self._signature(pod) == pod_class.signature

    @property
    def spreads(self) -> bool:
        """Whether pods take as many nodes as there are."""
        return self._placement is PlacementStrategy.SPREAD

    def _packs(self, pod: Pod) -> bool:
        """Return whether pods like this one fill nodes."""
        match self._placement:
            case PlacementStrategy.PACK:
                return True
            case PlacementStrategy.AUTO:
                return any("/" in name for name in pod.requests)
            case _:
                return False

    def _sort(self, pod: Pod) -> AskedPlugins:
        """Return which plugins are asked about pods like this one, and how."""
        filters: list[Any] = []
        scores: list[tuple[Any, int]] = []
        late: list[Late] = []
        tells_apart = False
        for plugin in self._others:
            weight = self._weight(plugin)
            filtering = _has(plugin, "filter") and not _skips(plugin, pod)
            reads_pods = _has(plugin, "reads_pods") and bool(
                calls.call(plugin, "reads_pods", pod, bool, pod)
            )
            prepares = _has(plugin, "pre_score")
            if _is_signed(plugin) and not (reads_pods or prepares):
                if filtering:
                    filters.append(plugin)
                if weight and not _has(plugin, "normalize_score"):
                    scores.append((plugin, weight))
                late += _late_besides(plugin, filtering, weight)
            elif filtering or weight or prepares:
                tells_apart |= filtering and not _has(plugin, _SIGNED)
                late.append(self._late(plugin, filtering, weight, reads_pods=reads_pods))
        return AskedPlugins(tuple(filters), tuple(scores), tuple(late), tells_apart)

    def _late(self, plugin: Any, filtering: bool, weight: int, *, reads_pods: bool) -> Late:
        """Return how a plugin is asked that is asked about single nodes alone."""
        return Late(
            *(plugin, filtering, weight),
            prepares=_has(plugin, "pre_score"),
            shows_pods=reads_pods,
            # without a signature it may read any pod
            reads_pods=filtering and (reads_pods or not _has(plugin, _SIGNED)),
            may_skip=_has(plugin, "scores_in_cycle") and not (filtering or reads_pods),
            is_first=filtering and any(each is plugin for each in self._first),
        )

    def carried(self, pod: Pod) -> tuple[CarriedTerm, ...]:
        """Return the terms that a pod carries to its node; none for most pods."""
        found: list[CarriedTerm] = []
        for plugin in self._that_read(pod, self._affecting):
            found += calls.call(plugin, "pods_affected", pod, Iterable, pod)
        return tuple(found)

    def selectors(self, pod: Pod) -> tuple[PodMatcher, ...]:
        """Return the selectors of other pods that a pod states; none for most pods."""
        read = self._read
        if read is not None and read[0] is pod:
            return read[1]
        found: list[PodMatcher] = []
        if self._that_read(pod, self._stating):
            found += [term.pods for term in self.carried(pod)]
            for plugin in self._that_read(pod, self._selecting):
                found += calls.call(plugin, "pods_selected", pod, Iterable, pod)
        selectors = tuple(dict.fromkeys(found))
        self._read = pod, selectors
        return selectors

    def _that_read(self, pod: Pod, plugins: Sequence[Any]) -> list[Any]:
        """Return the plugins that read other pods for a pod; none for most pods. O(plugins)."""
        found: list[Any] = []
        plugin: Any = None
        try:
            for plugin in plugins:
                says: object = plugin.reads_pods(pod)
                if says is True:
                    found.append(plugin)
                elif says is not False:
                    raise calls.returned(plugin, "reads_pods", pod, says)
        except PluginError:
            raise
        except Exception as error:
            raise calls.raised(plugin, "reads_pods", pod, error) from error
        return found

    def _weight(self, plugin: Any) -> int:
        """Return the weight of a plugin; 0 for one that does not score."""
        return self.profile.weights.get(calls.name_of(plugin), 1) if _has(plugin, "score") else 0

    def _objects_read(self, pod: Pod) -> frozenset[type[ClusterObject]]:
        """Return the kinds of other objects that plugins read for a pod; none for most pods."""
        found: set[type[ClusterObject]] = set()
        for plugin in self._object_readers:
            found.update(calls.call_for_kinds(plugin, "objects_read", pod, pod))
        if self.selections.reads_namespace(pod):
            found.add(Namespace)
        return frozenset(found)

    def readers(self, kinds: Iterable[type[ClusterObject]]) -> list[PodClass]:
        """Return the classes for which plugins read objects of some kinds. O(classes)."""
        if not self._object_readers:
            return []
        return [each for each in self._classes.values() if not each.objects.isdisjoint(kinds)]

    def watch(self, labels: Chain) -> None:
        """Distinguish nodes by labels."""
        self.table.watch(labels)

    def note_used(self, used: Memo) -> None:
        """Note that the answers of a memo are needed; drop those not used for longest."""
        recent = self._recent
        recent[used] = None
        recent.move_to_end(used)
        while len(recent) > _FEW and len(recent) * len(self.table.states) > self._memory:
            recent.popitem(last=False)[0].forget()

    def forget(self) -> None:
        """Drop all answers: the effects stay the same."""
        for known in list(self._classes.values()):
            known.forget()
        self._kept.clear()
        self._recent.clear()
        self._read = None

    def _signature(self, pod: Pod) -> tuple[Hashable, ...]:
        parts: list[Hashable] = [pod.requests, pod.requests.defaulted]
        plugin: Any = None
        try:
            for plugin in self._signers:
                parts.append(plugin.pod_signature(pod))
        except Exception as error:
            raise calls.raised(plugin, _SIGNED, pod, error) from error
        return tuple(parts)

    def _labels(self, pod: Pod) -> Chain:
        found: dict[str, None] = {}
        for plugin in self._readers:
            names: Iterable[str] = calls.call_for_names(plugin, "labels_read", pod, pod)
            found.update(dict.fromkeys(names))
        return tuple(found)

    # Answers ------------------------------------------------------------------------------------

    def static(self, pod: Pod, filters: Filters, scores: Scores, node: Node) -> int | Unschedulable:
        """Return the static score of a kind of nodes, or why it is refused.

        Raises:
            PluginError: A plugin raised, or returned what the point does not allow.
        """
        view = StaticView(node)
        for plugin in filters:
            answer = calls.call(plugin, "filter", pod, _FILTER, self._cycle, pod, view)
            if isinstance(answer, Unschedulable):
                return answer
        return sum(w * self.score(p, self._cycle, pod, view) for p, w in scores)

    def capacity_scores(
        self, pod: Pod, states: Sequence[NodeState], *, packs: bool
    ) -> list[int] | None:
        """Return the score of each state by its capacity; None if there is no such score."""
        total: list[int] | None = None
        for plugin, weight in self._capacity:
            by_amounts = _has(plugin, "scores_by_amounts")
            if not weight or (packs and _compares(plugin)):
                continue  # a pod that fills nodes is not spread by the default score
            if by_amounts and is_about(plugin, "scores_by_amounts", "score"):
                frees, offers = [s.free for s in states], [s.offered for s in states]
                found = plugin.scores_by_amounts(pod, self.table.resources, frees, offers)
            else:
                views = (StateView(self.table, state) for state in states)
                found = [self.score(plugin, self._cycle, pod, view) for view in views]
            found = found if weight == 1 else [weight * score for score in found]
            total = found if total is None else [a + b for a, b in zip(total, found, strict=True)]
        return total

    def kind_score(self, late: Late, pod: Pod, node: Node) -> int:
        """Return the score of a plugin for a kind of nodes, before it is normalized."""
        return self.score(late.plugin, self._cycle, pod, StaticView(node))

    def score(self, plugin: Any, cycle: CycleState, pod: Pod, node: Any) -> int:
        """Return the score of one plugin for one node: any int if the plugin normalizes it."""
        answer = calls.call(plugin, "score", pod, object, cycle, pod, node)
        normalizes = _has(plugin, "normalize_score")
        if type(answer) is not int or not (normalizes or 0 <= answer <= 100):
            raise calls.returned(plugin, "score", pod, answer, "an int" if normalizes else "")
        score: int = answer
        return score


_FEW: Final = 64
"""Memos of which the answers are kept in any case, and classes that are kept without a pod."""


def _has(plugin: Any, method: str) -> bool:
    return callable(getattr(plugin, method, None))


def _is_hashable(part: object) -> bool:
    try:
        hash(part)
    except Exception:
        return False
    return True


def _compares(plugin: Any) -> bool:
    """Return whether the filter of a plugin compares requests with what is free, and no more."""
    return _has(plugin, "fitted") and is_about(plugin, "fitted", "filter")


def _scores_states(plugin: Any) -> bool:
    """Return whether a plugin only scores, by amounts."""
    by_amounts = not _has(plugin, "filter") and _has(plugin, "scores_by_amounts")
    return by_amounts and is_about(plugin, "scores_by_amounts", "score")


def _is_signed(plugin: Any) -> bool:
    return _has(plugin, _SIGNED) and signs_node_alone(plugin)


def _late_besides(plugin: Any, filtering: bool, weight: int) -> list[Late]:
    """Return what a static plugin is asked about single nodes: about the pods that are there.

    Or it is asked for scores that are relative to those of other nodes.
    """
    if _has(plugin, "pods_affected"):
        return [Late(plugin, filtering, weight, only_about_carried=True)]
    if weight and _has(plugin, "normalize_score"):
        may_skip = _has(plugin, "scores_in_cycle")
        return [Late(plugin, False, weight, by_kind=not may_skip, may_skip=may_skip)]
    return []


def _skips(plugin: Any, pod: Pod) -> bool:
    """Return whether a plugin accepts every node for a pod."""
    return _has(plugin, "skips") and bool(calls.call(plugin, "skips", pod, bool, pod))
