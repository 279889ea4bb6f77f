"""Pods that get equal answers from every plugin.

A class shares its ``Memo`` with all classes of which capacity and static plugins read the same.
These differ only for plugins that are asked about single nodes: by terms of a gang about its own
pods, for example.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, final

from gangsched.cluster_objects import ClusterObject
from gangsched.core.evaluation.memo import Filters, Memo, Scores
from gangsched.core.nodes.domains import Chain
from gangsched.core.nodes.node_table import PODS, Needs, NodeTable
from gangsched.cycle_state import CycleState
from gangsched.model import Node, Pod

__all__ = ["AskedPlugins", "Late", "LateScores", "PodClass"]


class Late(NamedTuple):
    """A plugin that is asked about single nodes.

    Attributes:
        plugin: The plugin.
        filters: Whether it refuses nodes.
        weight: The weight of its score; 0 if it does not score.
        only_about_carried: Whether it has to be asked only if a pod on a node carries a term about
            the pod; see ``gangsched.protocols.PodExtensions``.
        prepares: Whether it is told of all nodes that are accepted, before they are scored.
        shows_pods: Whether it may read the pods on a node: it says that it reads them.
        reads_pods: Whether its answers may depend on pods on any node.
        is_first: Whether it comes before what compares requests with what is free: its reasons do.
        by_kind: Whether it only scores, and gives one score to all nodes of a static kind.
        may_skip: Whether it says in a cycle if it tells nodes apart at all.
    """

    plugin: Any
    filters: bool
    weight: int
    only_about_carried: bool = False
    prepares: bool = False
    shows_pods: bool = True
    reads_pods: bool = False
    is_first: bool = False
    by_kind: bool = False
    may_skip: bool = False


class AskedPlugins(NamedTuple):
    """The plugins that are asked about the pods of a class.

    Attributes:
        filters: Those that filter kinds of nodes.
        scores: Those that score kinds of nodes, with their weights.
        late: Those that are asked about single nodes.
        tells_apart: Whether a filter that signs no pods may refuse one and accept another one.
    """

    filters: Filters
    scores: Scores
    late: tuple[Late, ...]
    tells_apart: bool


class LateScores(Protocol):
    """What plugins score that are asked about single nodes; ``Evaluator`` answers."""

    @property
    def spreads(self) -> bool:
        """Whether pods take as many nodes as there are."""
        ...

    def kind_score(self, late: Late, pod: Pod, node: Node, /) -> int:
        """Return the score of a plugin for a kind of nodes, before it is normalized."""
        ...

    def score(self, plugin: Any, cycle: CycleState, pod: Pod, node: Any, /) -> int:
        """Return the score of one plugin for one node."""
        ...


@final
class PodClass:
    """Pods that get equal answers.

    Attributes:
        number: Unique, ascending in the order of creation.
        signature: What the answers depend on, of the pod itself. Classes with one signature differ
            in the selectors of other pods that are about them; see ``selections``.
        sample: One of these pods.
        memo: What capacity and static plugins say about them.
        needs: What one of them takes of its node; ``compared``: what has to be free for it.
        labels: The node labels that are read for them.
        packs: Whether they fill nodes; ``spreads``: whether they take as many as there are.
        plugins: The plugins that are asked about them.
        objects: The kinds of other objects that plugins read for them.
        late: The plugins that are asked about single nodes.
        reads_pods: Whether pods that come or go on any node may help them.
        reads_terms: Whether they may if they carry terms about other pods.
        least: What one of them needs, by the number of a resource, but for its place as a pod.
        is_asked_late: Whether one of them has to be asked though no pod carries terms.
        tells_apart: See ``AskedPlugins``.
        concerned: By point, the plugins that have to do with them; see ``Points.concerned``.
    """

    DERIVED: ClassVar[Mapping[str, Callable[[], Any]]] = {"_even": dict, "concerned": dict}
    """What a copy begins with in place of the answers."""

    __slots__ = (
        *("_even", "compared", "concerned", "evaluator", "is_asked_late", "labels", "late"),
        *("least", "memo", "needs", "number", "objects", "packs", "plugins", "reads_pods"),
        *("reads_terms", "sample", "signature", "spreads", "table", "tells_apart", "__weakref__"),
    )

    def __init__(
        self,
        number: int,
        signature: Hashable,
        sample: Pod,
        memo: Memo,
        labels: Chain,
        plugins: AskedPlugins,
        objects: frozenset[type[ClusterObject]],
        evaluator: LateScores,
    ) -> None:
        self.number: int = number
        self.signature: Hashable = signature
        self.sample: Pod = sample
        self.memo: Memo = memo
        self.labels: Chain = labels
        self.plugins: AskedPlugins = plugins
        self.objects: frozenset[type[ClusterObject]] = objects
        self.evaluator: LateScores = evaluator
        self.table: NodeTable = memo.table
        self.needs: Needs = memo.needs
        self.compared: tuple[tuple[int, int], ...] = memo.compared
        self.packs: bool = memo.packs
        self.spreads: bool = evaluator.spreads
        self.late: tuple[Late, ...] = plugins.late
        self.reads_pods: bool = any(each.reads_pods for each in plugins.late)
        self.reads_terms: bool = any(each.only_about_carried for each in plugins.late)
        self.least: dict[int, int] = {n: amount for n, amount in sorted(memo.compared) if n != PODS}
        self.is_asked_late: bool = any(not each.only_about_carried for each in plugins.late)
        self.tells_apart: bool = plugins.tells_apart
        self.concerned: dict[str, tuple[Any, ...]] = {}
        self._even: dict[int, tuple[int, int, frozenset[int]]] = {}

    def forget(self) -> None:
        """Drop all answers."""
        self._even.clear()
        self.memo.forget()

    def is_even(self, late: Late) -> bool:
        """Return whether a plugin gives one score to every static kind of nodes. O(new kinds)."""
        table, plugin = self.table, late.plugin
        samples = table.samples
        numbering, seen, scores = self._even.get(id(plugin), (-1, 0, frozenset[int]()))
        if numbering != table.numbering:
            seen, scores = 0, frozenset[int]()
        if len(scores) < 2 and seen < len(samples):
            found = (self.evaluator.kind_score(late, self.sample, node) for node in samples[seen:])
            scores = scores.union(found)
            self._even[id(plugin)] = table.numbering, len(samples), scores
        return len(scores) < 2

    def __repr__(self) -> str:
        return f"<PodClass {self.number} like {self.sample.name!r}>"
