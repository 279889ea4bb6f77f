"""Filter and score nodes for a pod, once for each equivalence class of nodes.

Two ways lead to the scores. If every plugin gives a signature, the answers of a pod class are kept,
and after a change only the new classes of nodes are asked. A plugin with ``pre_score`` or
``normalize_score`` looks at all passing nodes at once, so that one changed node may change every
score: then the answers are good for one scheduling cycle, and each cycle asks about all nodes.

A node that is only hypothetical, such as a node after a sibling was planned for it, is scored in
the same way. ``pre_score`` is called again only if that node did not pass before. The score of the
node is normalized among the passing nodes, in the place of the node that it was.

Rules:
  R1  a plugin that distinguishes few nodes is asked once for all nodes that look alike to it,
      although other plugins distinguish them;
  R2  a score is an int from 0 to 100 after normalization, and is then multiplied by its weight;
  R3  nodes of one class have one score, so equal raw scores must be normalized alike.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, cast, final

from gangsched import _plugin_calls as calls
from gangsched.cycle_state import CycleState
from gangsched.errors import GangschedError
from gangsched.framework.nodes.judgements import Judge, Judgement
from gangsched.framework.nodes.node_class import NodeClass, NodeKind
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.runtime import pod_readers, signatures
from gangsched.framework.runtime.evaluator import Evaluator
from gangsched.framework.state.pod_classes import PodClasses
from gangsched.framework.state.pods import Member
from gangsched.framework.state.settings import Settings
from gangsched.model import NodeName, Pod
from gangsched.options.scheduling_unit import (
    PlacementStrategy,
    SchedulingUnit,
    strategy_for,
)
from gangsched.outcomes import SUCCESS, Outcome, Skip, Success, Unschedulable
from gangsched.protocols import NodeView

__all__ = [
    "accepts",
    "evaluate_ahead",
    "evaluate_nodes",
    "is_resolvable",
    "judged",
    "note_fitted",
    "packs",
    "share_judgements",
]

_FILTERED: Final = (Success, Skip, Unschedulable)
_UNBOUNDED: Final = 1 << 40
_EVALUATOR: Final = "evaluator"
"""The key of the evaluator among the answers; those of plugins have tuples."""
_BEST: Final = 100


@final
class _Judge:
    """Filter, bound and score nodes for one pod; see ``gangsched.framework.nodes.pod_class.Judge``.

    Attributes:
        outcome: What ``pre_score`` returned; ``Success`` before it is called.
    """

    def __init__(
        self,
        settings: Settings,
        nodes: Nodes,
        cycle: CycleState,
        pod_class: PodClass,
        pod: Pod,
        now: float,
    ) -> None:
        self._profile = settings.profile
        self._nodes = nodes
        self._cycle = cycle
        self._answers = pod_class.judgements.answers
        profile = settings.profile
        if pod_class.filters is None:
            pod_class.filters = _filters(settings, pod)
        self._filters: tuple[Any, ...] = pod_class.filters
        self._weighted: tuple[tuple[Any, int], ...] = profile.weighted
        self._normalizers: Mapping[int, Any] = profile.normalizers
        self._headrooms: tuple[Any, ...] = profile.headrooms
        if pod_class.reads_pods or profile.affecting_scores:
            # these are asked about single nodes; see pod_readers. A plugin with carried terms gives
            # all nodes one score if no term is about the pod
            apart = pod_readers.readers(settings, pod, is_affected=True)
            in_cycle = pod_readers.scoring_by_pods(settings, cycle, pod)
            reading = {id(plugin) for plugin in (*apart, *in_cycle)}
            self._weighted = tuple(each for each in profile.weighted if id(each[0]) not in reading)
            self._normalizers = {n: p for n, p in profile.normalizers.items() if n not in reading}
            self._headrooms = tuple(p for p in profile.headrooms if id(p) not in reading)
        self._pod = pod
        self._now = now
        self._passing: dict[NodeName, NodeView] = {}
        self._raw: dict[int, dict[NodeName, int]] = {}
        self._totals: dict[NodeClass, int] = {}
        self.outcome: Outcome = SUCCESS
        evaluator: Evaluator | None = None
        if profile.evaluating is not None:
            evaluator = self._answers.get(_EVALUATOR)
            if evaluator is None:
                weight = next(w for p, w in self._weighted if p is profile.evaluating)
                evaluator = self._answers[_EVALUATOR] = Evaluator(profile.evaluating, weight, pod)
        self._evaluator = evaluator

    def quick(self, given: NodeClass) -> Judgement | None:
        evaluator, kind = self._evaluator, given.kind
        if evaluator is None or kind is None or evaluator.function is None:
            return None
        accepted = evaluator.accepted.get(kind)
        if accepted is None:
            known = evaluator.refused.get(kind)
            return self._first_of_kind(evaluator, kind, given) if known is None else known
        try:
            found = evaluator.function(given)
            known = accepted[1].get(found)
        except Exception as error:
            raiser: Any = self._profile.evaluating
            raise calls.raised(raiser, "node_evaluator", self._pod, error) from error
        if known is not None:
            return known
        plugin: Any = self._profile.evaluating
        if found is None:
            refusal = self._call(plugin, "filter", given)
            return Judgement(0, 0, refusal.reasons) if type(refusal) is Unschedulable else None
        return evaluator.note(plugin, accepted, found, self._pod, is_real=bool(given.nodes))

    def _first_of_kind(
        self, evaluator: Evaluator, kind: NodeKind, given: NodeClass
    ) -> Judgement | None:
        """Ask every plugin about a class; keep what others say of all classes of its kind."""
        own, before = self._profile.evaluating, True
        for plugin in self._filters:
            before = before and plugin is not own
            answer: Outcome = self._ask(plugin, "filter", given)
            if answer is not SUCCESS and isinstance(answer, Unschedulable):
                refused = Judgement(0, 0, answer.reasons)
                if before:
                    evaluator.refused[kind] = refused
                return refused
        others = total = 0
        for plugin, weight in self._weighted:
            score: int = weight * self._ask(plugin, "score", given)
            total += score
            others += 0 if plugin is own else score
        evaluator.accept(kind, others)
        return Judgement(total, self._headroom(given), ())

    def screen(self, given: NodeClass) -> tuple[int, tuple[str, ...]]:
        for plugin in self._filters:
            answer: Outcome = self._ask(plugin, "filter", given)
            if answer is not SUCCESS and isinstance(answer, Unschedulable):
                return (0, answer.reasons)
        return (self._headroom(given), ())

    def _headroom(self, given: NodeClass) -> int:
        pod, headroom = self._pod, _UNBOUNDED
        for bounding in self._headrooms:
            bound = calls.call_for_count(bounding, "headroom", pod, pod, given)
            headroom = min(headroom, bound)
        return headroom

    def is_resolvable(self, given: NodeClass) -> bool:
        """Return False if any filter refuses a node and says that evictions cannot help."""
        # all are asked: one that cannot be helped may come after a lack of capacity
        for plugin in self._filters:
            answer: Outcome = self._ask(plugin, "filter", given)
            if isinstance(answer, Unschedulable) and not answer.resolvable:
                return False
        return True

    def before_scoring(self, found: Sequence[NodeClass]) -> None:
        profile = self._profile
        if not profile.pre_score and not self._normalizers:
            return
        views = self._views(found)
        if profile.pre_score and not self._passing.keys() >= views.keys():
            self._passing |= views
            shown = tuple(self._passing.values())
            args = (self._cycle, self._pod, shown)
            self.outcome = calls.first_unschedulable(
                profile.pre_score, "pre_score", self._pod, *args, now=self._now
            )
        if self._normalizers and not isinstance(self.outcome, Unschedulable):
            self._normalize(found)

    def score(self, given: NodeClass) -> int:
        if isinstance(self.outcome, Unschedulable):
            return 0
        if self._normalizers:
            return self._totals[given]
        return sum(weight * self._ask(plugin, "score", given) for plugin, weight in self._weighted)

    def _ask(self, plugin: Any, point: str, given: NodeClass) -> Any:
        part = self._profile.parts.get(id(plugin))
        if part is None or given.key is None:
            return self._call(plugin, point, given)
        number, reads_labels, is_changing = part
        if is_changing and not given.is_signed:
            return self._call(plugin, point, given)
        known: dict[Hashable, Any] | None = self._answers.get((number, point))
        if known is None:
            known = self._answers[number, point] = {}
        key = given.key
        seen = (key[number], key[-1]) if reads_labels else key[number]
        answer = known.get(seen)
        if answer is None:
            answer = known[seen] = self._call(plugin, point, given)
        return answer

    def _call(self, plugin: Any, point: str, given: NodeClass) -> Any:
        pod, args = self._pod, (self._cycle, self._pod, given)
        if point == "filter":
            return calls.call(plugin, point, pod, _FILTERED, *args)
        answer: Any = calls.call(plugin, point, pod, object, *args)
        normalizes = id(plugin) in self._normalizers
        if type(answer) is not int:
            raise calls.returned(plugin, point, pod, answer, "an int" if normalizes else "")
        if normalizes or 0 <= answer <= _BEST:
            return answer
        if given.nodes:
            raise calls.returned(plugin, point, pod, answer)
        # a node that does not exist may have more free than it can have, to find what is scarce
        return min(max(answer, 0), _BEST)

    def _views(self, found: Sequence[NodeClass]) -> dict[NodeName, NodeView]:
        """Return the nodes of classes, in the order of nodes; of an empty class, its sample."""
        nodes = self._nodes.by_index
        indices = sorted(index for given in found for index in given.nodes)
        views: dict[NodeName, NodeView] = {nodes[n].node.name: nodes[n] for n in indices}
        for given in found:
            if not given.nodes:
                views.setdefault(given.node.name, given)
        return views

    def _names(self, given: NodeClass) -> list[NodeName]:
        nodes = self._nodes.by_index
        return [nodes[n].node.name for n in given.nodes] or [given.node.name]

    def _normalize(self, found: Sequence[NodeClass]) -> None:
        """Compute the total scores of classes. O(passing nodes) for each plugin that normalizes."""
        names = {given: self._names(given) for given in found}
        totals = dict.fromkeys(found, 0)
        for plugin, weight in self._weighted:
            raw = {given: self._ask(plugin, "score", given) for given in found}
            if id(plugin) in self._normalizers:
                by_name = {name: raw[given] for given in found for name in names[given]}
                scores = self._normalized(plugin, by_name)
                for given in found:
                    raw[given] = self._common(plugin, scores, names[given])
            for given in found:
                totals[given] += weight * raw[given]
        self._totals |= totals

    def _normalized(self, plugin: Any, found: dict[NodeName, int]) -> Mapping[NodeName, int]:
        """Return the normalized scores of nodes, among all nodes that are scored in this cycle."""
        among = {**self._raw.get(id(plugin), {}), **found}
        self._raw.setdefault(id(plugin), among)
        point = "normalize_score"
        answer = calls.call(plugin, point, self._pod, Mapping, self._cycle, self._pod, dict(among))
        try:
            scores: dict[Any, Any] = dict(answer)
        except Exception as error:
            raise calls.raised(plugin, point, self._pod, error) from error
        if scores.keys() != among.keys():
            raise calls.returned(plugin, point, self._pod, answer)
        if not all(type(score) is int and 0 <= score <= _BEST for score in scores.values()):
            raise calls.returned(plugin, point, self._pod, answer)
        return scores

    def _common(
        self, plugin: Any, scores: Mapping[NodeName, int], names: Sequence[NodeName]
    ) -> int:
        """Return the one score of the nodes of a class; see R3."""
        score = scores[names[0]]
        if any(scores[name] != score for name in names):
            unequal = {name: scores[name] for name in names}
            raise calls.returned(plugin, "normalize_score", self._pod, unequal)
        return score


def _filters(settings: Settings, pod: Pod) -> tuple[Any, ...]:
    """Return the filters that are asked about classes of nodes for pods like *pod*.

    Those that read pods on nodes are asked about single nodes, see ``pod_readers``; and those that
    skip the pod are not asked.
    """
    profile = settings.profile
    apart = {id(plugin) for plugin in pod_readers.readers(settings, pod, is_affected=True)}
    return tuple(
        plugin
        for plugin in profile.filter
        if id(plugin) not in apart
        and not (
            id(plugin) in profile.skipping and calls.call(plugin, "skips", pod, bool, pod) is True
        )
    )


def judged(settings: Settings, nodes: Nodes, pod_class: PodClass, now: float) -> PodClass:
    """Return a class of signed pods, evaluated against the nodes as they are.

    Runtime complexity: O(1) if no node has changed; see ``Judgements.refresh``.
    """
    if pod_class.judgements.follow(nodes.classes):
        return pod_class
    cycle = CycleState(None, nodes.infos, settings.cluster, nodes.counts)
    judge = _Judge(settings, nodes, cycle, pod_class, pod_class.sample, now)
    pod_class.judgements.refresh(nodes, judge)
    return pod_class


def evaluate_ahead(
    settings: Settings, nodes: Nodes, pod_classes: PodClasses, member: Member, now: float
) -> None:
    """Evaluate the nodes for the class of a pod, before the first scheduling cycle of such a pod.

    Gangs with affinity have a class each, because their terms name them. The judgements leave out
    the plugins that read such terms, so they are shared with classes that are like it otherwise.

    An error of a plugin is suppressed here: the scheduling cycle asks again, and names the pod.
    """
    if not settings.profile.signed:
        return
    pod_class = member.pod_class
    with suppress(GangschedError):
        if pod_class.fitted is None:  # a class with running pods only may get pending ones again
            note_fitted(settings, pod_class)
        share_judgements(settings, pod_classes, pod_class)
        judged(settings, nodes, pod_class, now)
        pod_class.judgements.put_in_order(packs=packs(settings, member))


def packs(settings: Settings, member: Member) -> bool:
    """Return whether the nodes for a pod are read in the order of packing. O(resources)."""
    if settings.unit is not SchedulingUnit.GROUP:
        return False
    return strategy_for(settings.placement, member.requests) is PlacementStrategy.PACK


def share_judgements(settings: Settings, pod_classes: PodClasses, pod_class: PodClass) -> None:
    """Let a class share the judgements of classes that differ in terms about other pods only.

    Nothing changes if it does already. O(plugins).

    Raises:
        PluginError: A plugin raised.
    """
    if not (settings.profile.pod_readers and pod_class.reads_pods):
        return
    pod = pod_class.sample
    apart = {id(p) for p in pod_readers.readers(settings, pod, is_affected=True)}
    signers = zip(settings.profile.signers, _parts(pod_class), strict=True)
    # the position of a plugin tells classes apart for which other plugins are asked
    parts = tuple((n, part) for n, (plugin, part) in enumerate(signers) if id(plugin) not in apart)
    pod_classes.share(pod_class, (pod.requests, parts))


def note_fitted(settings: Settings, pod_class: PodClass) -> None:
    """Note what a node must have free to take a pod of a class; nothing if a plugin raises."""
    with suppress(GangschedError):
        pod = pod_class.sample
        resources = sorted(signatures.fitted(settings, pod))
        pod_class.fitted = tuple((n, int(pod.requests.amount(n))) for n in resources)


def _parts(pod_class: PodClass) -> tuple[Hashable, ...]:
    """Return what each signer reads of the pods of a class; see ``signatures.signature``."""
    return cast("tuple[Hashable, ...]", pod_class.signature)


def evaluate_nodes(
    settings: Settings, nodes: Nodes, cycle: CycleState, member: Member, now: float
) -> tuple[PodClass, Judge, Outcome]:
    """Filter and score the nodes for one pod.

    Returns:
        The evaluated class of the pod, the judge for hypothetical nodes, and what ``pre_score``
        returned.
    """
    pod_class = member.pod_class
    if not settings.profile.signed:
        # an answer that may depend on the cycle is good for this cycle alone
        reads = pod_class.reads_pods or bool(
            pod_readers.scoring_by_pods(settings, cycle, member.pod)
        )
        pod_class = PodClass(pod_class.signature, member.pod, reads_pods=reads)
    judge = _Judge(settings, nodes, cycle, pod_class, member.pod, now)
    pod_class.judgements.refresh(nodes, judge)
    return pod_class, judge, judge.outcome


def accepts(
    settings: Settings,
    nodes: Nodes,
    cycle: CycleState,
    member: Member,
    given: NodeClass,
    now: float,
) -> bool:
    """Return whether the filters accept nodes of a class, which may have none. O(plugins).

    Left out are the plugins that read, for the pod, which pods are on nodes.
    """
    pod_class = member.pod_class
    if not settings.profile.signed:
        pod_class = PodClass(pod_class.signature, member.pod, reads_pods=pod_class.reads_pods)
        judge = _Judge(settings, nodes, cycle, pod_class, member.pod, now)
        return not judge.screen(given)[1]
    judge = _Judge(settings, nodes, cycle, pod_class, member.pod, now)
    return not pod_class.judgements.judgement(given, judge).reasons


def is_resolvable(
    settings: Settings,
    nodes: Nodes,
    cycle: CycleState,
    member: Member,
    given: NodeClass,
    now: float,
) -> bool:
    """Return whether evictions may make nodes of a class take a pod.

    False if a filter refuses such a node with ``resolvable=False``; that is kube-scheduler's
    ``UnschedulableAndUnresolvable``.
    """
    pod_class = member.pod_class
    if not settings.profile.signed:
        pod_class = PodClass(pod_class.signature, member.pod, reads_pods=pod_class.reads_pods)
    judge = _Judge(settings, nodes, cycle, pod_class, member.pod, now)
    return judge.is_resolvable(given)
