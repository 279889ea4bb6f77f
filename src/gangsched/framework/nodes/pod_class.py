"""PodClass: an equivalence class of pods, evaluated once for each class of nodes.

Theory of operation. Pods with equal signatures get equal answers for each class of nodes. So a
class of pods keeps one judgement for each class of nodes. An infeasible class has reasons. A
feasible class has a score and an upper bound on how many such pods a node takes. ``refresh`` reads
the log of moves of nodes between classes, judges the new classes, and updates the counts.

Invariants (checked by ``_check``):
  I1  after ``refresh`` each class with nodes has a judgement;
  I2  the order has the feasible classes with nodes by score, highest first;
  I3  the reasons count the nodes that cannot take such a pod, and ``headroom`` is the sum of the
      upper bounds of the other nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, final

from sortedcontainers import SortedList

from gangsched.constraints.matchers import CarriedTerm
from gangsched.errors import InternalError
from gangsched.explain import Diagnosis
from gangsched.framework.nodes.node_class import Move, NodeClass, NodeClasses
from gangsched.framework.nodes.node_table import Nodes
from gangsched.model import NodeName, Pod

__all__ = ["Judge", "Judgement", "PodClass"]


class Judge(Protocol):
    """Evaluates classes of nodes for one class of pods."""

    def screen(self, given: NodeClass) -> tuple[int, tuple[str, ...]]:
        """Return the headroom, and the reasons against a node; none for a feasible node."""
        ...

    def before_scoring(self, found: Sequence[NodeClass]) -> None:
        """Prepare for the scoring of the feasible classes *found*."""
        ...

    def score(self, given: NodeClass) -> int:
        """Return how good a feasible node is."""
        ...


class _Rank(NamedTuple):
    """The sort keys of a feasible class of nodes.

    Attributes:
        score: The key by score, the best first.
        packing: The sort key for packing: whether an extended resource is stranded, then pods per
            node.
    """

    score: tuple[int, int, NodeClass]
    packing: tuple[bool, int, int, NodeClass]


class Judgement(NamedTuple):
    """The answers of plugins for a class of nodes.

    Attributes:
        score: The sum of the scores.
        max_pods: An upper bound on the number of such pods that a node can take; 0 if infeasible.
        reasons: Why a node is infeasible; empty if it is feasible.
    """

    score: int
    max_pods: int
    reasons: tuple[str, ...]


@final
class PodClass:
    """The judgements of all nodes for pods with one signature.

    Attributes:
        signature: The signature.
        sample: One of these pods.
        labels: The keys of the node labels that plugins read for these pods.
        reads_pods: Whether a plugin reads, for these pods, which pods are on nodes. Such plugins
            are left out of the judgements here, which are then an upper bound; see
            ``gangsched.framework.runtime.pod_readers``.
        watches_pods: Whether pods of this class depend on other pods on nodes, or carry terms about
            them.
        carried: The terms that such a pod carries to its node; see ``PodsAffected``.
        filters: The filter plugins that are asked about classes of nodes for these pods; None
            before the first question.
        objects: The classes of objects that plugins read for these pods.
        users: The number of known pods of this class.
        answers: Answers of plugins by the part of the node that they read; used by the judge.
        headroom: An upper bound on the number of such pods that the cluster can take, if no other
            pods are placed.
    """

    __slots__ = (
        "_by_max_pods",
        "_epoch",
        "_judged",
        "_nodes",
        "_order",
        "_ordered",
        "_reasons",
        "_seen",
        "answers",
        "carried",
        "filters",
        "headroom",
        "labels",
        "objects",
        "reads_pods",
        "sample",
        "signature",
        "users",
        "watches_pods",
    )

    def __init__(
        self,
        signature: Hashable,
        sample: Pod,
        labels: frozenset[str] = frozenset(),
        *,
        reads_pods: bool = False,
        watches_pods: bool = False,
        carried: tuple[CarriedTerm, ...] = (),
        objects: frozenset[type[Any]] = frozenset(),
    ) -> None:
        self.signature: Hashable = signature
        self.sample: Pod = sample
        self.labels: frozenset[str] = labels
        self.reads_pods: bool = reads_pods
        self.watches_pods: bool = watches_pods or bool(carried)
        self.carried: tuple[CarriedTerm, ...] = carried
        self.filters: tuple[Any, ...] | None = None
        self.objects: frozenset[type[Any]] = objects
        self.users: int = 0
        self.headroom: int = 0
        self.answers: dict[Hashable, Any] = {}
        self._seen = -1
        self._epoch = 0
        self._nodes = 0
        self._judged: dict[NodeClass, Judgement] = {}
        self._ordered: dict[NodeClass, _Rank] = {}
        # each order is built when it is first needed, since most classes need one or none
        self._order: Any = None
        self._by_max_pods: Any = None
        self._reasons: Counter[str] = Counter()

    def refresh(self, nodes: Nodes, judge: Judge) -> None:
        """Judge the classes of nodes that are new since the last call, and update the counts.

        Runtime complexity: O(nodes that changed) and O(new classes x plugins); O(1) if no node has
        changed.
        """
        classes = nodes.classes
        if self._seen == classes.version:
            self._forget_unused(classes)
            return
        moves = classes.since(self._seen)
        if moves is None:
            found: dict[NodeClass, int] = {c: len(c.nodes) for c in classes.occupied()}
        else:
            found = _net(moves)
        self._judge(found, judge)
        # no plugin is called from here on, so nothing raises with half of the counts updated
        if moves is None:
            self.headroom = self._nodes = 0
            self._order = self._by_max_pods = None
            self._reasons.clear()
            self._ordered = {c: self._rank(c) for c in found if not self._judged[c].reasons}
        for node_class, count in found.items():
            self._count(node_class, count)
        self._seen = classes.version
        self._forget_unused(classes)

    def forget_judgements(self) -> None:
        """Forget all answers, because something besides the nodes has changed. O(1).

        The next ``refresh`` judges every class of nodes again.
        """
        self._seen = -1
        self._judged = {}
        self.answers.clear()

    def _forget_unused(self, classes: NodeClasses) -> None:
        """Drop the judgements of classes that were dropped; all moves have been counted."""
        if self._epoch != classes.epoch:
            self._epoch = classes.epoch
            self._judged = {c: known for c, known in self._judged.items() if c.nodes}
            self.answers.clear()

    def judgement(self, node_class: NodeClass, judge: Judge) -> Judgement:
        """Return the judgement of a class, which may have no nodes. O(1), else O(plugins)."""
        known = self._judged.get(node_class)
        if known is None:
            self._judge((node_class,), judge)
            known = self._judged[node_class]
        return known

    def ranked(self) -> Iterator[tuple[int, NodeClass]]:
        """Iterate over the feasible classes, best first: (score, class)."""
        return ((-score, found) for score, _number, found in self._in_order())

    def with_max_pods(self) -> Iterator[tuple[NodeClass, int]]:
        """Iterate over the feasible classes, each with an upper bound on the pods per node."""
        return ((found, self._judged[found].max_pods) for found in self._ordered)

    def by_max_pods(self, strands: bool, wanted: int) -> Iterator[NodeClass]:
        """Iterate over the feasible classes in the order in which packing fills them.

        First the classes whose nodes take *wanted* pods, the smallest first. Then the others, the
        largest first.

        Args:
            strands: Whether to iterate over the classes with a free extended resource that such a
                pod does not request, or over the other classes.
            wanted: The number of such pods that are to be placed.
        """
        if self._by_max_pods is None:
            self._by_max_pods = SortedList(rank.packing for rank in self._ordered.values())
        order = self._by_max_pods
        enough = order.bisect((strands, wanted))
        for entry in order.islice(enough):
            if entry[0] is not strands:
                break
            yield entry[3]
        for entry in order.islice(0, enough, reverse=True):
            if entry[0] is not strands:
                break
            yield entry[3]

    def _in_order(self) -> Any:
        if self._order is None:
            self._order = SortedList(rank.score for rank in self._ordered.values())
        return self._order

    def _rank(self, found: NodeClass) -> _Rank:
        known, asked = self._judged[found], self.sample.requests
        strands = any(
            "/" in name and amount > 0 and name not in asked
            for name, amount in found.sample.free.items()
        )
        return _Rank(
            (-known.score, found.number, found), (strands, known.max_pods, found.number, found)
        )

    def best(self, nodes: Nodes) -> NodeName | None:
        """Return the best node; of equal nodes the first to arrive. None if none is feasible.

        Runtime complexity: O(classes of the best score).
        """
        index, top = -1, 0
        for score, _number, found in self._in_order():
            if index >= 0 and score != top:
                break
            if not found.nodes:
                continue
            first: int = found.nodes[0]
            index, top = (first if index < 0 else min(index, first)), score
        return None if index < 0 else nodes.by_index[index].node.name

    def takes(self, node_class: NodeClass | None) -> bool:
        """Return whether nodes of a class can take such a pod. O(1)."""
        known = None if node_class is None else self._judged.get(node_class)
        return known is not None and not known.reasons

    def diagnosis(self) -> Diagnosis:
        """Return why no node can take such a pod. O(reasons)."""
        return Diagnosis(self._nodes, tuple(sorted(self._reasons.items())))

    def _judge(self, found: Iterable[NodeClass], judge: Judge) -> None:
        feasible: list[tuple[NodeClass, int]] = []
        judged: list[tuple[NodeClass, Judgement]] = []
        for node_class in found:
            if node_class in self._judged:
                continue
            max_pods, reasons = judge.screen(node_class)
            if reasons:
                judged.append((node_class, Judgement(0, 0, reasons)))
            else:
                feasible.append((node_class, max_pods))
        if feasible:
            judge.before_scoring([node_class for node_class, _max_pods in feasible])
            for node_class, max_pods in feasible:
                score = judge.score(node_class)
                judged.append((node_class, Judgement(score, max_pods, ())))
        self._judged.update(judged)

    def _count(self, node_class: NodeClass, count: int) -> None:
        """Count *count* more nodes in a class; fewer if it is negative."""
        known = self._judged[node_class]
        self._nodes += count
        for reason in known.reasons:
            self._reasons[reason] += count
            if not self._reasons[reason]:
                del self._reasons[reason]
        if known.reasons:
            return
        self.headroom += known.max_pods * count
        if not node_class.nodes:
            # it had nodes when it was last counted, so it is in the order
            rank = self._ordered.pop(node_class)
            if self._order is not None:
                self._order.remove(rank.score)
            if self._by_max_pods is not None:
                self._by_max_pods.remove(rank.packing)
        elif node_class not in self._ordered:
            rank = self._ordered[node_class] = self._rank(node_class)
            if self._order is not None:
                self._order.add(rank.score)
            if self._by_max_pods is not None:
                self._by_max_pods.add(rank.packing)

    def _check(self, nodes: Nodes, judge: Judge) -> None:
        self.refresh(nodes, judge)
        reasons: Counter[str] = Counter()
        headroom = 0
        order: list[tuple[int, int]] = []
        for found in nodes.classes.occupied():
            max_pods, why_not = judge.screen(found)
            score = 0 if why_not else judge.score(found)
            fresh = Judgement(score, max_pods, why_not)
            if self._judged.get(found) != fresh:
                raise InternalError(f"class {self.signature}: a node is not judged as it is")
            for one in fresh.reasons:
                reasons[one] += len(found.nodes)
            if not fresh.reasons:
                order.append((-score, found.number))
                headroom += max_pods * len(found.nodes)
        if sorted(order) != [entry[:2] for entry in self._in_order()]:
            raise InternalError(f"class {self.signature}: the order of nodes is wrong")
        if self.headroom != headroom:
            raise InternalError(f"class {self.signature}: headroom {self.headroom} is wrong")
        if self._reasons != reasons or self._nodes != len(nodes.infos):
            raise InternalError(f"class {self.signature}: reasons {self._reasons} are wrong")


def _net(moves: Iterable[Move]) -> dict[NodeClass, int]:
    """Return the net change of the number of nodes of each class; 0 for classes with nodes."""
    counts: dict[NodeClass, int] = {}
    for old, new in moves:
        if old is not None:
            counts[old] = counts.get(old, 0) - 1
        if new is not None:
            counts[new] = counts.get(new, 0) + 1
    return {found: count for found, count in counts.items() if count or found.nodes}
